"""Vector instructions over tiles: whole tiles at once, or with one operand repeated along rows or columns."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.device import Ref, Struct
from ..ir.expr import Expr, Number, add, integer, mul
from .context import Context, at
from .layout import BLOCK, REPEAT, Layout

#: An operand and how it spans the result, see :func:`layout.kind_of`. Columns are given as blocks: one 32-byte block
#: per row, filled with the row's element.
Operand = tuple[Ref, str]

#: Emits one instruction: destination, operands, mask, repeats, (block, repeat) strides of all in that order.
Emit = Callable[[Ref, tuple[Ref, ...], int, int, list[tuple[int, int]]], None]

_BINARY_TYPES = ("uint8_t",) * 6
_COPY_TYPES = ("uint16_t", "uint16_t", "uint16_t", "uint16_t")


def blocks_of(ctx: Context, column: Ref, rows: int) -> Ref:
    """Each element of a vector of ``rows`` 4-byte elements, repeated over a 32-byte block of its own."""
    repeats = -(-rows // BLOCK)
    blocks = ctx.temp("blocks", column.ctype, repeats * BLOCK * BLOCK)
    group = ctx.group()
    for first in range(0, repeats, ctx.arch.max_repeat):
        count = min(ctx.arch.max_repeat, repeats - first)
        ctx.instr(
            "Brcb",
            at(blocks, first * BLOCK * BLOCK),
            (at(column, first * BLOCK),),
            integer(count),
            Struct((integer(1), integer(BLOCK)), ("uint16_t", "uint16_t")),
            group=group,
            partial=first > 0,
        )
    return blocks


def binary(ctx: Context, api: str, dst: Ref, layout: Layout, a: Operand, b: Operand) -> None:
    """``dst = api(a, b)`` over 4-byte elements, both operands broadcast to ``layout``."""
    if a[1] == b[1] == "full":
        ctx.instr(api, dst, (a[0], b[0]), integer(layout.size), inplace=True)
        return
    _define_tail(ctx, dst, layout)
    operands = tuple((blocks_of(ctx, r, layout.rows), k) if k == "column" else (r, k) for r, k in (a, b))
    inplace = tuple(i for i, (_, k) in enumerate(operands) if k == "full")

    def emit(dst_at: Ref, refs: tuple[Ref, ...], mask: int, repeat: int, strides: list[tuple[int, int]]) -> None:
        (db, dr), (ab, ar), (bb, br) = strides
        fields = tuple(integer(v) for v in (db, ab, bb, dr, ar, br))
        ctx.instr(
            api,
            dst_at,
            refs,
            integer(mask),
            integer(repeat),
            Struct(fields, _BINARY_TYPES),
            inplace=inplace,
            partial=True,
            group=group,
        )

    group = ctx.group()
    _sweep(ctx, dst, layout, operands, emit)


def broadcast(ctx: Context, dst: Ref, layout: Layout, source: Operand) -> None:
    """Copies a row or column of 4-byte elements over a whole tile."""
    _define_tail(ctx, dst, layout)
    ref, kind = source
    operand = (blocks_of(ctx, ref, layout.rows), kind) if kind == "column" else (ref, kind)

    def emit(dst_at: Ref, refs: tuple[Ref, ...], mask: int, repeat: int, strides: list[tuple[int, int]]) -> None:
        (db, dr), (sb, sr) = strides
        fields = tuple(integer(v) for v in (db, sb, dr, sr))
        ctx.instr(
            "Copy",
            dst_at,
            refs,
            integer(mask),
            integer(repeat),
            Struct(fields, _COPY_TYPES),
            partial=True,
            group=group,
        )

    group = ctx.group()
    _sweep(ctx, dst, layout, (operand,), emit)


def _define_tail(ctx: Context, dst: Ref, layout: Layout) -> None:
    """Strided instructions stop at the last row: gives the padding behind it a value."""
    used = layout.rows * layout.pitch
    if used < layout.size:
        zero = number(0, dst.ctype)
        ctx.instr("Duplicate", at(dst, used), (), zero, integer(layout.size - used), partial=True)


def number(value: bool | int | float, ctype: str) -> Expr:
    return Number(value, ctype)


def _sweep(ctx: Context, dst: Ref, layout: Layout, operands: tuple[Operand, ...], emit: Emit) -> None:
    """Walks the tile either in columns of one repeat (all rows in one instruction) or row by row, whichever takes
    fewer instructions."""
    pitch_blocks = layout.pitch // BLOCK
    chunks = -(-layout.pitch // REPEAT)
    by_columns = chunks * -(-layout.rows // ctx.arch.max_repeat)
    if pitch_blocks <= ctx.arch.max_stride and by_columns <= layout.rows:
        _by_columns(ctx, dst, layout, operands, emit)
    else:
        _by_rows(ctx, dst, layout, operands, emit)


def _by_columns(ctx: Context, dst: Ref, layout: Layout, operands: tuple[Operand, ...], emit: Emit) -> None:
    pitch = layout.pitch
    stride = {"full": (1, pitch // BLOCK), "row": (1, 0), "column": (0, 1)}
    strides = [stride["full"], *(stride[k] for _, k in operands)]

    def chunk(col: Expr, mask: int) -> None:
        for first in range(0, layout.rows, ctx.arch.max_repeat):
            repeat = min(ctx.arch.max_repeat, layout.rows - first)
            moved = {
                "full": add(col, integer(first * pitch)),
                "row": col,
                "column": integer(first * BLOCK),
            }
            emit(at(dst, moved["full"]), tuple(at(r, moved[k]) for r, k in operands), mask, repeat, strides)

    whole = pitch // REPEAT
    if whole > 2:
        with ctx.loop("col", integer(0), integer(whole * REPEAT), integer(REPEAT), independent=True) as col:
            chunk(col, REPEAT)
    else:
        for i in range(whole):
            chunk(integer(i * REPEAT), REPEAT)
    if pitch % REPEAT:
        chunk(integer(whole * REPEAT), pitch % REPEAT)


def _by_rows(ctx: Context, dst: Ref, layout: Layout, operands: tuple[Operand, ...], emit: Emit) -> None:
    pitch = layout.pitch
    stride = {"full": (1, BLOCK), "row": (1, BLOCK), "column": (0, 0)}
    strides = [stride["full"], *(stride[k] for _, k in operands)]

    def piece(row: Expr, col: int, mask: int, repeat: int) -> None:
        moved = {
            "full": add(mul(row, integer(pitch)), integer(col)),
            "row": integer(col),
            "column": mul(row, integer(BLOCK)),
        }
        emit(at(dst, moved["full"]), tuple(at(r, moved[k]) for r, k in operands), mask, repeat, strides)

    with ctx.loop("row", integer(0), integer(layout.rows), integer(1), independent=True) as row:
        whole = pitch // REPEAT
        for first in range(0, whole, ctx.arch.max_repeat):
            piece(row, first * REPEAT, REPEAT, min(ctx.arch.max_repeat, whole - first))
        if pitch % REPEAT:
            piece(row, whole * REPEAT, pitch % REPEAT, 1)
