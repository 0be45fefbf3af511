"""Traced loops and branches: passes over the author's body, carried names, and the join at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from .. import ir
from . import bounds
from .control import TracedRange, Unavailable, caller_locals
from .rewrite import Site
from .scope import Scope
from .source import fail
from .tile import Tile, constant
from .tracer import Tracer

_MISSING = object()
#: Passes over one loop body. Each pass turns a name into a carried one or narrows an extent, so few are needed.
_MAX_PASSES = 64


def _is_number(value: object) -> bool:
    return isinstance(value, bool | int | float)


def _same(a: object, b: object) -> bool:
    """Whether a name kept its Python value: the same object, or an equal number of one type (NaN included)."""
    if a is b:
        return True
    return type(a) is type(b) and isinstance(a, bool | int | float) and repr(a) == repr(b)


def _kind(value: object) -> str:
    if isinstance(value, Tile):
        return f"{value.dtype} {list(value.shape)}" if value.shape else f"a {value.dtype} scalar"
    return f"the number {value!r}" if _is_number(value) else f"a {type(value).__name__}"


class _Carry:
    """One name that a loop carries: its value before, inside at the start of a pass, and at the end of it."""

    def __init__(self, init: Tile) -> None:
        self.init = init
        self.extents = init.payload.extents
        self.argument: ir.Value = init.payload
        self.last: ir.Value = init.payload


class TracedLoop:
    """A ``for`` over ``nl.range`` or ``nl.parallel``. Iterating over it runs the author's body once per pass.

    The first pass carries what holds a traced value before the loop. A Python number that the body changes becomes a
    carried scalar, and a tile whose extents shrink is narrowed before the loop; either makes another pass.
    """

    traced = True

    def __init__(self, items: TracedRange, site: Site) -> None:
        self.items = items
        self.site = site
        self.tracer = items.tracer
        self.outer = items.tracer.scope
        self.block = items.tracer.builder.block
        self.scope = self.outer
        self.before: dict[str, Any] = {}
        self.carries: dict[str, _Carry] = {}
        self.after: dict[str, Any] = {}
        self.variable: ir.Value | None = None
        self.repeat = False

    def __iter__(self) -> Iterator[Tile]:
        start, stop = self.items.start.facts, self.items.stop.facts
        assert start is not None and stop is not None
        if bounds.below_or_equal(stop, start):
            return
        for _ in range(_MAX_PASSES):
            yield self._begin()
            if not self.repeat:
                return
        fail("NPK-LA07", "what this loop carries does not settle: it changes in every pass", self.site.span)

    def _begin(self) -> Tile:
        items, tracer = self.items, self.tracer
        assert items.start.facts is not None and items.stop.facts is not None
        self.scope = Scope(self.outer, items.kind, ir.Block(), self.site.span)
        tracer.scope, tracer.builder.block = self.scope, self.scope.block
        atom = bounds.loop_variable(items.start.facts, items.stop.facts, items.step)
        self.variable = ir.Value(ir.ScalarType(ir.index))
        tile = tracer.tile(self.variable, bounds.Affine(0, {atom: 1}), items.step)
        tracer.name(tile, self.site.target or "i")
        return tile

    def enter(self) -> tuple[Any, ...]:
        """The values of the body's names at the start of an iteration."""
        if not self.before:
            found = caller_locals()
            self.before = {name: found.get(name, _MISSING) for name in self.site.names}
            if self.items.kind == "range":
                self.carries = {n: _Carry(v) for n, v in self.before.items() if isinstance(v, Tile)}
        return tuple(self._entry(name) for name in self.site.names)

    def _entry(self, name: str) -> Any:
        if name in self.carries:
            carry = self.carries[name]
            carry.argument = ir.Value(carry.init.payload.type, "", carry.extents)
            tile = self.tracer.tile(carry.argument)
            self.tracer.name(tile, name)
            return tile
        value = self.before[name]
        loop = f"the nl.{self.items.kind} loop at line {self.site.span.line}"
        if value is _MISSING or isinstance(value, Unavailable):
            return Unavailable(
                "NPK-LA02", f"`{name}` has no value in the first iteration of {loop}: assign it before the loop"
            )
        if isinstance(value, Tile):
            return Unavailable(
                "NPK-LA02",
                f"`{name}` is assigned in {loop}, so it has no value from before: "
                "iterations are independent there; use another name, or nl.range to carry it",
            )
        return value

    def leave(self) -> None:
        """The end of a pass: compares what the names hold with what they held at its start."""
        ends = caller_locals()
        self.repeat = False
        for name in self.site.names:
            if name in self.carries:
                self._settle(name, self.carries[name], ends.get(name, _MISSING))
            else:
                self._keep(name, self.before[name], ends.get(name, _MISSING))
        self.tracer.scope, self.tracer.builder.block = self.outer, self.block
        if not self.repeat:
            self._close()

    def _keep(self, name: str, old: Any, new: Any) -> None:
        """A name that held no tile before the loop."""
        if old is _MISSING or isinstance(old, Unavailable | Tile) or _same(old, new):
            return
        scalar = _is_number(new) or (isinstance(new, Tile) and not new.shape)
        if not (_is_number(old) and scalar):
            way = f"start it as nl.full({list(new.shape)}, ...)" if isinstance(new, Tile) else "use another name"
            self._mismatch(name, old, new, way)
        if self.items.kind == "parallel":
            self._mismatch(name, old, new, "iterations of nl.parallel are independent; use nl.range to carry it")
        dtype = _common_dtype(old, new)
        if dtype is None:
            self._mismatch(name, old, new, "use one dtype before and inside the loop")
        self.carries[name] = _Carry(constant(old, dtype))
        self.repeat = True

    def _settle(self, name: str, carry: _Carry, new: Any) -> None:
        tracer, argument = self.tracer, carry.argument
        if _is_number(new) and argument.is_scalar:
            new = constant(new, argument.dtype)
        if isinstance(new, Tile) and not new.shape and {new.dtype, argument.dtype} == {ir.index, ir.int32}:
            new = tracer.cast(new, argument.dtype, "rint")
        if not isinstance(new, Tile) or (new.shape, new.dtype) != (argument.shape, argument.dtype):
            if argument in _read(self.scope.block):
                if isinstance(new, Unavailable):
                    new.refuse()
                self._mismatch(name, carry.init, new, "keep one shape and dtype, or use another name")
            # The body never reads the old value, so the name is a local one that happens to be taken.
            del self.carries[name]
            self.before[name] = Unavailable(
                "NPK-LA07",
                f"`{name}` was {_kind(carry.init)} before the loop at line "
                f"{self.site.span.line} and becomes {_kind(new)} inside: use another name",
            )
            return
        tracer.admit(new)
        extents = tuple(map(tracer.extents.join, argument.extents, new.payload.extents, argument.shape))
        if extents != argument.extents:
            if not all(isinstance(e, int) or tracer.homes[e].encloses(self.outer) for e in extents):
                fail(
                    "NPK-LA07",
                    f"`{name}` is carried, and inside the loop it takes the extent of a tile whose end may be ragged "
                    "there: reduce that axis before combining, or let the tile's length divide the tensor's axis",
                    self.site.assigned[name],
                )
            carry.extents = extents
            self.repeat = True
        carry.last = new.payload

    def _mismatch(self, name: str, old: Any, new: Any, way: str) -> NoReturn:
        fail(
            "NPK-LA07",
            f"`{name}` is {_kind(old)} before the loop at line {self.site.span.line} and {_kind(new)} at the end of "
            f"its body: {way}",
            self.site.assigned[name],
        )

    def _close(self) -> None:
        tracer, items, block = self.tracer, self.items, self.scope.block
        assert self.variable is not None
        builder = tracer.builder
        builder.location = self.site.span.location
        with builder.into(block):
            for carry in self.carries.values():
                if carry.last.extents != carry.extents:
                    carry.last = builder.narrow(carry.last, carry.extents)
        block.args = [self.variable, *(c.argument for c in self.carries.values())]
        block.yields = tuple(c.last for c in self.carries.values())
        inits = tuple(
            c.init.payload if c.init.payload.extents == c.extents else builder.narrow(c.init.payload, c.extents)
            for c in self.carries.values()
        )
        results = tuple(ir.Value(c.argument.type, name, c.extents) for name, c in self.carries.items())
        start, stop = items.start.payload, items.stop.payload
        builder.for_(items.kind, start, stop, items.step, inits, block, results, pipelined=items.pipelined)
        for name, result in zip(self.carries, results, strict=True):
            self.after[name] = tracer.tile(result)
            tracer.named.add(result)

    def results(self) -> tuple[Any, ...]:
        """The values of the body's names, and of the loop variable, after the loop."""
        if self.variable is None:
            found = caller_locals()
            self.before = {name: found.get(name, _MISSING) for name in self.site.names}
            self.after = dict(self.before)
        names = (*self.site.names, *((self.site.target,) if self.site.target is not None else ()))
        return tuple(self._exit(name) for name in names)

    def _exit(self, name: str) -> Any:
        value = self.after.get(name, self.before.get(name, _MISSING))
        if value is _MISSING or (isinstance(value, Tile) and name not in self.after):
            return Unavailable(
                "NPK-LA02",
                f"`{name}` is assigned inside the nl.{self.items.kind} loop at line {self.site.span.line} and has no "
                "value after it: assign it before an nl.range loop, so that it is carried out, or use it inside",
            )
        return value


class Branch:
    """An ``if`` over a traced bool. Iterating over it runs the author's code once per side."""

    traced = True

    def __init__(self, condition: Tile, site: Site) -> None:
        assert isinstance(condition.machine, Tracer)
        self.condition = condition
        self.site = site
        self.tracer = condition.machine
        self.outer = self.tracer.scope
        self.block = self.tracer.builder.block
        self.scopes = [Scope(self.outer, "branch", ir.Block(), site.span) for _ in range(2)]
        self.before: dict[str, Any] = {}
        self.ends: list[dict[str, Any]] = []

    def __iter__(self) -> Iterator[bool]:
        for scope, side in zip(self.scopes, (True, False), strict=True):
            self.tracer.scope, self.tracer.builder.block = scope, scope.block
            yield side

    def enter(self) -> tuple[Any, ...]:
        if not self.before:
            found = caller_locals()
            self.before = {name: found.get(name, self._missing(name)) for name in self.site.names}
        return tuple(self.before[name] for name in self.site.names)

    def _missing(self, name: str) -> Unavailable:
        return Unavailable(
            "NPK-LA02",
            f"`{name}` has no value on one side of the if at line {self.site.span.line}: assign it on both sides, "
            "or before the if",
        )

    def leave(self) -> None:
        self.collect(caller_locals())

    def collect(self, ends: dict[str, Any]) -> None:
        """The end of a side, with the values its names hold."""
        self.ends.append(dict(ends))
        self.tracer.scope, self.tracer.builder.block = self.outer, self.block

    def results(self) -> tuple[Any, ...]:
        return self.merge(self.site.names)

    def merge(self, names: tuple[str, ...]) -> tuple[Any, ...]:
        """Emits the IR's ``if``, and returns what each name holds after it."""
        merged: dict[str, Any] = {}
        joined: list[tuple[str, Tile, Tile]] = []
        for name in names:
            one, other = (end.get(name, self._missing(name)) for end in self.ends)
            if _same(one, other):
                merged[name] = one
            elif isinstance(one, Unavailable) or isinstance(other, Unavailable):
                merged[name] = self._missing(name)
            elif (pair := self._pair(name, one, other)) is not None:
                joined.append((name, *pair))
        builder = self.tracer.builder
        builder.location = self.site.span.location
        yields: list[tuple[ir.Value, ...]] = [(), ()]
        results: list[ir.Value] = []
        for name, one, other in joined:
            extents = self._extents(name, one.payload, other.payload)
            for side, tile in enumerate((one, other)):
                value = tile.payload
                if value.extents != extents:
                    with builder.into(self.scopes[side].block):
                        value = builder.narrow(value, extents)
                yields[side] += (value,)
            results.append(ir.Value(one.payload.type, name, extents))
            facts = bounds.union(one.facts, other.facts) if one.facts and other.facts else None
            merged[name] = self.tracer.tile(results[-1], facts)
            self.tracer.named.add(results[-1])
        for scope, values in zip(self.scopes, yields, strict=True):
            scope.block.yields = values
        builder.if_(self.condition.payload, self.scopes[0].block, self.scopes[1].block, tuple(results))
        return tuple(merged[name] for name in names)

    def _pair(self, name: str, one: Any, other: Any) -> tuple[Tile, Tile]:
        dtype = _common_dtype(one, other)
        shapes = {v.shape for v in (one, other) if isinstance(v, Tile)}
        both = isinstance(one, Tile) and isinstance(other, Tile)
        if dtype is None or len(shapes) > 1 or (not both and shapes - {()}):
            what = f"`{name}` is" if name.isidentifier() else "the value is"
            fail(
                "NPK-LA07",
                f"{what} {_kind(one)} on one side of the if at line {self.site.span.line} and {_kind(other)} on the "
                "other: give it one shape and dtype",
                self.site.assigned.get(name, self.site.span),
            )
        pair: list[Tile] = []
        for scope, value in zip(self.scopes, (one, other), strict=True):
            with self.tracer.inside(scope):
                if not isinstance(value, Tile):
                    value = constant(value, dtype)
                self.tracer.admit(value)
                pair.append(value if value.dtype == dtype else self.tracer.cast(value, dtype, "rint"))
        return pair[0], pair[1]

    def _extents(self, name: str, one: ir.Value, other: ir.Value) -> tuple[int | ir.Value, ...]:
        extents = tuple(map(self.tracer.extents.join, one.extents, other.extents, one.shape))
        if not all(isinstance(e, int) or self.tracer.homes[e].encloses(self.outer) for e in extents):
            fail(
                "NPK-LA07",
                f"`{name}` has an extent that is made on one side of the if only",
                self.site.assigned.get(name, self.site.span),
            )
        return extents


def _common_dtype(one: Any, other: Any) -> ir.DType | None:
    """The dtype of a name that holds either, ``None`` when there is none."""
    if not all(isinstance(v, Tile) or _is_number(v) for v in (one, other)):
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


def _read(block: ir.Block) -> set[ir.Value]:
    """Every value that an operation of the block, or a block inside it, reads."""
    found: set[ir.Value] = set()
    for op in ir.walk(block):
        found.update(op.operands)
        for inner in op.blocks:
            found.update(inner.yields)
    return found
