"""RMSNorm is found however it is written, the replacement computes the same, and its neighbours are left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from npu_kernels.substitution import Pattern, Report, explain
from npu_kernels.substitution.axes import Ref
from npu_kernels.substitution.peel import Peeler

Check = Callable[..., Report]
EPS = 1e-5


def draw(*shape: int, dtype: str = "float32", seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng((seed, *shape)).standard_normal(shape), dtype)


def mean_square(x: Any) -> Any:
    return jnp.mean(x * x, axis=-1, keepdims=True)


def wide(x: Any) -> Any:
    return x.astype(jnp.float32)


SPELLINGS: dict[str, Callable[[Any, Any], Any]] = {
    "rsqrt": lambda x, w: x * lax.rsqrt(mean_square(x) + EPS) * w,
    "division by the root": lambda x, w: x / jnp.sqrt(mean_square(x) + EPS) * w,
    "weight first": lambda x, w: w * x / jnp.sqrt(mean_square(x) + EPS),
    "weight times root": lambda x, w: x * (lax.rsqrt(mean_square(x) + EPS) * w),
    "eps first": lambda x, w: x * lax.rsqrt(EPS + mean_square(x)) * w,
    "power of a half": lambda x, w: x * (mean_square(x) + EPS) ** -0.5 * w,
    "power of two": lambda x, w: x / jnp.sqrt(jnp.mean(x**2, -1, keepdims=True) + EPS) * w,
    "square": lambda x, w: x / jnp.sqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + EPS) * w,
    "sum over count": lambda x, w: x * lax.rsqrt(jnp.sum(x * x, -1, keepdims=True) / x.shape[-1] + EPS) * w,
    "sum times inverse": lambda x, w: x * lax.rsqrt(jnp.sum(x * x, -1, keepdims=True) * (1 / x.shape[-1]) + EPS) * w,
    "zero mean subtracted": lambda x, w: (x - 0.0) * lax.rsqrt(mean_square(x) + EPS) * w,
    "one plus weight": lambda x, w: x * lax.rsqrt(mean_square(x) + EPS) * (1 + w),
    "weight and bias": lambda x, w: x * lax.rsqrt(mean_square(x) + EPS) * w + w,
    "no weight": lambda x, w: x * lax.rsqrt(mean_square(x) + EPS),
    "reciprocal": lambda x, w: x * (1.0 / jnp.sqrt(mean_square(x) + EPS)) * w,
    "residual stream": lambda x, w: x + x * lax.rsqrt(mean_square(x) + EPS) * w,
    "scaled input": lambda x, w: (lambda y: y * lax.rsqrt(mean_square(y) + EPS) * w)(x * 8.0),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_every_spelling_is_found(check: Check, name: str) -> None:
    check(SPELLINGS[name], draw(3, 5, 16), draw(16), rms_norm=1)


CASTS: dict[str, Callable[[Any, Any], Any]] = {
    "all wide, cast at the end": lambda x, w: (wide(x) * lax.rsqrt(mean_square(wide(x)) + EPS) * wide(w)).astype(
        x.dtype
    ),
    "cast before the weight": lambda x, w: w * (wide(x) * lax.rsqrt(mean_square(wide(x)) + EPS)).astype(x.dtype),
    "mean cast down before the root": lambda x, w: x * lax.rsqrt(mean_square(x) + jnp.asarray(EPS, x.dtype)) * w,
    "result kept wide": lambda x, w: wide(x) * lax.rsqrt(mean_square(wide(x)) + EPS) * wide(w),
}


@pytest.mark.parametrize("name", CASTS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_every_placement_of_casts_is_found(check: Check, name: str, dtype: str) -> None:
    report = check(CASTS[name], draw(3, 5, 16, dtype=dtype), draw(16, dtype=dtype), rms_norm=1)
    assert report.replaced[0].shapes[0] == f"x {'bf16' if dtype == 'bfloat16' else 'f16'}[3,5,16]"


def test_a_float32_weight_stays_float32(check: Check) -> None:
    report = check(CASTS["all wide, cast at the end"], draw(4, 16, dtype="bfloat16"), draw(16), rms_norm=1)
    assert report.replaced[0].shapes[1] == "weight f32[16]"


def test_rounding_an_intermediate_needs_the_permission_wider(check: Check) -> None:
    arguments = draw(4, 16, dtype="bfloat16"), draw(16, dtype="bfloat16")
    assert check(CASTS["cast before the weight"], *arguments, rms_norm=1).replaced[0].reason == "reorder sums, wider"
    assert check(SPELLINGS["rsqrt"], draw(4, 16), draw(16), rms_norm=1).replaced[0].reason == "reorder sums"
    assert check(SPELLINGS["rsqrt"], draw(4, 16), draw(16), policy="exact").near_misses[0].reason == "numerics"


def test_rounding_an_input_in_one_place_only_needs_the_permission_wider(check: Check) -> None:
    def rounded(x: Any, w: Any) -> Any:
        return (x.astype(jnp.bfloat16) * lax.rsqrt(mean_square(x) + EPS) * w).astype(jnp.bfloat16)

    assert check(rounded, draw(4, 16), draw(16), rms_norm=1).replaced[0].reason == "reorder sums, wider"


def test_any_leading_dimensions_and_vmap(check: Check) -> None:
    one = SPELLINGS["rsqrt"]
    check(one, draw(16), draw(16), rms_norm=1)
    check(one, draw(2, 3, 4, 5, 16), draw(16), rms_norm=1)
    check(jax.vmap(jax.vmap(one, (0, None)), (0, None)), draw(3, 5, 16), draw(16), rms_norm=1)


def test_the_first_axis_may_be_the_normalised_one(check: Check) -> None:
    def columns(x: Any, w: Any) -> Any:
        return x * lax.rsqrt(jnp.mean(x * x, axis=0) + EPS) * w[:, None]

    check(columns, draw(16, 5), draw(16), rms_norm=1)


def test_a_norm_used_with_two_weights_is_replaced_once_without_weight(check: Check) -> None:
    def two(x: Any, w: Any) -> Any:
        normed = x * lax.rsqrt(mean_square(x) + EPS)
        return normed * w, normed * (w * 2)

    report = check(two, draw(3, 16), draw(16), rms_norm=1)
    assert len(report.replaced[0].shapes) == 2


def test_the_norm_of_a_gated_product_is_found(check: Check) -> None:
    def gated(x: Any, w: Any, z: Any) -> Any:
        y = x * jax.nn.silu(z)
        return y * lax.rsqrt(mean_square(y) + EPS) * w

    check(gated, draw(3, 16), draw(16), draw(3, 16, seed=1), rms_norm=1)


def test_a_gate_after_the_norm_stays_outside(check: Check) -> None:
    def gate(x: Any, w: Any, z: Any) -> Any:
        return x * lax.rsqrt(mean_square(x) + EPS) * w * jax.nn.sigmoid(z)

    check(gate, draw(3, 16), draw(16), draw(3, 16, seed=1), rms_norm=1)


def test_a_norm_of_a_norm_is_two(check: Check) -> None:
    one = SPELLINGS["rsqrt"]
    check(lambda x, w: one(one(x, w), w), draw(3, 16), draw(16), rms_norm=2)


def test_the_work_grows_with_the_length_of_a_chain_of_norms(
    patterns: tuple[Pattern, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    step = Peeler.step

    def counted(self: Peeler, ref: Ref, *, narrowing: bool = True) -> Ref | None:
        nonlocal steps
        steps += 1
        return step(self, ref, narrowing=narrowing)

    monkeypatch.setattr(Peeler, "step", counted)

    def work(length: int) -> int:
        def chain(x: Any, w: Any) -> Any:
            for _ in range(length):
                x = SPELLINGS["rsqrt"](x, w)
            return x

        nonlocal steps
        steps = 0
        assert explain(chain, draw(3, 16), draw(16), patterns=patterns).counts == {"rms_norm": length}
        return steps

    assert work(48) < 2.2 * work(24)


@pytest.mark.parametrize("magnitude", [1e-4, 1e4])
def test_small_large_and_nan_rows_agree(check: Check, magnitude: float) -> None:
    x = (draw(5, 16) * magnitude).at[2, 3].set(np.nan)
    check(SPELLINGS["rsqrt"], x, draw(16), rms_norm=1)


NEAR_MISSES: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "eps outside the root": (lambda x, w: x / (jnp.sqrt(mean_square(x)) + EPS) * w, "eps"),
    "eps that is traced": (lambda x, w: x * lax.rsqrt(mean_square(x) + w[0]) * w, "eps"),
    "eps as a lower bound": (lambda x, w: x * lax.rsqrt(jnp.maximum(mean_square(x), EPS)) * w, "eps"),
    "infinite eps": (lambda x, w: x * lax.rsqrt(mean_square(x) + jnp.inf) * w, "eps"),
    "no eps": (lambda x, w: x / jnp.sqrt(mean_square(x)) * w, "eps"),
    "mean removed": (
        lambda x, w: (lambda c: c * lax.rsqrt(mean_square(c) + EPS) * w)(x - x.mean(-1, keepdims=True)),
        "mean-removed",
    ),
    "sum instead of mean": (lambda x, w: x * lax.rsqrt(jnp.sum(x * x, -1, keepdims=True) + EPS) * w, "structure"),
    "another value divided": (lambda x, w: (x + 1) * lax.rsqrt(mean_square(x) + EPS) * w, "structure"),
    "multiplied by the root": (lambda x, w: x * jnp.sqrt(mean_square(x) + EPS) * w, "structure"),
    "another axis": (lambda x, w: x * lax.rsqrt(jnp.mean(x * x, axis=0)[:, None] + EPS) * w, "structure"),
    "root used elsewhere": (
        lambda x, w: (lambda r: (x * r * w, r))(lax.rsqrt(mean_square(x) + EPS)),
        "escape",
    ),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_what_is_almost_rms_norm_is_left_alone_with_a_reason(check: Check, name: str) -> None:
    function, reason = NEAR_MISSES[name]
    report = check(function, draw(16, 16), draw(16))
    assert [miss.reason for miss in report.near_misses if miss.pattern == "rms_norm"] == [reason]


def test_a_weight_over_rows_stays_outside(check: Check) -> None:
    def rows(x: Any, w: Any) -> Any:
        return x * lax.rsqrt(mean_square(x) + EPS) * w[:, None]

    report = check(rows, draw(16, 16), draw(16), rms_norm=1)
    assert len(report.replaced[0].shapes) == 2


def test_other_norms_are_no_near_misses(check: Check) -> None:
    def layer_norm(x: Any, w: Any) -> Any:
        mean, square = x.mean(-1, keepdims=True), (x * x).mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(square - mean**2 + EPS) * w

    assert not check(layer_norm, draw(4, 16), draw(16)).near_misses
    assert not check(lambda x, w: jnp.sqrt(x * x + EPS) * w, draw(4, 16), draw(16)).near_misses


def test_float64_is_declined(check: Check) -> None:
    with jax.enable_x64(True):
        x = jnp.asarray(np.ones((4, 16)), "float64")
        report = check(lambda x: SPELLINGS["no weight"](x, None), x)
    assert [miss.reason for miss in report.near_misses] == ["dtype"]
