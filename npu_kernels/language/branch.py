"""Traced branches: one pass over each side, and what each name holds after them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import ir
from . import bounds
from .control import Body
from .names import common_dtype, describe, same
from .rewrite import Site
from .scope import Scope
from .source import fail
from .tile import Tile, constant
from .tracer import Tracer
from .unavailable import Unavailable


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
        self.body = Body(site, "the if over a traced value")

    def __iter__(self) -> Iterator[bool]:
        for scope, side in zip(self.scopes, (True, False), strict=True):
            self.tracer.scope, self.tracer.builder.block = scope, scope.block
            yield side

    def enter(self) -> tuple[Any, ...]:
        found = self.body.enter()
        if not self.before:
            self.before = {name: found.get(name, self._missing(name)) for name in self.site.names}
        return tuple(self.before[name] for name in self.site.names)

    def _missing(self, name: str) -> Unavailable:
        return Unavailable(
            "NPK-LA02",
            f"`{name}` has no value on one side of the if at line {self.site.span.line}: assign it on both sides, "
            "or before the if",
        )

    def leave(self) -> None:
        self.collect(self.body.leave())

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
            if same(one, other):
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
        dtype = common_dtype(one, other)
        shapes = {v.shape for v in (one, other) if isinstance(v, Tile)}
        both = isinstance(one, Tile) and isinstance(other, Tile)
        if dtype is None or len(shapes) > 1 or (not both and shapes - {()}):
            what = f"`{name}` is" if name.isidentifier() else "the value is"
            fail(
                "NPK-LA07",
                f"{what} {describe(one)} on one side of the if at line {self.site.span.line} and {describe(other)} "
                "on the other: give it one shape and dtype",
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
