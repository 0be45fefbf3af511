"""Transfers between global memory and the unified buffer: slices of tensors as rows of 32-byte blocks."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass

from ..ir import Value
from ..ir.device import ITEMSIZE, Buffer, QueueOp, Ref, Struct, Tensor
from ..ir.expr import Apply, Expr, Number, add, compare, floordiv, integer, known, mul, round_up, sub
from .context import Context, cast_ref
from .layout import Layout, round_up_int

EXT = ("uint16_t", "uint32_t", "uint32_t", "uint32_t", "uint32_t")
PAD = ("bool", "uint8_t", "uint8_t", "")
BLOCK_BYTES = 32


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


def offset_of(ctx: Context, tensor: Value, starts: tuple[Value, ...]) -> Expr:
    """Where a slice begins, in elements."""
    offset: Expr = integer(0)
    for axis, start in enumerate(starts):
        offset = add(offset, mul(ctx.scalar(start), integer(math.prod(tensor.shape[axis + 1 :]))))
    return offset


def slice_of(
    ctx: Context, tensor: Value, starts: tuple[Value, ...], sizes: tuple[int | None, ...], extents: tuple[Expr, ...]
) -> Slice:
    """The rows and columns of a slice with one or two kept axes."""
    strides = [math.prod(tensor.shape[i + 1 :]) for i in range(len(tensor.shape))]
    offset = offset_of(ctx, tensor, starts)
    kept = [(s, n) for s, n in zip(strides, sizes, strict=True) if n is not None]
    if len(kept) == 1:
        return Slice(offset, integer(1), extents[0], 0, kept[0][0])
    (row_stride, rows), (col_stride, cols) = kept
    if rows == 1:
        return Slice(offset, extents[0], extents[1], 0, col_stride)
    if cols == 1:
        return Slice(offset, extents[1], extents[0], 0, row_stride)
    return Slice(offset, extents[0], extents[1], row_stride, col_stride)


def stream(ctx: Context, name: str, ctype: str, elements: int, position: str) -> Buffer:
    nbytes = elements * ITEMSIZE[ctype]
    buffer = ctx.buffer(name, ctype, round_up_int(nbytes, BLOCK_BYTES) // ITEMSIZE[ctype], position)
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
    rows: Expr = part.rows
    gap: Expr = sub(mul(integer(part.row_stride), integer(item)), width)
    contiguous = known(part.rows) == layout.rows and known(part.cols) == part.row_stride == layout.pitch
    if contiguous and layout.rows * layout.pitch * item <= ctx.arch.max_copy_bytes:
        rows, width, gap = integer(1), integer(layout.rows * layout.pitch * item), integer(0)
    if layout.rows == 1:
        gap = integer(0)
    held = round_up(width, BLOCK_BYTES)
    skip: Expr = integer(0)
    if known(rows) != 1:
        skip = floordiv(sub(integer(layout.pitch * item), held), integer(BLOCK_BYTES))
    padding = floordiv(sub(held, width), integer(item))
    with nonempty(ctx, part):
        ctx.instr(
            "DataCopyPad",
            dst,
            (Ref(tensor, part.offset, ctype),),
            Struct((rows, width, gap, skip, integer(0)), EXT, "DataCopyExtParams"),
            Struct(
                (Number(True, "bool"), integer(0), padding, Number(0, ctype)),
                (*PAD[:3], ctype),
                f"DataCopyPadExtParams<{ctype}>",
            ),
            pipe="MTE2",
            partial=True,
        )


def nonempty(ctx: Context, part: Slice) -> AbstractContextManager[None]:
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
    exact = rows == layout.rows and cols is not None and round_up_int(cols * item, BLOCK_BYTES) >= layout.pitch * item
    if exact and layout.rows * layout.pitch == layout.size:
        return
    always = layout.rows * layout.pitch != layout.size
    always |= round_up_int(layout.cols * item, BLOCK_BYTES) < layout.pitch * item
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


def copy_tile(ctx: Context, dst: Ref, src: Ref, elements: int) -> None:
    """Between two buffers of the unified buffer; the planner removes the copy where one buffer can serve as both."""
    ctype = "half" if dst.ctype == "bfloat16_t" else "uint16_t" if dst.ctype == "uint8_t" else dst.ctype
    count = elements * ITEMSIZE[dst.ctype] // ITEMSIZE[ctype]
    ctx.instr("DataCopy", cast_ref(dst, ctype), (cast_ref(src, ctype),), integer(count), inplace=True)


def put(ctx: Context, buffer: Buffer, tensor: Tensor, part: Slice, layout: Layout, ctype: str, guard: Expr) -> None:
    item = ITEMSIZE[ctype]
    rows: Expr
    width: Expr
    gap: Expr
    skip: Expr = integer(0)
    if part.col_stride != 1 and known(part.cols) != 1:
        rows, width = part.cols, integer(item)
        gap = integer((part.col_stride - 1) * item)
    else:
        rows, width = part.rows, mul(part.cols, integer(item))
        gap = sub(integer(part.row_stride * item), width) if layout.rows > 1 else integer(0)
        held = round_up(width, BLOCK_BYTES)
        if layout.rows > 1:
            skip = floordiv(sub(integer(layout.pitch * item), held), integer(BLOCK_BYTES))
        whole = known(part.rows) == layout.rows and known(part.cols) == part.row_stride == layout.pitch
        if whole and layout.rows * layout.pitch * item <= ctx.arch.max_copy_bytes:
            rows, width, gap, skip = (
                integer(1),
                integer(layout.rows * layout.pitch * item),
                integer(0),
                integer(0),
            )
    with ctx.branch(guard), nonempty(ctx, part):
        ctx.instr(
            "DataCopyPad",
            Ref(tensor, part.offset, ctype),
            (Ref(buffer, integer(0), ctype),),
            Struct((rows, width, skip, gap, integer(0)), EXT, "DataCopyExtParams"),
            pipe="MTE3",
        )
