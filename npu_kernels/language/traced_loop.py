"""Traced loops: passes over the author's body, carried names, and their values after it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NoReturn

from .. import ir
from . import bounds
from .control import Body, TracedRange
from .names import MISSING, common_dtype, describe, is_number, same
from .rewrite import Site
from .scope import Scope
from .source import fail
from .tile import Tile, constant
from .unavailable import Unavailable

#: Passes over one loop body. Each pass turns a name into a carried one or narrows an extent, so few are needed.
_MAX_PASSES = 64


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
        self.body = Body(site, f"the nl.{items.kind} loop")

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
        found = self.body.enter()
        if not self.before:
            self.before = {name: found.get(name, MISSING) for name in self.site.names}
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
        if value is MISSING or isinstance(value, Unavailable):
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
        ends = self.body.leave()
        self.repeat = False
        for name in self.site.names:
            if name in self.carries:
                self._settle(name, self.carries[name], ends.get(name, MISSING))
            else:
                self._keep(name, self.before[name], ends.get(name, MISSING))
        self.tracer.scope, self.tracer.builder.block = self.outer, self.block
        if not self.repeat:
            self._close()

    def _keep(self, name: str, old: Any, new: Any) -> None:
        """A name that held no tile before the loop."""
        if old is MISSING or isinstance(old, Unavailable | Tile) or same(old, new):
            return
        scalar = is_number(new) or (isinstance(new, Tile) and not new.shape)
        if not (is_number(old) and scalar):
            way = f"start it as nl.full({list(new.shape)}, ...)" if isinstance(new, Tile) else "use another name"
            self._mismatch(name, old, new, way)
        if self.items.kind == "parallel":
            self._mismatch(name, old, new, "iterations of nl.parallel are independent; use nl.range to carry it")
        dtype = common_dtype(old, new)
        if dtype is None:
            self._mismatch(name, old, new, "use one dtype before and inside the loop")
        self.carries[name] = _Carry(constant(old, dtype))
        self.repeat = True

    def _settle(self, name: str, carry: _Carry, new: Any) -> None:
        tracer, argument = self.tracer, carry.argument
        if is_number(new) and argument.is_scalar:
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
                f"`{name}` was {describe(carry.init)} before the loop at line "
                f"{self.site.span.line} and becomes {describe(new)} inside: use another name",
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
            f"`{name}` is {describe(old)} before the loop at line {self.site.span.line} and {describe(new)} at the end "
            f"of its body: {way}",
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
            found = sys._getframe(1).f_locals
            self.before = {name: found.get(name, MISSING) for name in self.site.names}
            self.after = dict(self.before)
        names = (*self.site.names, *((self.site.target,) if self.site.target is not None else ()))
        return tuple(self._exit(name) for name in names)

    def _exit(self, name: str) -> Any:
        value = self.after.get(name, self.before.get(name, MISSING))
        if value is MISSING or (isinstance(value, Tile) and name not in self.after):
            return Unavailable(
                "NPK-LA02",
                f"`{name}` is assigned inside the nl.{self.items.kind} loop at line {self.site.span.line} and has no "
                "value after it: assign it before an nl.range loop, so that it is carried out, or use it inside",
            )
        return value


def _read(block: ir.Block) -> set[ir.Value]:
    """Every value that an operation of the block, or a block inside it, reads."""
    found: set[ir.Value] = set()
    for op in ir.walk(block):
        found.update(op.operands)
        for inner in op.blocks:
            found.update(inner.yields)
    return found
