"""One matrix product from L1 to the workspace, in tiles that fit L0."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..ir.device import ITEMSIZE, Barrier, Buffer, QueueOp, Ref, Struct
from ..ir.expr import (
    Expr,
    Number,
    add,
    bounds,
    ceil_div,
    compare,
    floordiv,
    integer,
    known,
    minimum,
    mul,
    round_up,
    sub,
)
from .context import Context, at
from .exchange import Ring
from .layout import round_up_int

_FRACTAL_BYTES = 512
#: Rows and columns of a product at once: two results fill L0C.
_TILE = 128
_LOAD_2D = ("uint16_t", "uint8_t", "uint16_t", "uint8_t", "uint16_t", "bool", "uint8_t")
_MMAD = ("uint16_t", "uint16_t", "uint16_t", "uint8_t", "bool", "bool")
_FIXPIPE = ("uint16_t", "uint16_t", "uint16_t", "uint32_t", "bool")
_TRANSPOSE = ("uint16_t", "uint8_t", "uint16_t", "uint16_t", "uint16_t")


@dataclass(frozen=True)
class Operand:
    """An operand in L1: ``rows`` by ``cols`` as in its tile, both rounded up to 16; ``transposed`` when the fractals
    have to be turned on the way to L0."""

    ref: Ref
    rows: int
    cols: int
    transposed: bool

    @property
    def c0(self) -> int:
        """Columns of a fractal."""
        return 32 // ITEMSIZE[self.ref.ctype]

    @property
    def fractal(self) -> int:
        """Elements of a fractal."""
        return _FRACTAL_BYTES // ITEMSIZE[self.ref.ctype]


def multiply(
    ctx: Context, a: Operand, b: Operand, extents: tuple[Expr, Expr, Expr], shape: tuple[int, int, int], ring: Ring
) -> None:
    """``a @ b`` over the extents ``m, n, k`` into the ring's current slot; ``shape`` holds their capacities."""
    m, n, k = extents
    item = ITEMSIZE[a.ref.ctype]
    tile_m, tile_n = (min(round_up_int(s, 16), _TILE) for s in shape[:2])
    half = ctx.arch.capacity["L0A"] // 2
    tile_k = min(round_up_int(shape[2], 16), half // (max(tile_m, tile_n) * item) // 16 * 16)
    # Squares are turned whole: a turned 32-bit left operand has k in pairs of fractals, and zeros behind its end.
    whole_k = item == 4 and a.transposed
    cols = ring.channel.shape[1]
    with _steps(ctx, "m0", m, shape[0], tile_m) as (m0, rows), _steps(ctx, "n0", n, shape[1], tile_n) as (n0, width):
        bands, result_rows = ceil_div(rows, 16), round_up(rows, 16)
        co1 = _alloc(ctx, "product", "float", tile_m * tile_n, "CO1")
        with _steps(ctx, "k0", k, shape[2], tile_k) as (k0, depth):
            if whole_k:
                depth = round_up(depth, 16)
            pieces = ceil_div(depth, a.c0)
            left = _alloc(ctx, "left", a.ref.ctype, tile_m * tile_k, "A2")
            _load_left(ctx, a, left, m0, k0, bands, pieces, depth)
            _pass(ctx, left)
            right = _alloc(ctx, "right", b.ref.ctype, tile_n * tile_k, "B2")
            _load_right(ctx, b, right, n0, k0, ceil_div(width, 16), pieces, depth)
            _pass(ctx, right)
            first = compare("==", k0, integer(0))
            if not isinstance(first, Number):
                ctx.emit(Barrier(pipe="M", location=ctx.location))
            fields = (result_rows, width, depth, integer(0), Number(False, "bool"), first)
            ctx.instr(
                "Mmad",
                co1,
                (left, right),
                Struct(fields, _MMAD, "MmadParams"),
                pipe="M",
                accumulates=not isinstance(first, Number),
                partial=True,
            )
        _pass(ctx, co1)
        place = add(ring.slot(), add(mul(m0, integer(cols)), n0))
        sizes = (width, rows, result_rows, integer(cols), Number(False, "bool"))
        ctx.instr(
            "Fixpipe",
            Ref(ring.tensor, place, "float"),
            (co1,),
            Struct(sizes, _FIXPIPE, "FixpipeParamsV220"),
            pipe="FIX",
        )


@contextmanager
def _steps(ctx: Context, name: str, extent: Expr, capacity: int, step: int) -> Iterator[tuple[Expr, Expr]]:
    """Pieces of an axis: start and length of each; one piece needs no loop."""
    if capacity <= step:
        yield integer(0), extent
        return
    with ctx.loop(name, integer(0), extent, integer(step)) as start:
        whole = known(extent) is not None and (known(extent) or 0) % step == 0
        yield start, integer(step) if whole else ctx.let("length", minimum(integer(step), sub(extent, start)))


def _alloc(ctx: Context, name: str, ctype: str, elements: int, position: str) -> Ref:
    buffer = ctx.buffer(name, ctype, elements, position)
    ctx.emit(QueueOp(action="alloc", buffer=buffer, location=ctx.location))
    return Ref(buffer, integer(0), ctype)


def _pass(ctx: Context, ref: Ref) -> None:
    assert isinstance(ref.base, Buffer)
    ctx.emit(QueueOp(action="enqueue", buffer=ref.base, location=ctx.location))
    ctx.emit(QueueOp(action="dequeue", buffer=ref.base, location=ctx.location))


def _load_left(ctx: Context, a: Operand, dst: Ref, m0: Expr, k0: Expr, bands: Expr, pieces: Expr, depth: Expr) -> None:
    """L0A holds rows of fractals: band by band, along k inside a band."""
    if a.transposed:
        squares = a.cols // 16
        with _each(ctx, ceil_div(depth, 16)) as i:
            source = add(mul(add(floordiv(k0, integer(16)), i), integer(squares)), floordiv(m0, integer(16)))
            _turn(ctx, a, dst, mul(i, integer(16 // a.c0)), source, bands, sub(pieces, integer(1)), integer(0))
        return
    across = a.cols // a.c0
    if known(pieces) == across and _few(mul(bands, pieces)):
        _copy(ctx, a, dst, integer(0), mul(floordiv(m0, integer(16)), integer(across)), mul(bands, pieces))
        return
    with _each(ctx, bands) as i:
        source = add(mul(add(floordiv(m0, integer(16)), i), integer(across)), floordiv(k0, integer(a.c0)))
        _copy(ctx, a, dst, mul(i, pieces), source, pieces)


def _load_right(ctx: Context, b: Operand, dst: Ref, n0: Expr, k0: Expr, bands: Expr, pieces: Expr, depth: Expr) -> None:
    """L0B holds columns of fractals with n inside k."""
    if b.transposed:
        squares = b.cols // 16
        with _each(ctx, ceil_div(depth, 16)) as i:
            source = add(mul(add(floordiv(k0, integer(16)), i), integer(squares)), floordiv(n0, integer(16)))
            place = mul(mul(i, integer(16 // b.c0)), bands)
            _turn(ctx, b, dst, place, source, bands, integer(0), sub(bands, integer(1)))
        return
    down = b.rows // 16
    if known(bands) == down and _few(mul(bands, pieces)):
        source = mul(floordiv(k0, integer(b.c0)), integer(down))
        _copy(ctx, b, dst, integer(0), source, mul(bands, pieces))
        return
    with _each(ctx, pieces) as i:
        source = add(mul(add(floordiv(k0, integer(b.c0)), i), integer(down)), floordiv(n0, integer(16)))
        _copy(ctx, b, dst, mul(i, bands), source, bands)


def _few(repeats: Expr) -> bool:
    high = bounds(repeats)[1]
    return high is not None and high <= 255


@contextmanager
def _each(ctx: Context, count: Expr) -> Iterator[Expr]:
    if known(count) == 1:
        yield integer(0)
        return
    with ctx.loop("i", integer(0), count, integer(1)) as i:
        yield i


def _copy(ctx: Context, operand: Operand, dst: Ref, place: Expr, source: Expr, repeats: Expr) -> None:
    """``repeats`` neighbouring fractals; ``place`` and ``source`` count fractals."""
    fields = (integer(0), repeats, integer(1), integer(0), integer(0), Number(False, "bool"), integer(0))
    _load(ctx, "LoadData", operand, dst, place, source, 1, Struct(fields, _LOAD_2D, "LoadData2DParams"))


def _turn(
    ctx: Context,
    operand: Operand,
    dst: Ref,
    place: Expr,
    source: Expr,
    repeats: Expr,
    gap: Expr,
    inner_gap: Expr,
) -> None:
    """``repeats`` neighbouring squares of 16 by 16, transposed; ``source`` counts squares, ``place`` fractals."""
    if operand.c0 == 16:
        fields = (integer(0), repeats, integer(1), integer(0), gap, Number(True, "bool"), integer(0))
        _load(ctx, "LoadData", operand, dst, place, source, 1, Struct(fields, _LOAD_2D, "LoadData2DParams"))
    else:
        short = (integer(0), repeats, integer(1), gap, inner_gap)
        params = Struct(short, _TRANSPOSE, "LoadData2dTransposeParams")
        _load(ctx, "LoadDataWithTranspose", operand, dst, place, source, 16 // operand.c0, params)


def _load(
    ctx: Context, api: str, operand: Operand, dst: Ref, place: Expr, source: Expr, unit: int, params: Struct
) -> None:
    fractal = integer(operand.fractal)
    ctx.instr(
        api,
        at(dst, mul(place, fractal)),
        (at(operand.ref, mul(source, integer(operand.fractal * unit))),),
        params,
        pipe="MTE1",
        partial=True,
    )
