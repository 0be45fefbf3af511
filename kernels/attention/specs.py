"""Attention's tiling, the shapes real models give it, and how far its results may be off."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..library import Example, Float64
from .reference import SCORE_OPTIONS, scores_reference, visible_reference

#: Bytes of the on-chip memories that the tiles of one step may take.
L0_BYTES, L0C_BYTES, UB_BYTES = 64 * 1024, 128 * 1024, 168 * 1024
LARGEST_BLOCK, SMALLEST_BLOCK = 128, 16
#: Queries and keys of one block of the backward kernel, best first. It holds the sums over queries of one block of
#: keys, and writes a contribution to the queries' gradient for each: of two blocks of one area more keys are better.
BACKWARD_BLOCKS = ((64, 128), (32, 128), (64, 64), (32, 64), (32, 32), (16, 32), (16, 16))
#: Blocks of keys of one call of the backward kernel, at most: so many float32 copies of the queries' gradient are held.
KEY_BLOCKS_PER_CALL = 16


def block_sizes(
    queries: int, keys: int, dim: int, itemsize: int, *, causal: bool = False, masked: bool = False
) -> tuple[int, int]:
    """Queries and keys of one block: the largest powers of two, at most 128, that fit on chip and are not wasted.

    A query block ``[bq, dim]`` goes to L0A, a key or value block to L0B, scores ``[bq, bk]`` and products ``[bq, dim]``
    to L0C. Each of the two vector cores holds half of the queries: at once five float32 tiles as large as the scores
    (one more for a causal mask, one for any other) and four as large as the result. Of two blocks of one area the
    one with more queries is taken, because each block of queries reads all keys and values.

    Args:
        causal: whether the kernel compares positions.
        masked: whether it reads a mask or lengths.
    """
    width = _padded(dim)
    tiles = 5 + causal + masked

    def fits(block_queries: int, block_keys: int) -> bool:
        vector = 4 * (block_queries // 2) * (tiles * max(block_keys, 8) + 4 * width)
        return (
            max(block_queries, block_keys) * width * itemsize <= L0_BYTES
            and 4 * block_queries * max(block_keys, width) <= L0C_BYTES
            and vector <= UB_BYTES
        )

    sizes = [16, 32, 64, 128]
    wanted = (enough(queries), enough(keys))
    candidates = [(bq, bk) for bq in sizes for bk in sizes if bq <= wanted[0] and bk <= wanted[1] and fits(bq, bk)]
    return max(candidates, key=lambda block: (block[0] * block[1], block[0]), default=(SMALLEST_BLOCK, SMALLEST_BLOCK))


def _padded(size: int) -> int:
    return -(-size // 16) * 16


def enough(length: int) -> int:
    """The smallest block that holds ``length``, within the limits."""
    return min(LARGEST_BLOCK, max(SMALLEST_BLOCK, 1 << (length - 1).bit_length()))


def _self_attention(batch: int, length: int, heads: int, kv_heads: int, dim: int) -> Mapping[str, tuple[int, ...]]:
    read = (batch, length, kv_heads, dim)
    return {"query": (batch, length, heads, dim), "key": read, "value": read}


EXAMPLES = (
    Example("SmolLM2-135M", _self_attention(1, 64, 9, 3, 64), keywords={"is_causal": True}),
    Example("Llama-3-8B", _self_attention(1, 128, 32, 8, 128), "bfloat16", {"is_causal": True}),
    Example("Gemma-2-2B", _self_attention(1, 128, 8, 4, 256), "bfloat16", {"is_causal": True}),
    Example("Qwen2-0.5B", _self_attention(1, 128, 14, 2, 64), "bfloat16", {"is_causal": True}),
    Example("BERT-base", _self_attention(2, 128, 12, 12, 64)),
    Example("ViT-B/16", _self_attention(1, 197, 12, 12, 64)),
)


def tolerance(dtype: str, arguments: Mapping[str, Any], expected: Float64) -> Float64:
    """Largest error allowed per element.

    A score is a float32 sum of ``H`` products, scaled: its error is bounded by some units of the sum of absolute
    products, taken as ``d = 4 u scale |Q| |K|ᵀ`` and per row. That moves the row's softmax by at most
    ``expm1(2d) Σ p (1 - p)`` (nothing where one weight is 1), and the values are averaged with it. Summing the
    weighted values adds ``√S`` units. With 16-bit inputs the weights and the result are rounded once each to that
    dtype. All of it is relative to the largest finite value that the head sees.
    """
    query, key, value = (_finite(_batched(arguments[name])) for name in ("query", "key", "value"))
    scale = arguments.get("scale")
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else abs(float(scale))
    single = _UNIT["float32"]
    drift = 4 * single * factor * np.max(scores_reference(query, key, scale=1.0), -1)
    options = {name: arguments[name] for name in SCORE_OPTIONS if name in arguments}
    scores = scores_reference(arguments["query"], arguments["key"], **options)
    with np.errstate(all="ignore"):
        weights = np.exp(scores - np.max(scores, -1, keepdims=True))
        weights /= np.sum(weights, -1, keepdims=True)
        softmax = np.expm1(np.minimum(2 * drift, 600.0)) * np.sum(weights * (1.0 - weights), -1)
    softmax = np.where(np.isfinite(softmax), softmax, 0.0)
    summing = single * (8 + math.sqrt(key.shape[1]))
    rounding = 0.0 if dtype == "float32" else 2 * _UNIT[dtype]
    largest = np.repeat(np.max(value, axis=(1, 3)), query.shape[2] // key.shape[2], axis=1)
    per_row = np.minimum(softmax + summing + rounding, 2.0) * largest[:, :, None]
    allowed = np.swapaxes(per_row, 1, 2)[..., None] + _TINY[dtype]
    return np.broadcast_to(allowed, query.shape).reshape(expected.shape)


def gradient_tolerance(dtype: str, cotangent: Float64, arguments: Mapping[str, Any]) -> Mapping[str, Float64]:
    """Largest errors allowed per element of the cotangents.

    Each step's error is bounded by the magnitudes that enter it, in float32 units ``u`` and units ``w`` of the inputs'
    dtype (0 for float32). A weight ``p`` is off by ``2 p (1 - p) expm1(2d)`` from its score's drift ``d`` (see
    :func:`tolerance`) and some units, at most by 1. ``dP = dO Vᵀ`` and ``δ = Σ dO O`` are off by ``√H + 8`` units
    ``u`` of the absolute products, ``δ`` also by what ``O`` is off, that is the drift of the weights and, where it is
    stored in 16 bits, ``w``. ``dS = p (dP - δ)`` follows, and the sums over it add √length units ``u`` of the absolute
    terms. Operands of products and results are rounded to the inputs' dtype.
    """
    q, k, v, do = (_finite(_batched(a)) for a in (*(arguments[n] for n in ("query", "key", "value")), cotangent))
    groups = q.shape[2] // k.shape[2]
    k_all, v_all = np.repeat(k, groups, axis=2), np.repeat(v, groups, axis=2)
    scale = arguments.get("scale")
    factor = 1.0 / math.sqrt(q.shape[-1]) if scale is None else abs(float(scale))
    unit, narrow = _UNIT["float32"], 0.0 if dtype == "float32" else _UNIT[dtype]
    options = {name: arguments[name] for name in SCORE_OPTIONS if name in arguments}
    scores = scores_reference(arguments["query"], arguments["key"], **options)
    with np.errstate(all="ignore"):
        p = np.exp(scores - np.max(scores, -1, keepdims=True))
        p = np.nan_to_num(p / np.sum(p, -1, keepdims=True))
        drift = np.expm1(np.minimum(8 * unit * factor * np.max(scores_reference(q, k, scale=1.0), -1), 600.0))
        product_units = unit * (8 + math.sqrt(q.shape[-1]))
        length_units = unit * (8 + math.sqrt(max(q.shape[1], k.shape[1])))
        p_off = np.minimum(2 * p * (1 - p) * drift[..., None] + p * (length_units + product_units), 1.0)
        reach = np.einsum("btnh,bsnh->bnts", do, v_all)
        delta = np.sum(p * reach, -1, keepdims=True)
        delta_off = np.sum(p_off * reach, -1, keepdims=True) + delta * (product_units + narrow)
        dp_off = product_units * reach + delta_off
        ds = np.where(visible_reference(p.shape, **options), 1.0, 0.0) * factor
        ds_off = ds * (p_off * (reach + delta) + p * dp_off)
        ds = ds * p * (reach + delta)
        ds_off = ds_off + (narrow + length_units) * ds
        p_off = p_off + (narrow + length_units) * p
    allowed = {
        "query": np.einsum("bnts,bsnh->btnh", ds_off, k_all),
        "key": _grouped(np.einsum("bnts,btnh->bsnh", ds_off, q), groups),
        "value": _grouped(np.einsum("bnts,btnh->bsnh", p_off, do), groups),
    }
    sizes = {
        "query": np.einsum("bnts,bsnh->btnh", ds, k_all),
        "key": _grouped(np.einsum("bnts,btnh->bsnh", ds, q), groups),
        "value": _grouped(np.einsum("bnts,btnh->bsnh", p, do), groups),
    }
    # Below a dtype's smallest step an operand is rounded absolutely: that much for each term of a sum.
    tiny = {"query": k_all.sum(1), "key": q.sum(1), "value": do.sum(1)}
    return {
        name: (off + narrow * sizes[name] + _TINY[dtype] * (1.0 + np.max(tiny[name]))).reshape(
            np.shape(arguments[name])
        )
        for name, off in allowed.items()
    }


def _grouped(array: Float64, groups: int) -> Float64:
    batch, keys, heads, dim = array.shape
    total: Float64 = array.reshape(batch, keys, heads // groups, groups, dim).sum(axis=3)
    return total


_UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
#: Smallest steps: below them a 16-bit weight or result is rounded absolutely, not relatively.
_TINY = {"float32": 2.0**-140, "float16": 2.0**-22, "bfloat16": 2.0**-130}


def _batched(array: Any) -> Float64:
    wide: Float64 = np.asarray(array).astype(np.float64)
    return wide[None] if wide.ndim == 3 else wide


def _finite(array: Float64) -> Float64:
    """Magnitudes, with 0 for what has none."""
    return np.abs(np.where(np.isfinite(array), array, 0.0))
