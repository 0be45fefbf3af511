"""The gradient of RMSNorm in the tile language.

With ``r = 1 / sqrt(mean(x²) + eps)``, ``n = x · r`` and ``c = dy · weight``: ``dx = r (c - n · mean(c · n))`` along
each row, and ``dweight = Σ dy · n`` over all rows. That sum is cut into parts, one for each group of rows, which a
second kernel adds up: the cores share no memory they could add to.
"""

from __future__ import annotations

from jaxtyping import Float

import npu_kernels.language as nl
from npu_kernels.binding import npu_kernel
from npu_kernels.ir import DType


@npu_kernel
def rms_norm_rows_backward(
    x: Float[nl.Tensor, "rows dim"],
    weight: Float[nl.Tensor, "dim"],
    cotangent: Float[nl.Tensor, "rows dim"],
    *,
    eps: float,
    block_rows: int,
    blocks: int,
) -> tuple[Float[nl.Tensor, "rows dim"], Float[nl.Tensor, "groups dim"]]:
    """``dx``, and what each group of ``blocks`` blocks of ``block_rows`` whole rows adds to ``dweight``."""
    rows, dim = x.shape
    group = block_rows * blocks
    gradient = nl.output((rows, dim), x.dtype)
    parts = nl.output((-(-rows // group), dim), nl.float32)
    scale = nl.load(weight).astype(nl.float32)
    for first in nl.parallel(rows, step=group):
        part = nl.zeros((1, dim))
        for r in nl.range(first, nl.minimum(first + group, rows), step=block_rows):
            tile = nl.load(x[r : r + block_rows, :]).astype(nl.float32)
            factor = nl.rsqrt(nl.mean(tile * tile, axis=-1, keepdims=True) + eps)
            normal = tile * factor
            dy = nl.load(cotangent[r : r + block_rows, :]).astype(nl.float32)
            part = part + nl.sum(dy * normal, axis=0, keepdims=True)
            scaled = dy * scale
            along = nl.mean(scaled * normal, axis=-1, keepdims=True)
            nl.store(gradient[r : r + block_rows, :], ((scaled - normal * along) * factor).astype(x.dtype))
        nl.store(parts[first // group, :], nl.sum(part, axis=0))
    return gradient, parts


@npu_kernel
def rms_norm_wide_backward(
    x: Float[nl.Tensor, "rows dim"],
    weight: Float[nl.Tensor, "dim"],
    cotangent: Float[nl.Tensor, "rows dim"],
    *,
    eps: float,
    block_columns: int,
) -> tuple[Float[nl.Tensor, "rows dim"], Float[nl.Tensor, "rows 1"]]:
    """``dx`` for rows that do not fit on chip, and each row's ``r``: a pass for a row's sums, and one for it."""
    rows, dim = x.shape
    gradient = nl.output((rows, dim), x.dtype)
    factors = nl.output((rows, 1), nl.float32)
    for r in nl.parallel(rows, step=1):
        squares = nl.zeros((1, 1))
        along = nl.zeros((1, 1))
        for c in nl.range(0, dim, step=block_columns):
            part = nl.load(x[r : r + 1, c : c + block_columns]).astype(nl.float32)
            dy = nl.load(cotangent[r : r + 1, c : c + block_columns]).astype(nl.float32)
            scale = nl.load(weight[c : c + block_columns]).astype(nl.float32)
            squares = squares + nl.sum(part * part, axis=-1, keepdims=True)
            along = along + nl.sum(dy * scale * part, axis=-1, keepdims=True)
        factor = nl.rsqrt(squares * (1.0 / dim) + eps)
        along = along * factor * (1.0 / dim)
        nl.store(factors[r : r + 1, :], factor)
        for c in nl.range(0, dim, step=block_columns):
            part = nl.load(x[r : r + 1, c : c + block_columns]).astype(nl.float32)
            dy = nl.load(cotangent[r : r + 1, c : c + block_columns]).astype(nl.float32)
            scale = nl.load(weight[c : c + block_columns]).astype(nl.float32)
            change = (dy * scale - part * factor * along) * factor
            nl.store(gradient[r : r + 1, c : c + block_columns], change.astype(x.dtype))
    return gradient, factors


@npu_kernel
def rms_norm_wide_weight(
    x: Float[nl.Tensor, "rows dim"],
    cotangent: Float[nl.Tensor, "rows dim"],
    factors: Float[nl.Tensor, "rows 1"],
    *,
    dtype: DType,
    block_rows: int,
    block_columns: int,
) -> Float[nl.Tensor, "dim"]:
    """``dweight`` of :func:`rms_norm_wide_backward`, column by column."""
    rows, dim = x.shape
    gradient = nl.output((dim,), dtype)
    for c in nl.parallel(dim, step=block_columns):
        total = nl.zeros((1, block_columns))
        for r in nl.range(0, rows, step=block_rows):
            normal = nl.load(x[r : r + block_rows, c : c + block_columns]).astype(nl.float32)
            normal = normal * nl.load(factors[r : r + block_rows, :])
            dy = nl.load(cotangent[r : r + block_rows, c : c + block_columns]).astype(nl.float32)
            total = total + nl.sum(dy * normal, axis=0, keepdims=True)
        nl.store(gradient[c : c + block_columns], nl.sum(total, axis=0).astype(dtype))
    return gradient


@npu_kernel
def column_sums(
    parts: Float[nl.Tensor, "rows dim"], *, dtype: DType, block_rows: int, block_columns: int
) -> Float[nl.Tensor, "dim"]:
    """The sum of all rows."""
    rows, dim = parts.shape
    out = nl.output((dim,), dtype)
    for c in nl.parallel(dim, step=block_columns):
        total = nl.zeros((1, block_columns))
        for r in nl.range(0, rows, step=block_rows):
            tile = nl.load(parts[r : r + block_rows, c : c + block_columns])
            total = total + nl.sum(tile, axis=0, keepdims=True)
        nl.store(out[c : c + block_columns], nl.sum(total, axis=0).astype(dtype))
    return out
