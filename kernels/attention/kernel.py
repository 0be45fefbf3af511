"""Flash attention in the tile language: online softmax over blocks of keys (https://arxiv.org/abs/2205.14135,
algorithm 1; https://arxiv.org/abs/2307.08691 for the order of the loops)."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int32

import npu_kernels.language as nl
from npu_kernels.binding import npu_kernel

from .masking import Masking, mask_block

#: Smallest float32: a running maximum that no finite score lies below, and whose distance to itself is 0, which
#: -inf's is not.
_LOWEST = -3.4028234663852886e38
#: Keys of one step of the sum over skipped values: a small tile, because every vector core holds all of it.
_SUMMED_KEYS = 16


@npu_kernel
def flash_attention(
    query: Float[nl.Tensor, "b t kv*g h"],
    key: Float[nl.Tensor, "b s kv h"],
    value: Float[nl.Tensor, "b s kv h"],
    mask: Bool[nl.Tensor, "mb mn mt ms"],
    query_lengths: Int32[nl.Tensor, "lq"],
    key_lengths: Int32[nl.Tensor, "lk"],
    *,
    scale: float,
    mask_value: float,
    masked: bool,
    causal: bool,
    query_padded: bool,
    key_padded: bool,
    block_queries: int,
    block_keys: int,
) -> Float[nl.Tensor, "b t kv*g h"]:
    """One block of queries of one head at a time, against one block of keys after the other.

    ``mask``, ``query_lengths`` and ``key_lengths`` are read only when ``masked``, ``query_padded``, ``key_padded``.
    An axis of ``mask`` with size 1 stands for all of its counterpart.

    What a query may not see scores ``mask_value``. Under ``causal`` the blocks of keys after the last query of the
    block would score nothing else, so they are not multiplied: all their keys have one weight per query (1 when the
    query sees nothing at all, else 0).
    """
    out = nl.output(query.shape, query.dtype)
    options = Masking(masked, causal, query_padded, key_padded, scale, mask_value)
    _attend(query, key, value, mask, query_lengths, key_lengths, options, block_queries, block_keys, out, None)
    return out


@npu_kernel
def flash_attention_residuals(
    query: Float[nl.Tensor, "b t kv*g h"],
    key: Float[nl.Tensor, "b s kv h"],
    value: Float[nl.Tensor, "b s kv h"],
    mask: Bool[nl.Tensor, "mb mn mt ms"],
    query_lengths: Int32[nl.Tensor, "lq"],
    key_lengths: Int32[nl.Tensor, "lk"],
    *,
    scale: float,
    mask_value: float,
    masked: bool,
    causal: bool,
    query_padded: bool,
    key_padded: bool,
    block_queries: int,
    block_keys: int,
) -> tuple[Float[nl.Tensor, "b t kv*g h"], Float[nl.Tensor, "b kv*g t 1"], Float[nl.Tensor, "b kv*g t 1"]]:
    """:func:`flash_attention` that also returns what the gradient recomputes the softmax from.

    Returns:
        The result, and the log-sum-exp of each query's scores in two float32 parts: their maximum ``m`` and ``l = Σ
        exp(score - m)``, so that a weight is ``exp(score - m) / l``. Their sum ``m + log l`` would not do: beside a
        large ``m``, and beside the finite score of hidden keys in a row that sees nothing, ``log l`` is rounded away.
    """
    batch, queries, heads, _ = query.shape
    out = nl.output(query.shape, query.dtype)
    maximum = nl.output((batch, heads, queries, 1), nl.float32)
    total = nl.output((batch, heads, queries, 1), nl.float32)
    options = Masking(masked, causal, query_padded, key_padded, scale, mask_value)
    softmax = (maximum, total)
    _attend(query, key, value, mask, query_lengths, key_lengths, options, block_queries, block_keys, out, softmax)
    return out, maximum, total


@nl.function
def _attend(
    query: nl.Tensor,
    key: nl.Tensor,
    value: nl.Tensor,
    mask: nl.Tensor,
    query_lengths: nl.Tensor,
    key_lengths: nl.Tensor,
    options: Masking,
    block_queries: int,
    block_keys: int,
    out: nl.Tensor,
    softmax: tuple[nl.Tensor, nl.Tensor] | None,
) -> None:
    """The loops of both kernels above; ``softmax`` takes each query's maximum and sum."""
    batch, queries, heads, dim = query.shape
    keys, groups = key.shape[1], heads // key.shape[2]
    scale, mask_value, causal = options.scale, options.mask_value, options.causal
    # How far each query of a block lies behind each key, counted from the corner of the block.
    lag = (nl.arange(block_queries)[:, None] - nl.arange(block_keys)[None, :]).astype(nl.float32)
    first_skipped = -(-block_queries // block_keys) * block_keys
    for b in nl.parallel(batch):
        for n in nl.parallel(heads):
            for t in nl.parallel(queries, step=block_queries):
                q = nl.load(query[b, t : t + block_queries, n, :])
                rows = nl.arange(t, t + block_queries)[:, None]
                top = nl.full((block_queries, 1), _LOWEST)
                total = nl.zeros((block_queries, 1))
                acc = nl.zeros((block_queries, dim))
                stop = nl.minimum(t + block_queries, keys) if causal else keys
                for s in nl.range(0, stop, step=block_keys):
                    k = nl.load(key[b, s : s + block_keys, n // groups, :])
                    scores = nl.dot(q, k, transpose_b=True) * scale
                    columns = nl.arange(s, s + block_keys)[None, :]
                    if causal:
                        scores = nl.where(lag >= s - t, scores, mask_value)
                    if options.query_padded:
                        scores = nl.where(rows < nl.load(query_lengths[b]), scores, mask_value)
                    if options.key_padded:
                        scores = nl.where(columns < nl.load(key_lengths[b]), scores, mask_value)
                    if options.masked:
                        seen = mask_block(mask, b, n, (t, block_queries), (s, block_keys))
                        scores = nl.where(seen, scores, mask_value)
                    higher = nl.maximum(top, nl.max(scores, axis=1, keepdims=True))
                    shrink = nl.exp(top - higher)
                    weights = nl.exp(scores - higher)
                    v = nl.load(value[b, s : s + block_keys, n // groups, :])
                    total = total * shrink + nl.sum(weights, axis=1, keepdims=True)
                    acc = acc * shrink + nl.dot(weights.astype(value.dtype), v)
                    top = higher
                if causal and first_skipped < keys:
                    skipped = (t + block_queries + block_keys - 1) // block_keys * block_keys
                    higher = nl.maximum(top, mask_value)
                    shrink, weight = nl.exp(top - higher), nl.exp(mask_value - higher)
                    total = total * shrink + weight * nl.maximum(keys - skipped, 0)
                    acc = acc * shrink + weight * _sum_from(value, b, n // groups, skipped)
                result = acc / total
                if options.query_padded:
                    result = result * (rows < nl.load(query_lengths[b])).astype(nl.float32)
                nl.store(out[b, t : t + block_queries, n, :], result.astype(query.dtype))
                if softmax is not None:
                    nl.store(softmax[0][b, n, t : t + block_queries, :], top)
                    nl.store(softmax[1][b, n, t : t + block_queries, :], total)


@nl.function
def _sum_from(value: nl.Tensor, b: nl.Tile, head: nl.Tile, start: nl.Tile) -> nl.Tile:
    """Sum of a head's values from key ``start`` on: float32 ``[1, dim]``.

    It is read even where its weight is 0: a NaN or an infinity among the values reaches every query of a softmax
    that skips nothing, since ``0 · NaN`` is NaN.
    """
    total = nl.zeros((1, value.shape[3]))
    for s in nl.range(start, value.shape[1], step=_SUMMED_KEYS):
        v = nl.load(value[b, s : s + _SUMMED_KEYS, head, :]).astype(nl.float32)
        total = total + nl.sum(v, axis=0, keepdims=True)
    return total
