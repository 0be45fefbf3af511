"""Comparisons and logic: masks of one bit for each element."""

from __future__ import annotations

from ..ir import Binary, Compare, Select, Unary, bool_, int32
from ..ir.device import Enum, Ref
from ..ir.expr import Apply, Expr, Number, integer
from . import strided
from .context import Context, Tile, cast_ref
from .forms import NONE, bits, native, new_bits, scalar_operand, spread, spread_bits, value_range, work
from .layout import kind_of

_COMPARE = {p: Enum(f"CMPMODE::{p.upper()}") for p in ("eq", "ne", "lt", "le", "gt", "ge")}
_SWAPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
#: Integers up to here are exact as float32.
_EXACT = 1 << 24


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
    ends = (*value_range(ctx, op.lhs), *value_range(ctx, op.rhs))
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
    scalar = scalar_operand(ctx, rhs, tile.shape)
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
        bitwise(ctx, "Not", dst, (dst,), tile)


def bitwise(ctx: Context, api: str, dst: Ref, sources: tuple[Ref, ...], tile: Tile) -> None:
    words = integer(tile.layout.size // 16)
    ctx.instr(api, cast_ref(dst, "uint16_t"), tuple(cast_ref(s, "uint16_t") for s in sources), words, inplace=True)


def invert(ctx: Context, op: Unary) -> None:
    tile = ctx.tile(op.result)
    dst = new_bits(ctx, op.result.name, tile.layout)
    bitwise(ctx, "Not", dst, (bits(ctx, ctx.tile(op.operand)),), tile)
    ctx.hold(tile, "bits", dst)


def logic(ctx: Context, op: Binary) -> None:
    tile = ctx.tile(op.result)
    a, b = (spread_bits(ctx, v, tile.shape, op) for v in (op.lhs, op.rhs))
    dst = new_bits(ctx, op.result.name, tile.layout)
    if op.kind == "xor":
        both = new_bits(ctx, "both", tile.layout)
        bitwise(ctx, "And", both, (a, b), tile)
        bitwise(ctx, "Not", both, (both,), tile)
        bitwise(ctx, "Or", dst, (a, b), tile)
        bitwise(ctx, "And", dst, (dst, both), tile)
    else:
        bitwise(ctx, {"and": "And", "or": "Or"}[op.kind], dst, (a, b), tile)
    ctx.hold(tile, "bits", dst)


def select_bits(ctx: Context, op: Select, tile: Tile, mask: Ref) -> None:
    a, b = (spread_bits(ctx, v, tile.shape, op) for v in (op.on_true, op.on_false))
    chosen, dst = new_bits(ctx, "chosen", tile.layout), new_bits(ctx, op.result.name, tile.layout)
    other = new_bits(ctx, "other", tile.layout)
    bitwise(ctx, "And", chosen, (mask, a), tile)
    bitwise(ctx, "Not", other, (mask,), tile)
    bitwise(ctx, "And", other, (other, b), tile)
    bitwise(ctx, "Or", dst, (chosen, other), tile)
    ctx.hold(tile, "bits", dst)
