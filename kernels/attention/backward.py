"""The gradient of flash attention in the tile language (https://arxiv.org/abs/2205.14135, algorithm 4;
https://arxiv.org/abs/2307.08691, algorithm 2).

With ``P`` the softmax's weights and ``dP = dO Vᵀ``, the gradient of a query's scores is ``dS = P ∘ (dP - δ)`` where
``δ = Σ_h dO ∘ O``, and ``dQ = scale · dS K``, ``dK = scale · dSᵀ Q``, ``dV = Pᵀ dO``. Blocks of ``P`` are computed
again from what the forward kernel saved, once: the core that owns a block of keys sums ``dK`` and ``dV`` over the
queries on chip, and writes what its keys add to ``dQ``, which a second kernel adds up. No core writes where another
one does.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int32

import npu_kernels.language as nl
from npu_kernels.binding import npu_kernel
from npu_kernels.ir import DType

from .masking import mask_block

#: Queries of one step of the sum over skipped queries: a small tile, because every vector core holds all of it.
_SUMMED_QUERIES = 16


@npu_kernel
def attention_delta(
    output: Float[nl.Tensor, "b t n h"], cotangent: Float[nl.Tensor, "b t n h"], *, block_queries: int
) -> Float[nl.Tensor, "b n t 1"]:
    """``δ``, for each query the product of its result and that result's cotangent."""
    batch, queries, heads, _ = output.shape
    delta = nl.output((batch, heads, queries, 1), nl.float32)
    for b in nl.parallel(batch):
        for n in nl.parallel(heads):
            for t in nl.parallel(queries, step=block_queries):
                o = nl.load(output[b, t : t + block_queries, n, :]).astype(nl.float32)
                do = nl.load(cotangent[b, t : t + block_queries, n, :]).astype(nl.float32)
                nl.store(delta[b, n, t : t + block_queries, :], nl.sum(o * do, axis=1, keepdims=True))
    return delta


@npu_kernel
def flash_attention_backward(
    query: Float[nl.Tensor, "b t kv*g h"],
    key: Float[nl.Tensor, "b s kv h"],
    value: Float[nl.Tensor, "b s kv h"],
    cotangent: Float[nl.Tensor, "b t kv*g h"],
    maximum: Float[nl.Tensor, "b kv*g t 1"],
    total: Float[nl.Tensor, "b kv*g t 1"],
    delta: Float[nl.Tensor, "b kv*g t 1"],
    mask: Bool[nl.Tensor, "mb mn ms mt"],
    query_lengths: Int32[nl.Tensor, "lq"],
    key_lengths: Int32[nl.Tensor, "lk"],
    first_key: Int32[nl.Tensor, "1"],
    *,
    scale: float,
    mask_value: float,
    masked: bool,
    causal: bool,
    query_padded: bool,
    key_padded: bool,
    block_queries: int,
    block_keys: int,
) -> tuple[Float[nl.Tensor, "c b kv*g t h"], Float[nl.Tensor, "b s kv h"], Float[nl.Tensor, "b s kv h"]]:
    """One block of keys of one head at a time, against the queries of all heads that read it.

    Blocks are transposed, keys down and queries across, so that both sums over queries take ``Pᵀ`` and ``dSᵀ`` as they
    are: the last two axes of ``mask`` are swapped. Under ``causal`` the blocks of queries before the first key see none
    of the block: they are not multiplied. A query that sees nothing at all still weighs every value.

    Args:
        cotangent: of the result; 0 in rows beyond ``query_lengths``.
        maximum, total: what ``flash_attention_residuals`` returned.
        first_key: position of the first of these keys, when they are a part of all.

    Returns:
        For each block of keys what it adds to ``dQ / scale``, in float32 (under ``causal`` only where a query of a
        block sees a key of the block; the rest is not written), then ``dK`` and ``dV``.
    """
    batch, queries, heads, dim = query.shape
    keys, kv_heads = key.shape[1:3]
    groups = heads // kv_heads
    parts = nl.output((-(-keys // block_keys), batch, heads, queries, dim), nl.float32)
    key_gradient = nl.output(key.shape, key.dtype)
    value_gradient = nl.output(value.shape, value.dtype)
    lag = (nl.arange(block_queries)[None, :] - nl.arange(block_keys)[:, None]).astype(nl.float32)
    first = nl.maximum(nl.load(first_key[0]), 0) if causal or key_padded else 0
    for b in nl.parallel(batch):
        for m in nl.parallel(kv_heads):
            for s in nl.parallel(keys, step=block_keys):
                k = nl.load(key[b, s : s + block_keys, m, :])
                v = nl.load(value[b, s : s + block_keys, m, :])
                rows = nl.arange(s + first, s + first + block_keys)[:, None]
                dk = nl.zeros((block_keys, dim))
                dv = nl.zeros((block_keys, dim))
                start = nl.minimum((s + first) // block_queries * block_queries, queries) if causal else 0
                for g in nl.range(groups):
                    n = m * groups + g
                    for t in nl.range(start, queries, step=block_queries):
                        q = nl.load(query[b, t : t + block_queries, n, :])
                        scores = nl.dot(k, q, transpose_b=True) * scale
                        conditions = []
                        if causal:
                            conditions.append(lag >= s + first - t)
                        if query_padded:
                            conditions.append(nl.arange(t, t + block_queries)[None, :] < nl.load(query_lengths[b]))
                        if key_padded:
                            conditions.append(rows < nl.load(key_lengths[b]))
                        if masked:
                            conditions.append(mask_block(mask, b, n, (s, block_keys), (t, block_queries)))
                        top = nl.load(maximum[b, n, t : t + block_queries, 0])[None, :]
                        share = 1.0 / nl.load(total[b, n, t : t + block_queries, 0])[None, :]
                        weights = nl.exp(_where(conditions, scores, mask_value) - top) * share
                        do = nl.load(cotangent[b, t : t + block_queries, n, :])
                        dv = dv + nl.dot(weights.astype(value.dtype), do)
                        row_delta = nl.load(delta[b, n, t : t + block_queries, 0])[None, :]
                        change = weights * (nl.dot(v, do, transpose_b=True) - row_delta)
                        change = _where(conditions, change, 0.0).astype(query.dtype)
                        dk = dk + nl.dot(change, q)
                        nl.store(parts[s // block_keys, b, n, t : t + block_queries, :], nl.dot(change.T, k))
                    if causal:
                        dv = dv + _hidden_weight(cotangent, maximum, total, b, n, start, mask_value)
                nl.store(key_gradient[b, s : s + block_keys, m, :], (dk * scale).astype(key.dtype))
                nl.store(value_gradient[b, s : s + block_keys, m, :], dv.astype(value.dtype))
    return parts, key_gradient, value_gradient


@npu_kernel
def attention_query_gradient(
    parts: Float[nl.Tensor, "c b n t h"],
    first_key: Int32[nl.Tensor, "1"],
    *,
    scale: float,
    causal: bool,
    block_keys: int,
    block_queries: int,
    dtype: DType,
) -> Float[nl.Tensor, "b t n h"]:
    """``dQ`` from the ``parts`` of :func:`flash_attention_backward`, whose block of keys this is."""
    blocks, batch, heads, queries, dim = parts.shape
    out = nl.output((batch, queries, heads, dim), dtype)
    first = nl.load(first_key[0]) if causal else 0
    for b in nl.parallel(batch):
        for n in nl.parallel(heads):
            for t in nl.parallel(queries, step=block_queries):
                seen = nl.maximum(t + block_queries - first, 0)
                stop = nl.minimum((seen + block_keys - 1) // block_keys, blocks) if causal else blocks
                total = nl.zeros((block_queries, dim))
                for c in nl.range(stop):
                    total = total + nl.load(parts[c, b, n, t : t + block_queries, :])
                nl.store(out[b, t : t + block_queries, n, :], (total * scale).astype(dtype))
    return out


def _where(conditions: list[nl.Tile], tile: nl.Tile, otherwise: float) -> nl.Tile:
    """``tile`` where all conditions hold."""
    for condition in conditions:
        tile = nl.where(condition, tile, otherwise)
    return tile


@nl.function
def _hidden_weight(
    cotangent: nl.Tensor,
    maximum: nl.Tensor,
    total: nl.Tensor,
    b: nl.Tile,
    n: nl.Tile,
    stop: nl.Tile | int,
    mask_value: float,
) -> nl.Tile:
    """Cotangents of the queries before ``stop``, each times the weight it gives to a hidden key: float32 ``[1, dim]``.

    The weight is 0 but for a query that sees nothing; its cotangent is read all the same, since ``0 · NaN`` is NaN.
    """
    found = nl.zeros((1, cotangent.shape[3]))
    for t in nl.range(0, stop, step=_SUMMED_QUERIES):
        top = nl.load(maximum[b, n, t : t + _SUMMED_QUERIES, :])
        weight = nl.exp(mask_value - top) / nl.load(total[b, n, t : t + _SUMMED_QUERIES, :])
        do = nl.load(cotangent[b, t : t + _SUMMED_QUERIES, n, :]).astype(nl.float32)
        found = found + nl.sum(do * weight, axis=0, keepdims=True)
    return found
