"""Loads of the vector cores."""

from __future__ import annotations

from ..ir import Load, bool_
from ..ir.device import ITEMSIZE, CopyScalar, Ref, Struct, Tensor
from ..ir.expr import Number, integer, known, mul
from . import forms
from .context import SCALAR_CTYPE, TILE_CTYPE, Context, Tile, cast_ref
from .moves import BLOCK_BYTES, EXT, PAD, Slice, arrived, fetch, gm_ctype, nonempty, offset_of, slice_of, stream


def load(ctx: Context, op: Load) -> None:
    tensor = ctx.tensors[op.tensor]
    if op.result.is_scalar:
        load_scalar(ctx, op)
        return
    tile = ctx.tile(op.result)
    part = slice_of(ctx, op.tensor, op.starts, op.sizes, tile.extents)
    ctype = gm_ctype(TILE_CTYPE[tile.dtype])
    if part.col_stride != 1 and known(part.cols) != 1:
        _load_spread(ctx, op, tile, tensor, part, ctype)
    else:
        buffer = stream(ctx, op.result.name, ctype, tile.layout.size, "VECIN")
        fetch(ctx, buffer, tensor, part, tile.layout, ctype)
        arrived(ctx, buffer)
        hold_loaded(ctx, tile, Ref(buffer, integer(0), ctype))


def load_scalar(ctx: Context, op: Load) -> None:
    """Read by the scalar unit itself, on both kinds of cores: inputs do not change while a kernel runs, and no kernel
    reads its outputs back, so that what the unit's cache holds is what memory holds."""
    ctype = gm_ctype(TILE_CTYPE[op.result.dtype])
    source = Ref(ctx.tensors[op.tensor], offset_of(ctx, op.tensor, op.starts), ctype)
    ctx.scalars[op.result] = ctx.read(op.result.name, source, SCALAR_CTYPE[op.result.dtype])


def hold_loaded(ctx: Context, tile: Tile, ref: Ref) -> None:
    if tile.dtype != bool_:
        ctx.hold(tile, TILE_CTYPE[tile.dtype], ref)
        return
    halves = ctx.temp(f"{tile.name}_f16", "half", tile.layout.size)
    numbers = ctx.temp(f"{tile.name}_num", "float", tile.layout.size)
    ctx.instr("Cast", halves, (ref,), forms.NONE, integer(tile.layout.size))
    ctx.instr("Cast", numbers, (halves,), forms.NONE, integer(tile.layout.size))
    mask = forms.new_bits(ctx, tile.name, tile.layout)
    forms.bits_of(ctx, mask, numbers, tile.layout)
    ctx.hold(tile, "bits", mask)


def _load_spread(ctx: Context, op: Load, tile: Tile, tensor: Tensor, part: Slice, ctype: str) -> None:
    """A column of a tensor: each element arrives in a 32-byte block of its own and the scalar unit gathers them."""
    if tile.layout.rows > 1:
        raise ctx.refuse(
            "the slice keeps two axes of which the last is not contiguous in memory; pass the tensor transposed", op
        )
    item = ITEMSIZE[ctype]
    per_block = BLOCK_BYTES // item
    landed = stream(ctx, f"{op.result.name}_blocks", ctype, tile.layout.cols * per_block, "VECIN")
    source = Ref(tensor, part.offset, ctype)
    with nonempty(ctx, part):
        ctx.instr(
            "DataCopyPad",
            Ref(landed, integer(0), ctype),
            (source,),
            Struct(
                (part.cols, integer(item), integer((part.col_stride - 1) * item), integer(0), integer(0)),
                EXT,
                "DataCopyExtParams",
            ),
            Struct(
                (Number(True, "bool"), integer(0), integer(per_block - 1), Number(0, ctype)),
                (*PAD[:3], ctype),
                f"DataCopyPadExtParams<{ctype}>",
            ),
            pipe="MTE2",
        )
    arrived(ctx, landed)
    gathered = ctx.temp(op.result.name, ctype, tile.layout.size)
    words = "int32_t" if item != 2 else ctype
    zero = Number(0, words) if words == "int32_t" else Number(0.0, words)
    ctx.instr("Duplicate", cast_ref(gathered, words), (), zero, integer(tile.layout.size * item // ITEMSIZE[words]))
    ctx.sync("V_S")
    with ctx.loop("i", integer(0), part.cols, integer(1), independent=True) as i:
        ctx.emit(
            CopyScalar(
                dst=Ref(gathered.base, i, ctype),
                source=Ref(landed, mul(i, integer(per_block)), ctype),
                location=ctx.location,
            )
        )
    ctx.sync("S_V")
    hold_loaded(ctx, tile, gathered)
