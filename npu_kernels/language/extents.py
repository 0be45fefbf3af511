"""Valid extents while tracing: one value for one meaning, placed at the head of the loop that it depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import ir
from .bounds import Affine, Atom, below_or_equal

if TYPE_CHECKING:
    from .tracer import Tracer

Extent = int | ir.Value


class Extents:
    """Makes extents and joins them. Equal extents are the same object, so that loops reach a fixed point."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.ragged_by: dict[tuple[Atom, int, int], Extent] = {}
        self.parts: dict[ir.Value, frozenset[Extent]] = {}
        self.joined: dict[frozenset[Extent], ir.Value] = {}

    def ragged(self, variable: ir.Value, atom: Atom, size: int, dim: int) -> Extent:
        """``minimum(size, dim - variable)``: how much of ``variable:variable + size`` lies inside ``dim``."""
        key = (atom, size, dim)
        if key not in self.ragged_by:
            left = Affine(dim).plus(Affine(0, {atom: 1}), -1)
            if below_or_equal(Affine(size), left):
                self.ragged_by[key] = size
            elif left.low is not None and left.low == left.high:
                self.ragged_by[key] = left.low
            else:
                tracer = self.tracer
                scope = tracer.homes[variable]
                bounds = [tracer.constant(n, ir.index).payload for n in (size, dim)]
                with tracer.hoisting(scope) as builder:
                    rest = builder.binary("sub", bounds[1], variable)
                    rest.name = f"{variable.name}_left"
                    extent = builder.binary("minimum", bounds[0], rest)
                    extent.name = f"{variable.name}_valid"
                tracer.homes[extent] = scope
                self.ragged_by[key] = extent
        return self.ragged_by[key]

    def join(self, a: Extent, b: Extent, size: int) -> Extent:
        """The smaller of two extents of an axis of ``size``."""
        if a is b or a == b or b == size:
            return a
        if a == size:
            return b
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        own, others = self._parts(a), self._parts(b)
        union = own | others
        numbers = [p for p in union if isinstance(p, int)]
        union = frozenset(p for p in union if not isinstance(p, int)) | ({min(numbers)} if numbers else set())
        for known, extent in ((own, a), (others, b)):
            if union == known:
                return extent
        if union not in self.joined:
            self.joined[union] = self._minimum(a, b)
            self.parts[self.joined[union]] = union
        return self.joined[union]

    def _parts(self, extent: Extent) -> frozenset[Extent]:
        return self.parts.get(extent, frozenset((extent,))) if isinstance(extent, ir.Value) else frozenset((extent,))

    def _minimum(self, a: Extent, b: Extent) -> ir.Value:
        tracer = self.tracer
        values = [tracer.constant(e, ir.index).payload if isinstance(e, int) else e for e in (a, b)]
        scope = max((tracer.homes[v] for v in values), key=lambda s: s.depth)
        with tracer.hoisting(scope) as builder:
            extent = builder.binary("minimum", *values)
            extent.name = "valid"
        tracer.homes[extent] = scope
        return extent

    def align(self, values: list[ir.Value]) -> list[ir.Value]:
        """Elementwise operands narrowed to their common extents where these differ."""
        shape = ir.broadcast_shapes(*(v.shape for v in values)) or ()
        common: list[Extent] = list(shape)
        for axis, size in enumerate(shape):
            for value in values:
                own = axis - (len(shape) - len(value.shape))
                if own >= 0 and value.shape[own] == size:
                    common[axis] = self.join(common[axis], value.extents[own], size)
        return [self._cut(v, shape, common) for v in values]

    def _cut(self, value: ir.Value, shape: tuple[int, ...], common: list[Extent]) -> ir.Value:
        skip = len(shape) - len(value.shape)
        wanted = tuple(
            common[skip + axis] if size == shape[skip + axis] else value.extents[axis]
            for axis, size in enumerate(value.shape)
        )
        # The builder takes the smaller extent by itself when one of them is the whole axis.
        harmless = all(w is e or w == e or e == n for w, e, n in zip(wanted, value.extents, value.shape, strict=True))
        return value if harmless else self.tracer.builder.narrow(value, wanted)
