"""Sums, means, maxima and minima along an axis."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from ..ir import Reduce, bfloat16, float16
from ..ir.device import Enum, Ref, Struct
from ..ir.expr import Apply, Expr, Number, add, compare, integer, known, minimum, mul, sub
from .context import SCALAR_CTYPE, Context, Tile, at
from .forms import define, finish, share, work
from .layout import BLOCK, REPEAT, Layout

_FOLD = {"sum": "Add", "max": "Max", "min": "Min"}
_WHOLE = {"sum": "WholeReduceSum", "max": "WholeReduceMax", "min": "WholeReduceMin"}
_IDENTITY = {"sum": 0.0, "max": -math.inf, "min": math.inf}
_VALUE_ONLY = Enum("ReduceOrder::ORDER_ONLY_VALUE")


def reduce(ctx: Context, op: Reduce) -> None:
    operand = ctx.tile(op.operand)
    kind = "sum" if op.kind == "mean" else op.kind
    extent = operand.extents[op.axis]
    if operand.shape[op.axis] == 1 and op.result.is_tile:
        share(ctx, ctx.tile(op.result), operand)
        return
    src = work(ctx, operand)
    if operand.layout.rows == 1:
        _to_scalar(ctx, op, kind, src, operand, extent)
        return
    tile, dst = define(ctx, op.result)
    if op.axis == 0:
        _rows(ctx, kind, dst, src, operand.layout, extent)
    else:
        _columns(ctx, kind, dst, src, operand.layout, extent, tile.layout)
    if op.kind == "mean":
        _divide(ctx, dst, extent, tile.layout)
    finish(ctx, tile, dst)


def _divide(ctx: Context, dst: Ref, extent: Expr, layout: Layout) -> None:
    count = ctx.temp("count", "float", layout.size)
    ctx.instr("Duplicate", count, (), _as_float(extent), integer(layout.size))
    ctx.instr("Div", dst, (dst, count), integer(layout.size), inplace=True)


def _as_float(extent: Expr) -> Expr:
    static = known(extent)
    return Number(float(static), "float") if static is not None else Apply("cast", (extent,), "float")


def _rows(ctx: Context, kind: str, dst: Ref, src: Ref, layout: Layout, extent: Expr) -> None:
    """Along axis 0: whole rows are added up, one after the other."""
    width = Layout.of((layout.cols,), ctx.granule).size
    ctx.instr("Duplicate", dst, (), Number(_IDENTITY[kind], "float"), integer(width))
    pitch = integer(layout.pitch)
    with ctx.loop("row", integer(0), extent, integer(1)) as row:
        ctx.instr(_FOLD[kind], dst, (dst, at(src, mul(row, pitch))), pitch, accumulates=True, partial=True)


def _columns(ctx: Context, kind: str, dst: Ref, src: Ref, layout: Layout, extent: Expr, result: Layout) -> None:
    """Along axis 1: 64-wide columns are folded onto the first, whose rows one instruction each then reduces."""
    static = known(extent)
    if static is None:
        src = _padded(ctx, kind, src, layout, extent)
        static = layout.cols
    if static == 0:
        ctx.instr("Duplicate", dst, (), Number(_IDENTITY[kind], "float"), integer(result.size))
        return
    if result.size > layout.rows:
        ctx.instr("Duplicate", dst, (), Number(0.0, "float"), integer(result.size))
    if layout.pitch // BLOCK > ctx.arch.max_stride:
        _wide_rows(ctx, kind, dst, src, layout, static)
        return
    stride = layout.pitch // BLOCK
    if static > REPEAT:
        src, stride = _fold(ctx, kind, src, layout, static), REPEAT // BLOCK
    _whole(ctx, kind, dst, src, min(static, REPEAT), layout.rows, stride)


def _whole(ctx: Context, kind: str, dst: Ref, src: Ref, mask: int, repeats: int, stride: int) -> None:
    """Each repeat reduces ``mask`` elements to one; repeats lie ``stride`` blocks apart."""
    group = ctx.group()
    extra = () if kind == "sum" else (_VALUE_ONLY,)
    for first in range(0, repeats, ctx.arch.max_repeat):
        count = min(ctx.arch.max_repeat, repeats - first)
        ctx.instr(
            _WHOLE[kind],
            at(dst, first),
            (at(src, first * stride * BLOCK),),
            integer(mask),
            integer(count),
            integer(1),
            integer(1),
            integer(stride),
            *extra,
            partial=True,
            group=group,
        )


def _fold(ctx: Context, kind: str, src: Ref, layout: Layout, cols: int) -> Ref:
    """A tile of 64 columns whose row results equal those of ``src``."""
    folded = ctx.temp("folded", "float", layout.rows * REPEAT)
    whole, tail = divmod(cols, REPEAT)
    stride = layout.pitch // BLOCK

    def step(first: Ref, col: Expr, mask: int, first_stride: int) -> None:
        fields = (1, 1, 1, REPEAT // BLOCK, first_stride, stride)
        params = Struct(tuple(integer(f) for f in fields), ("uint8_t",) * 6)
        group = ctx.group()
        for row in range(0, layout.rows, ctx.arch.max_repeat):
            repeat = min(ctx.arch.max_repeat, layout.rows - row)
            ctx.instr(
                _FOLD[kind],
                at(folded, row * REPEAT),
                (at(first, row * first_stride * BLOCK), at(src, add(col, integer(row * layout.pitch)))),
                integer(mask),
                integer(repeat),
                params,
                partial=True,
                group=group,
            )

    if whole >= 2:
        step(src, integer(REPEAT), REPEAT, stride)
        start = 2
    else:
        _copy_columns(ctx, folded, src, layout)
        start = 1
    if whole - start > 2:
        with ctx.loop("col", integer(start * REPEAT), integer(whole * REPEAT), integer(REPEAT)) as col:
            step(folded, col, REPEAT, REPEAT // BLOCK)
    else:
        for i in range(start, whole):
            step(folded, integer(i * REPEAT), REPEAT, REPEAT // BLOCK)
    if tail:
        step(folded, integer(whole * REPEAT), tail, REPEAT // BLOCK)
    return folded


def _copy_columns(ctx: Context, dst: Ref, src: Ref, layout: Layout) -> None:
    fields = tuple(integer(v) for v in (1, 1, REPEAT // BLOCK, layout.pitch // BLOCK))
    group = ctx.group()
    for row in range(0, layout.rows, ctx.arch.max_repeat):
        repeat = min(ctx.arch.max_repeat, layout.rows - row)
        ctx.instr(
            "Copy",
            at(dst, row * REPEAT),
            (at(src, row * layout.pitch),),
            integer(REPEAT),
            integer(repeat),
            Struct(fields, ("uint16_t",) * 4),
            partial=True,
            group=group,
        )


def _wide_rows(ctx: Context, kind: str, dst: Ref, src: Ref, layout: Layout, cols: int) -> None:
    """Rows too long for a repeat stride: each is reduced in two or three levels on its own."""
    partials = -(-cols // REPEAT)
    level = ctx.temp("partials", "float", max(-(-partials // REPEAT) * REPEAT, REPEAT))
    ctx.instr("Duplicate", level, (), Number(_IDENTITY[kind], "float"), integer(_level_size(partials)))
    with ctx.loop("row", integer(0), integer(layout.rows), integer(1)) as row:
        start = mul(row, integer(layout.pitch))
        whole, tail = divmod(cols, REPEAT)
        if whole:
            _whole(ctx, kind, level, at(src, start), REPEAT, whole, REPEAT // BLOCK)
        if tail:
            _whole(ctx, kind, at(level, whole), at(src, add(start, integer(whole * REPEAT))), tail, 1, 1)
        last, count = level, partials
        while count > REPEAT:
            fewer_count = -(-count // REPEAT)
            fewer = ctx.temp("partials", "float", _level_size(fewer_count))
            ctx.instr("Duplicate", fewer, (), Number(_IDENTITY[kind], "float"), integer(_level_size(fewer_count)))
            _whole(ctx, kind, fewer, last, REPEAT, fewer_count, REPEAT // BLOCK)
            last, count = fewer, fewer_count
        _whole(ctx, kind, at(dst, row), last, count, 1, 1)


def _level_size(elements: int) -> int:
    return -(-elements // REPEAT) * REPEAT


def _padded(ctx: Context, kind: str, src: Ref, layout: Layout, extent: Expr) -> Ref:
    """A copy of the tile in which columns from ``extent`` on hold the identity of the reduction."""
    copy = ctx.temp("padded", "float", layout.size)
    ctx.instr("DataCopy", copy, (src,), integer(layout.size))
    identity = Number(_IDENTITY[kind], "float")
    with ctx.branch(compare("<", extent, integer(layout.cols))):
        first = ctx.let("first", mul(Apply("/", (extent, integer(REPEAT)), "int64_t"), integer(REPEAT)))
        inside = ctx.let("inside", sub(extent, first))
        end = minimum(integer(REPEAT), sub(integer(layout.pitch), first))
        mask = ctx.let("mask", Apply("bit_range", (inside, end), "uint64_t"))
        one_row = layout.rows == 1 or layout.pitch // BLOCK > ctx.arch.max_stride
        with _rows_of(ctx, layout.rows if one_row else 1) as row:
            base = mul(row, integer(layout.pitch))
            _fill(ctx, copy, identity, add(base, first), mask, layout, one_row, integer(REPEAT))
            with ctx.loop("col", add(first, integer(REPEAT)), integer(layout.pitch), integer(REPEAT)) as col:
                room = minimum(integer(REPEAT), sub(integer(layout.pitch), col))
                width = integer(REPEAT) if layout.pitch % REPEAT == 0 else room
                _fill(ctx, copy, identity, add(base, col), None, layout, one_row, width)
    return copy


@contextmanager
def _rows_of(ctx: Context, rows: int) -> Iterator[Expr]:
    if rows == 1:
        yield integer(0)
        return
    with ctx.loop("row", integer(0), integer(rows), integer(1)) as row:
        yield row


def _fill(
    ctx: Context,
    copy: Ref,
    identity: Number,
    offset: Expr,
    mask: Expr | None,
    layout: Layout,
    one_row: bool,
    width: Expr,
) -> None:
    repeats = 1 if one_row else layout.rows
    stride = BLOCK if repeats == 1 else layout.pitch // BLOCK
    for first in range(0, repeats, ctx.arch.max_repeat):
        count = min(ctx.arch.max_repeat, repeats - first)
        place = at(copy, add(offset, integer(first * layout.pitch)))
        bits = Struct((mask, integer(0)), ("uint64_t", "uint64_t"), "masks") if mask is not None else width
        ctx.instr("Duplicate", place, (), identity, bits, integer(count), integer(1), integer(stride), partial=True)


def _to_scalar(ctx: Context, op: Reduce, kind: str, src: Ref, operand: Tile, extent: Expr) -> None:
    """A vector to one element: level by level, 64 elements to one."""
    static = known(extent)
    layout = operand.layout
    if static is None:
        src = _padded(ctx, kind, src, Layout(1, layout.cols, layout.pitch, layout.size), extent)
        static = layout.cols
    count, last = static, src
    while count > 1:
        partials = -(-count // REPEAT)
        fewer = ctx.temp("partials", "float", _level_size(partials))
        ctx.instr("Duplicate", fewer, (), Number(0.0, "float"), integer(_level_size(partials)))
        whole, tail = divmod(count, REPEAT)
        if whole:
            _whole(ctx, kind, fewer, last, REPEAT, whole, REPEAT // BLOCK)
        if tail:
            _whole(ctx, kind, at(fewer, whole), at(last, whole * REPEAT), tail, 1, 1)
        last, count = fewer, partials
    if static == 0:
        last = ctx.temp("nothing", "float", REPEAT)
        ctx.instr("Duplicate", last, (), Number(_IDENTITY[kind], "float"), integer(REPEAT))
    if op.result.is_tile:
        tile, dst = define(ctx, op.result)
        ctx.instr("DataCopy", dst, (last,), integer(REPEAT))
        if op.kind == "mean":
            _divide(ctx, dst, extent, tile.layout)
        finish(ctx, tile, dst)
        return
    value: Expr = ctx.read(op.result.name, last, "float")
    if op.kind == "mean":
        value = Apply("/", (value, _as_float(extent)), "float")
    if op.result.dtype in (float16, bfloat16):
        value = Apply(f"round_{op.result.dtype.short}", (value,), SCALAR_CTYPE[op.result.dtype])
    ctx.scalars[op.result] = ctx.let(op.result.name, value)
