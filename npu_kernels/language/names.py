"""What a name of a kernel body may hold across a loop or branch, and when two values of it are one kind."""

from __future__ import annotations

from typing import Any

from .. import ir
from .tile import Tile

#: Stands for a name that has no value.
MISSING = object()


def is_number(value: object) -> bool:
    return isinstance(value, bool | int | float)


def same(a: object, b: object) -> bool:
    """Whether a name kept its Python value: the same object, or an equal number of one type (NaN included)."""
    if a is b:
        return True
    return type(a) is type(b) and isinstance(a, bool | int | float) and repr(a) == repr(b)


def describe(value: object) -> str:
    if isinstance(value, Tile):
        return f"{value.dtype} {list(value.shape)}" if value.shape else f"a {value.dtype} scalar"
    return f"the number {value!r}" if is_number(value) else f"a {type(value).__name__}"


def common_dtype(one: Any, other: Any) -> ir.DType | None:
    """The dtype of a name that holds either, ``None`` when there is none."""
    if not all(isinstance(v, Tile) or is_number(v) for v in (one, other)):
        return None
    strong = {v.dtype for v in (one, other) if isinstance(v, Tile)}
    weak = {_weak(v) for v in (one, other) if not isinstance(v, Tile)}
    if strong == {ir.index, ir.int32}:
        return ir.index if not (one.shape or other.shape) else None
    if len(strong) > 1 or (len(weak) > 1 and weak != {ir.index, ir.float32}):
        return None
    if not strong:
        return ir.float32 if ir.float32 in weak else weak.pop()
    dtype = strong.pop()
    fits = all(
        w == dtype or (w == ir.index and dtype.kind in "xif") or (w == ir.float32 and dtype.is_float) for w in weak
    )
    return dtype if fits else None


def _weak(value: object) -> ir.DType:
    return ir.bool_ if isinstance(value, bool) else ir.index if isinstance(value, int) else ir.float32
