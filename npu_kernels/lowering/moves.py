"""Loads and stores of the vector cores: slices of tensors through queues of the unified buffer."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass

from ..ir import Load, Store, Value, bool_
from ..ir.device import ITEMSIZE, Buffer, CopyScalar, QueueOp, Ref, Struct, Tensor
from ..ir.expr import Apply, Expr, Number, add, compare, floordiv, integer, known, mul, round_up, sub
from . import forms
from .context import SCALAR_CTYPE, TILE_CTYPE, Context, Tile, cast_ref
from .layout import Layout, round_up_int

_EXT = ("uint16_t", "uint32_t", "uint32_t", "uint32_t", "uint32_t")
_PAD = ("bool", "uint8_t", "uint8_t", "")
_BLOCK_BYTES = 32


@dataclass(frozen=True)
class Slice:
    """A slice of a tensor as rows: offset of its first element, rows and columns that exist, distance of rows and
    of the elements of a row, all in elements."""

    offset: Expr
    rows: Expr
    cols: Expr
    row_stride: int
    col_stride: int


def gm_ctype(ctype: str) -> str:
    """Element type in global memory; masks are bytes there."""
    return "uint8_t" if ctype == "bits" else ctype


def slice_of(
    ctx: Context, tensor: Value, starts: tuple[Value, ...], sizes: tuple[int | None, ...], extents: tuple[Expr, ...]
) -> Slice:
    """The rows and columns of a slice with one or two kept axes."""
    strides = [math.prod(tensor.shape[i + 1 :]) for i in range(len(tensor.shape))]
    offset: Expr = integer(0)
    for start, stride in zip(starts, strides, strict=True):
        offset = add(offset, mul(ctx.scalar(start), integer(stride)))
    kept = [(s, n) for s, n in zip(strides, sizes, strict=True) if n is not None]
    if len(kept) == 1:
        return Slice(offset, integer(1), extents[0], 0, kept[0][0])
    (row_stride, rows), (col_stride, cols) = kept
    if rows == 1:
        return Slice(offset, extents[0], extents[1], 0, col_stride)
    if cols == 1:
        return Slice(offset, extents[1], extents[0], 0, row_stride)
    return Slice(offset, extents[0], extents[1], row_stride, col_stride)


def load(ctx: Context, op: Load) -> None:
    tensor = ctx.tensors[op.tensor]
    if op.result.is_scalar:
        _load_scalar(ctx, op, tensor)
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


def _load_scalar(ctx: Context, op: Load, tensor: Tensor) -> None:
    """Through the unified buffer: global memory read by the scalar unit could be stale in its cache."""
    dtype = op.result.dtype
    ctype = gm_ctype(TILE_CTYPE[dtype])
    layout = Layout.of((1,), ctx.granule)
    buffer = stream(ctx, op.result.name, ctype, layout.size, "VECIN")
    offset = slice_of(ctx, op.tensor, op.starts, (*op.sizes[:-1], 1), (integer(1),)).offset
    fetch(ctx, buffer, tensor, Slice(offset, integer(1), integer(1), 0, 1), layout, ctype)
    arrived(ctx, buffer)
    value = ctx.read(op.result.name, Ref(buffer, integer(0), ctype), SCALAR_CTYPE[dtype])
    ctx.scalars[op.result] = value


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


def stream(ctx: Context, name: str, ctype: str, elements: int, position: str) -> Buffer:
    nbytes = elements * ITEMSIZE[ctype]
    buffer = ctx.buffer(name, ctype, round_up_int(nbytes, _BLOCK_BYTES) // ITEMSIZE[ctype], position)
    ctx.emit(QueueOp(action="alloc", buffer=buffer, location=ctx.location))
    return buffer


def arrived(ctx: Context, buffer: Buffer) -> None:
    ctx.emit(QueueOp(action="enqueue", buffer=buffer, location=ctx.location))
    ctx.emit(QueueOp(action="dequeue", buffer=buffer, location=ctx.location))


def fetch(ctx: Context, buffer: Buffer, tensor: Tensor, part: Slice, layout: Layout, ctype: str) -> None:
    """Global memory to a row-major tile; what lies outside the slice becomes zero."""
    item = ITEMSIZE[ctype]
    dst = Ref(buffer, integer(0), ctype)
    _clear(ctx, dst, part, layout)
    width = mul(part.cols, integer(item))
    rows, gap = part.rows, sub(mul(integer(part.row_stride), integer(item)), width)
    contiguous = known(part.rows) == layout.rows and known(part.cols) == part.row_stride == layout.pitch
    if contiguous and layout.rows * layout.pitch * item <= ctx.arch.max_copy_bytes:
        rows, width, gap = integer(1), integer(layout.rows * layout.pitch * item), integer(0)
    if layout.rows == 1:
        gap = integer(0)
    held = round_up(width, _BLOCK_BYTES)
    skip = integer(0)
    if known(rows) != 1:
        skip = floordiv(sub(integer(layout.pitch * item), held), integer(_BLOCK_BYTES))
    padding = floordiv(sub(held, width), integer(item))
    with _nonempty(ctx, part):
        ctx.instr(
            "DataCopyPad",
            dst,
            (Ref(tensor, part.offset, ctype),),
            Struct((rows, width, gap, skip, integer(0)), _EXT, "DataCopyExtParams"),
            Struct(
                (Number(True, "bool"), integer(0), padding, Number(0, ctype)),
                (*_PAD[:3], ctype),
                f"DataCopyPadExtParams<{ctype}>",
            ),
            pipe="MTE2",
            partial=True,
        )


def _nonempty(ctx: Context, part: Slice) -> AbstractContextManager[None]:
    """Run-time extents of zero move nothing: the copy instruction is skipped."""
    rows, cols = compare(">", part.rows, integer(0)), compare(">", part.cols, integer(0))
    conditions = [c for c in (rows, cols) if not (isinstance(c, Number) and c.value)]
    if not conditions:
        return ctx.branch(Number(True, "bool"))
    condition = conditions[0] if len(conditions) == 1 else Apply("&&", tuple(conditions), "bool")
    return ctx.branch(condition)


def _clear(ctx: Context, dst: Ref, part: Slice, layout: Layout) -> None:
    """Zeros for the elements the copy does not write, where there are any."""
    item = ITEMSIZE[dst.ctype]
    rows, cols = known(part.rows), known(part.cols)
    exact = rows == layout.rows and cols is not None and round_up_int(cols * item, _BLOCK_BYTES) >= layout.pitch * item
    if exact and layout.rows * layout.pitch == layout.size:
        return
    always = layout.rows * layout.pitch != layout.size
    always |= round_up_int(layout.cols * item, _BLOCK_BYTES) < layout.pitch * item
    short: list[Expr] = []
    if rows is None or rows < layout.rows:
        short.append(compare("<", part.rows, integer(layout.rows)))
    if cols is None or cols < layout.cols:
        short.append(compare("<", part.cols, integer(layout.cols)))
    condition: Expr = Number(True, "bool")
    if not always and short:
        condition = short[0] if len(short) == 1 else Apply("||", tuple(short), "bool")
    words = "int32_t" if item != 2 else dst.ctype
    count = layout.size * item // ITEMSIZE[words]
    with ctx.branch(condition):
        zero = Number(0, words) if words == "int32_t" else Number(0.0, words)
        ctx.instr("Duplicate", cast_ref(dst, words), (), zero, integer(count))
        ctx.sync("V_MTE2")


def _load_spread(ctx: Context, op: Load, tile: Tile, tensor: Tensor, part: Slice, ctype: str) -> None:
    """A column of a tensor: each element arrives in a 32-byte block of its own and the scalar unit gathers them."""
    if tile.layout.rows > 1:
        raise ctx.refuse(
            "the slice keeps two axes of which the last is not contiguous in memory; pass the tensor transposed", op
        )
    item = ITEMSIZE[ctype]
    per_block = _BLOCK_BYTES // item
    landed = stream(ctx, f"{op.result.name}_blocks", ctype, tile.layout.cols * per_block, "VECIN")
    source = Ref(tensor, part.offset, ctype)
    with _nonempty(ctx, part):
        ctx.instr(
            "DataCopyPad",
            Ref(landed, integer(0), ctype),
            (source,),
            Struct(
                (part.cols, integer(item), integer((part.col_stride - 1) * item), integer(0), integer(0)),
                _EXT,
                "DataCopyExtParams",
            ),
            Struct(
                (Number(True, "bool"), integer(0), integer(per_block - 1), Number(0, ctype)),
                (*_PAD[:3], ctype),
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


def copy_tile(ctx: Context, dst: Ref, src: Ref, elements: int) -> None:
    """Between two buffers of the unified buffer; the planner removes the copy where one buffer can serve as both."""
    ctype = "half" if dst.ctype == "bfloat16_t" else "uint16_t" if dst.ctype == "uint8_t" else dst.ctype
    count = elements * ITEMSIZE[dst.ctype] // ITEMSIZE[ctype]
    ctx.instr("DataCopy", cast_ref(dst, ctype), (cast_ref(src, ctype),), integer(count), inplace=True)


def _blocks(ctx: Context, tile: Tile, ctype: str, name: str) -> Buffer:
    """A vector with each element in a block of its own, for a store with a stride."""
    if tile.dtype == bool_:
        raise ctx.refuse("a bool tile is stored along a contiguous axis only; store it transposed")
    per_block = _BLOCK_BYTES // ITEMSIZE[ctype]
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


def put(
    ctx: Context, buffer: Buffer, tensor: Tensor, part: Slice, layout: Layout, ctype: str, guard: Expr
) -> None:
    item = ITEMSIZE[ctype]
    if part.col_stride != 1 and known(part.cols) != 1:
        rows, width = part.cols, integer(item)
        skip, gap = integer(0), integer((part.col_stride - 1) * item)
    else:
        rows, width = part.rows, mul(part.cols, integer(item))
        gap = sub(integer(part.row_stride * item), width) if layout.rows > 1 else integer(0)
        held = round_up(width, _BLOCK_BYTES)
        skip = integer(0)
        if layout.rows > 1:
            skip = floordiv(sub(integer(layout.pitch * item), held), integer(_BLOCK_BYTES))
        whole = known(part.rows) == layout.rows and known(part.cols) == part.row_stride == layout.pitch
        if whole and layout.rows * layout.pitch * item <= ctx.arch.max_copy_bytes:
            rows, width, gap, skip = (
                integer(1),
                integer(layout.rows * layout.pitch * item),
                integer(0),
                integer(0),
            )
    with ctx.branch(guard), _nonempty(ctx, part):
        ctx.instr(
            "DataCopyPad",
            Ref(tensor, part.offset, ctype),
            (Ref(buffer, integer(0), ctype),),
            Struct((rows, width, skip, gap, integer(0)), _EXT, "DataCopyExtParams"),
            pipe="MTE3",
        )


def _store_scalar(ctx: Context, op: Store, tensor: Tensor, guard: Expr) -> None:
    dtype = op.value.dtype
    ctype = gm_ctype(TILE_CTYPE[dtype])
    offset = slice_of(ctx, op.tensor, op.starts, (*op.sizes[:-1], 1), (integer(1),)).offset
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

