"""The dtypes of the language."""

from __future__ import annotations

import numpy as np

from .. import ir
from .source import fail


def as_dtype(dtype: object) -> ir.DType:
    """The IR dtype of ``dtype``: ``nl.float32``, or a NumPy or JAX dtype with these bits."""
    if isinstance(dtype, ir.DType) and dtype in ir.DTYPES:
        return dtype
    known = None
    if not isinstance(dtype, ir.DType):
        try:
            known = ir.dtype_of(np.dtype(dtype))  # type: ignore[call-overload]
        except TypeError:
            known = None
    if known is None:
        names = ", ".join(d.name for d in ir.DTYPES)
        fail("NPK-LA05", f"{dtype!r} is no dtype of the language: use one of nl.{names.replace(', ', ', nl.')}")
    return known
