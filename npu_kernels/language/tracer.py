"""The machine that writes tile IR."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .. import ir
from . import bounds
from .bounds import Affine
from .control import TracedRange
from .extents import Extent, Extents
from .machine import LoopKind, Machine, Use
from .scope import Scope
from .source import Span, author_line, fail, here, text_of_line
from .tensor import Tensor, TensorSlice
from .tile import Tile


def _any_int32() -> Affine:
    return bounds.opaque(-(2**31), 2**31 - 1)


def ascii_name(name: str) -> str:
    """``name`` with an underscore for each letter that a C++ identifier may not have everywhere."""
    return "".join(c if c.isascii() else "_" for c in name)


class Tracer(Machine):
    """Runs a kernel body once and records it.

    Attributes:
        scope: where the body stands.
        homes: the scope that each value was made in.
    """

    eager = False

    def __init__(self, span: Span) -> None:
        self.builder = ir.Builder(span.location)
        self.root = Scope(None, "kernel", self.builder.block, span)
        self.scope = self.root
        self.homes: dict[ir.Value, Scope] = {}
        self.extents = Extents(self)
        self.outputs: list[Tensor] = []
        self.stored: set[ir.Value] = set()
        self.named: set[ir.Value] = set()
        self._constants: dict[tuple[ir.DType, str], Tile] = {}

    # Building

    @contextmanager
    def hoisting(self, scope: Scope) -> Iterator[ir.Builder]:
        """Operations inside the ``with`` go to the head of ``scope``'s block, after those already there."""
        location, self.builder.location = self.builder.location, scope.span.location
        try:
            with self.builder.into(ir.Block()) as head:
                yield self.builder
        finally:
            self.builder.location = location
        scope.block.ops[scope.prologue : scope.prologue] = head.ops
        scope.prologue += len(head.ops)

    @contextmanager
    def inside(self, scope: Scope) -> Iterator[None]:
        outer, self.scope = self.scope, scope
        try:
            with self.builder.into(scope.block):
                yield
        finally:
            self.scope = outer

    def build(self) -> ir.Builder:
        """The builder, set to the author's line."""
        self.builder.location = author_line()
        return self.builder

    def tile(self, value: ir.Value, facts: Affine | None = None, step: int | None = None) -> Tile:
        """``value``, just made in the current scope, as the author sees it."""
        self.homes[value] = self.scope
        if facts is None and value.is_scalar and value.dtype.kind in "xi":
            facts = bounds.opaque(None, None) if value.dtype == ir.index else _any_int32()
        return Tile(self, value.shape, value.dtype, value, facts, step)

    def admit(self, tile: Tile) -> None:
        if tile.machine is not self:
            fail("NPK-LA02", "a value of another kernel's trace is used: pass it as an argument")
        home = self.homes[tile.payload]
        if not home.encloses(self.scope):
            name = f"`{tile.payload.name}`" if tile.payload in self.named else "the value"
            fail(
                "NPK-LA02",
                f"{name} was made inside {home.title}, and exists only there: give the name a value before "
                "the loop or if, so that it is carried out, or store it inside",
            )

    # Scalars and elementwise operations

    def constant(self, value: bool | int | float, dtype: ir.DType) -> Tile:
        key = (dtype, repr(value))
        if key not in self._constants:
            plain = isinstance(value, int) and value >= 0 and not isinstance(value, bool)
            with self.hoisting(self.root) as builder:
                made = builder.constant(value, dtype, f"c{value}" if plain else "c")
            self.homes[made] = self.root
            facts = Affine(int(value)) if dtype.kind in "xi" else None
            self._constants[key] = Tile(self, (), dtype, made, facts)
        return self._constants[key]

    def unary(self, kind: str, x: Tile) -> Tile:
        facts = None
        if x.facts is not None and kind == "neg":
            facts = self._fit(Affine(0).plus(x.facts, -1), x.dtype)
        elif x.facts is not None and kind == "abs":
            if x.facts.low is not None and x.facts.low >= 0:
                return x
            ends = (x.facts.low, x.facts.high)
            high = None if None in ends else max(abs(e) for e in ends if e is not None)
            facts = self._fit(bounds.opaque(0, high), x.dtype)
        return self.tile(self.build().unary(kind, x.payload), facts)

    def binary(self, kind: str, a: Tile, b: Tile) -> Tile:
        facts = None
        if a.facts is not None and b.facts is not None:
            facts = self._fit(bounds.binary(kind, a.facts, b.facts), a.dtype)
            if facts.is_constant:
                return self.constant(facts.const, a.dtype)
            for operand in (a, b):
                if operand.facts is not None and facts.same(operand.facts):
                    return operand
        left, right = self.extents.align([a.payload, b.payload])
        return self.tile(self.build().binary(kind, left, right), facts)

    def compare(self, predicate: str, a: Tile, b: Tile) -> Tile:
        left, right = self.extents.align([a.payload, b.payload])
        return self.tile(self.build().compare(predicate, left, right))

    def select(self, condition: Tile, a: Tile, b: Tile) -> Tile:
        values = self.extents.align([condition.payload, a.payload, b.payload])
        return self.tile(self.build().select(*values))

    def cast(self, x: Tile, dtype: ir.DType, rounding: str) -> Tile:
        if x.facts is not None and x.facts.is_constant and dtype.is_float:
            return self.constant(float(x.facts.const), dtype)
        facts = self._fit(x.facts, dtype) if x.facts is not None and dtype.kind in "xi" else None
        if facts is not None and facts.is_constant:
            return self.constant(facts.const, dtype)
        return self.tile(self.build().cast(x.payload, dtype, rounding), facts)

    def full(self, shape: tuple[int, ...], value: Tile) -> Tile:
        return self.tile(self.build().full(shape, value.payload))

    def arange(self, start: Tile, size: int) -> Tile:
        return self.tile(self.build().arange(start.payload, size))

    def reshape(self, x: Tile, shape: tuple[int, ...]) -> Tile:
        return self.tile(self.build().reshape(x.payload, shape))

    def broadcast(self, x: Tile, shape: tuple[int, ...]) -> Tile:
        return self.tile(self.build().broadcast(x.payload, shape))

    def reduce(self, kind: str, x: Tile, axis: int, keepdims: bool) -> Tile:
        return self.tile(self.build().reduce(kind, x.payload, axis, keepdims))

    def dot(self, a: Tile, b: Tile, accumulator: Tile | None, transpose_a: bool, transpose_b: bool) -> Tile:
        held = None if accumulator is None else accumulator.payload
        product = self.build().dot(a.payload, b.payload, held, transpose_a, transpose_b)
        if held is not None:
            common = tuple(map(self.extents.join, product.extents, held.extents, product.shape))
            if common != product.extents:
                product = self.builder.narrow(product, common)
        return self.tile(product)

    @staticmethod
    def _fit(facts: Affine, dtype: ir.DType) -> Affine:
        """``facts``, unless an int32 may have wrapped; an index that must have is refused."""
        low, high = facts.low, facts.high
        if dtype == ir.index:
            if (low is not None and low < -(2**63)) or (high is not None and high >= 2**63):
                fail("NPK-LA09", f"an index of {low} to {high} does not fit into 64 bits: cast it to nl.float32 first")
            return facts
        fits = low is not None and high is not None and low >= -(2**31) and high < 2**31
        return facts if fits else _any_int32()

    # Tensors

    def output(self, shape: Sequence[int], dtype: ir.DType) -> Tensor:
        if self.scope is not self.root:
            fail("NPK-LA08", f"an output is made inside {self.scope.title}: make it at the top of the kernel")
        value = ir.Value(ir.TensorType(tuple(shape), dtype), f"out{len(self.outputs)}")
        tensor = Tensor(value.name, shape, dtype, value, is_output=True)
        self.outputs.append(tensor)
        return tensor

    def load(self, source: TensorSlice) -> Tile:
        starts, extents = self._bounded(source)
        value = self.build().load(source.tensor.payload, starts, source.sizes, extents)
        return self.tile(value)

    def store(self, target: TensorSlice, value: Tile) -> None:
        starts, extents = self._bounded(target)
        common = tuple(map(self.extents.join, extents, value.payload.extents, target.shape))
        self.build().store(target.tensor.payload, value.payload, starts, target.sizes, common)
        self.stored.add(target.tensor.payload)

    def _bounded(self, place: TensorSlice) -> tuple[tuple[ir.Value, ...], tuple[Extent, ...]]:
        """The starts of a slice and how much of it lies inside; NPK-LA06 when that cannot be known."""
        starts: list[ir.Value] = []
        extents: list[Extent] = []
        for axis, (start, size) in enumerate(zip(place.starts, place.sizes, strict=True)):
            if isinstance(start, Tile):
                self.admit(start)
            position = self.as_index(start)
            starts.append(position.payload)
            extent = self._inside(place.tensor, axis, position, 1 if size is None else size)
            if size is not None:
                extents.append(extent)
        return tuple(starts), tuple(extents)

    def _inside(self, tensor: Tensor, axis: int, start: Tile, size: int) -> Extent:
        dim, facts = int(tensor.shape[axis]), start.facts
        assert facts is not None
        low, high = facts.low, facts.high
        if low is not None and high is not None and (high < low or (low >= 0 and high + size <= dim)):
            return size
        atom = facts.atom
        if start.step == size and atom is not None and low is not None and low >= 0 and high is not None and high < dim:
            return self.extents.ragged(start.payload, atom, size, dim)
        known = f"{'-inf' if low is None else low} to {'inf' if high is None else high}"
        span = f"from {low}" if low == high else f"that starts anywhere from {known}"
        part = f"index {low}" if size == 1 and low == high else f"a slice of {size} {span}"
        way = "slice by the step of the loop itself (r:r + step), or bound the start with nl.clip or nl.minimum"
        if start.step is not None and low is not None and low >= 0:
            way = f"a loop that walks this axis ends at {dim} or before, and slices it by its own step ({start.step})"
        fail("NPK-LA06", f"axis {axis} of {tensor.name} has {dim} elements, and {part} may reach outside: {way}")

    def as_index(self, position: Tile | int) -> Tile:
        if isinstance(position, int):
            return self.constant(position, ir.index)
        return position if position.dtype == ir.index else self.cast(position, ir.index, "rint")

    # Control and questions

    def loop(self, kind: LoopKind, start: Tile | int, stop: Tile | int, step: int, pipelined: bool) -> TracedRange:
        if kind == "parallel" and self.scope.kind not in ("kernel", "parallel"):
            fail(
                "NPK-LA01",
                f"nl.parallel stands inside {self.scope.title}: work is shared out at the top of the kernel, "
                "or directly inside another nl.parallel; use nl.range here",
            )
        return TracedRange(self, kind, self.as_index(start), self.as_index(stop), step, pipelined, here())

    def distance(self, start: Tile, stop: Tile) -> int | None:
        if start.facts is None or stop.facts is None:
            return None
        gap = stop.facts.plus(start.facts, -1)
        return gap.const if gap.is_constant else None

    def excludes_zero(self, divisor: Tile) -> bool:
        facts = divisor.facts
        return facts is not None and ((facts.low or 0) > 0 or (facts.high or 0) < 0)

    def number(self, tile: Tile, use: Use) -> bool | int | float:
        name = f"`{tile.payload.name}`" if tile.payload in self.named else "a traced value"
        if use == "truth" and text_of_line(here()).startswith("while "):
            fail("NPK-LA01", f"while over {name}, which is not known while tracing: count with nl.range instead")
        if use == "truth":
            fail(
                "NPK-LA03",
                f"{name} is not known while tracing, so Python cannot branch on it: `if` works in kernels and in "
                "helpers with @nl.function; write & | ~ for and, or, not; nl.minimum and nl.maximum for min and max; "
                "nl.range for while",
            )
        way = "use nl.range to count to it" if use == "index" else "keep it traced, or cast with nl.cast"
        fail("NPK-LA03", f"{name} is not known while tracing, and Python needs a number here: {way}")

    def describe(self, tile: Tile) -> str:
        shape = f"{list(tile.shape)} " if tile.shape else ""
        return f"<traced {tile.dtype} {shape}{'tile' if tile.shape else 'scalar'} {tile.payload.name}>"

    def name(self, tile: Tile, name: str) -> None:
        """Gives a value the name it is first assigned to."""
        value = tile.payload
        constant = any(tile is c for c in self._constants.values())
        if value not in self.named and not constant and self.homes.get(value) is self.scope:
            value.name = ascii_name(name)
            self.named.add(value)
