"""The forms a tile is held in, and the casts between them.

A float tile is computed as ``float`` whatever its dtype, since the vector unit has no bfloat16 arithmetic; after each
operation a half-precision result is rounded to its dtype. A mask is held as bits, one per element, or as ``float``
zeros and ones where it has to be broadcast, stored or counted.
"""

from __future__ import annotations

from ..ir import Op, Value, bool_, float32
from ..ir.device import Enum, Ref
from ..ir.expr import Apply, Expr, Number, bounds, integer
from ..ir.types import DType
from . import strided
from .context import TILE_CTYPE, Context, Tile, cast_ref
from .layout import Layout, kind_of

NONE, RINT = Enum("RoundMode::CAST_NONE"), Enum("RoundMode::CAST_RINT")
ROUND_MODES = {
    "rint": RINT,
    "floor": Enum("RoundMode::CAST_FLOOR"),
    "ceil": Enum("RoundMode::CAST_CEIL"),
    "trunc": Enum("RoundMode::CAST_TRUNC"),
    "round": Enum("RoundMode::CAST_ROUND"),
}
TENSOR_SCALAR = Enum("SELMODE::VSEL_TENSOR_SCALAR_MODE")
TENSOR_TENSOR = Enum("SELMODE::VSEL_TENSOR_TENSOR_MODE")


def work_ctype(dtype: DType) -> str:
    """The element type a dtype is computed in."""
    return "float" if dtype.is_float or dtype == bool_ else "int32_t"


def new_bits(ctx: Context, base: str, layout: Layout) -> Ref:
    return ctx.temp(base, "uint8_t", max(layout.size // 8, 32))


def work(ctx: Context, tile: Tile) -> Ref:
    """The tile in the type it is computed in: ``float`` or ``int32_t``."""
    ctype = work_ctype(tile.dtype)
    held = ctx.form(tile, ctype)
    if held is not None:
        return held
    wide = ctx.temp(f"{tile.name}_{'num' if tile.dtype == bool_ else 'f32'}", ctype, tile.layout.size)
    if tile.dtype == bool_:
        numbers_of(ctx, wide, bits(ctx, tile), tile.layout)
    else:
        native = ctx.form(tile, TILE_CTYPE[tile.dtype])
        assert native is not None
        ctx.instr("Cast", wide, (native,), NONE, integer(tile.layout.size))
    ctx.hold(tile, ctype, wide)
    return wide


def native(ctx: Context, tile: Tile) -> Ref:
    """The tile in its own dtype."""
    if tile.dtype == bool_:
        return bits(ctx, tile)
    held = ctx.form(tile, TILE_CTYPE[tile.dtype])
    assert held is not None, f"{tile.name} has no storage"
    return held


def bits(ctx: Context, tile: Tile) -> Ref:
    """A mask as bits."""
    held = ctx.form(tile, "bits")
    if held is None:
        numbers = ctx.form(tile, "float")
        assert numbers is not None
        held = new_bits(ctx, tile.name, tile.layout)
        bits_of(ctx, held, numbers, tile.layout)
        ctx.hold(tile, "bits", held)
    return held


def numbers_of(ctx: Context, dst: Ref, mask: Ref, layout: Layout) -> None:
    """``dst`` becomes 1.0 where the bit is set, else 0.0."""
    ctx.instr("Duplicate", dst, (), Number(1.0, "float"), integer(layout.size))
    ctx.instr("Select", dst, (mask, dst), Number(0.0, "float"), TENSOR_SCALAR, integer(layout.size), inplace=True)


def bits_of(ctx: Context, dst: Ref, numbers: Ref, layout: Layout) -> None:
    """The bit is set where ``numbers`` is not zero."""
    ctx.instr("CompareScalar", dst, (numbers,), Number(0.0, "float"), Enum("CMPMODE::NE"), integer(layout.size))


def define(ctx: Context, value: Value) -> tuple[Tile, Ref]:
    """The tile of a new value and memory for it in the type it is computed in."""
    tile = ctx.tile(value)
    ref = ctx.temp(value.name, work_ctype(value.dtype), tile.layout.size)
    return tile, ref


def finish(ctx: Context, tile: Tile, ref: Ref) -> None:
    """``ref`` holds the result of an operation: rounds it to the tile's dtype where that is narrower."""
    if tile.dtype.is_float and tile.dtype != float32:
        narrow = ctx.temp(tile.name, TILE_CTYPE[tile.dtype], tile.layout.size)
        ctx.instr("Cast", narrow, (ref,), RINT, integer(tile.layout.size))
        ctx.hold(tile, TILE_CTYPE[tile.dtype], narrow)
    else:
        ctx.hold(tile, work_ctype(tile.dtype), ref)


def share(ctx: Context, tile: Tile, other: Tile) -> None:
    """``tile`` is another view of ``other``'s data, which stays where it is."""
    for ctype, ref in ctx.forms(other).items():
        ctx.hold(tile, ctype, ref)


def spread(ctx: Context, value: Value, shape: tuple[int, ...], op: Op) -> Ref:
    """An operand in its computing type, broadcast over a whole tile of ``shape`` when it is smaller."""
    layout = Layout.of(shape, ctx.granule)
    ctype = work_ctype(value.dtype)
    if value.is_scalar:
        whole = ctx.temp(value.name, ctype, layout.size)
        scalar = ctx.scalar(value)
        ctx.instr("Duplicate", whole, (), scalar, integer(layout.size))
        return whole
    tile = ctx.tile(value)
    ref = work(ctx, tile)
    kind = kind_of(tile.shape, shape)
    if kind == "full":
        return ref
    whole = ctx.temp(tile.name, ctype, layout.size)
    if kind == "one":
        ctx.instr("Duplicate", whole, (), ctx.read(tile.name, ref, ctype), integer(layout.size))
    else:
        strided.broadcast(ctx, whole, layout, (ref, kind))
    return whole


def spread_bits(ctx: Context, value: Value, shape: tuple[int, ...], op: Op) -> Ref:
    """A mask operand as bits over a whole tile of ``shape``."""
    layout = Layout.of(shape, ctx.granule)
    if value.is_scalar:
        mask = new_bits(ctx, value.name, layout)
        word = Apply("select", (ctx.scalar(value), Number(-1, "int32_t"), Number(0, "int32_t")), "int32_t")
        ctx.instr("Duplicate", cast_ref(mask, "int32_t"), (), word, integer(max(layout.size // 32, 8)))
        return mask
    tile = ctx.tile(value)
    if kind_of(tile.shape, shape) == "full":
        return bits(ctx, tile)
    mask = new_bits(ctx, tile.name, layout)
    bits_of(ctx, mask, spread(ctx, value, shape, op), layout)
    return mask


def scalar_operand(ctx: Context, value: Value, shape: tuple[int, ...]) -> Expr | None:
    """The operand as a scalar: a scalar value, or the only element of a tile that spans a larger result."""
    if value.is_scalar:
        return ctx.scalar(value)
    tile = ctx.tile(value)
    if kind_of(tile.shape, shape) != "one":
        return None
    return ctx.read(tile.name, work(ctx, tile), work_ctype(tile.dtype))


def value_range(ctx: Context, value: Value) -> tuple[int | None, int | None]:
    """Bounds of an integer scalar or tile, where they are known."""
    if value.is_scalar:
        return bounds(ctx.scalar(value))
    tile = ctx.tile(value)
    return tile.low, tile.high
