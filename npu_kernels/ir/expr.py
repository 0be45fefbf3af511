"""Scalar expressions of the device IR: what the scalar unit computes, folded as they are built."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

#: C++ types a scalar variable may have; half-precision scalars are held as rounded ``float``.
CTYPES = ("int64_t", "int32_t", "float", "bool")


@dataclass(frozen=True)
class Number:
    """A literal of C++ type ``ctype``."""

    value: bool | int | float
    ctype: str


@dataclass(frozen=True)
class Name:
    """A scalar variable or a field of the tiling. ``low`` and ``high`` bound its value when known."""

    text: str
    ctype: str
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True)
class Apply:
    """An operator or scalar function applied to operands; ``op`` is a key of the code generator's table."""

    op: str
    args: tuple[Expr, ...]
    ctype: str


Expr = Number | Name | Apply


def integer(value: int) -> Number:
    return Number(value, "int64_t")


def names(expr: Expr) -> Iterator[Name]:
    """Every variable an expression reads."""
    if isinstance(expr, Name):
        yield expr
    elif isinstance(expr, Apply):
        for arg in expr.args:
            yield from names(arg)


def known(expr: Expr) -> int | None:
    """The integer an expression is known to be."""
    return int(expr.value) if isinstance(expr, Number) and expr.ctype in ("int64_t", "int32_t") else None


def bounds(expr: Expr) -> tuple[int | None, int | None]:
    """Smallest and largest value of an integer expression, ``None`` where unknown."""
    if isinstance(expr, Number):
        return (int(expr.value), int(expr.value)) if expr.ctype in ("int64_t", "int32_t") else (None, None)
    if isinstance(expr, Name):
        return expr.low, expr.high
    sides = [bounds(a) for a in expr.args]
    if expr.op == "select":
        return _hull(sides[1], sides[2])
    if expr.op == "cast":
        return sides[0]
    if len(sides) != 2:
        return None, None
    (a, b), (c, d) = sides
    if expr.op == "+":
        return _plus(a, c), _plus(b, d)
    if expr.op == "-":
        return _plus(a, None if d is None else -d), _plus(b, None if c is None else -c)
    if expr.op == "min":
        lows = None if a is None or c is None else min(a, c)
        highs = [x for x in (b, d) if x is not None]
        return lows, min(highs) if highs else None
    if expr.op == "max":
        lows_known = [x for x in (a, c) if x is not None]
        return max(lows_known) if lows_known else None, None if b is None or d is None else max(b, d)
    if expr.op == "*" and a is not None and c is not None and a >= 0 and c >= 0:
        return a * c, None if b is None or d is None else b * d
    if expr.op == "/" and a is not None and a >= 0 and c is not None and c > 0:
        return (0 if d is None else a // d), None if b is None else b // c
    if expr.op == "%" and a is not None and a >= 0 and d is not None and c is not None and c > 0:
        return 0, d - 1 if b is None else min(b, d - 1)
    return None, None


def add(a: Expr, b: Expr) -> Expr:
    if known(a) == 0:
        return b
    if known(b) == 0:
        return a
    return _integer_op("+", a, b)


def sub(a: Expr, b: Expr) -> Expr:
    return a if known(b) == 0 else _integer_op("-", a, b)


def mul(a: Expr, b: Expr) -> Expr:
    if known(a) == 1:
        return b
    if known(b) == 1:
        return a
    if known(a) == 0 or known(b) == 0:
        return integer(0)
    return _integer_op("*", a, b)


def minimum(a: Expr, b: Expr) -> Expr:
    (_, ha), (lb, _) = bounds(a), bounds(b)
    if ha is not None and lb is not None and ha <= lb:
        return a
    (la, _), (_, hb) = bounds(a), bounds(b)
    if hb is not None and la is not None and hb <= la:
        return b
    return _integer_op("min", a, b)


def maximum(a: Expr, b: Expr) -> Expr:
    (la, ha), (lb, hb) = bounds(a), bounds(b)
    if la is not None and hb is not None and la >= hb:
        return a
    if lb is not None and ha is not None and lb >= ha:
        return b
    return _integer_op("max", a, b)


def floordiv(a: Expr, b: Expr) -> Expr:
    """Division rounded towards minus infinity, as Python's."""
    if known(b) == 1:
        return a
    return _integer_op("/" if _natural(a, b) else "floordiv", a, b)


def mod(a: Expr, b: Expr) -> Expr:
    """The remainder with the divisor's sign, as Python's."""
    return _integer_op("%" if _natural(a, b) else "floormod", a, b)


def ceil_div(a: Expr, b: int) -> Expr:
    return floordiv(add(a, integer(b - 1)), integer(b))


def round_up(a: Expr, b: int) -> Expr:
    return mul(ceil_div(a, b), integer(b))


def compare(op: str, a: Expr, b: Expr) -> Expr:
    """``op`` is one of ``== != < <= > >=``."""
    x, y = known(a), known(b)
    if x is not None and y is not None:
        table = {"==": x == y, "!=": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}
        return Number(table[op], "bool")
    (la, ha), (lb, hb) = bounds(a), bounds(b)
    below = ha is not None and lb is not None and ha < lb
    not_above = ha is not None and lb is not None and ha <= lb
    above = la is not None and hb is not None and la > hb
    not_below = la is not None and hb is not None and la >= hb
    decided = {
        "<": (below, not_below),
        "<=": (not_above, above),
        ">": (above, not_above),
        ">=": (not_below, below),
        "==": (False, below or above),
        "!=": (below or above, False),
    }[op]
    if True in decided:
        return Number(decided[0], "bool")
    return Apply(op, (a, b), "bool")


def _integer_op(op: str, a: Expr, b: Expr) -> Expr:
    x, y = known(a), known(b)
    if x is not None and y is not None:
        match op:
            case "+":
                return Number(x + y, a.ctype)
            case "-":
                return Number(x - y, a.ctype)
            case "*":
                return Number(x * y, a.ctype)
            case "min":
                return Number(min(x, y), a.ctype)
            case "max":
                return Number(max(x, y), a.ctype)
            case "/" | "floordiv" if y != 0:
                return Number(x // y, a.ctype)
            case "%" | "floormod" if y != 0:
                return Number(x % y, a.ctype)
    result = Apply(op, (a, b), a.ctype)
    low, high = bounds(result)
    return Number(low, a.ctype) if low is not None and low == high else result


def _natural(a: Expr, b: Expr) -> bool:
    (low, _), (divisor, _) = bounds(a), bounds(b)
    return low is not None and low >= 0 and divisor is not None and divisor > 0


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _hull(x: tuple[int | None, int | None], y: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
    low = None if x[0] is None or y[0] is None else min(x[0], y[0])
    high = None if x[1] is None or y[1] is None else max(x[1], y[1])
    return low, high
