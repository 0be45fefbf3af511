"""Elementwise operations on tiles."""

from __future__ import annotations

from ..ir import Arange, Binary, Broadcast, Cast, Compare, Full, Op, Select, Unary, Value, bool_, float32, int32
from ..ir.device import Enum, Ref
from ..ir.expr import Apply, Expr, Number, bounds, integer
from . import strided
from .context import TILE_CTYPE, Context, Tile, cast_ref
from .forms import (
    NONE,
    RINT,
    ROUND_MODES,
    TENSOR_SCALAR,
    TENSOR_TENSOR,
    bits,
    define,
    finish,
    native,
    new_bits,
    share,
    spread,
    spread_bits,
    work,
    work_ctype,
)
from .layout import kind_of
from .maths import tanh

_VECTOR = {"add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "maximum": "Max", "minimum": "Min"}
_SCALAR = {"add": "Adds", "mul": "Muls", "maximum": "Maxs", "minimum": "Mins"}
_COMPARE = {p: Enum(f"CMPMODE::{p.upper()}") for p in ("eq", "ne", "lt", "le", "gt", "ge")}
_SWAPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
#: Integers up to here are exact as float32.
_EXACT = 1 << 24


def unary(ctx: Context, op: Unary) -> None:
    if op.result.dtype == bool_:
        _not(ctx, op)
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
            ctx.instr("Muls", dst, (src,), Number(-1 if dst.ctype == "int32_t" else -1.0, dst.ctype), count, inplace=True)
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
        _logic(ctx, op)
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


def _scalar_operand(ctx: Context, value: Value, shape: tuple[int, ...]) -> Expr | None:
    """The operand as a scalar: a scalar value, or the only element of a tile that spans a larger result."""
    if value.is_scalar:
        return ctx.scalar(value)
    tile = ctx.tile(value)
    if kind_of(tile.shape, shape) != "one":
        return None
    return ctx.read(tile.name, work(ctx, tile), work_ctype(tile.dtype))


def _arithmetic(ctx: Context, op: Binary, tile: Tile, dst: Ref) -> None:
    count = integer(tile.layout.size)
    lhs, rhs = (_scalar_operand(ctx, v, tile.shape) for v in (op.lhs, op.rhs))
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


def _range(ctx: Context, value: Value) -> tuple[int | None, int | None]:
    if value.is_scalar:
        return bounds(ctx.scalar(value))
    tile = ctx.tile(value)
    return tile.low, tile.high


def _integer_bounds(ctx: Context, op: Binary, tile: Tile) -> None:
    """Keeps the range of integer tiles made from positions, so that comparing them can be done in float."""
    (a, b), (c, d) = _range(ctx, op.lhs), _range(ctx, op.rhs)
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
    if -(2**31) <= ends[0] and ends[1] < 2**31:
        tile.low, tile.high = ends


def compare(ctx: Context, op: Compare) -> None:
    tile = ctx.tile(op.result)
    if op.lhs.dtype == bool_:
        raise ctx.refuse("bool tiles are compared with ==, which has no lowering; use &, | and ~", op)
    dst = new_bits(ctx, op.result.name, tile.layout)
    if op.lhs.dtype == int32 and not _small(ctx, op):
        _compare_int(ctx, op, tile, dst)
    elif op.lhs.dtype == int32 and op.lhs.is_tile and op.rhs.is_tile:
        # Both sides and their difference are exact in float32, and one comparison with zero is enough.
        difference = ctx.temp("difference", "float", tile.layout.size)
        a, b = (_as_float(ctx, ctx.tile(v)) for v in (op.lhs, op.rhs))
        kinds = [kind_of(v.shape, tile.shape) for v in (op.lhs, op.rhs)]
        if "one" in kinds:
            _compare_int(ctx, op, tile, dst)
        else:
            strided.binary(ctx, "Sub", difference, tile.layout, (a, kinds[0]), (b, kinds[1]))
            _against(ctx, dst, difference, Number(0.0, "float"), op.predicate, tile)
    else:
        _compare_float(ctx, op, tile, dst)
    ctx.hold(tile, "bits", dst)


def _against(ctx: Context, dst: Ref, src: Ref, scalar: Expr, predicate: str, tile: Tile) -> None:
    ctx.instr("CompareScalar", dst, (src,), scalar, _COMPARE[predicate], integer(tile.layout.size))


def _small(ctx: Context, op: Compare) -> bool:
    ends = (*_range(ctx, op.lhs), *_range(ctx, op.rhs))
    return all(e is not None and abs(e) <= _EXACT // 2 for e in ends)


def _as_float(ctx: Context, tile: Tile) -> Ref:
    if tile.dtype != int32:
        return work(ctx, tile)
    held = ctx.form(tile, "float")
    if held is None:
        held = ctx.temp(f"{tile.name}_f32", "float", tile.layout.size)
        ctx.instr("Cast", held, (native(ctx, tile),), NONE, integer(tile.layout.size))
        ctx.hold(tile, "float", held)
    return held


def _compare_float(ctx: Context, op: Compare, tile: Tile, dst: Ref) -> None:
    predicate, lhs, rhs = op.predicate, op.lhs, op.rhs
    if lhs.is_scalar:
        predicate, lhs, rhs = _SWAPPED[predicate], rhs, lhs
    scalar = _scalar_operand(ctx, rhs, tile.shape)
    if lhs.dtype == int32:
        scalar = Apply("cast", (ctx.scalar(rhs),), "float")
        _against(ctx, dst, _as_float(ctx, ctx.tile(lhs)), scalar, predicate, tile)
    elif scalar is not None:
        _against(ctx, dst, spread(ctx, lhs, tile.shape, op), scalar, predicate, tile)
    else:
        pair = (spread(ctx, lhs, tile.shape, op), spread(ctx, rhs, tile.shape, op))
        ctx.instr("Compare", dst, pair, _COMPARE[predicate], integer(tile.layout.size))


def _compare_int(ctx: Context, op: Compare, tile: Tile, dst: Ref) -> None:
    """The unit compares int32 for equality only: ``a <= b`` is ``max(a, b) == b``, ``a >= b`` is ``min(a, b) == b``."""
    a, b = spread(ctx, op.lhs, tile.shape, op), spread(ctx, op.rhs, tile.shape, op)
    count = integer(tile.layout.size)
    if op.predicate in ("le", "gt", "ge", "lt"):
        extreme = ctx.temp("extreme", "int32_t", tile.layout.size)
        ctx.instr("Max" if op.predicate in ("le", "gt") else "Min", extreme, (a, b), count, inplace=True)
        a = extreme
    ctx.instr("Compare", dst, (a, b), _COMPARE["eq"], count)
    if op.predicate in ("ne", "gt", "lt"):
        _bitwise(ctx, "Not", dst, (dst,), tile)


def _bitwise(ctx: Context, api: str, dst: Ref, sources: tuple[Ref, ...], tile: Tile) -> None:
    words = integer(tile.layout.size // 16)
    ctx.instr(
        api, cast_ref(dst, "uint16_t"), tuple(cast_ref(s, "uint16_t") for s in sources), words, inplace=True
    )


def _not(ctx: Context, op: Unary) -> None:
    tile = ctx.tile(op.result)
    dst = new_bits(ctx, op.result.name, tile.layout)
    _bitwise(ctx, "Not", dst, (bits(ctx, ctx.tile(op.operand)),), tile)
    ctx.hold(tile, "bits", dst)


def _logic(ctx: Context, op: Binary) -> None:
    tile = ctx.tile(op.result)
    a, b = (spread_bits(ctx, v, tile.shape, op) for v in (op.lhs, op.rhs))
    dst = new_bits(ctx, op.result.name, tile.layout)
    if op.kind == "xor":
        both = new_bits(ctx, "both", tile.layout)
        _bitwise(ctx, "And", both, (a, b), tile)
        _bitwise(ctx, "Not", both, (both,), tile)
        _bitwise(ctx, "Or", dst, (a, b), tile)
        _bitwise(ctx, "And", dst, (dst, both), tile)
    else:
        _bitwise(ctx, {"and": "And", "or": "Or"}[op.kind], dst, (a, b), tile)
    ctx.hold(tile, "bits", dst)


def select(ctx: Context, op: Select) -> None:
    tile = ctx.tile(op.result)
    mask = spread_bits(ctx, op.condition, tile.shape, op)
    if op.result.dtype == bool_:
        _select_bits(ctx, op, tile, mask)
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


def _select_bits(ctx: Context, op: Select, tile: Tile, mask: Ref) -> None:
    a, b = (spread_bits(ctx, v, tile.shape, op) for v in (op.on_true, op.on_false))
    chosen, dst = new_bits(ctx, "chosen", tile.layout), new_bits(ctx, op.result.name, tile.layout)
    other = new_bits(ctx, "other", tile.layout)
    _bitwise(ctx, "And", chosen, (mask, a), tile)
    _bitwise(ctx, "Not", other, (mask,), tile)
    _bitwise(ctx, "And", other, (other, b), tile)
    _bitwise(ctx, "Or", dst, (chosen, other), tile)
    ctx.hold(tile, "bits", dst)


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
            _bitwise(ctx, "Not", dst, (dst,), tile)
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
        tile.low, tile.high = _range(ctx, op.operand)
    if op.operand.is_tile and ctx.form(ctx.tile(op.operand), work_ctype(op.result.dtype)) is whole:
        share(ctx, tile, ctx.tile(op.operand))
        return
    finish(ctx, tile, whole)


def arange(ctx: Context, op: Arange) -> None:
    """Doubles a short run: each instruction appends what is there, moved on by its length."""
    tile, dst = define(ctx, op.result)
    start = ctx.scalar(op.start)
    first = Apply("cast", (start,), "int32_t") if start.ctype != "int32_t" else start
    low, high = bounds(start)
    if low is not None and high is not None:
        tile.low, tile.high = low, high + tile.layout.size
    ctx.instr("CreateVecIndex", dst, (), first, integer(tile.layout.size))
    finish(ctx, tile, dst)


