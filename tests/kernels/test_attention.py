"""Attention: the semantics it shares with ``jax.nn.dot_product_attention`` and what it refuses."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from npu_kernels import kernels
from npu_kernels.errors import OperandError
from npu_kernels.kernels import Case
from npu_kernels.kernels.attention.specs import L0_BYTES, L0C_BYTES, block_sizes

from .test_conformance import arguments_of, assert_agrees

_OP = kernels.catalogue()["attention"]
_SHARED = [case for case in _OP.cases if "mask_value" not in case.keywords and "float32" in case.dtypes]


def _qkv(queries: int = 4, keys: int = 5, heads: int = 4, kv_heads: int = 2, dim: int = 8) -> tuple[jax.Array, ...]:
    key = jax.random.key(0)
    shapes = ((2, queries, heads, dim), (2, keys, kv_heads, dim), (2, keys, kv_heads, dim))
    return tuple(jax.random.normal(k, s) for k, s in zip(jax.random.split(key, 3), shapes, strict=True))


@pytest.mark.parametrize("case", _SHARED, ids=lambda case: case.name.replace(" ", "_"))
def test_equals_jax_nn(case: Case) -> None:
    """Both are off from the exact result by at most the tolerance, so from each other by at most twice that."""
    named = arguments_of(case, "float32")
    expected = np.asarray(jax.nn.dot_product_attention(**named, **case.keywords)).astype(np.float64)
    allowed = 2 * _OP.tolerance("float32", {**named, **case.keywords}, expected)
    assert_agrees(kernels.attention(**named, **case.keywords), expected, allowed)


def _case(name: str) -> Case:
    return next(case for case in _OP.cases if case.name == name)


def test_a_query_that_sees_nothing_gets_the_mean_of_all_values() -> None:
    named = arguments_of(_case("full mask"), "float32")
    named["mask"] = np.zeros_like(named["mask"])
    mean = np.repeat(named["value"].mean(1, keepdims=True), 2, axis=2)
    out = kernels.attention(**named)
    np.testing.assert_allclose(out, np.broadcast_to(mean, out.shape), rtol=1e-5, atol=1e-6)


def test_a_causal_query_that_sees_nothing_averages_skipped_blocks_too() -> None:
    named = arguments_of(_case("mask over two blocks"), "float32")
    named["value"][:] = np.arange(150.0)[None, :, None, None]
    named["mask"][:] = np.arange(150) > 0
    out = kernels.attention(**named, is_causal=True)
    np.testing.assert_allclose(out[0, 0], np.full((2, 16), 74.5), rtol=1e-6)


def test_memory_is_not_quadratic_under_jit() -> None:
    """The only temporaries are the kernel's own: the compiled program holds no T by S array."""
    shape = jax.ShapeDtypeStruct((1, 150, 2, 16), jnp.float32)
    text = jax.jit(lambda q, k, v: kernels.attention(q, k, v, is_causal=True)).lower(shape, shape, shape).as_text()
    assert "150x" in text and "150x150" not in text


@pytest.mark.parametrize("shape", [(0, 4, 2, 8), (2, 0, 2, 8), (2, 4, 0, 8)])
def test_empty_queries_give_an_empty_result(shape: tuple[int, ...]) -> None:
    batch, _, heads, dim = shape
    read = jnp.zeros((batch, 5, max(heads, 1), dim))
    assert kernels.attention(jnp.zeros(shape), read, read).shape == shape


def test_no_keys_give_zeros_as_in_jax_nn() -> None:
    q, k, v = _qkv(keys=0)
    np.testing.assert_array_equal(kernels.attention(q, k, v), jax.nn.dot_product_attention(q, k, v))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"bias": jnp.zeros((1, 1, 4, 5))}, "bias"),
        ({"local_window_size": 2}, "local_window_size"),
        ({"return_residual": True}, "return_residual"),
        ({"implementation": "cudnn"}, "implementation='cudnn'"),
    ],
)
def test_options_it_does_not_have_yet_are_refused(options: dict[str, Any], named: str) -> None:
    with pytest.raises(OperandError) as error:
        kernels.attention(*_qkv(), **options)
    assert error.value.code == "NPK-AT01"
    assert named in str(error.value)


@pytest.mark.parametrize("name", ["scale", "mask_value"])
def test_a_traced_number_is_refused(name: str) -> None:
    with pytest.raises(OperandError, match=f"NPK-AT01: attention: {name} is a traced value"):
        jax.jit(lambda number: kernels.attention(*_qkv(), **{name: number}))(0.5)


@pytest.mark.parametrize(
    ("name", "number"),
    [("scale", np.nan), ("scale", np.inf), ("scale", -np.inf), ("mask_value", np.nan), ("mask_value", np.inf)],
)
def test_a_number_that_makes_every_result_nan_is_refused(name: str, number: float) -> None:
    with pytest.raises(OperandError, match=f"NPK-AT02: attention: {name} is {number}; give it a"):
        kernels.attention(*_qkv(), **{name: number})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"key": jnp.zeros((2, 5, 3, 8)), "value": jnp.zeros((2, 5, 3, 8))}, "4 heads, which is no multiple of the 3"),
        ({"value": jnp.zeros((2, 6, 2, 8))}, "value has shape (2, 6, 2, 8) but key has (2, 5, 2, 8)"),
        ({"key": jnp.zeros((3, 5, 2, 8)), "value": jnp.zeros((3, 5, 2, 8))}, "batch (axis 0) and head size"),
        ({"value": jnp.zeros((2, 5, 2, 8), jnp.bfloat16)}, "value is bfloat16 but query is float32"),
        ({"query": jnp.zeros((2, 8))}, "query has 2 axes"),
        ({"mask": jnp.zeros((1, 1, 4, 5))}, "mask is float32"),
        ({"mask": jnp.zeros((1, 3, 4, 5), bool)}, "mask has shape (1, 3, 4, 5), which does not broadcast"),
        ({"mask": jnp.zeros((1, 1, 1, 4, 5), bool)}, "mask has 5 axes"),
        ({"query_seq_lengths": jnp.zeros((3,), jnp.int32)}, "query_seq_lengths is int32[3]; give it int32[2]"),
        ({"key_value_seq_lengths": jnp.zeros((2,))}, "key_value_seq_lengths is float32[2]"),
    ],
)
def test_operands_that_do_not_fit_are_refused_with_their_sizes(change: dict[str, Any], words: str) -> None:
    named = dict(zip(("query", "key", "value"), _qkv(), strict=True)) | change
    with pytest.raises(OperandError) as error:
        kernels.attention(**named)
    assert error.value.code == "NPK-AT02"
    assert words in str(error.value)


def test_integers_are_refused() -> None:
    ones = jnp.ones((1, 2, 1, 4), jnp.int32)
    with pytest.raises(OperandError, match="NPK-AT02: attention: query is int32"):
        kernels.attention(ones, ones, ones)


@pytest.mark.parametrize("dim", [1, 17, 64, 128, 256, 512])
@pytest.mark.parametrize("length", [1, 40, 128, 4096])
@pytest.mark.parametrize("itemsize", [2, 4])
def test_blocks_fit_the_cube_unit(dim: int, length: int, itemsize: int) -> None:
    block_queries, block_keys = block_sizes(length, length, dim, itemsize)
    width = -(-dim // 16) * 16
    assert max(block_queries, block_keys) * width * itemsize <= L0_BYTES
    assert 4 * block_queries * max(block_keys, width) <= L0C_BYTES
    assert block_queries % 16 == 0 and block_keys % 16 == 0


@pytest.mark.parametrize("dim", [16, 64, 100, 256, 512])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "options", [(), ("causal",), ("causal", "mask", "lengths")], ids=lambda o: "_".join(o) or "plain"
)
def test_blocks_fit_on_chip(dim: int, dtype: str, options: tuple[str, ...]) -> None:
    """Lowering refuses a kernel whose tiles exceed a memory, so it is enough that it does not."""
    length = 333  # ragged in every block, which takes the most memory
    array = jnp.zeros((1, length, 1, dim), dtype)
    lengths = jnp.zeros((1,), jnp.int32)
    named: dict[str, Any] = {"query": array, "key": array, "value": array, "is_causal": "causal" in options}
    if "mask" in options:
        named["mask"] = jnp.ones((1, 1, length, length), bool)
    if "lengths" in options:
        named |= {"query_seq_lengths": lengths, "key_value_seq_lengths": lengths}
    launch = _OP.prepare(**named)
    use = launch.kernel.lower(*launch.arrays, **launch.statics).program.memory_use()
    assert use["UB"] <= 192 * 1024 - 256 and use["L0A"] <= 64 * 1024 and use["L0C"] <= 128 * 1024
