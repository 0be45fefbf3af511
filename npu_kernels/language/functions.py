"""Elementwise functions of tiles. Of Python numbers alone they give Python numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import ir
from .machine import current
from .source import fail
from .tile import Number, Tile, as_element, as_operand, binary, broadcast, constant, unary, unify

_ON_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "reciprocal": lambda x: 1.0 / x,
    "tanh": np.tanh,
}


def _float_function(kind: str, x: Tile | Number) -> Any:
    value = as_operand(x, f"the argument of nl.{kind}")
    if isinstance(value, Tile):
        if value.dtype == ir.index:
            fail("NPK-LA05", f"{kind} of an index does not exist: cast it first (nl.cast(i, nl.float32))")
        return unary(kind, value)
    with np.errstate(all="ignore"):
        return float(_ON_NUMBERS[kind](np.float64(value)))


def exp(x: Tile | Number) -> Any:
    """e to the power ``x``; floats only."""
    return _float_function("exp", x)


def log(x: Tile | Number) -> Any:
    """Natural logarithm: ``-inf`` at 0, NaN below; floats only."""
    return _float_function("log", x)


def sqrt(x: Tile | Number) -> Any:
    """Square root, NaN below 0; floats only."""
    return _float_function("sqrt", x)


def rsqrt(x: Tile | Number) -> Any:
    """``1 / sqrt(x)``; floats only."""
    return _float_function("rsqrt", x)


def reciprocal(x: Tile | Number) -> Any:
    """``1 / x``; floats only."""
    return _float_function("reciprocal", x)


def tanh(x: Tile | Number) -> Any:
    """Hyperbolic tangent; floats only."""
    return _float_function("tanh", x)


def abs(x: Tile | Number) -> Any:
    """Absolute value of floats, int32 and index values."""
    value = as_operand(x, "the argument of nl.abs")
    return value.__abs__()


def maximum(a: Tile | Number, b: Tile | Number) -> Any:
    """The larger of two values, elementwise; NaN where either is NaN."""
    return binary("maximum", a, b)


def minimum(a: Tile | Number, b: Tile | Number) -> Any:
    """The smaller of two values, elementwise; NaN where either is NaN."""
    return binary("minimum", a, b)


def clip(x: Tile | Number, low: Tile | Number, high: Tile | Number) -> Any:
    """``minimum(maximum(x, low), high)``. On an index it also proves that slices are inside their tensor."""
    return minimum(maximum(x, low), high)


def where(condition: Tile | bool, a: Tile | Number, b: Tile | Number) -> Any:
    """``a`` where ``condition`` holds, ``b`` elsewhere; all three broadcast.

    Two Python numbers give float32, or int32 when both are integers.

    Raises:
        LanguageError: NPK-LA05 when the condition is not bool, or ``a`` and ``b`` differ in dtype.
    """
    test = as_operand(condition, "the condition of nl.where")
    x, y = as_operand(a, "the second argument of nl.where"), as_operand(b, "the third argument of nl.where")
    if isinstance(test, bool):
        return x if test else y
    if not isinstance(test, Tile) or test.dtype != ir.bool_:
        what = test.dtype if isinstance(test, Tile) else type(test).__name__
        fail("NPK-LA05", f"the condition of nl.where is {what}, not bool: compare first")
    if not isinstance(x, Tile) and not isinstance(y, Tile):
        booleans = isinstance(x, bool) and isinstance(y, bool)
        dtype = ir.float32 if isinstance(x, float) or isinstance(y, float) else ir.bool_ if booleans else ir.int32
        values = [constant(x, dtype), constant(y, dtype)]
    else:
        values = unify("nl.where", x, y)
    shape = broadcast("nl.where", test, *values)
    return current().select(test, *(as_element(v) if shape else v for v in values))
