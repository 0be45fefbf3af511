"""C++ text of scalar expressions."""

from __future__ import annotations

import math

import numpy as np

from npu_kernels.ir.expr import Apply, Expr, Name, Number

_INFIX = {
    "+": 6,
    "-": 6,
    "*": 7,
    "/": 7,
    "%": 7,
    "<": 4,
    "<=": 4,
    ">": 4,
    ">=": 4,
    "==": 3,
    "!=": 3,
    "&&": 2,
    "||": 1,
}
#: Expressions that are not one C++ operator; ``{0}`` … are the operands, in parentheses where they need them.
_FORMS = {
    "min": "({0} < {1} ? {0} : {1})",
    "max": "({0} > {1} ? {0} : {1})",
    "select": "({0} ? {1} : {2})",
    "neg": "-{0}",
    "!": "!{0}",
    "abs": "({0} < 0 ? -{0} : {0})",
    "floordiv": "({0} / {1} - (({0} % {1} != 0) && (({0} < 0) != ({1} < 0))))",
    "floormod": "(({0} % {1} + {1}) % {1})",
    "round_f16": "static_cast<float>(static_cast<half>({0}))",
    "round_bf16": "ToFloat(ToBfloat16({0}))",
    # Bits from the first operand up to, and without, the second, which is at least 1.
    "bit_range": "(~static_cast<uint64_t>(0) << ({0}) & ~static_cast<uint64_t>(0) >> (64 - ({1})))",
}
_PRIMARY = 9


def literal(value: bool | int | float, ctype: str) -> str:
    """A C++ literal that is exactly ``value`` in ``ctype``."""
    if ctype == "bool":
        return "true" if value else "false"
    if ctype in ("float", "half", "bfloat16_t"):
        number = float(np.float32(value))
        if math.isnan(number):
            text = '__builtin_nanf("")'
        elif math.isinf(number):
            text = "-__builtin_inff()" if number < 0 else "__builtin_inff()"
        else:
            text = np.format_float_scientific(np.float32(value), unique=True, trim="0")
            if 1e-4 <= abs(number) < 1e7 or number == 0:
                text = np.format_float_positional(np.float32(value), unique=True, trim="0")
            text += "f"
        return text if ctype == "float" else f"static_cast<{ctype}>({text})"
    if ctype == "int32_t" and int(value) == -(2**31):
        return "(-2147483647 - 1)"
    if ctype == "int64_t" and not -(2**31) < int(value) < 2**31:
        return f"{int(value)}ll"
    return str(int(value))


def text(expr: Expr, above: int = 0) -> str:
    """The expression; ``above`` is the precedence of the operator around it."""
    if isinstance(expr, Number):
        written = literal(expr.value, expr.ctype)
        return f"({written})" if written.startswith("-") and above else written
    if isinstance(expr, Name):
        return expr.text
    if expr.op in _INFIX:
        own = _INFIX[expr.op]
        left = text(expr.args[0], own)
        right = text(expr.args[1], own if _regroups(expr) else own + 1)
        written = f"{left} {expr.op} {right}"
        return f"({written})" if own < above else written
    return _form(expr, above)


def _regroups(expr: Apply) -> bool:
    """``a op (b op c)`` may be written without parentheses: exact for integers and conditions, not for floats."""
    right = expr.args[1]
    return expr.ctype != "float" and expr.op in ("+", "*", "&&", "||") and getattr(right, "op", "") == expr.op


def _form(expr: Apply, above: int) -> str:
    args = [text(a, _PRIMARY) for a in expr.args]
    if expr.op == "cast":
        return f"static_cast<{expr.ctype}>({text(expr.args[0])})"
    if expr.op in ("min", "max", "abs") and expr.ctype == "float":
        return _float_form(expr, args)
    return _FORMS[expr.op].format(*args)


def _float_form(expr: Apply, args: list[str]) -> str:
    """NaN operands win, as in NumPy."""
    if expr.op == "abs":
        return "({0} < 0.0f ? -{0} : {0} + 0.0f)".format(*args)
    sign = "<" if expr.op == "min" else ">"
    return f"({args[0]} != {args[0]} || {args[0]} {sign} {args[1]} ? {args[0]} : {args[1]})"
