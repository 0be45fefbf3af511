"""Axes with names: every value is read at an index, and layout operations only rewrite that index.

A value is never looked at alone but as a :class:`Ref`, the value *at an index*: one tuple of axes per dimension, most
significant first. Reading a transpose at an index is reading its operand at the permuted index; a broadcast drops
axes, a reshape regroups them. What remains has no layout in it, so that rank, operand order, kept dimensions and
repeated heads need no spelling of their own. A reshape that splits an axis refines it everywhere at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from npu_kernels.graph.core import Node, Value


class Axis:
    """One iteration axis of known size; a reshape may have split it into ``parts``, most significant first."""

    __slots__ = ("parts", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.parts: tuple[Axis, ...] | None = None

    def split(self, outer: int) -> None:
        """Refine into an axis of size ``outer`` and one of the rest."""
        self.parts = (Axis(outer), Axis(self.size // outer))

    def __repr__(self) -> str:
        return f"<Axis {self.size} {id(self) & 0xFFFF:04x}>"


Axes = tuple[Axis, ...]
Index = tuple[Axes, ...]


def resolve(axes: Iterable[Axis]) -> Axes:
    """The axes with every split one replaced by its parts."""
    found: list[Axis] = []
    for axis in axes:
        if axis.parts is None:
            found.append(axis)
        else:
            found.extend(resolve(axis.parts))
    return tuple(found)


def fresh(shape: Sequence[int]) -> Index:
    """New axes for a shape. A dimension of size one has no axis: there is nothing to iterate."""
    return tuple((Axis(size),) if size != 1 else () for size in shape)


@dataclass(frozen=True, eq=False)
class Ref:
    """A value read at an index."""

    value: Value
    index: Index

    @property
    def resolved(self) -> Index:
        return tuple(resolve(axes) for axes in self.index)

    @property
    def axes(self) -> Axes:
        """All axes the read depends on, each once, in the order of the value's dimensions."""
        return tuple(dict.fromkeys(axis for axes in self.resolved for axis in axes))

    def at(self, renaming: Mapping[Axis, Axis]) -> Ref:
        """The same read with some axes renamed."""
        return Ref(self.value, tuple(tuple(renaming.get(a, a) for a in axes) for axes in self.resolved))

    def same(self, other: Ref) -> bool:
        """Whether both read one value at one index."""
        return self.value is other.value and self.resolved == other.resolved


def whole(value: Value) -> Ref:
    """The value read at fresh axes."""
    return Ref(value, fresh(value.shape))


#: Operations that only move elements: they vanish in the view.
LAYOUT = frozenset({"transpose", "broadcast_in_dim", "reshape", "copy"})


def pull(node: Node, index: Index) -> Index | None:
    """The index at which a layout node reads its operand, or ``None`` when no axes can express it."""
    (operand,) = node.operands
    if node.op == "copy":
        return index
    if node.op == "transpose":
        moved: list[Axes] = [()] * len(index)
        for position, source in enumerate(node.attrs["permutation"]):
            moved[source] = index[position]
        return tuple(moved)
    if node.op == "broadcast_in_dim":
        dims = node.attrs["broadcast_dimensions"]
        return tuple(index[d] if operand.shape[i] != 1 else () for i, d in enumerate(dims))
    return _regroup([axis for axes in index for axis in axes], operand.shape)


def _regroup(axes: Sequence[Axis], shape: Sequence[int]) -> Index | None:
    """Share out axes over the dimensions of a shape, splitting an axis that spans two of them."""
    if math.prod(shape) == 0:
        return None
    pending = list(resolve(axes))
    pending.reverse()
    index: list[Axes] = []
    for size in shape:
        taken: list[Axis] = []
        missing = size
        while missing > 1:
            if not pending:
                return None
            axis = pending.pop()
            if axis.size > missing:
                if axis.size % missing:
                    return None
                axis.split(missing)
                assert axis.parts is not None
                pending.append(axis.parts[1])
                axis = axis.parts[0]
            elif missing % axis.size:
                return None
            missing //= axis.size
            taken.append(axis)
        index.append(tuple(taken))
    return tuple(index) if not pending else None


def extent(axes: Iterable[Axis]) -> int:
    """Product of the sizes."""
    return math.prod(axis.size for axis in axes)


def align(a: Axes, b: Axes) -> dict[Axis, Axis] | None:
    """Pair two groups of axes of equal extent, splitting where one is coarser; ``None`` when they do not divide."""
    left, right = list(reversed(resolve(a))), list(reversed(resolve(b)))
    pairs: dict[Axis, Axis] = {}
    while left and right:
        x, y = left.pop(), right.pop()
        if x.size != y.size:
            larger, smaller, stack = (x, y, left) if x.size > y.size else (y, x, right)
            if larger.size % smaller.size:
                return None
            larger.split(smaller.size)
            assert larger.parts is not None
            stack.append(larger.parts[1])
            x, y = (larger.parts[0], y) if larger is x else (x, larger.parts[0])
        pairs[x] = y
    return pairs if not left and not right else None
