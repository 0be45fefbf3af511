"""Splits a tile program with matrix products between the cube core and its vector cores.

Both sides keep the loops, branches and scalars they need; a tile that one side computes and the other uses travels
through a channel, at the same point of both programs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

from ..errors import LoweringError
from ..ir import Binary, Block, Dot, For, If, Kernel, Load, Narrow, Op, Value, float32, walk
from .arch import Arch
from .context import TILE_CTYPE


@dataclass(eq=False)
class Channel:
    """Tiles that go from one kind of core to the other through a ring of slots in the workspace.

    Attributes:
        shape, ctype: of the whole tile, dense in its slot.
        to_cube: the direction.
        depth: slots in the ring.
        ready, free: numbers of the cross-core flags.
    """

    name: str
    shape: tuple[int, int]
    ctype: str
    to_cube: bool
    depth: int = 2
    ready: int = 0
    free: int = 0

    @property
    def elements(self) -> int:
        return self.shape[0] * self.shape[1]


@dataclass(eq=False, kw_only=True)
class Send(Op):
    """A tile computed on the vector cores goes to the cube core; ``row`` is its first row in the whole tile, ``None``
    when this core holds all of it."""

    opcode: ClassVar[str] = "send"
    channel: Channel
    value: Value
    row: Value | None = None


@dataclass(eq=False, kw_only=True)
class Receive(Op):
    """A product of the cube core arrives, from its row ``row`` on."""

    opcode: ClassVar[str] = "receive"
    channel: Channel
    result: Value
    row: Value | None = None


@dataclass(eq=False)
class Parts:
    """The two programs of a mixed kernel.

    Attributes:
        vector: the kernel with sends and receives in place of the products.
        sends: on the cube side, the channel by which a vector tile arrives.
        products: on the cube side, the channel that takes each product.
        loads: operands the cube core loads by itself.
        needed: scalars (and carried scalars) the cube side computes.
        kept: loops and branches the cube side keeps.
    """

    vector: Kernel
    cube: Kernel
    channels: list[Channel]
    sends: dict[Value, Channel] = field(default_factory=dict)
    products: dict[Op, Channel] = field(default_factory=dict)
    loads: set[Op] = field(default_factory=set)
    needed: set[Value] = field(default_factory=set)
    kept: set[Op] = field(default_factory=set)


def partition(kernel: Kernel, arch: Arch) -> Parts | None:
    """The two programs, or ``None`` for a kernel without products.

    Raises:
        LoweringError: NPK-LW01 when the cube core would need tile data to follow the program, or when there are more
            kinds of tiles to hand over than cross-core flags.
    """
    dots = [op for op in walk(kernel.body) if isinstance(op, Dot)]
    if not dots:
        return None
    definitions = {v: op for op in walk(kernel.body) for v in op.defines}
    parts = Parts(kernel, kernel, [])
    for dot in dots:
        for operand in (dot.a, dot.b):
            source = definitions.get(_origin(operand, definitions))
            if isinstance(source, Load) and _loadable(source):
                parts.loads.add(source)
            else:
                parts.sends[operand] = _channel(parts, operand, to_cube=True, name=operand.name)
        parts.products[dot] = _channel(parts, dot.result, to_cube=False, name=dot.result.name)
    _number(parts, arch, dots[0])
    _slice_cube(parts, kernel.body)
    dead = _only_for_cube(parts, kernel.body)
    parts.vector = replace(kernel, body=_vector_block(parts, kernel.body, dead))
    return parts


def _origin(value: Value, definitions: dict[Value, Op]) -> Value:
    source = definitions.get(value)
    return _origin(source.operand, definitions) if isinstance(source, Narrow) else value


def _loadable(load: Load) -> bool:
    """The cube core reads rows that are contiguous in memory."""
    kept = [i for i, n in enumerate(load.sizes) if n is not None]
    return len(kept) == 2 and kept[-1] == len(load.sizes) - 1


def _channel(parts: Parts, value: Value, *, to_cube: bool, name: str) -> Channel:
    """One ring for all tiles of a shape and direction: both sides use it in the same order."""
    rows, cols = value.shape
    ctype = TILE_CTYPE[value.dtype]
    for channel in parts.channels:
        if (channel.shape, channel.ctype, channel.to_cube) == ((rows, cols), ctype, to_cube):
            return channel
    channel = Channel(name or "tile", (rows, cols), ctype, to_cube)
    parts.channels.append(channel)
    return channel


#: Flags from here on belong to the instruction that synchronises all cores.
_FIRST_RESERVED_FLAG = 11


def _number(parts: Parts, arch: Arch, dot: Dot) -> None:
    flags = min(_FIRST_RESERVED_FLAG, arch.cross_flags)
    if 2 * len(parts.channels) > flags:
        raise LoweringError(
            "NPK-LW01",
            f"{len(parts.channels)} different shapes of tiles pass between cube and vector cores and flags reach for "
            f"{flags // 2}; use the same tile shapes for the products, or split the kernel",
            location=str(dot.location),
        )
    for i, channel in enumerate(parts.channels):
        channel.ready, channel.free = 2 * i, 2 * i + 1


def _slice_cube(parts: Parts, body: Block) -> None:
    """Finds what the cube side keeps: structure around products and operands, and the scalars that steer it."""
    roots = {*parts.products, *parts.loads}
    for op in walk(body):
        if op.blocks and any(inner in roots for block in op.blocks for inner in walk(block)):
            parts.kept.add(op)
    needed = parts.needed
    size = -1
    while size != len(needed) + len(parts.kept):
        size = len(needed) + len(parts.kept)
        for op in walk(body):
            if isinstance(op, Dot):
                needed.update(e for v in (op.a, op.b) for e in v.extents if isinstance(e, Value))
            elif op in parts.loads:
                assert isinstance(op, Load)
                needed.update(op.starts)
                needed.update(e for e in op.result.extents if isinstance(e, Value))
            elif isinstance(op, For | If):
                _carried(parts, op)
            elif op.defines and op.defines[0] in needed:
                needed.update(v for v in op.operands if not v.is_tensor)
    tiles = [op for op in walk(body) if any(v in needed and v.is_tile for v in op.defines)]
    if tiles:
        raise LoweringError(
            "NPK-LW01",
            "a loop bound, branch or position around a dot depends on the data of a tile, which the cube core does not "
            "see; compute the product unconditionally and select afterwards",
            location=str(tiles[0].location),
        )


def _carried(parts: Parts, op: For | If) -> None:
    needed = parts.needed
    if isinstance(op, For):
        if op in parts.kept or any(a in needed for a in (*op.body.args, *op.results)):
            parts.kept.add(op)
            needed.update((op.start, op.stop))
        for init, arg, value, result in zip(op.inits, op.body.args[1:], op.body.yields, op.results, strict=True):
            if not arg.is_tile and (arg in needed or result in needed):
                needed.update((init, arg, value, result))
    else:
        if op in parts.kept or any(r in needed for r in op.results):
            parts.kept.add(op)
            needed.add(op.condition)
        for values in zip(op.results, op.then.yields, op.orelse.yields, strict=True):
            if values[0] in needed:
                needed.update(values)


def _only_for_cube(parts: Parts, body: Block) -> set[Op]:
    """Loads (and views of them) that nothing but products uses."""
    users: dict[Value, list[Op]] = {}
    for op in walk(body):
        for block in op.blocks:
            for v in block.yields:
                users.setdefault(v, []).append(op)
        for v in op.operands:
            users.setdefault(v, []).append(op)
    dead: set[Op] = set()
    for op in reversed(list(walk(body))):
        if isinstance(op, Load | Narrow) and op.result.is_tile:
            mine = users.get(op.result, [])
            # An accumulator is added on the vector side.
            operand = all(u in dead or (isinstance(u, Dot) and u.accumulator is not op.result) for u in mine)
            if mine and operand and op.result not in parts.sends:
                dead.add(op)
    return dead


def _vector_block(parts: Parts, block: Block, dead: set[Op]) -> Block:
    ops: list[Op] = []
    result = Block(list(block.args), ops, block.yields)
    for arg in block.args:
        if arg in parts.sends:
            first = block.ops[0].location
            ops.append(Send(channel=parts.sends[arg], value=arg, location=first))
    for op in block.ops:
        if op in dead:
            continue
        if isinstance(op, Dot):
            ops.extend(_product(parts, op))
        elif isinstance(op, For):
            ops.append(replace(op, body=_vector_block(parts, op.body, dead)))
        elif isinstance(op, If):
            then, orelse = (_vector_block(parts, b, dead) for b in op.blocks)
            ops.append(replace(op, then=then, orelse=orelse))
        else:
            ops.append(op)
        ops.extend(Send(channel=parts.sends[v], value=v, location=op.location) for v in op.defines if v in parts.sends)
    return result


def _product(parts: Parts, op: Dot) -> list[Op]:
    channel = parts.products[op]
    if op.accumulator is None:
        return [Receive(channel=channel, result=op.result, location=op.location)]
    arrived = Value(op.result.type, op.result.name, op.result.extents)
    assert op.result.dtype == float32
    return [
        Receive(channel=channel, result=arrived, location=op.location),
        Binary(kind="add", lhs=op.accumulator, rhs=arrived, result=op.result, location=op.location),
    ]
