"""Reductions of tiles along an axis. The valid extent counts: what lies beyond it is not there.

float16 and bfloat16 tiles are reduced in float32 and rounded once, to nearest even, at the end.
"""

from __future__ import annotations

from typing import Any

from .. import ir
from .machine import current
from .source import fail
from .tile import Tile, as_operand


def sum(x: Tile, axis: int | None = None, keepdims: bool = False) -> Tile:
    """The sum along ``axis`` (over the whole tile when it is ``None``, which gives a scalar)."""
    return _reduce("sum", x, axis, keepdims)


def max(x: Tile, axis: int | None = None, keepdims: bool = False) -> Tile:
    """The largest element along ``axis``; NaN when there is one."""
    return _reduce("max", x, axis, keepdims)


def min(x: Tile, axis: int | None = None, keepdims: bool = False) -> Tile:
    """The smallest element along ``axis``; NaN when there is one."""
    return _reduce("min", x, axis, keepdims)


def mean(x: Tile, axis: int | None = None, keepdims: bool = False) -> Tile:
    """The sum along ``axis`` divided by the number of valid elements."""
    return _reduce("mean", x, axis, keepdims)


def _reduce(kind: str, x: object, axis: object, keepdims: bool) -> Tile:
    tile: Any = as_operand(x, f"the argument of nl.{kind}")
    if not isinstance(tile, Tile) or not tile.shape:
        fail("NPK-LA09", f"nl.{kind} reduces a tile, and this is a scalar")
    if not tile.dtype.is_float:
        fail("NPK-LA05", f"{kind} of a {tile.dtype} tile does not exist: cast it first (.astype(nl.float32))")
    if axis is None:
        axes = list(range(tile.ndim))
    elif isinstance(axis, int) and not isinstance(axis, bool) and -tile.ndim <= axis < tile.ndim:
        axes = [axis % tile.ndim]
    else:
        fail("NPK-LA09", f"axis {axis!r} of a tile of rank {tile.ndim}: it ranges from {-tile.ndim} to {tile.ndim - 1}")
    machine = current()
    dtype = tile.dtype
    value = tile if dtype == ir.float32 else machine.cast(tile, ir.float32, "rint")
    # Rows of a tile have one extent, so the mean of the means is the mean of all.
    for one in reversed(axes):
        value = machine.reduce(kind, value, one, keepdims)
    return value if dtype == ir.float32 else machine.cast(value, dtype, "rint")
