"""Conversions between dtypes with a rounding mode, on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import ir

Array = np.ndarray[Any, np.dtype[Any]]


def _half_away(x: Array) -> Array:
    whole = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1.0, x), 0.0)


_TO_INTEGER: dict[str, Callable[[Array], Array]] = {
    "rint": np.rint,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": _half_away,
}


def convert(data: Array, source: ir.DType, target: ir.DType, rounding: str) -> Array:
    """``data`` as ``target``.

    Floats become integers by ``rounding``, saturating, NaN becomes 0. Narrower floats round by it too, and overflow as
    that direction says: to infinity, or to the largest finite number.
    """
    if target == ir.bool_:
        return np.asarray(data != 0)
    if source == ir.bool_ or not (source.is_float or target.is_float):
        return data.astype(target.numpy)
    exact = data.astype(np.float64)
    if not target.is_float:
        low, high = (-(2.0**31), 2.0**31 - 1) if target == ir.int32 else (-(2.0**63), 2.0**63 - 1024)
        whole = np.nan_to_num(_TO_INTEGER[rounding](exact), nan=0.0, posinf=np.inf, neginf=-np.inf)
        return np.asarray(np.clip(whole, low, high).astype(target.numpy))
    return _to_float(exact, data, target, rounding)


def _to_float(exact: Array, data: Array, target: ir.DType, rounding: str) -> Array:
    kind = target.numpy
    # int32 values pass through float32 on the way to the half-width floats, as on the chip.
    near = (data.astype(np.float32) if target != ir.float32 else data).astype(kind)
    if rounding == "rint":
        return near
    value = near.astype(np.float64)
    below = np.where(value > exact, _step(near, -np.inf), near)
    above = np.where(value < exact, _step(near, np.inf), near)
    match rounding:
        case "floor":
            return below
        case "ceil":
            return above
        case "trunc":
            return np.where(exact < 0, above, below)
    low, high = below.astype(np.float64), above.astype(np.float64)
    tie = (exact - low) == (high - exact)
    return np.where(tie & (low != high), np.where(exact < 0, below, above), near)


def _step(data: Array, towards: float) -> Array:
    """The next value of the array's dtype in the direction of an infinity."""
    return np.asarray(np.nextafter(data, np.array(towards, data.dtype)))
