"""The derivative of RMSNorm: which kernels compute it."""

from __future__ import annotations

from typing import Any

import npu_kernels.language as nl

from ..library import Array
from .backward import column_sums, rms_norm_rows_backward, rms_norm_wide_backward, rms_norm_wide_weight
from .kernel import rms_norm_rows, rms_norm_wide
from .specs import SUMMED_COLUMNS, SUMMED_ROWS, WIDE_COLUMNS, backward_rows

Residuals = tuple[Array, Array]


def forward_rows(x: Array, weight: Array, *, interpret: bool = False, **statics: Any) -> tuple[Array, Residuals]:
    """The result of ``rms_norm_rows``, and its arguments, which are all that :func:`backward` needs."""
    return rms_norm_rows(x, weight, interpret=interpret, **statics), (x, weight)


def forward_wide(x: Array, weight: Array, *, interpret: bool = False, **statics: Any) -> tuple[Array, Residuals]:
    """The same of ``rms_norm_wide``."""
    return rms_norm_wide(x, weight, interpret=interpret, **statics), (x, weight)


def backward(
    residuals: Residuals, cotangent: Array, *, eps: float, interpret: bool = False, **_: Any
) -> tuple[Array, Array]:
    """Cotangents of ``x`` and ``weight``."""
    x, weight = residuals
    rows, dim = x.shape
    tiling = backward_rows(rows, dim)
    dtype = getattr(nl, weight.dtype.name)
    columns = min(SUMMED_COLUMNS, dim)
    sums = {"dtype": dtype, "block_rows": SUMMED_ROWS, "block_columns": columns, "interpret": interpret}
    if tiling is not None:
        dx, parts = rms_norm_rows_backward(x, weight, cotangent, eps=eps, interpret=interpret, **tiling)
        return dx, column_sums(parts, **sums)
    dx, factors = rms_norm_wide_backward(
        x, weight, cotangent, eps=eps, block_columns=min(WIDE_COLUMNS // 2, dim), interpret=interpret
    )
    return dx, rms_norm_wide_weight(x, cotangent, factors, **sums)
