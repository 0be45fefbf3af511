"""The derivative of every library operation, against its reference in float64 and against finite differences."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import npu_kernels
from npu_kernels import kernels
from npu_kernels.kernels import Case, Operation
from npu_kernels.knobs import CHECK

from .test_conformance import arguments_of, assert_agrees


def _every() -> list[Any]:
    return [
        pytest.param(op, case, dtype, mode, id=f"{op.name}-{case.name.replace(' ', '_')}-{dtype}-{mode}")
        for op in kernels.catalogue().values()
        for case in op.gradient.cases
        for dtype in case.dtypes
        for mode in ("grad", "interpret", *(["checked"] if dtype == case.dtypes[0] else []))
    ]


#: Scores of 1e8, whose softmax float32 does not determine; a norm of one element, whose gradient is a difference of
#: two equal numbers.
_ILL_CONDITIONED = {("attention", "inputs of 1e4"), ("rms_norm", "one element a row")}


def _gradients(
    op: Operation, named: dict[str, Any], keywords: dict[str, Any], cotangent: Any, mode: str
) -> dict[str, Any]:
    names = [name for name in op.gradient.operands if name in named]
    if mode == "interpret":
        launch = op.prepare(**named, **keywords)
        fwd, bwd = op.gradient.rules[launch.kernel]
        out, residuals = fwd(*launch.arrays, interpret=True, **launch.statics)
        made = bwd(residuals, jnp.asarray(cotangent).reshape(out.shape), interpret=True, **launch.statics)
        return {name: made[op.gradient.operands[name]].reshape(named[name].shape) for name in names}

    def function(*arrays: Any) -> Any:
        return op.function(**{**named, **dict(zip(names, arrays, strict=True))}, **keywords)

    @jax.jit
    def pull(arrays: Any, cotangent: Any) -> Any:
        return jax.vjp(function, *arrays)[1](cotangent)

    return dict(zip(names, pull([named[name] for name in names], cotangent), strict=True))


@pytest.mark.parametrize(("op", "case", "dtype", "mode"), _every())
def test_agrees_with_the_float64_reference(
    op: Operation, case: Case, dtype: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "checked":
        monkeypatch.setenv(CHECK.name, "1")
    named = arguments_of(case, dtype)
    everything = {**named, **case.keywords}
    shape = op.reference(**everything).shape
    cotangent = np.random.default_rng(7).standard_normal(shape).astype(next(iter(named.values())).dtype)
    exact = np.asarray(cotangent).astype(np.float64)
    expected = op.gradient.reference(exact, everything)
    allowed = op.gradient.tolerance(dtype, exact, everything)
    actual = _gradients(op, named, dict(case.keywords), cotangent, mode)
    assert set(actual) == set(expected)
    for name, value in actual.items():
        assert value.dtype == named[name].dtype
        assert_agrees(value, expected[name], allowed[name])


@pytest.mark.parametrize("op", kernels.catalogue().values(), ids=lambda op: op.name)
def test_tolerance_is_small_against_the_values(op: Operation) -> None:
    """A tolerance as large as the gradient would accept anything."""
    for case in op.gradient.cases:
        if (op.name, case.name) in _ILL_CONDITIONED:
            continue
        named = {**arguments_of(case, "float32"), **case.keywords}
        cotangent = np.random.default_rng(7).standard_normal(op.reference(**named).shape)
        expected = op.gradient.reference(cotangent, named)
        allowed = op.gradient.tolerance("float32", cotangent, named)
        for name, values in expected.items():
            finite = np.isfinite(values)
            if finite.any() and np.max(np.abs(values[finite])) > 0:
                largest = np.max(np.abs(values[finite]))
                assert np.median(np.broadcast_to(allowed[name], values.shape)[finite]) < 2e-4 * largest, case.name


_CHECKED = {
    "attention": ({"query": (1, 5, 2, 8), "key": (1, 6, 1, 8), "value": (1, 6, 1, 8)}, {"is_causal": True}),
    "rms_norm": ({"x": (3, 20), "weight": (20,)}, {"eps": 1e-3}),
}


@pytest.mark.parametrize("op", kernels.catalogue().values(), ids=lambda op: op.name)
def test_agrees_with_finite_differences(op: Operation) -> None:
    """Of float32 results: a step of 1e-2 leaves about three digits."""
    shapes, keywords = _CHECKED[op.name]
    keys = jax.random.split(jax.random.key(1), len(shapes))
    arrays = [jax.random.normal(key, shape) for key, shape in zip(keys, shapes.values(), strict=True)]

    def function(*values: Any) -> Any:
        return op.function(**dict(zip(shapes, values, strict=True)), **keywords)

    check_grads(function, arrays, order=1, modes=["rev"], eps=1e-2, atol=2e-2, rtol=2e-2)


def _block(x: jax.Array, weight: jax.Array) -> jax.Array:
    """RMSNorm and causal attention as a model writes them: ``x`` is ``[1, 20, 2 * 16]``."""
    h = x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * weight
    heads = h.reshape(1, 20, 2, 16)
    return x + jax.nn.dot_product_attention(heads, heads, heads, is_causal=True).reshape(x.shape)


def _plain(x: jax.Array, weight: jax.Array) -> jax.Array:
    return jnp.sum(_block(_block(x, weight), weight) ** 2)


def _scanned(x: jax.Array, weight: jax.Array) -> jax.Array:
    return jnp.sum(jax.lax.scan(lambda h, _: (_block(h, weight), None), x, None, length=2)[0] ** 2)


def _rematerialised(x: jax.Array, weight: jax.Array) -> jax.Array:
    block = jax.checkpoint(_block)
    return jnp.sum(block(block(x, weight), weight) ** 2)


@pytest.mark.parametrize("loss", [_plain, _scanned, _rematerialised], ids=["plain", "scan", "remat"])
def test_the_gradient_of_a_substituted_loss_runs_kernels(loss: Any) -> None:
    x = jax.random.normal(jax.random.key(0), (1, 20, 32))
    weight = jnp.linspace(0.5, 1.5, 32)
    expected = jax.grad(loss, argnums=(0, 1))(x, weight)
    gradient = jax.jit(jax.grad(npu_kernels.substitute(loss), argnums=(0, 1)))
    before = npu_kernels.launches()
    found = jax.block_until_ready(gradient(x, weight))
    ran = {name: count - before.get(name, 0) for name, count in npu_kernels.launches().items()}
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
    for name in ("flash_attention_backward", "attention_query_gradient", "rms_norm_rows_backward"):
        assert ran[name] == 2
    # Where blocks are computed again, XLA may merge the second time with the first.
    most = 4 if loss is _rematerialised else 2
    assert 2 <= ran["flash_attention_residuals"] + ran.get("flash_attention", 0) <= most
    assert 2 <= ran["rms_norm_rows"] <= most


@pytest.mark.parametrize("dim", [16, 64, 128, 256, 512])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_backward_blocks_fit_on_chip(dim: int, dtype: str) -> None:
    """With everything that takes memory: a causal mask, another mask, lengths, and ragged blocks."""
    op = kernels.catalogue()["attention"]
    length = 333
    array = jnp.zeros((1, length, 1, dim), dtype)
    lengths = jnp.zeros((1,), jnp.int32)
    options = {"mask": jnp.ones((1, 1, length, length), bool), "is_causal": True}
    options |= {"query_seq_lengths": lengths, "key_value_seq_lengths": lengths}

    def loss(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jnp.sum(op.function(q, k, v, **options).astype(jnp.float32))

    text = str(jax.make_jaxpr(jax.grad(loss, argnums=(0, 1, 2)))(array, array, array))
    assert "flash_attention_backward" in text
    assert f"{length},{length}]" not in text.replace(f"bool[1,1,{length},{length}]", "")


@pytest.mark.parametrize("mode", ["grad", "interpret"])
def test_keys_of_several_calls_add_up(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long sequences are cut into several calls of the backward kernel; here after each block of 32 keys."""
    from npu_kernels.kernels.attention import gradient

    monkeypatch.setattr(gradient, "KEY_BLOCKS_PER_CALL", 1)
    monkeypatch.setattr(gradient, "BACKWARD_BLOCKS", ((32, 32),))
    gradient._tiling.cache_clear()
    op = kernels.catalogue()["attention"]
    rng = np.random.default_rng(3)
    named = {
        **{name: rng.standard_normal((1, 90, 2, 16)).astype(np.float32) for name in op.gradient.operands},
        "mask": rng.random((1, 1, 90, 90)) < 0.6,
        "key_value_seq_lengths": np.array([80], np.int32),
    }
    keywords = {"is_causal": True}
    cotangent = rng.standard_normal((1, 90, 2, 16)).astype(np.float32)
    exact, everything = cotangent.astype(np.float64), {**named, **keywords}
    expected = op.gradient.reference(exact, everything)
    allowed = op.gradient.tolerance("float32", exact, everything)
    before = npu_kernels.launches().get("flash_attention_backward", 0)
    made = _gradients(op, named, keywords, cotangent, mode)
    jax.block_until_ready(made)
    launched = npu_kernels.launches().get("flash_attention_backward", 0) - before
    assert launched == (3 if mode == "grad" else 0)
    gradient._tiling.cache_clear()
    for name, value in made.items():
        assert_agrees(value, expected[name], allowed[name])


def test_second_derivatives_are_refused_in_one_sentence() -> None:
    x, weight = jnp.ones((2, 8)), jnp.ones(8)

    def slope(x: jax.Array) -> jax.Array:
        return jnp.sum(jax.grad(lambda y: jnp.sum(kernels.rms_norm(y, weight, eps=1e-6) ** 2))(x))

    with pytest.raises(npu_kernels.errors.TransformError, match="NPK-TR01: kernel rms_norm_rows_backward"):
        jax.grad(slope)(x)
