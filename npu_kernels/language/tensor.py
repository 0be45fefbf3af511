"""Tensors in global memory, and their slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from .. import ir
from .dim import Dim
from .machine import current
from .operators import SPELLED, refuse_operators
from .refusals import refuse_attribute, refuse_operand
from .source import fail
from .tile import Tile, as_operand, constant


class Tensor:
    """An array argument or output of a kernel. It lies in global memory: ``nl.load`` and ``nl.store`` move slices.

    Use it in annotations as ``Float[nl.Tensor, "rows dim"]``.

    Attributes:
        shape: one :class:`Dim` per axis.
        dtype: the element type.
    """

    def __init__(self, name: str, shape: Sequence[int], dtype: ir.DType, payload: Any, is_output: bool) -> None:
        self.name = name
        self.shape = tuple(Dim(n, f"{name}.shape[{axis}]") for axis, n in enumerate(shape))
        self.dtype = dtype
        self.payload = payload
        self.is_output = is_output
        self.named = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def rename(self, name: str) -> None:
        """Gives an output the name it is assigned to."""
        self.name = name
        self.named = True
        self.shape = tuple(Dim(n, f"{name}.shape[{axis}]") for axis, n in enumerate(self.shape))

    def __getitem__(self, key: object) -> TensorSlice:
        """NumPy syntax: an integer drops its axis, ``s:s + n`` with a known ``n`` keeps ``n`` of it, ``:`` all."""
        return TensorSlice(self, _place(self, key))

    def __repr__(self) -> str:
        return f"tensor {self.name}{[int(n) for n in self.shape]} of {self.dtype}"

    def __iter__(self) -> NoReturn:
        fail("NPK-LA03", f"{self.name} cannot be iterated over: loop with nl.range over its shape and nl.load slices")

    def __bool__(self) -> NoReturn:
        fail("NPK-LA03", f"{self.name} is a tensor, which has no truth value")

    def __len__(self) -> NoReturn:
        fail("NPK-LA03", f"{self.name} has no len(): its sizes are in {self.name}.shape")

    def __setitem__(self, key: object, value: object) -> NoReturn:
        fail("NPK-LA01", f"a tensor is written by nl.store({self.name}[...], tile)")

    def __getattr__(self, name: str) -> NoReturn:
        refuse_attribute("a tensor", name)


class TensorSlice:
    """A part of a tensor: per axis a start and a known size, or ``None`` where an index drops the axis."""

    def __init__(self, tensor: Tensor, axes: list[tuple[Tile | int, int | None]]) -> None:
        self.tensor = tensor
        self.starts = tuple(start for start, _ in axes)
        self.sizes = tuple(size for _, size in axes)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(n for n in self.sizes if n is not None)

    @property
    def dtype(self) -> ir.DType:
        return self.tensor.dtype

    def __repr__(self) -> str:
        return f"a slice {list(self.shape)} of {self.tensor!r}"

    def __getitem__(self, key: object) -> NoReturn:
        fail("NPK-LA01", f"a slice cannot be sliced again: index all axes of {self.tensor.name} at once")

    def __getattr__(self, name: str) -> NoReturn:
        refuse_attribute("a slice of a tensor", name)


def _refuse_operator(item: Tensor | TensorSlice, name: str) -> NoReturn:
    what = item.name if isinstance(item, Tensor) else f"a slice of {item.tensor.name}"
    fail("NPK-LA03", f"{what} lies in global memory, which has no {SPELLED[name]}: nl.load a slice of it first")


for _kind in (Tensor, TensorSlice):
    refuse_operators(_kind, _refuse_operator)


def whole(tensor: Tensor) -> TensorSlice:
    return TensorSlice(tensor, [(0, int(n)) for n in tensor.shape])


def check_place(place: TensorSlice) -> None:
    """What a load or store may take: rank 2 at most, nothing empty."""
    shape = place.shape
    if len(shape) > 2:
        fail(
            "NPK-LA04",
            f"a tile has rank 1 or 2; this slice of {place.tensor.name} has shape {list(shape)}: "
            "index some axes with a number",
        )
    if 0 in shape:
        fail(
            "NPK-LA06",
            f"this slice of {place.tensor.name} is empty, shape {list(shape)}: a tile holds at least one element",
        )


def _place(tensor: Tensor, key: object) -> list[tuple[Tile | int, int | None]]:
    items = list(key) if isinstance(key, tuple) else [key]
    dots = [n for n, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        fail("NPK-LA01", "an index can only have a single ellipsis")
    missing = tensor.ndim - (len(items) - len(dots))
    if missing < 0:
        fail("NPK-LA06", f"{tensor.name} has {tensor.ndim} axes, and {len(items) - len(dots)} are indexed")
    where = dots[0] if dots else len(items)
    items[where : where + 1] = [slice(None)] * missing
    return [_axis(tensor, axis, item) for axis, item in enumerate(items)]


def _axis(tensor: Tensor, axis: int, item: object) -> tuple[Tile | int, int | None]:
    size = int(tensor.shape[axis])
    if not isinstance(item, slice):
        if item is None:
            fail("NPK-LA01", "add an axis to the tile, not to the tensor: nl.load(...)[:, None]")
        return _known(_position(item), size), None
    if item.step not in (None, 1):
        fail("NPK-LA01", f"slices with a step ({item.step}) are not read by one load: loop over the parts")
    start = 0 if item.start is None else _known(_position(item.start), size)
    stop = size if item.stop is None else _known(_position(item.stop), size)
    if isinstance(start, int) and isinstance(stop, int):
        return start, max(0, stop - start)
    length = current().distance(*(p if isinstance(p, Tile) else constant(p, ir.index) for p in (start, stop)))
    if length is None:
        fail(
            "NPK-LA06",
            f"the length of the slice of {tensor.name} along axis {axis} is not a known number: "
            "write start:start + n with a static n",
        )
    return start, max(0, length)


def _known(position: Tile | int, size: int) -> Tile | int:
    return position + size if isinstance(position, int) and position < 0 else position


def _position(item: object) -> Tile | int:
    if not isinstance(item, Tile | int | float | bool) and not hasattr(item, "__index__"):
        if isinstance(item, list):
            fail("NPK-LA03", "a list is no index: gathers are not supported; loop over the positions")
        refuse_operand(item, "an index")
    value = as_operand(item, "an index")
    if isinstance(value, Tile):
        if value.shape:
            fail("NPK-LA03", "a tile is no index: gathers are not supported; loop over the positions")
        if value.dtype not in (ir.index, ir.int32):
            fail("NPK-LA03", f"an index is an integer, not {value.dtype}: cast it to nl.int32")
        return value
    if isinstance(value, bool | float):
        fail("NPK-LA03", f"an index is an integer, not {value!r}")
    return int(value)
