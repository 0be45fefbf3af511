"""Moving tiles between global memory and the chip, making them, and the cube unit."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from .. import ir
from .dtypes import as_dtype
from .machine import current
from .refusals import Transposed, refuse_operand
from .source import fail
from .tensor import Tensor, TensorSlice, check_place, whole
from .tile import Number, Tile, as_element, as_operand, constant


def output(shape: Sequence[int], dtype: ir.DType) -> Tensor:
    """A result of the kernel; return it, and store every part of it.

    Raises:
        LanguageError: NPK-LA08 inside a loop or branch, NPK-LA09 for a shape that is not made of known sizes.
    """
    sizes = _shape(shape, "nl.output")
    return current().output(sizes, as_dtype(dtype))


def load(source: Tensor | TensorSlice) -> Tile:
    """Reads a slice of a tensor (or a whole small tensor) as a tile of rank 1 or 2, or as a scalar.

    Raises:
        LanguageError: NPK-LA04 for more than two axes, NPK-LA06 when the slice may reach outside the tensor,
            NPK-LA08 for an output.
    """
    place = _slice(source, "the argument of nl.load")
    check_place(place)
    if place.tensor.is_output:
        fail(
            "NPK-LA08",
            f"{place.tensor.name} is an output, which this version cannot read back: "
            "keep the tile that was stored, or make it an argument too",
        )
    return current().load(place)


def store(target: Tensor | TensorSlice, value: Tile | Number) -> None:
    """Writes a tile into a slice of an output. The part that lies inside the tensor and holds data is written.

    Args:
        value: a tile of the slice's shape (one that broadcasts to it, or a number, is spread) and the output's dtype.

    Raises:
        LanguageError: NPK-LA04 when the shapes do not fit, NPK-LA05 when the dtypes differ, NPK-LA06 when the
            slice may reach outside, NPK-LA08 when the target is an input.
    """
    place = _slice(target, "the first argument of nl.store")
    check_place(place)
    name, dtype, shape = place.tensor.name, place.dtype, place.shape
    if not place.tensor.is_output:
        fail("NPK-LA08", f"{name} is an argument of the kernel and cannot be written: make an nl.output and return it")
    held = as_operand(value, "the second argument of nl.store")
    tile = held if isinstance(held, Tile) else constant(held, dtype)
    machine = current()
    if tile.dtype == ir.index and dtype in (ir.int32, ir.float32):
        tile = machine.cast(tile, dtype, "rint")
    if tile.dtype != dtype:
        fail("NPK-LA05", f"a {tile.dtype} value is stored into {name}, which is {dtype}: write .astype({name}.dtype)")
    if tile.shape != shape:
        if len(tile.shape) > len(shape) or ir.broadcast_shapes(tile.shape, shape) != shape:
            fail("NPK-LA04", f"a tile of shape {list(tile.shape)} does not fit the slice {list(shape)} of {name}")
        tile = machine.broadcast(tile, shape) if tile.shape else machine.full(shape, tile)
    machine.store(place, tile)


def full(shape: Sequence[int] | int, value: Tile | Number, dtype: ir.DType = ir.float32) -> Tile:
    """A tile (rank 1 or 2) with one value everywhere."""
    sizes = _tile_shape(shape, "nl.full")
    held = as_operand(value, "the value of nl.full")
    kind = as_dtype(dtype)
    scalar = held if isinstance(held, Tile) else constant(held, kind)
    if scalar.shape:
        fail("NPK-LA09", f"the value of nl.full is a tile of shape {list(scalar.shape)}: it takes a scalar")
    if scalar.dtype != kind:
        scalar = current().cast(scalar, kind, "rint") if scalar.dtype == ir.index else scalar.astype(kind)
    return current().full(sizes, scalar)


def zeros(shape: Sequence[int] | int, dtype: ir.DType = ir.float32) -> Tile:
    """A tile of zeros (``False`` for bool)."""
    return full(shape, False if as_dtype(dtype) == ir.bool_ else 0, dtype)


def arange(start: Tile | int, stop: Tile | int | None = None) -> Tile:
    """The int32 tile ``start, start + 1, …, stop - 1`` (from 0 with one argument); ``stop - start`` is static."""
    begin = as_operand(0 if stop is None else start, "the start of nl.arange")
    end = as_operand(start if stop is None else stop, "the stop of nl.arange")
    ends = []
    for item in (begin, end):
        if isinstance(item, Tile) and not item.shape and item.dtype in (ir.index, ir.int32):
            ends.append(item)
        elif not isinstance(item, Tile) and isinstance(item, int):
            ends.append(constant(int(item), ir.index))
        else:
            fail("NPK-LA09", "nl.arange counts from an integer to an integer")
    size = current().distance(*ends)
    if size is None:
        fail("NPK-LA09", "the length of nl.arange is not a known number: write nl.arange(s, s + n) with a static n")
    if size < 1:
        fail("NPK-LA09", f"nl.arange of {size} elements: a tile holds at least one")
    return current().arange(ends[0], size)


def broadcast_to(x: Tile, shape: Sequence[int]) -> Tile:
    """``x`` spread to a larger shape."""
    tile = as_operand(x, "the argument of nl.broadcast_to")
    sizes = _tile_shape(shape, "nl.broadcast_to")
    if not isinstance(tile, Tile):
        return full(sizes, tile, ir.float32 if isinstance(tile, float) else ir.int32)
    if len(tile.shape) > len(sizes) or ir.broadcast_shapes(tile.shape, sizes) != sizes:
        fail("NPK-LA04", f"a tile of shape {list(tile.shape)} does not broadcast to {list(sizes)}")
    if not tile.shape:
        return current().full(sizes, as_element(tile))
    return tile if tile.shape == sizes else current().broadcast(tile, sizes)


def dot(
    a: Tile | Transposed,
    b: Tile | Transposed,
    acc: Tile | None = None,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> Tile:
    """The matrix product ``a @ b`` (plus ``acc``) on the cube unit, accumulated in float32.

    Args:
        a, b: rank 2, both float32, float16 or bfloat16; ``a.T`` is the same as ``transpose_a=True``.
        acc: a float32 tile ``[m, n]`` to add to.

    Returns:
        A float32 tile ``[m, n]``.

    Raises:
        LanguageError: NPK-LA04 when the shapes do not fit, NPK-LA05 for other dtypes.
    """
    left, flip_a = _matrix(a, transpose_a, "the first argument of nl.dot")
    right, flip_b = _matrix(b, transpose_b, "the second argument of nl.dot")
    if left.dtype != right.dtype:
        fail(
            "NPK-LA05",
            f"nl.dot of {left.dtype} and {right.dtype}: cast one explicitly with .astype, both to the same dtype",
        )
    if not left.dtype.is_float:
        fail("NPK-LA05", f"nl.dot of {left.dtype} is not supported: cast to nl.float32, nl.float16 or nl.bfloat16")
    m, k = left.shape[::-1] if flip_a else left.shape
    k_b, n = right.shape[::-1] if flip_b else right.shape
    if k != k_b:
        fail(
            "NPK-LA04",
            f"nl.dot contracts {k} columns of [{m}, {k}] with {k_b} rows of [{k_b}, {n}]: "
            "they must be equal; .T swaps the axes of an operand",
        )
    held = None
    if acc is not None:
        found = as_operand(acc, "acc of nl.dot")
        if not isinstance(found, Tile) or found.shape != (m, n) or found.dtype != ir.float32:
            what = f"{found.dtype} {list(found.shape)}" if isinstance(found, Tile) else repr(found)
            fail(
                "NPK-LA04",
                f"acc of nl.dot is {what}, and the product is float32 [{m}, {n}]: start it as nl.zeros(({m}, {n}))",
            )
        held = found
    return current().dot(left, right, held, flip_a, flip_b)


def _slice(item: object, role: str) -> TensorSlice:
    if isinstance(item, Tensor):
        return whole(item)
    if isinstance(item, TensorSlice):
        return item
    if isinstance(item, Tile):
        fail("NPK-LA03", f"{role} is a value on chip: it takes a tensor or a slice of one")
    refuse_operand(item, role)


def _matrix(item: Any, transpose: bool, role: str) -> tuple[Tile, bool]:
    flip = bool(transpose)
    if isinstance(item, Transposed):
        item, flip = item.tile, not flip
    tile = as_operand(item, role)
    if not isinstance(tile, Tile) or tile.ndim != 2:
        what = f"of shape {list(tile.shape)}" if isinstance(tile, Tile) else "a number"
        fail("NPK-LA04", f"{role} is {what}: it takes rank 2, so add an axis with t[None, :] or t[:, None]")
    return tile, flip


def _shape(shape: object, role: str) -> tuple[int, ...]:
    sizes = shape if isinstance(shape, Sequence) else (shape,)
    known: list[int] = []
    for size in sizes:
        if isinstance(size, Tile) and not size.machine.eager:
            fail("NPK-LA09", f"{role}: a size is a traced value, and shapes are known numbers while tracing")
        try:
            known.append(operator.index(size))  # type: ignore[arg-type]
        except TypeError:
            fail("NPK-LA09", f"{role}: a size is {size!r}, not an integer")
        if known[-1] < 0:
            fail("NPK-LA09", f"{role}: a size is {known[-1]}, which is negative")
    return tuple(known)


def _tile_shape(shape: object, role: str) -> tuple[int, ...]:
    sizes = _shape(shape, role)
    if len(sizes) not in (1, 2) or 0 in sizes:
        fail("NPK-LA04", f"{role}: a tile has rank 1 or 2 and no empty axis, not shape {list(sizes)}")
    return sizes
