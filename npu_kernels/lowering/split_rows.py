"""Shares the rows of a mixed kernel's tiles between the two vector cores of a group.

The rows of every product, and of every tile that goes element by element with it, are halved: each core runs the same
program on its half. Where an operation mixes rows, nothing is split and both cores compute all.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..ir import (
    Arange,
    Binary,
    Block,
    Broadcast,
    Cast,
    Compare,
    Constant,
    For,
    If,
    Kernel,
    Load,
    Location,
    Narrow,
    Op,
    Reduce,
    Reshape,
    Select,
    Store,
    TileType,
    Unary,
    Value,
    index,
    walk,
)
from ..ir.types import ScalarType
from .partition import Receive, Send

Axis = tuple[Value, int]


@dataclass(eq=False)
class Split:
    """The program of one of the two vector cores.

    Attributes:
        half: the scalar that tells the cores apart, 0 or 1; ``None`` when nothing is split.
        shared: stores and sends of tiles that both cores hold whole; one of the two does them.
    """

    kernel: Kernel
    half: Value | None
    shared: set[Op] = field(default_factory=set)


class _Classes:
    """Axes that must be split together."""

    def __init__(self) -> None:
        self.parent: dict[Axis, Axis] = {}
        self.mixed: set[Axis] = set()
        self.seeds: list[Axis] = []

    def find(self, axis: Axis) -> Axis:
        root = axis
        while self.parent.get(root, root) != root:
            root = self.parent[root]
        while self.parent.get(axis, axis) != root:
            self.parent[axis], axis = root, self.parent[axis]
        return root

    def join(self, a: Axis, b: Axis) -> None:
        x, y = self.find(a), self.find(b)
        if x != y:
            self.parent[x] = y

    def split(self) -> set[Axis] | None:
        """Roots of the classes of all products' rows, or ``None`` when one of them cannot be split."""
        roots = {self.find(a) for a in self.seeds}
        mixed = {self.find(a) for a in self.mixed}
        if not roots or roots & mixed:
            return None
        if any(value.shape[axis] % 2 for value, axis in roots):
            return None
        return roots


def split_rows(kernel: Kernel) -> Split:
    """The kernel on half of the rows, or the kernel as it is when rows are mixed."""
    classes = _Classes()
    for op in walk(kernel.body):
        _constrain(classes, op)
    roots = classes.split()
    if roots is None:
        shared: set[Op] = {op for op in walk(kernel.body) if isinstance(op, Store | Send)}
        return Split(kernel, None, shared)
    half = Value(ScalarType(index), "half")
    halver = _Halver(classes, roots, half)
    body = halver.block(kernel.body, {})
    return Split(replace(kernel, body=body), half, halver.shared)


def _align(classes: _Classes, operand: Value, result: Value) -> None:
    if not (operand.is_tile and result.is_tile):
        return
    shift = len(result.shape) - len(operand.shape)
    for axis, size in enumerate(operand.shape):
        if size != 1 and result.shape[axis + shift] == size:
            classes.join((operand, axis), (result, axis + shift))


def _same(classes: _Classes, a: Value, b: Value) -> None:
    if a.is_tile:
        for axis in range(len(a.shape)):
            classes.join((a, axis), (b, axis))


def _constrain(classes: _Classes, op: Op) -> None:
    for value in op.defines:
        if value.is_tile and len(value.shape) == 2 and value.shape[0] > 1:
            classes.mixed.add((value, 1))
    match op:
        case Unary() | Binary() | Compare() | Select() | Cast() | Broadcast() | Narrow():
            for operand in op.operands:
                _align(classes, operand, op.result)
        case Reshape():
            kept = [(op.operand, i) for i, n in enumerate(op.operand.shape) if n != 1]
            there = [(op.result, i) for i, n in enumerate(op.result.shape) if n != 1]
            for a, b in zip(kept, there, strict=True):
                classes.join(a, b)
        case Reduce():
            if op.operand.shape[op.axis] != 1:
                classes.mixed.add((op.operand, op.axis))
            if op.result.is_tile:
                others = [i for i in range(len(op.operand.shape)) if i != op.axis]
                made_axes = [i for i in range(len(op.result.shape)) if not (op.keepdims and i == op.axis)]
                for before, after in zip(others, made_axes, strict=True):
                    classes.join((op.operand, before), (op.result, after))
        case For():
            for init, arg, value, made in zip(op.inits, op.body.args[1:], op.body.yields, op.results, strict=True):
                for other in (arg, value, made):
                    _same(classes, init, other)
        case If():
            for made, one, two in zip(op.results, op.then.yields, op.orelse.yields, strict=True):
                for other in (one, two):
                    _same(classes, made, other)
        case Receive():
            classes.seeds.append((op.result, 0))
        case Send():
            classes.mixed.add((op.value, 1))
        case _:
            pass


class _Halver:
    """Copies the program with halved axes, adding where a half begins."""

    def __init__(self, classes: _Classes, roots: set[Axis], half: Value) -> None:
        self.classes = classes
        self.roots = roots
        self.half = half
        self.shared: set[Op] = set()
        self.location = Location("", 0)
        self.ops: list[Op] = []

    def axis(self, value: Value) -> int | None:
        """The split axis of a tile."""
        if value.is_tile:
            for i in range(len(value.shape)):
                if value.shape[i] != 1 and self.classes.find((value, i)) in self.roots:
                    return i
        return None

    def block(self, block: Block, outer: dict[Value, Value]) -> Block:
        env = dict(outer)
        saved, self.ops = self.ops, []
        args = []
        for arg in block.args:
            env.setdefault(arg, arg)
            args.append(env[arg])
        for op in block.ops:
            self.location = op.location
            self.op(op, env)
        made = Block(args, self.ops, tuple(env.get(v, v) for v in block.yields))
        self.ops = saved
        return made

    def value(self, value: Value, env: dict[Value, Value]) -> Value:
        """A value's counterpart, made on first sight."""
        if value not in env:
            env[value] = self.halved(value, env)
        return env[value]

    def halved(self, value: Value, env: dict[Value, Value]) -> Value:
        axis = self.axis(value)
        extents = tuple(e if isinstance(e, int) else env.get(e, e) for e in value.extents)
        if axis is None:
            if all(e is env.get(e, e) for e in value.extents if isinstance(e, Value)):
                return value
            return Value(value.type, value.name, extents)
        size = value.shape[axis]
        shape = (*value.shape[:axis], size // 2, *value.shape[axis + 1 :])
        mine = self.extent(extents[axis], size)
        return Value(TileType(shape, value.dtype), value.name, (*extents[:axis], mine, *extents[axis + 1 :]))

    def extent(self, extent: int | Value, size: int) -> int | Value:
        """How much of ``extent`` falls to this core."""
        if extent == size:
            return size // 2
        whole = self.constant(extent) if isinstance(extent, int) else extent
        left = self.scalar("sub", whole, self.start(size))
        floor = self.scalar("maximum", left, self.constant(0))
        return self.scalar("minimum", floor, self.constant(size // 2), "mine")

    def start(self, size: int) -> Value:
        return self.scalar("mul", self.half, self.constant(size // 2), "half_start")

    def constant(self, value: int) -> Value:
        result = Value(ScalarType(index), "c")
        self.ops.append(Constant(value=value, result=result, location=self.location))
        return result

    def scalar(self, kind: str, lhs: Value, rhs: Value, name: str = "part") -> Value:
        result = Value(ScalarType(index), name)
        self.ops.append(Binary(kind=kind, lhs=lhs, rhs=rhs, result=result, location=self.location))
        return result

    def moved(self, start: Value, size: int) -> Value:
        """A position moved to this core's half; ``start`` may be an int32 scalar."""
        offset = self.start(size)
        if start.dtype != index:
            wide = Value(ScalarType(index), start.name)
            self.ops.append(Cast(operand=start, rounding="trunc", result=wide, location=self.location))
            start = wide
        return self.scalar("add", start, offset, start.name or "start")

    def op(self, op: Op, env: dict[Value, Value]) -> None:
        if isinstance(op, For):
            self.loop(op, env)
            return
        if isinstance(op, If):
            results = tuple(self.value(r, env) for r in op.results)
            condition = env.get(op.condition, op.condition)
            then, orelse = self.block(op.then, env), self.block(op.orelse, env)
            self.ops.append(replace(op, condition=condition, then=then, orelse=orelse, results=results))
            return
        tile = op.value if isinstance(op, Store | Send) else op.defines[0] if op.defines else None
        axis = self.axis(tile) if tile is not None else None
        changes: dict[str, object] = {}
        for name in op.__dataclass_fields__:
            item = getattr(op, name)
            if isinstance(item, Value):
                changes[name] = self.value(item, env) if name == "result" else env.get(item, item)
            elif isinstance(item, tuple) and any(isinstance(v, Value) for v in item):
                changes[name] = tuple(env.get(v, v) if isinstance(v, Value) else v for v in item)
        if axis is not None and tile is not None:
            self.place(op, tile, axis, changes)
        copy = replace(op, **changes)  # type: ignore[arg-type]
        if isinstance(op, Store | Send) and axis is None:
            self.shared.add(copy)
        self.ops.append(copy)

    def place(self, op: Op, tile: Value, axis: int, changes: dict[str, object]) -> None:
        """Positions of an operation that works on a half."""
        size = tile.shape[axis]
        if isinstance(op, Load | Store):
            kept = [i for i, n in enumerate(op.sizes) if n is not None]
            starts = list(changes.get("starts", op.starts))  # type: ignore[call-overload]
            starts[kept[axis]] = self.moved(starts[kept[axis]], size)
            sizes = list(op.sizes)
            sizes[kept[axis]] = size // 2
            changes["starts"], changes["sizes"] = tuple(starts), tuple(sizes)
            if isinstance(op, Store):
                extents = list(changes.get("extents", op.extents))  # type: ignore[call-overload]
                extents[axis] = self.extent(extents[axis], size)
                changes["extents"] = tuple(extents)
        elif isinstance(op, Arange):
            start = changes["start"]
            assert isinstance(start, Value)
            changes["start"] = self.moved(start, size)
        elif isinstance(op, Send | Receive):
            changes["row"] = self.start(size)

    def loop(self, op: For, env: dict[Value, Value]) -> None:
        inits = tuple(env.get(v, v) for v in op.inits)
        results = tuple(self.value(r, env) for r in op.results)
        inner = dict(env)
        for arg in op.body.args[1:]:
            inner[arg] = self.halved(arg, env)
        start, stop = env.get(op.start, op.start), env.get(op.stop, op.stop)
        body = self.block(op.body, inner)
        self.ops.append(replace(op, start=start, stop=stop, inits=inits, body=body, results=results))
