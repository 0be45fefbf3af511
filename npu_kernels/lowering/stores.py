"""Stores of the vector cores."""

from __future__ import annotations

from ..ir import Store, bool_
from ..ir.device import ITEMSIZE, Buffer, Ref, Struct, Tensor
from ..ir.expr import Apply, Expr, Number, integer, known
from . import forms
from .context import TILE_CTYPE, Context, Tile, cast_ref
from .layout import Layout
from .moves import BLOCK_BYTES, Slice, arrived, copy_tile, gm_ctype, offset_of, put, slice_of, stream


def store(ctx: Context, op: Store, guard: Expr) -> None:
    """Writes a tile or a scalar; ``guard`` says whether this core is the one that writes."""
    tensor = ctx.tensors[op.tensor]
    if op.value.is_scalar:
        _store_scalar(ctx, op, tensor, guard)
        return
    tile = ctx.tile(op.value)
    extents = tuple(ctx.extent(e) for e in op.extents)
    part = slice_of(ctx, op.tensor, op.starts, op.sizes, extents)
    ctype = gm_ctype(TILE_CTYPE[tile.dtype])
    leaving = _leaving(ctx, op, tile, part, ctype)
    put(ctx, leaving, tensor, part, tile.layout, ctype, guard)


def _leaving(ctx: Context, op: Store, tile: Tile, part: Slice, ctype: str) -> Buffer:
    """The tile in a buffer of the outgoing queue."""
    name = f"{op.tensor.name}_tile"
    layout = tile.layout
    if part.col_stride != 1 and known(part.cols) != 1:
        if layout.rows > 1:
            raise ctx.refuse(
                "the slice keeps two axes of which the last is not contiguous in memory; store the tile transposed", op
            )
        return _blocks(ctx, tile, ctype, name)
    if tile.dtype == bool_:
        halves = ctx.temp(f"{tile.name}_f16", "half", layout.size)
        ctx.instr("Cast", halves, (forms.work(ctx, tile),), forms.RINT, integer(layout.size))
        buffer = stream(ctx, name, ctype, layout.size, "VECOUT")
        ctx.instr("Cast", Ref(buffer, integer(0), ctype), (halves,), forms.RINT, integer(layout.size))
    else:
        buffer = stream(ctx, name, ctype, layout.size, "VECOUT")
        copy_tile(ctx, Ref(buffer, integer(0), ctype), forms.native(ctx, tile), layout.size)
    arrived(ctx, buffer)
    return buffer


def _blocks(ctx: Context, tile: Tile, ctype: str, name: str) -> Buffer:
    """A vector with each element in a block of its own, for a store with a stride."""
    if tile.dtype == bool_:
        raise ctx.refuse("a bool tile is stored along a contiguous axis only; store it transposed")
    per_block = BLOCK_BYTES // ITEMSIZE[ctype]
    repeats = -(-tile.layout.cols // 8)
    if repeats > ctx.arch.max_repeat:
        raise ctx.refuse(f"a strided store of {tile.layout.cols} elements; at most {8 * ctx.arch.max_repeat}")
    buffer = stream(ctx, name, ctype, repeats * 8 * per_block, "VECOUT")
    ctx.instr(
        "Brcb",
        Ref(buffer, integer(0), ctype),
        (forms.native(ctx, tile),),
        integer(repeats),
        Struct((integer(1), integer(8)), ("uint16_t", "uint16_t")),
    )
    arrived(ctx, buffer)
    return buffer


def _store_scalar(ctx: Context, op: Store, tensor: Tensor, guard: Expr) -> None:
    dtype = op.value.dtype
    ctype = gm_ctype(TILE_CTYPE[dtype])
    offset = offset_of(ctx, op.tensor, op.starts)
    buffer = stream(ctx, f"{op.tensor.name}_element", ctype, 64, "VECOUT")
    dst = Ref(buffer, integer(0), ctype)
    value = ctx.scalar(op.value)
    if ctype in ("half", "bfloat16_t"):
        wide = ctx.temp("element", "float", 64)
        ctx.instr("Duplicate", wide, (), value, integer(64))
        ctx.instr("Cast", dst, (wide,), forms.RINT, integer(64))
    elif ctype == "uint8_t":
        word = Apply("select", (value, Number(1, "int32_t"), Number(0, "int32_t")), "int32_t")
        ctx.instr("Duplicate", cast_ref(dst, "int32_t"), (), word, integer(16))
    else:
        ctx.instr("Duplicate", dst, (), value, integer(64))
    arrived(ctx, buffer)
    single = Slice(offset, integer(1), integer(1), 0, 1)
    put(ctx, buffer, tensor, single, Layout.of((1,), ctx.granule), ctype, guard)
