"""Hand-over of tiles between cube and vector cores: a ring of slots in the workspace with two flags.

The producer sets ``ready`` when a slot is written, the consumer sets ``free`` when it has read one. Each side counts
the tiles of a channel; a producer waits for ``free`` once the ring has gone round, and at the end for what is left, so
that every flag is back at zero when the kernel ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.device import ITEMSIZE, Assign, CrossFlag, Let, Ref, Tensor
from ..ir.expr import Expr, Name, Number, add, compare, integer, minimum, mod, mul
from . import forms, loads, moves
from .context import TILE_CTYPE, Context
from .moves import Slice
from .partition import Channel, Receive, Send

_SLOT_UNIT = 512


@dataclass(frozen=True)
class Ring:
    """A channel on one kind of core: its workspace and the count of tiles so far."""

    channel: Channel
    tensor: Tensor
    count: Name

    def slot(self) -> Expr:
        """Offset of the current slot, in elements."""
        return mul(mod(self.count, integer(self.channel.depth)), integer(self.channel.elements))


def workspace(channels: list[Channel], parameter: int, names: dict[Channel, str]) -> tuple[list[Tensor], int]:
    """A workspace tensor for each channel, and the bytes of one block's workspace."""
    tensors: list[Tensor] = []
    offset = 0
    for channel in channels:
        elements = channel.depth * channel.elements
        tensors.append(Tensor(names[channel], channel.ctype, elements, parameter, offset))
        size = elements * ITEMSIZE[channel.ctype]
        offset += -(-size // _SLOT_UNIT) * _SLOT_UNIT
    for tensor in tensors:
        tensor.stride = offset
    return tensors, offset


def rings(ctx: Context, tensors: dict[Channel, Tensor]) -> dict[Channel, Ring]:
    """Starts the counts of all channels of a section."""
    made: dict[Channel, Ring] = {}
    for channel, tensor in tensors.items():
        count = Name(ctx.names.fresh(channel.name, "Count"), "int64_t", 0, None)
        ctx.emit(Let(name=count, value=integer(0), location=ctx.location))
        made[channel] = Ring(channel, tensor, count)
    return made


def acquire(ctx: Context, ring: Ring, pipe: str) -> None:
    """The producer waits until the consumer has emptied the current slot."""
    with ctx.branch(compare(">=", ring.count, integer(ring.channel.depth))):
        ctx.emit(CrossFlag(action="wait", flag=ring.channel.free, pipe=pipe, location=ctx.location))


def publish(ctx: Context, ring: Ring, pipe: str) -> None:
    """The producer says that the slot is written."""
    ctx.emit(CrossFlag(action="set", flag=ring.channel.ready, pipe=pipe, location=ctx.location))
    _advance(ctx, ring)


def await_(ctx: Context, ring: Ring, pipe: str) -> None:
    """The consumer waits for the current slot."""
    ctx.emit(CrossFlag(action="wait", flag=ring.channel.ready, pipe=pipe, location=ctx.location))


def give_back(ctx: Context, ring: Ring, pipe: str) -> None:
    """The consumer says that it has read the slot."""
    ctx.emit(CrossFlag(action="set", flag=ring.channel.free, pipe=pipe, location=ctx.location))
    _advance(ctx, ring)


def drain(ctx: Context, ring: Ring, pipe: str) -> None:
    """At the end the producer takes the flags of the slots that are still full."""
    left = ctx.let("left", minimum(ring.count, integer(ring.channel.depth)))
    with ctx.loop("slot", integer(0), left, integer(1)):
        ctx.emit(CrossFlag(action="wait", flag=ring.channel.free, pipe=pipe, location=ctx.location))


def _advance(ctx: Context, ring: Ring) -> None:
    ctx.emit(Assign(name=ring.count, value=add(ring.count, integer(1)), location=ctx.location))


class VectorExchange:
    """Sends and receives of the vector cores.

    ``writer`` is the condition under which a core sends a tile that both cores of the group hold whole.
    """

    def __init__(self, table: dict[Channel, Ring], writer: Expr) -> None:
        self.rings = table
        self.writer = writer

    def receive(self, ctx: Context, op: Receive) -> None:
        ring = self.rings[op.channel]
        tile = ctx.tile(op.result)
        cols = op.channel.shape[1]
        row: Expr = integer(0) if op.row is None else ctx.scalar(op.row)
        rows_ext, cols_ext = tile.extents
        part = _slice(add(ring.slot(), mul(row, integer(cols))), rows_ext, cols_ext, tile.shape, cols)
        buffer = moves.stream(ctx, op.result.name, op.channel.ctype, tile.layout.size, "VECIN")
        await_(ctx, ring, "MTE2")
        moves.fetch(ctx, buffer, ring.tensor, part, tile.layout, op.channel.ctype)
        give_back(ctx, ring, "MTE2")
        moves.arrived(ctx, buffer)
        loads.hold_loaded(ctx, tile, Ref(buffer, integer(0), op.channel.ctype))

    def send(self, ctx: Context, op: Send) -> None:
        ring = self.rings[op.channel]
        tile = ctx.tile(op.value)
        cols = op.channel.shape[1]
        row: Expr = integer(0) if op.row is None else ctx.scalar(op.row)
        rows_ext, cols_ext = tile.extents
        part = _slice(add(ring.slot(), mul(row, integer(cols))), rows_ext, cols_ext, tile.shape, cols)
        ctype = TILE_CTYPE[tile.dtype]
        buffer = moves.stream(ctx, f"{tile.name}_out", ctype, tile.layout.size, "VECOUT")
        moves.copy_tile(ctx, Ref(buffer, integer(0), ctype), forms.native(ctx, tile), tile.layout.size)
        moves.arrived(ctx, buffer)
        acquire(ctx, ring, "MTE3")
        guard: Expr = Number(True, "bool") if op.row is not None else self.writer
        moves.put(ctx, buffer, ring.tensor, part, tile.layout, ctype, guard)
        publish(ctx, ring, "MTE3")


def _slice(offset: Expr, rows: Expr, cols: Expr, shape: tuple[int, ...], width: int) -> Slice:
    """A tile's place in a slot of rows of ``width`` elements."""
    if shape[0] == 1:
        return Slice(offset, rows, cols, 0, 1)
    if shape[1] == 1:
        return Slice(offset, cols, rows, 0, width)
    return Slice(offset, rows, cols, width, 1)
