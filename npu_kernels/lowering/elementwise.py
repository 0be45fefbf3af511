"""Elementwise operations on tiles."""

from __future__ import annotations

from ..ir import Arange, Binary, Broadcast, Cast, Full, Op, Select, Unary, bool_, float32, int32
from ..ir.device import Enum, Ref
from ..ir.expr import Apply, Number, bounds, integer
from . import masks, strided
from .context import TILE_CTYPE, Context, Tile, cast_ref
from .forms import (
    NONE,
    RINT,
    ROUND_MODES,
    TENSOR_SCALAR,
    TENSOR_TENSOR,
    define,
    finish,
    native,
    new_bits,
    scalar_operand,
    share,
    spread,
    spread_bits,
    value_range,
    work,
    work_ctype,
)
from .layout import kind_of
from .maths import tanh

_VECTOR = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "maximum": "Max", "minimum": "Min"}
_SCALAR = {"add": "Adds", "mul": "Muls", "maximum": "Maxs", "minimum": "Mins"}


def unary(ctx: Context, op: Unary) -> None:
    if op.result.dtype == bool_:
        masks.invert(ctx, op)
        return
    tile, dst = define(ctx, op.result)
    src = work(ctx, ctx.tile(op.operand))
    unary_into(ctx, op, op.kind, dst, src, tile.layout.size)
    finish(ctx, tile, dst)


def unary_into(ctx: Context, op: Op, kind: str, dst: Ref, src: Ref, size: int) -> None:
    """``dst = kind(src)`` over ``size`` elements of the computing type."""
    count = integer(size)
    one = Number(1.0, "float")
    match kind:
        case "exp" | "log" | "sqrt":
            ctx.instr({"exp": "Exp", "log": "Ln", "sqrt": "Sqrt"}[kind], dst, (src,), count, inplace=True)
        case "abs" if dst.ctype == "float":
            ctx.instr("Abs", dst, (src,), count, inplace=True)
        case "abs":
            opposite = ctx.temp("opposite", dst.ctype, size)
            ctx.instr("Muls", opposite, (src,), Number(-1, dst.ctype), count, inplace=True)
            ctx.instr("Max", dst, (src, opposite), count, inplace=True)
        case "neg":
            ctx.instr(
                "Muls", dst, (src,), Number(-1 if dst.ctype == "int32_t" else -1.0, dst.ctype), count, inplace=True
            )
        case "reciprocal" | "rsqrt":
            # The reciprocal instructions are approximations; a division is rounded correctly.
            if kind == "rsqrt":
                root = ctx.temp("root", "float", size)
                ctx.instr("Sqrt", root, (src,), count, inplace=True)
                src = root
            ones = ctx.temp("ones", "float", size)
            ctx.instr("Duplicate", ones, (), one, count)
            ctx.instr("Div", dst, (ones, src), count, inplace=True)
        case "tanh":
            tanh(ctx, dst, src, size)
        case _:
            raise ctx.refuse(f"{kind} of a {dst.ctype} tile has no lowering", op)


def binary(ctx: Context, op: Binary) -> None:
    if op.result.dtype == bool_:
        masks.logic(ctx, op)
        return
    if op.kind not in _VECTOR or (op.kind == "div" and op.result.dtype == int32):
        raise ctx.refuse(
            f"{op.kind} of {op.result.dtype} tiles has no instruction; cast to float32, or compute it on scalars", op
        )
    tile, dst = define(ctx, op.result)
    _arithmetic(ctx, op, tile, dst)
    if op.result.dtype == int32:
        _integer_bounds(ctx, op, tile)
    finish(ctx, tile, dst)


def _arithmetic(ctx: Context, op: Binary, tile: Tile, dst: Ref) -> None:
    count = integer(tile.layout.size)
    lhs, rhs = (scalar_operand(ctx, v, tile.shape) for v in (op.lhs, op.rhs))
    if lhs is None and rhs is None:
        a, b = (ctx.tile(v) for v in (op.lhs, op.rhs))
        strided.binary(
            ctx,
            _VECTOR[op.kind],
            dst,
            tile.layout,
            (work(ctx, a), kind_of(a.shape, tile.shape)),
            (work(ctx, b), kind_of(b.shape, tile.shape)),
        )
        return
    scalar = lhs if lhs is not None else rhs
    other = op.rhs if lhs is not None else op.lhs
    assert scalar is not None
    src = spread(ctx, other, tile.shape, op)
    if op.kind in _SCALAR:
        ctx.instr(_SCALAR[op.kind], dst, (src,), scalar, count, inplace=True)
    elif op.kind == "sub" and rhs is not None:
        ctx.instr("Adds", dst, (src,), Apply("neg", (scalar,), scalar.ctype), count, inplace=True)
    else:
        whole = ctx.temp("scalar", dst.ctype, tile.layout.size)
        ctx.instr("Duplicate", whole, (), scalar, count)
        pair = (whole, src) if lhs is not None else (src, whole)
        ctx.instr(_VECTOR[op.kind], dst, pair, count, inplace=True)


def _integer_bounds(ctx: Context, op: Binary, tile: Tile) -> None:
    """Keeps the range of integer tiles made from positions, so that comparing them can be done in float."""
    (a, b), (c, d) = value_range(ctx, op.lhs), value_range(ctx, op.rhs)
    if None in (a, b, c, d):
        return
    assert a is not None and b is not None and c is not None and d is not None
    ends = {
        "add": (a + c, b + d),
        "sub": (a - d, b - c),
        "mul": (min(a * c, a * d, b * c, b * d), max(a * c, a * d, b * c, b * d)),
        "maximum": (max(a, c), max(b, d)),
        "minimum": (min(a, c), min(b, d)),
    }[op.kind]
    if ends[0] >= -(2**31) and ends[1] < 2**31:
        tile.low, tile.high = ends


def select(ctx: Context, op: Select) -> None:
    tile = ctx.tile(op.result)
    mask = spread_bits(ctx, op.condition, tile.shape, op)
    if op.result.dtype == bool_:
        masks.select_bits(ctx, op, tile, mask)
        return
    _, dst = define(ctx, op.result)
    on_true = spread(ctx, op.on_true, tile.shape, op)
    count = integer(tile.layout.size)
    if op.on_false.is_scalar and op.result.dtype != int32:
        ctx.instr("Select", dst, (mask, on_true), ctx.scalar(op.on_false), TENSOR_SCALAR, count, inplace=True)
    else:
        # Selection moves bits, so that integers pass through it as floats.
        on_false = spread(ctx, op.on_false, tile.shape, op)
        sources = (mask, cast_ref(on_true, "float"), cast_ref(on_false, "float"))
        ctx.instr("Select", cast_ref(dst, "float"), sources, TENSOR_TENSOR, count, inplace=True)
    finish(ctx, tile, dst)


def cast(ctx: Context, op: Cast) -> None:
    source, target = op.operand.dtype, op.result.dtype
    tile, operand = ctx.tile(op.result), ctx.tile(op.operand)
    if source == target:
        share(ctx, tile, operand)
        tile.low, tile.high = operand.low, operand.high
        return
    count, mode = integer(tile.layout.size), ROUND_MODES[op.rounding]
    if target == bool_:
        dst = new_bits(ctx, op.result.name, tile.layout)
        zero = Number(0 if source == int32 else 0.0, work_ctype(source))
        equal = Enum("CMPMODE::EQ") if source == int32 else Enum("CMPMODE::NE")
        ctx.instr("CompareScalar", dst, (work(ctx, operand),), zero, equal, count)
        if source == int32:
            masks.bitwise(ctx, "Not", dst, (dst,), tile)
        ctx.hold(tile, "bits", dst)
        return
    ctype = TILE_CTYPE[target]
    if source == int32 and target != float32:
        wide = ctx.temp(f"{op.result.name}_f32", "float", tile.layout.size)
        ctx.instr("Cast", wide, (native(ctx, operand),), mode, count)
        src = wide
    elif source == int32:
        src = native(ctx, operand)
    elif target == float32 and source != bool_:
        share_float = ctx.form(operand, "float")
        if share_float is not None:
            ctx.hold(tile, "float", share_float)
            return
        src, mode = native(ctx, operand), NONE
    else:
        src = work(ctx, operand)
        if source == bool_:
            mode = RINT
            if target == float32:
                ctx.hold(tile, "float", src)
                return
    dst = ctx.temp(op.result.name, ctype, tile.layout.size)
    ctx.instr("Cast", dst, (src,), mode, count)
    ctx.hold(tile, ctype, dst)


def full(ctx: Context, op: Full) -> None:
    tile = ctx.tile(op.result)
    if op.result.dtype == bool_:
        ctx.hold(tile, "bits", spread_bits(ctx, op.value, tile.shape, op))
        return
    _, dst = define(ctx, op.result)
    ctx.instr("Duplicate", dst, (), ctx.scalar(op.value), integer(tile.layout.size))
    if op.result.dtype == int32:
        tile.low, tile.high = bounds(ctx.scalar(op.value))
    finish(ctx, tile, dst)


def broadcast(ctx: Context, op: Broadcast) -> None:
    tile = ctx.tile(op.result)
    if op.result.dtype == bool_:
        ctx.hold(tile, "bits", spread_bits(ctx, op.operand, tile.shape, op))
        return
    whole = spread(ctx, op.operand, tile.shape, op)
    if op.result.dtype == int32:
        tile.low, tile.high = value_range(ctx, op.operand)
    if op.operand.is_tile and ctx.form(ctx.tile(op.operand), work_ctype(op.result.dtype)) is whole:
        share(ctx, tile, ctx.tile(op.operand))
        return
    finish(ctx, tile, whole)


def arange(ctx: Context, op: Arange) -> None:
    tile, dst = define(ctx, op.result)
    start = ctx.scalar(op.start)
    first = Apply("cast", (start,), "int32_t") if start.ctype != "int32_t" else start
    low, high = bounds(start)
    if low is not None and high is not None:
        tile.low, tile.high = low, high + tile.layout.size
    ctx.instr("CreateVecIndex", dst, (), first, integer(tile.layout.size))
    finish(ctx, tile, dst)
