"""Flash attention in the tile language: online softmax over blocks of keys (https://arxiv.org/abs/2205.14135,
algorithm 1; https://arxiv.org/abs/2307.08691 for the order of the loops)."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int32

import npu_kernels.language as nl
from npu_kernels.binding import npu_kernel

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
    batch, queries, heads, dim = query.shape
    keys, groups = key.shape[1], heads // key.shape[2]
    out = nl.output(query.shape, query.dtype)
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
                    if query_padded:
                        scores = nl.where(rows < nl.load(query_lengths[b]), scores, mask_value)
                    if key_padded:
                        scores = nl.where(columns < nl.load(key_lengths[b]), scores, mask_value)
                    if masked:
                        scores = nl.where(_mask_block(mask, b, n, t, s, block_queries, block_keys), scores, mask_value)
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
                if query_padded:
                    result = result * (rows < nl.load(query_lengths[b])).astype(nl.float32)
                nl.store(out[b, t : t + block_queries, n, :], result.astype(query.dtype))
    return out


def _mask_block(
    mask: nl.Tensor, b: nl.Tile, n: nl.Tile, t: nl.Tile, s: nl.Tile, block_queries: int, block_keys: int
) -> nl.Tile:
    """The block's part of ``mask``; axes of size 1 keep that size."""
    head = (0 if mask.shape[0] == 1 else b, 0 if mask.shape[1] == 1 else n)
    rows = slice(0, 1) if mask.shape[2] == 1 else slice(t, t + block_queries)
    columns = slice(0, 1) if mask.shape[3] == 1 else slice(s, s + block_keys)
    return nl.load(mask[(*head, rows, columns)])


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
