"""Which axes of a kernel's arrays may be split over devices, read off its body.

An axis may be split when each device, running the kernel on its part alone, computes its part of the results. That is
so when every access along the axis, in every tensor that has it, is the tile of a loop over it; when every output that
depends on the loop has the axis; and when nothing computed depends on where in the axis a tile lies or how long the
axis is. Addresses, the loop's own bounds and the extents of ragged tiles may.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

from .ops import Binary, Block, Constant, Dot, For, If, Kernel, Load, Narrow, Op, Reduce, Reshape, Store, Value, walk
from .types import ScalarType, index

#: A tensor, counted through inputs and outputs, and one of its axes.
Place = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Factor:
    """Axes that are split together, in parts of equal size.

    Attributes:
        places: the axes, each with the number of its elements that stay together (1, or the size of a group of heads).
        size: number of parts at most.
        refusal: why it may not be split; None when it may.
    """

    places: Mapping[Place, int]
    size: int
    refusal: str | None = None


def factors(kernel: Kernel) -> tuple[Factor, ...]:
    """Every axis of every tensor of a verified kernel, in exactly one factor."""
    analysis = _Analysis(kernel)
    analysis.run()
    return analysis.factors()


def difference(kernel: Kernel, other: Kernel, changed: Iterable[Factor]) -> str | None:
    """How the body of ``other``, traced with other lengths of some factors, computes something else; None if it
    does not.

    Bounds of the loops over these factors and extents of their tiles differ by right.
    """
    analysis = _Analysis(kernel)
    analysis.run()
    free = {loop for factor in changed for loop in analysis.loops_of(factor)}
    comparison = _Comparison(kernel, other, analysis, free)
    return comparison.block(kernel.body, other.body)


#: How a value depends on the position of a loop: along one of its axes, or as a whole.
_WHOLE = -1
_Deps = dict[For, int]


class _Analysis:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.tensors = [*kernel.inputs, *kernel.outputs]
        self.number = {v: i for i, v in enumerate(self.tensors)}
        self.definitions = {v: op for op in walk(kernel.body) for v in op.defines}
        self.loops = {op.body.args[0]: op for op in walk(kernel.body) if isinstance(op, For)}
        #: Loops over each axis, with the group size.
        self.over: dict[Place, dict[For, int]] = {}
        self.refused: dict[Place | For, str] = {}
        #: What a value's data depends on, and what loop variables an index is made of.
        self.deps: dict[Value, _Deps] = {}
        self.positions: dict[Value, frozenset[For]] = {}

    def run(self) -> None:
        for loop in self.loops.values():
            self.positions[loop.body.args[0]] = frozenset((loop,))
            if loop.inits:
                self.refuse(loop, f"the loop at {loop.location} carries values from one tile to the next")
        self.block(self.kernel.body, {}, ())

    def refuse(self, what: Place | For, why: str) -> None:
        self.refused.setdefault(what, why)

    # the walk

    def block(self, block: Block, control: _Deps, inside: tuple[For, ...]) -> None:
        for op in block.ops:
            self.op(op, control, inside)

    def op(self, op: Op, control: _Deps, inside: tuple[For, ...]) -> None:
        match op:
            case Load():
                own = self.access(op)
                found: _Deps = {}
                for start in op.starts:
                    found = self.joined(op, found, _whole(self.of(start)))
                self.define(op, op.result, self.joined(op, found, own))
            case Store():
                self.store(op, control, inside)
            case For():
                self.loop(op, control, inside)
            case If():
                chosen = self.joined(op, control, _whole(self.of(op.condition)))
                self.computes(op, op.condition)
                for block in op.blocks:
                    self.block(block, chosen, inside)
                for result, *sides in zip(op.results, op.then.yields, op.orelse.yields, strict=True):
                    self.merge(op, result, sides, chosen)
            case Reshape():
                self.define(op, op.result, self.reshaped(op))
            case Reduce():
                self.define(op, op.result, self.reduced(op))
            case Dot():
                self.define(op, op.result, self.product(op))
            case _:
                self.elementwise(op)

    def elementwise(self, op: Op) -> None:
        (result,) = op.defines
        found: _Deps = {}
        operands = _operands(op)
        for operand in operands:
            moved = len(result.shape) - len(operand.shape)
            shifted = {loop: axis if axis == _WHOLE else axis + moved for loop, axis in self.of(operand).items()}
            found = self.joined(op, found, shifted)
        if result.type == ScalarType(index):
            self.positions[result] = frozenset().union(*(self.positions.get(v, frozenset()) for v in operands))
        else:
            for operand in operands:
                self.computes(op, operand)
        self.define(op, result, found)

    def computes(self, op: Op, operand: Value) -> None:
        """An index that is used as a number."""
        for loop in self.positions.get(operand, ()):
            self.refuse(loop, f"its position is used in a computation at {op.location}")

    def loop(self, op: For, control: _Deps, inside: tuple[For, ...]) -> None:
        for bound in (op.start, op.stop):
            for other in self.positions.get(bound, ()):
                self.refuse(other, f"its position bounds another loop at {op.location}")
        chosen = control
        for bound in (op.start, op.stop):
            chosen = self.joined(op, chosen, _whole(self.of(bound)))
        args = op.body.args[1:]
        for arg, init in zip(args, op.inits, strict=True):
            self.merge(op, arg, [init], {})
        while True:
            before = {arg: dict(self.of(arg)) for arg in args}
            self.block(op.body, chosen, (*inside, op))
            for arg, init, value in zip(args, op.inits, op.body.yields, strict=True):
                self.merge(op, arg, [init, value], {})
            if before == {arg: self.of(arg) for arg in args}:
                break
        for result, init, value in zip(op.results, op.inits, op.body.yields, strict=True):
            self.merge(op, result, [init, value], chosen)

    def merge(self, op: Op, result: Value, sources: Sequence[Value], control: _Deps) -> None:
        found = dict(control)
        for source in sources:
            found = self.joined(op, found, self.of(source))
            # An index that is chosen or carried is not followed further.
            self.computes(op, source)
        self.define(op, result, found)

    def reshaped(self, op: Reshape) -> _Deps:
        there = [axis for axis, size in enumerate(op.result.shape) if size != 1]
        kept = dict(zip((a for a, size in enumerate(op.operand.shape) if size != 1), there, strict=True))
        return {loop: kept.get(axis, _WHOLE) for loop, axis in self.of(op.operand).items()}

    def reduced(self, op: Reduce) -> _Deps:
        found: _Deps = {}
        for loop, axis in self.of(op.operand).items():
            if axis == op.axis:
                self.refuse(loop, f"it is reduced at {op.location}")
                axis = _WHOLE
            found[loop] = axis - 1 if axis > op.axis and not op.keepdims else axis
        return found

    def product(self, op: Dot) -> _Deps:
        found: _Deps = {}
        for operand, transposed, kept in ((op.a, op.transpose_a, 0), (op.b, not op.transpose_b, 1)):
            free = 1 if transposed else 0
            side: _Deps = {}
            for loop, axis in self.of(operand).items():
                if axis not in (free, _WHOLE):
                    self.refuse(loop, f"it is summed over at {op.location}")
                side[loop] = kept if axis == free else _WHOLE
            found = self.joined(op, found, side)
        return found if op.accumulator is None else self.joined(op, found, self.of(op.accumulator))

    def store(self, op: Store, control: _Deps, inside: tuple[For, ...]) -> None:
        own = self.access(op)
        found = dict(control)
        for value in (op.value, *op.starts):
            found = self.joined(op, found, self.of(value) if value is op.value else _whole(self.of(value)))
        self.computes(op, op.value)
        self.tied(op, op.extents, found)
        name = op.tensor.name
        for loop, axis in found.items():
            if loop not in own:
                self.refuse(loop, f"output `{name}` depends on it and does not have it")
            elif own[loop] != axis:
                self.refuse(loop, f"another axis of a tile holds it where `{name}` is stored at {op.location}")
        for loop in inside:
            if loop not in own:
                self.refuse(loop, f"output `{name}` is stored inside its loop and does not have it")

    # dependences

    def of(self, value: Value) -> _Deps:
        return self.deps.get(value, {})

    def define(self, op: Op, value: Value, found: _Deps) -> None:
        self.tied(op, value.extents, found)
        self.deps[value] = found

    def tied(self, op: Op, extents: Iterable[int | Value], found: _Deps) -> None:
        """A ragged axis belongs to the loop whose tail it is."""
        for axis, extent in enumerate(extents):
            for loop in self.positions.get(extent, ()) if isinstance(extent, Value) else ():
                if found.setdefault(loop, axis) != axis:
                    self.refuse(loop, f"its position limits another axis at {op.location}")

    def joined(self, op: Op, one: _Deps, other: _Deps) -> _Deps:
        found = dict(one)
        for loop, axis in other.items():
            if found.setdefault(loop, axis) != axis:
                self.refuse(loop, f"different positions of it meet at {op.location}")
                found[loop] = _WHOLE
        return found

    # accesses

    def access(self, op: Load | Store) -> _Deps:
        """The loops whose tile the slice is, each with the tile's axis."""
        found: _Deps = {}
        kept = 0
        for axis, (start, size) in enumerate(zip(op.starts, op.sizes, strict=True)):
            place = (self.number[op.tensor], axis)
            loop, group = self.tile_of(start, size)
            if loop is None or (group > 1 and isinstance(op, Store)):
                self.refuse(place, self.why(op, axis, start, size))
                for other in self.positions.get(start, ()):
                    self.refuse(
                        other, f"its position reaches `{op.tensor.name}` other than as its tile at {op.location}"
                    )
            else:
                self.over.setdefault(place, {})[loop] = group
                found[loop] = _WHOLE if loop.step == 1 else kept
            kept += size is not None
        return found

    def tile_of(self, start: Value, size: int | None) -> tuple[For | None, int]:
        """The loop whose tile starts there, and how many of its rounds share it."""
        start, group = self.grouped(start)
        loop = self.loops.get(start)
        if loop is None:
            return None, 1
        fits = (size or 1) == loop.step and (group == 1 or loop.step == 1)
        return (loop, group) if fits and (size is not None or loop.step == 1) else (None, 1)

    def grouped(self, position: Value) -> tuple[Value, int]:
        """``v, g`` for ``v // g``, else the position itself and 1."""
        source = self.definitions.get(position)
        if isinstance(source, Binary) and source.kind == "floordiv":
            divisor = self.constant(source.rhs)
            if divisor is not None and divisor > 0:
                return source.lhs, divisor
        return position, 1

    def constant(self, value: Value) -> int | None:
        source = self.definitions.get(value)
        return int(source.value) if isinstance(source, Constant) else None

    def why(self, op: Load | Store, axis: int, start: Value, size: int | None) -> str:
        verb = "read" if isinstance(op, Load) else "stored"
        what = f"axis {axis} of `{op.tensor.name}` is {verb}"
        if size == op.tensor.shape[axis] and self.constant(start) == 0:
            return f"{what} whole at {op.location}"
        return f"{what} at {op.location} other than tile by tile of a loop over it"

    # result

    def factors(self) -> tuple[Factor, ...]:
        places = [(t, axis) for t, tensor in enumerate(self.tensors) for axis in range(len(tensor.shape))]
        return tuple(self.factor(group) for group in self.classes(places))

    def classes(self, places: list[Place]) -> list[list[Place]]:
        """Axes that loops have in common."""
        classes: list[tuple[list[Place], set[For]]] = []
        for place in places:
            mine, loops = [place], set(self.over.get(place, ()))
            rest = []
            for other, theirs in classes:
                if loops & theirs:
                    mine, loops = other + mine, loops | theirs
                else:
                    rest.append((other, theirs))
            classes = [*rest, (mine, loops)]
        return sorted(sorted(places) for places, _ in classes)

    def factor(self, places: list[Place]) -> Factor:
        sizes = {place: self.tensors[place[0]].shape[place[1]] for place in places}
        size = min(sizes.values())
        loops = {loop for place in places for loop in self.over.get(place, ())}
        refusal = next((self.refused[what] for what in (*places, *loops) if what in self.refused), None)
        if not loops and refusal is None:
            refusal = f"nothing is read along axis {places[0][1]} of `{self.tensors[places[0][0]].name}`"
        if refusal is None:
            refusal = self.misfit(places, sizes, size)
        if refusal is not None:
            return Factor(dict.fromkeys(places, 1), size, refusal)
        return Factor({place: n // size if size else 1 for place, n in sizes.items()}, size)

    def misfit(self, places: list[Place], sizes: Mapping[Place, int], size: int) -> str | None:
        tensors = [t for t, _ in places]
        if len(set(tensors)) != len(tensors):
            twice = next(t for t in tensors if tensors.count(t) > 1)
            return f"two axes of `{self.tensors[twice].name}` lie along it"
        groups = {group for place in places for group in self.over[place].values()}
        wide = max(groups)
        if len(groups - {1}) > 1 or set(sizes.values()) - {size, size * wide}:
            return "its arrays group it in different ways"
        for place in places:
            for loop, group in self.over[place].items():
                if self.constant(loop.start) != 0 or self.constant(loop.stop) != sizes[place] * group:
                    return f"the loop at {loop.location} does not run over all of it"
        return None

    def loops_of(self, factor: Factor) -> set[For]:
        return {loop for place in factor.places for loop in self.over.get(place, ())}


def _whole(deps: _Deps) -> _Deps:
    return dict.fromkeys(deps, _WHOLE)


def _operands(op: Op) -> list[Value]:
    """Operands without the extents of the result."""
    return [v for f in fields(op) if f.name != "result" and isinstance(v := getattr(op, f.name), Value)]


class _Comparison:
    """Two traces of one function in step; ``free`` are the loops whose length may differ."""

    def __init__(self, kernel: Kernel, other: Kernel, analysis: _Analysis, free: set[For]) -> None:
        self.analysis = analysis
        self.free = free
        self.same = dict(zip((*kernel.inputs, *kernel.outputs), (*other.inputs, *other.outputs), strict=True))
        self.theirs = _Analysis(other)
        self.sources = [analysis.definitions, self.theirs.definitions]

    def block(self, one: Block, two: Block) -> str | None:
        self.same |= dict(zip(one.args, two.args, strict=True))
        left, right = (
            [op for op in block.ops if not isinstance(op, Narrow) and not _address(op)] for block in (one, two)
        )
        for a, b in zip(left, right, strict=False):
            if type(a) is not type(b) or not self.op(a, b):
                return f"the operation at {a.location} depends on its length"
            for inner, outer in zip(a.blocks, b.blocks, strict=True):
                found = self.block(inner, outer)
                if found is not None:
                    return found
            self.same |= dict(zip(a.defines, b.defines, strict=True))
        if len(left) != len(right):
            return f"the body at {(left or right)[0].location} is longer or shorter with its length"
        return None if self.equal(one.yields, two.yields) else "what a loop hands on depends on its length"

    def op(self, a: Op, b: Op) -> bool:
        free = isinstance(a, For) and a in self.free
        for f in fields(a):
            if f.name in ("location", "result", "results", "extents") or (free and f.name in ("start", "stop")):
                continue
            x, y = getattr(a, f.name), getattr(b, f.name)
            if not isinstance(x, Block) and not self.equal(x, y):
                return False
        if isinstance(a, Store) and isinstance(b, Store):
            held = self.analysis.of(a.value) | self.analysis.access(a)
            return self.extents(held, a.extents, b.extents)
        return len(a.defines) == len(b.defines) and all(
            x.type == y.type and self.extents(self.analysis.of(x), x.extents, y.extents)
            for x, y in zip(a.defines, b.defines, strict=True)
        )

    def extents(self, deps: _Deps, one: Sequence[int | Value], two: Sequence[int | Value]) -> bool:
        free = {axis for loop, axis in deps.items() if loop in self.free}
        return all(axis in free or self.equal(x, y) for axis, (x, y) in enumerate(zip(one, two, strict=True)))

    def equal(self, x: object, y: object) -> bool:
        if isinstance(x, Value) and isinstance(y, Value):
            x, y = self.seen(x, 0), self.seen(y, 1)
            if x in self.same:
                return self.same[x] is y
            return x.type == y.type == ScalarType(index) and self.address(x, y)
        if isinstance(x, tuple) and isinstance(y, tuple):
            return len(x) == len(y) and all(self.equal(a, b) for a, b in zip(x, y, strict=True))
        return type(x) is type(y) and repr(x) == repr(y)

    def seen(self, value: Value, side: int) -> Value:
        """Through narrowing, which comes and goes with ragged tails."""
        source = self.sources[side].get(value)
        return self.seen(source.operand, side) if isinstance(source, Narrow) else value

    def address(self, x: Value, y: Value) -> bool:
        if self.first(y, 1) and (self.first(x, 0) or self.only_round(x)):
            return True
        a, b = self.sources[0].get(x), self.sources[1].get(y)
        if a is None or b is None or type(a) is not type(b) or not _address(a):
            return False
        return all(
            self.equal(getattr(a, f.name), getattr(b, f.name))
            for f in fields(a)
            if f.name not in ("location", "result")
        )

    def first(self, position: Value, side: int) -> bool:
        """Whether a position is always 0: the tracer says so where it knows."""
        analysis = (self.analysis, self.theirs)[side]
        if analysis.constant(position) == 0:
            return True
        var, group = analysis.grouped(position)
        loop = analysis.loops.get(var)
        if loop is None or analysis.constant(loop.start) != 0:
            return False
        stop = analysis.constant(loop.stop)
        return stop is not None and stop <= max(group, loop.step)

    def only_round(self, position: Value) -> bool:
        """Whether a position along a free loop is always 0 in the other kernel."""
        var, group = self.analysis.grouped(position)
        if self.analysis.loops.get(var) not in self.free or var not in self.same:
            return False
        loop = self.theirs.loops[self.same[var]]
        stop = self.theirs.constant(loop.stop)
        return stop is not None and stop <= max(group, loop.step)


def _address(op: Op) -> bool:
    """Scalar work on positions, which is compared where it is used."""
    return len(op.defines) == 1 and op.defines[0].type == ScalarType(index) and not op.blocks
