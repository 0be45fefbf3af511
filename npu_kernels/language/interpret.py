"""Eager execution on NumPy: the second opinion beside the compiled kernel, and where ``print`` and ``breakpoint`` work.

The author's function runs as Python, on tiles that hold exactly their valid elements. float32 arithmetic is float32;
float16 and bfloat16 operations compute in float32 and round once, to nearest even; products of ``dot`` accumulate in
float32; int32 wraps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .. import ir
from . import rounding as _rounding
from .machine import Loop, LoopKind, Machine, Use, using
from .rewrite import definition
from .source import authors_errors, fail
from .tensor import Tensor, TensorSlice
from .tile import Tile
from .trace import arrange, returned

Array = np.ndarray[Any, np.dtype[Any]]

_UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "abs": np.abs,
    "not": np.logical_not,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "reciprocal": lambda x: 1.0 / x,
}
#: These are evaluated in float64 and rounded, so that they carry no error of their own.
_TRANSCENDENTAL = ("exp", "log", "tanh", "rsqrt", "reciprocal")
_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}
_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_REDUCE: dict[str, Callable[..., Array]] = {"sum": np.sum, "max": np.max, "min": np.min, "mean": np.mean}


@authors_errors
def interpret(
    fn: Callable[..., Any], arrays: Mapping[str, np.ndarray[Any, Any]], statics: Mapping[str, object]
) -> tuple[np.ndarray[Any, Any], ...]:
    """Runs the body of ``fn`` eagerly.

    Args:
        fn: the kernel function as its author wrote it.
        arrays: each array argument by name, with a dtype of the language.
        statics: the value of each other argument.

    Returns:
        The outputs in the order of the function's ``return``. Elements that were never stored are zero.

    Raises:
        LanguageError: what the language refuses, at the author's line; NPK-LA06 for a slice outside its tensor.
    """
    span = definition(fn)
    machine = Interpreter()
    tensors: dict[str, object] = {}
    for name, array in arrays.items():
        data = np.asarray(array)
        dtype = ir.dtype_of(data.dtype)
        if dtype is None:
            fail("NPK-LA05", f"argument `{name}` has dtype {data.dtype}, which the language lacks", span)
        tensors[name] = Tensor(name, data.shape, dtype, data, is_output=False)
    with using(machine), np.errstate(all="ignore"):
        args, kwargs = arrange(fn, {**tensors, **statics})
        outputs = returned(fn(*args, **kwargs), machine.outputs, span)
    for out in outputs:
        if not any(out is t for t in machine.stored) and out.payload.size:
            fail("NPK-LA08", f"output `{out.name}` is returned but never stored: nl.store every part of it", span)
    return tuple(out.payload for out in outputs)


class EagerLoop(Loop):
    """Yields loop variables that know their step, by which a slice may be ragged."""

    def __init__(self, machine: Interpreter, start: int, stop: int, step: int) -> None:
        self.machine = machine
        self.values = range(start, stop, step)

    def __iter__(self) -> Iterator[Tile]:
        for value in self.values:
            tile = self.machine.constant(value, ir.index)
            tile.step = self.values.step
            yield tile


class Interpreter(Machine):
    """Payloads are arrays of exactly the valid elements, of the dtype's own NumPy dtype."""

    eager = True

    def __init__(self) -> None:
        self.outputs: list[Tensor] = []
        self.stored: list[Tensor] = []

    def tile(self, data: Any, shape: tuple[int, ...], dtype: ir.DType) -> Tile:
        return Tile(self, shape, dtype, np.asarray(data).astype(dtype.numpy))

    def admit(self, tile: Tile) -> None:
        if tile.machine is not self:
            fail("NPK-LA02", "a value of another kernel's run is used: pass it as an argument")

    def constant(self, value: bool | int | float, dtype: ir.DType) -> Tile:
        return self.tile(np.array(value, np.float64 if dtype.is_float else dtype.numpy), (), dtype)

    def unary(self, kind: str, x: Tile) -> Tile:
        data = _widened(x.payload, x.dtype)
        if kind in _TRANSCENDENTAL:
            return self.tile(_UNARY[kind](data.astype(np.float64)).astype(np.float32), x.shape, x.dtype)
        return self.tile(_UNARY[kind](data), x.shape, x.dtype)

    def binary(self, kind: str, a: Tile, b: Tile) -> Tile:
        shape, (x, y) = _aligned(a, b)
        return self.tile(_BINARY[kind](_widened(x, a.dtype), _widened(y, b.dtype)), shape, a.dtype)

    def compare(self, predicate: str, a: Tile, b: Tile) -> Tile:
        shape, (x, y) = _aligned(a, b)
        return self.tile(_COMPARE[predicate](_widened(x, a.dtype), _widened(y, b.dtype)), shape, ir.bool_)

    def select(self, condition: Tile, a: Tile, b: Tile) -> Tile:
        shape, (test, x, y) = _aligned(condition, a, b)
        return self.tile(np.where(test, x, y), shape, a.dtype)

    def cast(self, x: Tile, dtype: ir.DType, rounding: str) -> Tile:
        return self.tile(_rounding.convert(x.payload, x.dtype, dtype, rounding), x.shape, dtype)

    def full(self, shape: tuple[int, ...], value: Tile) -> Tile:
        return self.tile(np.broadcast_to(value.payload, shape), shape, value.dtype)

    def arange(self, start: Tile, size: int) -> Tile:
        return self.tile(np.arange(size) + int(start.payload), (size,), ir.int32)

    def reshape(self, x: Tile, shape: tuple[int, ...]) -> Tile:
        held = iter([n for n, capacity in zip(x.payload.shape, x.shape, strict=True) if capacity != 1])
        return self.tile(x.payload.reshape([1 if n == 1 else next(held) for n in shape]), shape, x.dtype)

    def broadcast(self, x: Tile, shape: tuple[int, ...]) -> Tile:
        padded = (1,) * (len(shape) - len(x.shape)) + x.shape
        held = (1,) * (len(shape) - len(x.shape)) + x.payload.shape
        extents = [h if p == n else n for h, p, n in zip(held, padded, shape, strict=True)]
        return self.tile(np.broadcast_to(x.payload, extents), shape, x.dtype)

    def reduce(self, kind: str, x: Tile, axis: int, keepdims: bool) -> Tile:
        data = _REDUCE[kind](x.payload, axis=axis, keepdims=keepdims)
        return self.tile(data, (*x.shape[:axis], *((1,) if keepdims else ()), *x.shape[axis + 1 :]), x.dtype)

    def dot(self, a: Tile, b: Tile, accumulator: Tile | None, transpose_a: bool, transpose_b: bool) -> Tile:
        # Summed in float64 and rounded once: float32 sums depend on the order that a BLAS takes on this machine and for
        # this layout, so that a product and its transpose would differ.
        x, y = a.payload.astype(np.float64), b.payload.astype(np.float64)
        x, y = (x.T if transpose_a else x), (y.T if transpose_b else y)
        shape = (a.shape[1 if transpose_a else 0], b.shape[0 if transpose_b else 1])
        common = min(x.shape[1], y.shape[0])
        product = (x[:, :common] @ y[:common]).astype(np.float32)
        if accumulator is not None:
            rows, columns = (min(n, m) for n, m in zip(product.shape, accumulator.payload.shape, strict=True))
            product = product[:rows, :columns] + accumulator.payload[:rows, :columns]
        return self.tile(product, shape, ir.float32)

    def output(self, shape: Sequence[int], dtype: ir.DType) -> Tensor:
        data = np.zeros(tuple(shape), dtype.numpy)
        self.outputs.append(Tensor(f"out{len(self.outputs)}", shape, dtype, data, is_output=True))
        return self.outputs[-1]

    def load(self, source: TensorSlice) -> Tile:
        return self.tile(source.tensor.payload[self._place(source)], source.shape, source.dtype)

    def store(self, target: TensorSlice, value: Tile) -> None:
        # The ellipsis makes NumPy give a view even where every axis is indexed.
        held = target.tensor.payload[(*self._place(target), ...)]
        if not any(target.tensor is t for t in self.stored):
            self.stored.append(target.tensor)
        common = tuple(slice(0, min(n, m)) for n, m in zip(held.shape, value.payload.shape, strict=True))
        held[(*common, ...)] = value.payload[common]

    def _place(self, place: TensorSlice) -> tuple[int | slice, ...]:
        items: list[int | slice] = []
        for axis, (start, size) in enumerate(zip(place.starts, place.sizes, strict=True)):
            if isinstance(start, Tile):
                self.admit(start)
            first, dim = int(start), int(place.tensor.shape[axis])
            length = 1 if size is None else size
            ragged = isinstance(start, Tile) and start.step == size and 0 <= first < dim
            if not ragged and not 0 <= first <= dim - length:
                part = f"index {first}" if size is None else f"the slice {first}:{first + length}"
                fail(
                    "NPK-LA06",
                    f"axis {axis} of {place.tensor.name} has {dim} elements, and {part} reaches outside: "
                    "bound the start with nl.clip or nl.minimum",
                )
            items.append(first if size is None else slice(first, min(first + length, dim)))
        return tuple(items)

    def loop(self, kind: LoopKind, start: Tile | int, stop: Tile | int, step: int, pipelined: bool) -> Loop:
        return EagerLoop(self, int(start), int(stop), step)

    def distance(self, start: Tile, stop: Tile) -> int | None:
        return int(stop.payload) - int(start.payload)

    def excludes_zero(self, divisor: Tile) -> bool:
        return bool(divisor.payload != 0)

    def number(self, tile: Tile, use: Use) -> bool | int | float:
        if tile.shape:
            fail("NPK-LA03", f"a tile of shape {list(tile.shape)} is no single number: reduce it, or use nl.where")
        if use == "index" and tile.dtype.is_float:
            fail("NPK-LA03", f"an index is an integer, not {tile.dtype}: cast it to nl.int32")
        held: bool | int | float = tile.payload.item()
        return held

    def describe(self, tile: Tile) -> str:
        if not tile.shape:
            return str(tile.payload.item())
        ragged = "" if tile.payload.shape == tile.shape else f", {list(tile.payload.shape)} of it valid"
        return f"<{tile.dtype} tile {list(tile.shape)}{ragged}>\n{tile.payload}"


def _widened(data: Array, dtype: ir.DType) -> Array:
    return data.astype(np.float32) if dtype in (ir.float16, ir.bfloat16) else data


def _aligned(*tiles: Tile) -> tuple[tuple[int, ...], list[Array]]:
    """Operands cut to their common extents, axis by axis where they span it."""
    shape = ir.broadcast_shapes(*(t.shape for t in tiles))
    assert shape is not None
    common = list(shape)
    for tile in tiles:
        skip = len(shape) - len(tile.shape)
        for axis, capacity in enumerate(tile.shape):
            if capacity == shape[skip + axis]:
                common[skip + axis] = min(common[skip + axis], tile.payload.shape[axis])
    cut: list[Array] = []
    for tile in tiles:
        skip = len(shape) - len(tile.shape)
        cut.append(tile.payload[tuple(slice(0, common[skip + axis]) for axis in range(len(tile.shape)))])
    return shape, cut
