"""What is almost attention is left alone, and the report says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from npu_kernels.substitution import Report

Check = Callable[..., Report]
B, T, S, N, H = 2, 5, 7, 4, 8
MIN = float(np.finfo(np.float32).min)


def draw(*shape: int, dtype: str = "float32", seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng((seed, *shape)).standard_normal(shape), dtype)


Q, K, V = draw(B, T, N, H), draw(B, S, N, H), draw(B, S, N, H, seed=2)
MASK = np.random.default_rng(1).random((T, S)) < 0.5


def scores(q: Any, k: Any) -> Any:
    return jnp.einsum("btnh,bsnh->bnts", q, k) * 0.3


def mix(p: Any, v: Any) -> Any:
    return jnp.einsum("bnts,bsnh->btnh", p, v)


def soft(s: Any) -> Any:
    return jax.nn.softmax(s, axis=-1)


NEAR_MISSES: dict[str, tuple[Callable[[Any, Any, Any], Any], str]] = {
    "bias": (lambda q, k, v: mix(soft(scores(q, k) + v[0, 0, 0, 0]), v), "bias"),
    "bias before mask": (lambda q, k, v: mix(soft(jnp.where(MASK, scores(q, k) + q[0, :, 0, :7], MIN)), v), "bias"),
    "alibi": (lambda q, k, v: mix(soft(scores(q, k) + np.arange(S) * 0.1), v), "bias"),
    "soft cap": (lambda q, k, v: mix(soft(jnp.tanh(scores(q, k) / 50) * 50), v), "soft-cap"),
    "weights returned": (lambda q, k, v: (lambda p: (mix(p, v), p))(soft(scores(q, k))), "escape"),
    "scores returned": (lambda q, k, v: (lambda s: (mix(soft(s), v), s))(scores(q, k)), "escape"),
    "log of the sum returned": (
        lambda q, k, v: (lambda s: (mix(soft(s), v), jax.nn.logsumexp(s, axis=-1)))(scores(q, k)),
        "escape",
    ),
    "dropout": (
        lambda q, k, v: mix(
            jnp.where(jax.random.bernoulli(jax.random.key(0), 0.9, (B, N, T, S)), soft(scores(q, k)) / 0.9, 0.0), v
        ),
        "dropout",
    ),
    "weights multiplied": (lambda q, k, v: mix(soft(scores(q, k)) * MASK, v), "dropout"),
    "small additive fill": (lambda q, k, v: mix(soft(scores(q, k) + jnp.where(MASK, 0.0, -1e9)), v), "mask-fill"),
    "small fill": (lambda q, k, v: mix(soft(jnp.where(MASK, scores(q, k), -1e4)), v), "mask-fill"),
    "zero fill": (lambda q, k, v: mix(soft(jnp.where(MASK, scores(q, k), 0.0)), v), "mask-fill"),
    "additive mask of numbers": (
        lambda q, k, v: mix(soft(scores(q, k) - 1e30 * (1 - v[0, :, 0, 0])), v),
        "mask-not-boolean",
    ),
    "scale by a traced value": (lambda q, k, v: mix(soft(scores(q, k) * v[0, 0, 0, 0]), v), "scale"),
    "infinite scale": (lambda q, k, v: mix(soft(scores(q, k) * jnp.inf), v), "scale"),
    "temperature per head": (lambda q, k, v: mix(soft(scores(q, k) * v[0, 0, :, 0][:, None, None]), v), "scale"),
    "softmax over queries": (lambda q, k, v: mix(jax.nn.softmax(scores(q, k), axis=-2), v), "structure"),
    "maximum of the unmasked scores": (
        lambda q, k, v: (
            lambda s: (lambda e: mix(e / e.sum(-1, keepdims=True), v))(
                jnp.exp(jnp.where(MASK, s, MIN) - s.max(-1, keepdims=True))
            )
        )(scores(q, k)),
        "structure",
    ),
    "sum over another axis": (
        lambda q, k, v: (lambda e: mix(e / e.sum(-2, keepdims=True), v))(
            jnp.exp(scores(q, k) - scores(q, k).max(-1, keepdims=True))
        ),
        "structure",
    ),
    "another exponent below": (
        lambda q, k, v: (
            lambda s: (lambda e, f: mix(e / f.sum(-1, keepdims=True), v))(
                jnp.exp(s - s.max(-1, keepdims=True)), jnp.exp(0.5 * s - 0.5 * s.max(-1, keepdims=True))
            )
        )(scores(q, k)),
        "structure",
    ),
    "constant bias": (lambda q, k, v: mix(soft(scores(q, k) + np.where(MASK, 1.0, -1e38)), v), "bias"),
    "small constant additive fill": (
        lambda q, k, v: mix(soft(scores(q, k) + np.where(MASK, 0.0, -1e4).astype("float32")), v),
        "mask-fill",
    ),
    "no maximum": (
        lambda q, k, v: (lambda e: mix(e / e.sum(-1, keepdims=True), v))(jnp.exp(scores(q, k))),
        "structure",
    ),
    "constant in the denominator": (
        lambda q, k, v: (lambda e: mix(e / (e.sum(-1, keepdims=True) + 1.0), v))(
            jnp.exp(scores(q, k) - scores(q, k).max(-1, keepdims=True))
        ),
        "structure",
    ),
    "NaNs of the weights replaced": (lambda q, k, v: mix(jnp.nan_to_num(soft(scores(q, k))), v), "dropout"),
    "barrier after the softmax": (
        lambda q, k, v: mix(jax.lax.optimization_barrier(soft(scores(q, k))), v),
        "structure",
    ),
    "one key": (lambda q, k, v: mix(soft(scores(q, k[:, :1])), v[:, :1]), "dims"),
    "values as wide as nothing else": (
        lambda q, k, v: jnp.einsum("bnts,bsnh->btnh", soft(scores(q, k)), jnp.concatenate([v, v], -1)),
        "dims",
    ),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_what_is_almost_attention_is_left_alone_with_a_reason(check: Check, name: str) -> None:
    function, reason = NEAR_MISSES[name]
    report = check(function, Q, K, V)
    found = {miss.reason for miss in report.near_misses if miss.pattern == "attention"}
    assert found == {reason}


@pytest.mark.parametrize("option", [{"bias": draw(1, 1, T, S)}, {"return_residual": True}])
def test_options_the_kernel_lacks_are_near_misses(check: Check, option: dict[str, Any]) -> None:
    report = check(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, **option), Q, K, V)
    assert [miss.reason for miss in report.near_misses] == ["bias" if "bias" in option else "escape"]


def test_attention_in_float16_with_an_additive_mask_is_declined(check: Check) -> None:
    """finfo.min of float16 swallows no score."""

    def added(q: Any, k: Any, v: Any) -> Any:
        return mix(soft(scores(q, k) + jnp.where(MASK, 0, jnp.finfo("float16").min).astype("float16")), v)

    report = check(added, *(x.astype("float16") for x in (Q, K, V)))
    assert [miss.reason for miss in report.near_misses] == ["mask-fill"]


def test_an_online_softmax_is_never_replaced(check: Check) -> None:
    def online(q: Any, k: Any, v: Any) -> Any:
        def step(carry: Any, block: Any) -> Any:
            top, total, acc = carry
            s = jnp.einsum("th,sh->ts", q, block[0])
            higher = jnp.maximum(top, s.max(-1, keepdims=True))
            p = jnp.exp(s - higher)
            shrink = jnp.exp(top - higher)
            return (higher, total * shrink + p.sum(-1, keepdims=True), acc * shrink + p @ block[1]), None

        first = jnp.full((T, 1), -jnp.inf), jnp.zeros((T, 1)), jnp.zeros((T, H))
        (_, total, acc), _ = jax.lax.scan(step, first, (k.reshape(2, -1, H), v.reshape(2, -1, H)))
        return acc / total

    check(online, draw(T, H), draw(8, H), draw(8, H, seed=2))


def test_a_router_is_never_replaced(check: Check) -> None:
    def router(x: Any, w: Any, experts: Any) -> Any:
        gates, chosen = jax.lax.top_k(soft(x @ w), 2)
        weights = (jax.nn.one_hot(chosen, 4) * (gates / gates.sum(-1, keepdims=True))[..., None]).sum(1)
        return jnp.einsum("te,etd->td", weights, jnp.einsum("td,edf->etf", x, experts))

    assert not check(router, draw(5, 8), draw(8, 4), draw(4, 8, 8)).near_misses

    def dense(x: Any, w: Any, experts: Any) -> Any:
        return jnp.einsum("te,etd->td", soft(x @ w), jnp.einsum("td,edf->etf", x, experts))

    report = check(dense, draw(5, 8), draw(8, 4), draw(4, 8, 8))
    assert {miss.reason for miss in report.near_misses} <= {"dims"}


def test_a_custom_vjp_is_not_entered(check: Check) -> None:
    @jax.custom_vjp
    def own(q: Any, k: Any, v: Any) -> Any:
        return mix(soft(scores(q, k)), v)

    own.defvjp(lambda q, k, v: (own(q, k, v), None), lambda _, g: (g, g, g))
    report = check(own, Q, K, V)
    assert [miss.reason for miss in report.near_misses] == ["inside-custom-vjp"]


def test_a_shard_map_is_not_entered(check: Check) -> None:
    spec = jax.sharding.PartitionSpec("d")
    mesh = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    split = jax.shard_map(lambda q, k, v: mix(soft(scores(q, k)), v), mesh=mesh, in_specs=spec, out_specs=spec)
    assert [miss.reason for miss in check(split, Q, K, V).near_misses] == ["inside-shard-map"]


def test_a_near_miss_names_the_line_of_the_model(check: Check) -> None:
    report = check(lambda q, k, v: mix(soft(scores(q, k) + 1.5 * q[0, 0, 0, 0]), v), Q, K, V)
    (miss,) = report.near_misses
    file, line = miss.location.rsplit(":", 1)
    assert Path(file).name == Path(__file__).name
    assert "jax.nn.softmax" in Path(__file__).read_text().splitlines()[int(line) - 1]


def test_a_policy_without_reordering_declines(check: Check) -> None:
    report = check(lambda q, k, v: mix(soft(scores(q, k)), v), Q, K, V, policy="exact")
    (miss,) = report.near_misses
    assert (miss.reason, "`reorder sums`" in miss.sentence) == ("numerics", True)
