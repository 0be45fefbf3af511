"""Functions the vector unit has no instruction for."""

from __future__ import annotations

from ..ir.device import Enum, Ref
from ..ir.expr import Number, integer
from .context import Context

#: Below this magnitude the Taylor polynomial of tanh is exact to 6e-8; above it the exponential form is.
_TANH_SPLIT = 0.4
#: Coefficients of x**11 down to x**3 of the Taylor series of tanh.
_TANH_TAYLOR = (-1382 / 155925, 62 / 2835, -17 / 315, 2 / 15, -1 / 3)


def tanh(ctx: Context, dst: Ref, src: Ref, size: int) -> None:
    """``tanh x = sign(x) (1 - t) / (1 + t)`` with ``t = exp(-2 |x|)``; a polynomial near zero, where that cancels."""
    count = integer(size)

    def number(value: float) -> Number:
        return Number(value, "float")

    def temp(name: str) -> Ref:
        return ctx.temp(name, "float", size)

    decay, above, large, opposite = temp("decay"), temp("above"), temp("large"), temp("opposite")
    ctx.instr("Abs", decay, (src,), count, inplace=True)
    near = ctx.temp("near", "uint8_t", max(size // 8, 32))
    ctx.instr("CompareScalar", near, (decay,), number(_TANH_SPLIT), Enum("CMPMODE::LT"), count)
    ctx.instr("Muls", decay, (decay,), number(-2.0), count, inplace=True)
    ctx.instr("Exp", decay, (decay,), count, inplace=True)
    ctx.instr("Adds", above, (decay,), number(1.0), count, inplace=True)
    ctx.instr("Muls", large, (decay,), number(-1.0), count, inplace=True)
    ctx.instr("Adds", large, (large,), number(1.0), count, inplace=True)
    ctx.instr("Div", large, (large, above), count, inplace=True)
    ctx.instr("Muls", opposite, (large,), number(-1.0), count, inplace=True)
    negative = ctx.temp("negative", "uint8_t", max(size // 8, 32))
    ctx.instr("CompareScalar", negative, (src,), number(0.0), Enum("CMPMODE::LT"), count)
    mode = Enum("SELMODE::VSEL_TENSOR_TENSOR_MODE")
    ctx.instr("Select", large, (negative, opposite, large), mode, count, inplace=True)

    square, series = temp("square"), temp("series")
    ctx.instr("Mul", square, (src, src), count, inplace=True)
    ctx.instr("Muls", series, (square,), number(_TANH_TAYLOR[0]), count, inplace=True)
    for coefficient in _TANH_TAYLOR[1:]:
        ctx.instr("Adds", series, (series,), number(coefficient), count, inplace=True)
        ctx.instr("Mul", series, (series, square), count, inplace=True)
    ctx.instr("Adds", series, (series,), number(1.0), count, inplace=True)
    ctx.instr("Mul", series, (series, src), count, inplace=True)
    ctx.instr("Select", dst, (near, series, large), mode, count, inplace=True)
