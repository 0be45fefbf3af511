"""How a tile lies in the unified buffer.

A tile with two axes longer than one is row-major with a pitch; any other is a plain vector. The pitch is the same
number of elements for every dtype of a kernel, so that a cast keeps positions; the whole tile is padded to 64
elements, the bits one 256-byte compare of floats yields. Padding always holds defined values.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Elements of 4 bytes in one 32-byte block and in one 256-byte repeat.
BLOCK = 8
REPEAT = 64


def round_up_int(value: int, unit: int) -> int:
    return -(-value // unit) * unit


@dataclass(frozen=True)
class Layout:
    """``rows`` of ``cols`` elements at distance ``pitch``; ``size`` elements in all, padding included."""

    rows: int
    cols: int
    pitch: int
    size: int

    @staticmethod
    def of(shape: tuple[int, ...], granule: int) -> Layout:
        """The layout of a capacity; ``granule`` is the elements of the kernel's narrowest dtype in 32 bytes."""
        rows, cols = shape if len(shape) == 2 else (1, shape[0])
        if rows == 1 or cols == 1:
            rows, cols = 1, rows * cols
        pitch = round_up_int(cols, granule) if rows > 1 else round_up_int(cols, REPEAT)
        return Layout(rows, cols, pitch, round_up_int(rows * pitch, REPEAT))


def kind_of(shape: tuple[int, ...], result: tuple[int, ...]) -> str:
    """How an operand of ``shape`` spans a result: ``full``, ``row`` (one row for all), ``column`` (one element for
    each row) or ``one``."""
    r, c = (1,) * (2 - len(shape)) + shape
    rows, cols = (1,) * (2 - len(result)) + result
    if (r, c) == (rows, cols):
        return "full"
    if r == c == 1:
        return "one"
    return "row" if r == 1 else "column"
