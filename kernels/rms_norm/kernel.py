"""RMSNorm in the tile language."""

from __future__ import annotations

from jaxtyping import Float

import npu_kernels.language as nl
from npu_kernels.binding import npu_kernel
from npu_kernels.ir import DType


@npu_kernel
def rms_norm_rows(
    x: Float[nl.Tensor, "rows dim"],
    weight: Float[nl.Tensor, "dim"],
    *,
    eps: float,
    dtype: DType,
    block_rows: int,
) -> Float[nl.Tensor, "rows dim"]:
    """Whole rows at a time, ``block_rows`` of them; the weight stays on chip."""
    rows, dim = x.shape
    out = nl.output((rows, dim), dtype)
    scale = nl.load(weight).astype(nl.float32)
    for r in nl.parallel(rows, step=block_rows):
        tile = nl.load(x[r : r + block_rows, :]).astype(nl.float32)
        mean_square = nl.mean(tile * tile, axis=-1, keepdims=True)
        normal = tile * nl.rsqrt(mean_square + eps)
        nl.store(out[r : r + block_rows, :], (normal * scale).astype(dtype))
    return out


@npu_kernel
def rms_norm_wide(
    x: Float[nl.Tensor, "rows dim"],
    weight: Float[nl.Tensor, "dim"],
    *,
    eps: float,
    dtype: DType,
    block_columns: int,
) -> Float[nl.Tensor, "rows dim"]:
    """For rows that do not fit on chip: one pass sums the squares of a row, a second one scales it."""
    rows, dim = x.shape
    out = nl.output((rows, dim), dtype)
    for r in nl.parallel(rows, step=1):
        total = nl.zeros((1, 1))
        for c in nl.range(0, dim, step=block_columns):
            part = nl.load(x[r : r + 1, c : c + block_columns]).astype(nl.float32)
            total = total + nl.sum(part * part, axis=-1, keepdims=True)
        factor = nl.rsqrt(total * (1.0 / dim) + eps)
        for c in nl.range(0, dim, step=block_columns):
            part = nl.load(x[r : r + 1, c : c + block_columns]).astype(nl.float32)
            scale = nl.load(weight[c : c + block_columns]).astype(nl.float32)
            nl.store(out[r : r + 1, c : c + block_columns], (part * factor * scale).astype(dtype))
    return out
