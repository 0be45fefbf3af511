"""What each JAX primitive is called in a graph, and which of its parameters describe it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npu_kernels.graph.core import GATHER_DIMENSIONS, Value

_RENAMED = {
    "neg": "negate",
    "exp": "exponential",
    "expm1": "exponential_minus_one",
    "log1p": "log_plus_one",
    "sin": "sine",
    "cos": "cosine",
    "population_count": "popcnt",
    "clz": "count_leading_zeros",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "rem": "remainder",
    "pow": "power",
    "max": "maximum",
    "min": "minimum",
    "add_any": "add",
    "convert_element_type": "convert",
    "bitcast_convert_type": "bitcast_convert",
    "stop_gradient": "copy",
    "copy_p": "copy",
    "pvary": "copy",
    "squeeze": "reshape",
}
_SAME = frozenset(
    {"abs", "sign", "log", "sqrt", "rsqrt", "cbrt", "logistic", "tanh", "tan", "floor", "ceil", "is_finite", "not"}
    | {"erf", "erfc", "erf_inv", "real", "imag", "add", "and", "or", "xor", "shift_left", "shift_right_logical"}
    | {"shift_right_arithmetic", "atan2", "complex", "clamp", "optimization_barrier", "copy"}
)
_COMPARISONS = {
    "eq": ("EQ", False),
    "ne": ("NE", False),
    "lt": ("LT", False),
    "le": ("LE", False),
    "gt": ("GT", False),
    "ge": ("GE", False),
    "eq_to": ("EQ", True),
    "lt_to": ("LT", True),
    "le_to": ("LE", True),
}

Described = tuple[str, list[Value], dict[str, Any]]


def describe(eqn: Any, operands: list[Value]) -> Described:
    """Op name, operands in the vocabulary's order and attributes of an equation without bodies."""
    name = eqn.primitive.name
    if name in _RENAMED:
        return _RENAMED[name], operands, {}
    if name in _SAME:
        return name, operands, {}
    if name in _COMPARISONS:
        direction, total = _COMPARISONS[name]
        return "compare", operands, {"direction": direction, "total_order": total}
    if name in _DESCRIBERS:
        described = _DESCRIBERS[name](eqn.params, operands)
        if described is not None:
            return described
    return "opaque", operands, {"name": name}


def _ints(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


def _square(params: dict[str, Any], operands: list[Value]) -> Described:
    return "multiply", [operands[0], operands[0]], {}


def _integer_pow(params: dict[str, Any], operands: list[Value]) -> Described:
    if params["y"] == 2:
        return _square(params, operands)
    return "integer_pow", operands, {"y": int(params["y"])}


def _round(params: dict[str, Any], operands: list[Value]) -> Described:
    even = params["rounding_method"].name == "TO_NEAREST_EVEN"
    return "round_nearest_even" if even else "round_nearest_afz", operands, {}


def _select(params: dict[str, Any], operands: list[Value]) -> Described | None:
    if len(operands) != 3 or operands[0].dtype != "bool":
        return None
    pred, on_false, on_true = operands
    return "select", [pred, on_true, on_false], {}


def _reduce_precision(params: dict[str, Any], operands: list[Value]) -> Described:
    bits = {key: int(params[key]) for key in ("exponent_bits", "mantissa_bits")}
    return "reduce_precision", operands, bits


def _broadcast_in_dim(params: dict[str, Any], operands: list[Value]) -> Described | None:
    if len(operands) != 1:
        return None
    return "broadcast_in_dim", operands, {"broadcast_dimensions": _ints(params["broadcast_dimensions"])}


def _reshape(params: dict[str, Any], operands: list[Value]) -> Described | None:
    if params.get("dimensions") is not None or len(operands) != 1:
        return None
    return "reshape", operands, {}


def _transpose(params: dict[str, Any], operands: list[Value]) -> Described:
    return "transpose", operands, {"permutation": _ints(params["permutation"])}


def _rev(params: dict[str, Any], operands: list[Value]) -> Described:
    return "reverse", operands, {"dimensions": _ints(params["dimensions"])}


def _concatenate(params: dict[str, Any], operands: list[Value]) -> Described:
    return "concatenate", operands, {"dimension": int(params["dimension"])}


def _iota(params: dict[str, Any], operands: list[Value]) -> Described | None:
    return ("iota", operands, {"dimension": int(params["dimension"])}) if not operands else None


def _slice(params: dict[str, Any], operands: list[Value]) -> Described:
    start = _ints(params["start_indices"])
    strides = params["strides"]
    return (
        "slice",
        operands,
        {
            "start": start,
            "limit": _ints(params["limit_indices"]),
            "strides": (1,) * len(start) if strides is None else _ints(strides),
        },
    )


def _split(params: dict[str, Any], operands: list[Value]) -> Described:
    return "split", operands, {"sizes": _ints(params["sizes"]), "axis": int(params["axis"])}


def _pad(params: dict[str, Any], operands: list[Value]) -> Described:
    low, high, interior = ([entry[i] for entry in params["padding_config"]] for i in range(3))
    return "pad", operands, {"low": _ints(low), "high": _ints(high), "interior": _ints(interior)}


def _dynamic_slice(params: dict[str, Any], operands: list[Value]) -> Described:
    return "dynamic_slice", operands, {"sizes": _ints(params["slice_sizes"])}


def _dynamic_update_slice(params: dict[str, Any], operands: list[Value]) -> Described:
    return "dynamic_update_slice", operands, {}


def _gather(params: dict[str, Any], operands: list[Value]) -> Described:
    numbers = params["dimension_numbers"]
    attrs: dict[str, Any] = {key: _ints(getattr(numbers, key)) for key in GATHER_DIMENSIONS}
    attrs["slice_sizes"] = _ints(params["slice_sizes"])
    attrs["index_vector_dim"] = operands[1].aval.ndim - 1
    attrs["mode"] = params["mode"].name.lower() if params["mode"] is not None else "clip"
    return "gather", operands, attrs


def _dot_general(params: dict[str, Any], operands: list[Value]) -> Described:
    (lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch) = params["dimension_numbers"]
    return (
        "dot_general",
        operands,
        {
            "lhs_contracting": _ints(lhs_contracting),
            "rhs_contracting": _ints(rhs_contracting),
            "lhs_batch": _ints(lhs_batch),
            "rhs_batch": _ints(rhs_batch),
            "precision": _precision(params["precision"]),
        },
    )


def _precision(precision: Any) -> tuple[str, str]:
    """Precision of both operands by name; an algorithm preset stands for both."""
    if precision is None:
        return ("DEFAULT", "DEFAULT")
    pair = precision if isinstance(precision, tuple) else (precision, precision)
    return (getattr(pair[0], "name", "DEFAULT"), getattr(pair[1], "name", "DEFAULT"))


def _reduce(kind: str) -> Callable[[dict[str, Any], list[Value]], Described | None]:
    def describe_reduce(params: dict[str, Any], operands: list[Value]) -> Described:
        return "reduce", operands, {"kind": kind, "axes": _ints(params["axes"])}

    return describe_reduce


def _arg(op: str) -> Callable[[dict[str, Any], list[Value]], Described | None]:
    def describe_arg(params: dict[str, Any], operands: list[Value]) -> Described:
        return op, operands, {"axis": int(params["axes"][0])}

    return describe_arg


def _cumulative(kind: str) -> Callable[[dict[str, Any], list[Value]], Described | None]:
    def describe_cumulative(params: dict[str, Any], operands: list[Value]) -> Described:
        attrs = {"kind": kind, "axis": int(params["axis"]), "reverse": bool(params["reverse"])}
        return "cumulative", operands, attrs

    return describe_cumulative


_DESCRIBERS: dict[str, Callable[[dict[str, Any], list[Value]], Described | None]] = {
    "square": _square,
    "integer_pow": _integer_pow,
    "round": _round,
    "select_n": _select,
    "reduce_precision": _reduce_precision,
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": _reshape,
    "transpose": _transpose,
    "rev": _rev,
    "concatenate": _concatenate,
    "iota": _iota,
    "slice": _slice,
    "split": _split,
    "pad": _pad,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "dot_general": _dot_general,
    "argmax": _arg("argmax"),
    "argmin": _arg("argmin"),
    **{f"reduce_{kind}": _reduce(kind) for kind in ("sum", "prod", "max", "min", "and", "or")},
    **{f"cum{kind}": _cumulative(kind) for kind in ("sum", "prod", "max", "min", "logsumexp")},
}
