"""Operations on scalars: C++ expressions of the scalar unit."""

from __future__ import annotations

import numpy as np

from ..ir import Binary, Cast, Compare, Constant, Op, Select, Unary, bfloat16, bool_, float16, float32, index, int32
from ..ir import expr as E
from ..ir.device import Ref
from ..ir.expr import Apply, Expr, Number
from .context import SCALAR_CTYPE, Context
from .elementwise import unary_into
from .forms import ROUND_MODES
from .layout import REPEAT

_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&&", "or": "||", "xor": "!="}
_PREDICATES = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_INTEGER = {
    "add": E.add,
    "sub": E.sub,
    "mul": E.mul,
    "floordiv": E.floordiv,
    "mod": E.mod,
    "maximum": E.maximum,
    "minimum": E.minimum,
}
_ON_VECTOR = ("exp", "log", "sqrt", "rsqrt", "tanh")


def scalar_op(ctx: Context, op: Op) -> None:
    """Lowers an operation whose result is a scalar and whose operands all are."""
    match op:
        case Constant():
            ctx.scalars[op.result] = Number(_exact(op), SCALAR_CTYPE[op.result.dtype])
            return
        case Binary():
            value = _binary(ctx, op)
        case Unary():
            value = _unary(ctx, op)
        case Compare():
            value = E.compare(_PREDICATES[op.predicate], ctx.scalar(op.lhs), ctx.scalar(op.rhs))
        case Select():
            operands = tuple(ctx.scalar(v) for v in (op.condition, op.on_true, op.on_false))
            value = Apply("select", operands, operands[1].ctype)
            if isinstance(operands[0], Number):
                value = operands[1] if operands[0].value else operands[2]
        case Cast():
            value = _cast(ctx, op)
        case _:
            raise ctx.refuse(f"{op.opcode} of a scalar has no lowering", op)
    result = op.defines[0]
    ctx.scalars[result] = ctx.let(result.name, _rounded(value, op))


def _exact(op: Constant) -> bool | int | float:
    """The constant as its dtype holds it."""
    if not op.result.dtype.is_float:
        return op.value
    with np.errstate(over="ignore"):
        return float(np.asarray(op.value).astype(op.result.dtype.numpy))


def _rounded(value: Expr, op: Op) -> Expr:
    """Half-precision scalars are held as float and rounded after each operation."""
    dtype = op.defines[0].dtype
    if dtype in (float16, bfloat16) and not isinstance(op, Select):
        return Apply(f"round_{dtype.short}", (value,), "float")
    return value


def _binary(ctx: Context, op: Binary) -> Expr:
    a, b = ctx.scalar(op.lhs), ctx.scalar(op.rhs)
    if op.result.dtype in (index, int32):
        if op.kind not in _INTEGER:
            raise ctx.refuse(f"{op.kind} of integer scalars has no lowering; use // or cast to float32", op)
        return _INTEGER[op.kind](a, b)
    if op.kind in ("maximum", "minimum"):
        return Apply("max" if op.kind == "maximum" else "min", (a, b), "float")
    return Apply(_OPERATORS[op.kind], (a, b), SCALAR_CTYPE[op.result.dtype])


def _spread(ctx: Context, src: Expr, op: Op) -> Ref:
    """A scalar in a vector, for what the scalar unit has no instruction for."""
    if ctx.core != "AIV":
        raise ctx.refuse("a loop bound, branch or position around a dot needs a function of the vector unit", op)
    here = ctx.temp("operand", "float", REPEAT)
    ctx.instr("Duplicate", here, (), src, E.integer(REPEAT))
    return here


def _unary(ctx: Context, op: Unary) -> Expr:
    src = ctx.scalar(op.operand)
    match op.kind:
        case "neg":
            return E.sub(E.integer(0), src) if src.ctype == "int64_t" else Apply("neg", (src,), src.ctype)
        case "not":
            return Number(not src.value, "bool") if isinstance(src, Number) else Apply("!", (src,), "bool")
        case "abs":
            return Apply("abs", (src,), src.ctype)
        case "reciprocal":
            return Apply("/", (Number(1.0, "float"), src), "float")
        case _ if op.kind in _ON_VECTOR:
            there = ctx.temp(op.kind, "float", REPEAT)
            unary_into(ctx, op, op.kind, there, _spread(ctx, src, op), REPEAT)
            return ctx.read(op.result.name, there, "float")
        case _:
            raise ctx.refuse(f"{op.kind} of a scalar has no lowering", op)


def _cast(ctx: Context, op: Cast) -> Expr:
    src, source, target = ctx.scalar(op.operand), op.operand.dtype, op.result.dtype
    if source == target:
        return src
    ctype = SCALAR_CTYPE[target]
    if target == bool_:
        return Apply("!=", (src, Number(0, src.ctype)), "bool")
    if target in (index, int32) and source.is_float:
        there = ctx.temp(op.result.name, "int32_t", REPEAT)
        ctx.instr("Cast", there, (_spread(ctx, src, op),), ROUND_MODES[op.rounding], E.integer(REPEAT))
        whole = ctx.read(op.result.name, there, "int32_t")
        return whole if target == int32 else Apply("cast", (whole,), ctype)
    if isinstance(src, Number) and target in (index, int32):
        return Number(int(src.value), ctype)
    if source.is_float and target == float32:
        return src
    if source.is_float:
        return Apply("cast", (src,), "float") if src.ctype != "float" else src
    return Apply("cast", (src,), ctype)
