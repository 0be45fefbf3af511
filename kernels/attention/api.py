"""``attention``: what a caller sees. Arguments, layout and results are those of ``jax.nn.dot_product_attention``."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

from npu_kernels.binding import user_facing
from npu_kernels.errors import OperandError

from ..library import Array, Launch
from .kernel import flash_attention
from .reference import MASK_VALUE
from .specs import block_sizes

_DTYPES = ("float32", "float16", "bfloat16")


@user_facing
def attention(
    query: Array,
    key: Array,
    value: Array,
    bias: Array | None = None,
    mask: Array | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Array | None = None,
    key_value_seq_lengths: Array | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
    mask_value: float = MASK_VALUE,
) -> jax.Array:
    """``softmax(scale · Q Kᵀ) V`` without the score matrix in memory.

    B batch, T queries, S keys, N query heads, K key heads (N is a multiple of K: head ``n`` reads key head
    ``n // (N / K)``), H head size. Scores, softmax and sums are float32 whatever the inputs are; the softmax's
    weights are rounded to the inputs' dtype before they meet the values.

    Args:
        query: ``[B, T, N, H]`` or ``[T, N, H]``; float32, float16 or bfloat16.
        key: ``[B, S, K, H]`` or ``[S, K, H]``, of the query's dtype.
        value: as ``key``.
        bias: not supported yet.
        mask: bool, broadcasting to ``[B, N, T, S]``; False hides a key from a query.
        scale: factor on the scores, a finite Python number; None for ``1/√H``.
        is_causal: whether query ``t`` sees only keys ``0 … t``.
        query_seq_lengths: int32 ``[B]``; rows of the result from there on are 0.
        key_value_seq_lengths: int32 ``[B]``; keys from there on are hidden.
        local_window_size: not supported yet.
        implementation: None; there is one.
        return_residual: not supported yet.
        mask_value: score of a hidden key. With a finite one, as in ``jax.nn``, a query that sees nothing gets the mean
            of all S values; with ``-inf`` it gets NaN. NaN and ``+inf`` are refused: they would make every row that
            hides a key NaN.

    Returns:
        ``query``'s shape and dtype.

    Raises:
        OperandError: NPK-AT01 for what is not supported yet, NPK-AT02 when operands do not fit together or a number
            is none to compute with.
    """
    _check_options(bias, local_window_size, implementation, return_residual)
    _check_numbers(scale, mask_value)
    operands = _operands(query, key, value, mask, query_seq_lengths, key_value_seq_lengths)
    q, k = operands[:2]
    if q.size == 0 or k.size == 0:
        return jnp.zeros(jnp.shape(query), q.dtype)
    output: jax.Array = prepare(
        query,
        key,
        value,
        mask=mask,
        scale=scale,
        is_causal=is_causal,
        query_seq_lengths=query_seq_lengths,
        key_value_seq_lengths=key_value_seq_lengths,
        mask_value=mask_value,
    )()
    return output


def prepare(
    query: Array,
    key: Array,
    value: Array,
    bias: None = None,
    mask: Array | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Array | None = None,
    key_value_seq_lengths: Array | None = None,
    mask_value: float = MASK_VALUE,
) -> Launch:
    """The kernel call behind :func:`attention`, which has the same arguments. No operand is empty."""
    _check_options(bias, None, None, False)
    _check_numbers(scale, mask_value)
    q, k, v, hidden, query_lengths, key_lengths = _operands(
        query, key, value, mask, query_seq_lengths, key_value_seq_lengths
    )
    block_queries, block_keys = block_sizes(
        q.shape[1],
        k.shape[1],
        q.shape[3],
        q.dtype.itemsize,
        causal=is_causal,
        masked=not (mask is None and query_seq_lengths is None and key_value_seq_lengths is None),
    )
    statics: dict[str, Any] = {
        "scale": 1.0 / math.sqrt(q.shape[3]) if scale is None else float(scale),
        "mask_value": float(mask_value),
        "masked": mask is not None,
        "causal": bool(is_causal),
        "query_padded": query_seq_lengths is not None,
        "key_padded": key_value_seq_lengths is not None,
        "block_queries": block_queries,
        "block_keys": block_keys,
    }
    arrays = (q, k, v, hidden, query_lengths, key_lengths)
    shape = jnp.shape(query)
    return Launch(flash_attention, arrays, statics, lambda out: out.reshape(shape))


def _check_options(
    bias: Array | None,
    local_window_size: int | tuple[int, int] | None,
    implementation: str | None,
    return_residual: bool,
) -> None:
    asked = {
        "bias": bias is not None,
        "local_window_size": local_window_size is not None,
        "return_residual": return_residual,
    }
    for option, used in asked.items():
        if used:
            raise OperandError(
                "NPK-AT01", f"attention: {option} is not supported yet. Call jax.nn.dot_product_attention for it."
            )
    if implementation is not None:
        raise OperandError(
            "NPK-AT01",
            f"attention: implementation={implementation!r} names another implementation. Leave it out to run this "
            "kernel, or call jax.nn.dot_product_attention.",
        )


def _check_numbers(scale: Any, mask_value: Any) -> None:
    for name, number, instead in (
        ("scale", scale, ", or multiply the query by it"),
        ("mask_value", mask_value, ""),
    ):
        if isinstance(number, jax.core.Tracer):
            raise OperandError("NPK-AT01", f"attention: {name} is a traced value. Pass a Python number{instead}.")
    if scale is not None and not math.isfinite(scale):
        raise _misfit(f"scale is {scale}; give it a finite number, or leave it out for 1/√H")
    if not float(mask_value) < math.inf:
        raise _misfit(f"mask_value is {mask_value}; give it a number far below every score, such as {MASK_VALUE:.3g}")


def _operands(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    query_seq_lengths: Array | None,
    key_value_seq_lengths: Array | None,
) -> tuple[jax.Array, ...]:
    """Checked operands of the kernel: batched, with one-element arrays for what is left out."""
    q, k, v = (_batched(name, a) for name, a in (("query", query), ("key", key), ("value", value)))
    batch, queries, heads, dim = q.shape
    keys, kv_heads = k.shape[1:3]
    if q.dtype.name not in _DTYPES:
        raise _misfit(f"query is {q.dtype.name}; cast query, key and value to one of {', '.join(_DTYPES)}")
    for name, array in (("key", k), ("value", v)):
        if array.dtype != q.dtype:
            raise _misfit(f"{name} is {array.dtype.name} but query is {q.dtype.name}; cast them to one dtype")
    if v.shape != k.shape:
        raise _misfit(f"value has shape {v.shape} but key has {k.shape}; they must be equal")
    if (k.shape[0], k.shape[3]) != (batch, dim):
        raise _misfit(
            f"key has shape {k.shape} but query has {q.shape}; batch (axis 0) and head size (axis 3) must be equal"
        )
    if heads and (kv_heads == 0 or heads % kv_heads):
        raise _misfit(f"query has {heads} heads, which is no multiple of the {kv_heads} heads of key and value")
    hidden = jnp.ones((1, 1, 1, 1), bool) if mask is None else _checked_mask(mask, (batch, heads, queries, keys))
    return (
        q,
        k,
        v,
        hidden,
        _checked_lengths("query_seq_lengths", query_seq_lengths, batch),
        _checked_lengths("key_value_seq_lengths", key_value_seq_lengths, batch),
    )


def _batched(name: str, operand: Array) -> jax.Array:
    array = jnp.asarray(operand)
    if array.ndim not in (3, 4):
        raise _misfit(f"{name} has {array.ndim} axes; give it [batch, length, heads, size] or [length, heads, size]")
    return array[None] if array.ndim == 3 else array


def _checked_mask(mask: Array, scores: tuple[int, ...]) -> jax.Array:
    array = jnp.asarray(mask)
    if array.dtype != jnp.bool_:
        raise _misfit(f"mask is {array.dtype.name}; give it bool, True where a query sees a key")
    if array.ndim > 4:
        raise _misfit(f"mask has {array.ndim} axes, more than the four of the scores {scores}")
    array = array.reshape((1,) * (4 - array.ndim) + array.shape)
    if any(size not in (1, full) for size, full in zip(array.shape, scores, strict=True)):
        raise _misfit(f"mask has shape {array.shape}, which does not broadcast to the scores {scores}")
    return array


def _checked_lengths(name: str, lengths: Array | None, batch: int) -> jax.Array:
    if lengths is None:
        return jnp.zeros((1,), jnp.int32)
    array = jnp.asarray(lengths)
    if array.dtype != jnp.int32 or array.shape != (batch,):
        raise _misfit(f"{name} is {array.dtype.name}{list(array.shape)}; give it int32[{batch}]")
    return array


def _misfit(message: str) -> OperandError:
    return OperandError("NPK-AT02", f"attention: {message}.")
