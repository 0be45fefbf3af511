"""What each StableHLO operation is called in a graph, and which of its attributes describe it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jax.extend.mlir import ir as mlir
from jax.extend.mlir.dialects import stablehlo

from npu_kernels.graph.core import GATHER_DIMENSIONS, Value

_RENAMED = {"chlo.erf": "erf", "chlo.erfc": "erfc", "chlo.erf_inv": "erf_inv"}
_SAME = frozenset(
    {"abs", "negate", "sign", "exponential", "exponential_minus_one", "log", "log_plus_one", "sqrt", "rsqrt"}
    | {"cbrt", "logistic", "tanh", "sine", "cosine", "tan", "floor", "ceil", "round_nearest_even", "is_finite"}
    | {"round_nearest_afz", "not", "real", "imag", "popcnt", "count_leading_zeros", "add", "subtract", "multiply"}
    | {"divide", "remainder", "power", "maximum", "minimum", "and", "or", "xor", "shift_left", "atan2", "complex"}
    | {"shift_right_logical", "shift_right_arithmetic", "select", "clamp", "convert", "bitcast_convert", "reshape"}
    | {"optimization_barrier", "dynamic_update_slice"}
)
_REDUCERS = {
    "stablehlo.add": "sum",
    "stablehlo.multiply": "prod",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
    "stablehlo.and": "and",
    "stablehlo.or": "or",
}

Described = tuple[str, list[Value], dict[str, Any]]


def describe(operation: mlir.Operation, operands: list[Value]) -> Described:
    """Op name, operands in the vocabulary's order and attributes of an operation without graph regions."""
    name = operation.name
    short = name.removeprefix("stablehlo.")
    if name in _RENAMED:
        return _RENAMED[name], operands, {}
    if name == "chlo.square":
        return "multiply", [operands[0], operands[0]], {}
    if short in _SAME:
        return short, operands, {}
    if short in _DESCRIBERS:
        described = _DESCRIBERS[short](operation, operands)
        if described is not None:
            return described
    if short == "custom_call":
        target = mlir.StringAttr(operation.attributes["call_target_name"]).value
        return "opaque", operands, {"name": f"custom_call @{target}"}
    return "opaque", operands, {"name": name}


def _ints(attribute: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in attribute)


def _int(attribute: mlir.Attribute) -> int:
    return int(mlir.IntegerAttr(attribute).value)


def _renamed(**names: str) -> Callable[[mlir.Operation, list[Value]], Described | None]:
    """Describer of an operation whose attributes are all lists of integers: graph's name to StableHLO's."""

    def describe_lists(operation: mlir.Operation, operands: list[Value]) -> Described:
        attrs = {ours: _ints(operation.attributes[theirs]) for ours, theirs in names.items()}
        return operation.name.removeprefix("stablehlo."), operands, attrs

    return describe_lists


def _iota(operation: mlir.Operation, operands: list[Value]) -> Described:
    return "iota", operands, {"dimension": _int(operation.attributes["iota_dimension"])}


def _concatenate(operation: mlir.Operation, operands: list[Value]) -> Described:
    return "concatenate", operands, {"dimension": _int(operation.attributes["dimension"])}


def _compare(operation: mlir.Operation, operands: list[Value]) -> Described:
    direction = stablehlo.ComparisonDirectionAttr(operation.attributes["comparison_direction"]).value
    total = False
    if "compare_type" in operation.attributes:
        total = stablehlo.ComparisonTypeAttr(operation.attributes["compare_type"]).value == "TOTALORDER"
    return "compare", operands, {"direction": direction, "total_order": total}


def _reduce_precision(operation: mlir.Operation, operands: list[Value]) -> Described:
    return (
        "reduce_precision",
        operands,
        {key: _int(operation.attributes[key]) for key in ("exponent_bits", "mantissa_bits")},
    )


def _gather(operation: mlir.Operation, operands: list[Value]) -> Described:
    numbers = stablehlo.GatherDimensionNumbers(operation.attributes["dimension_numbers"])
    attrs: dict[str, Any] = {key: _ints(getattr(numbers, key)) for key in GATHER_DIMENSIONS}
    attrs["slice_sizes"] = _ints(operation.attributes["slice_sizes"])
    attrs["index_vector_dim"] = int(numbers.index_vector_dim)
    attrs["mode"] = "clip"
    return "gather", operands, attrs


def _dot_general(operation: mlir.Operation, operands: list[Value]) -> Described:
    numbers = stablehlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
    return (
        "dot_general",
        operands,
        {
            "lhs_contracting": _ints(numbers.lhs_contracting_dimensions),
            "rhs_contracting": _ints(numbers.rhs_contracting_dimensions),
            "lhs_batch": _ints(numbers.lhs_batching_dimensions),
            "rhs_batch": _ints(numbers.rhs_batching_dimensions),
            "precision": _precision(operation),
        },
    )


def _dot(operation: mlir.Operation, operands: list[Value]) -> Described:
    """The older ``dot``: contracts the last axis of the left with the first of the right operand."""
    return (
        "dot_general",
        operands,
        {
            "lhs_contracting": (operands[0].aval.ndim - 1,),
            "rhs_contracting": (0,),
            "lhs_batch": (),
            "rhs_batch": (),
            "precision": _precision(operation),
        },
    )


def _precision(operation: mlir.Operation) -> tuple[str, str]:
    if "precision_config" not in operation.attributes:
        return ("DEFAULT", "DEFAULT")
    config = mlir.ArrayAttr(operation.attributes["precision_config"])
    left, right = (str(stablehlo.PrecisionAttr(entry).value) for entry in config)
    return (left, right)


def _reduce(operation: mlir.Operation, operands: list[Value]) -> Described | None:
    """One operand, and a body that is one plain operation of its two arguments in order."""
    if len(operands) != 2:
        return None
    block = operation.regions[0].blocks[0]
    body = [view.operation for view in block.operations]
    arguments = list(block.arguments)
    if len(body) != 2 or body[0].name not in _REDUCERS or list(body[0].operands) != arguments:
        return None
    kind = _REDUCERS[body[0].name]
    attrs = {"kind": kind, "axes": _ints(operation.attributes["dimensions"])}
    if _is_identity(kind, operands[1]):
        return "reduce", operands[:1], attrs
    return "reduce", operands, attrs


def _is_identity(kind: str, start: Value) -> bool:
    value = start.constant
    if value is None:
        return False
    dtype = value.dtype
    if kind in ("sum", "prod"):
        return bool(value == (1 if kind == "prod" else 0))
    if kind in ("and", "or"):
        return bool(value == (~np.zeros((), dtype) if kind == "and" else np.zeros((), dtype)))
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return bool(value == (limits.min if kind == "max" else limits.max))
    if dtype == np.bool_:
        return bool(value) == (kind == "min")
    return bool(value == (-np.inf if kind == "max" else np.inf))


_DESCRIBERS: dict[str, Callable[[mlir.Operation, list[Value]], Described | None]] = {
    "iota": _iota,
    "concatenate": _concatenate,
    "compare": _compare,
    "reduce_precision": _reduce_precision,
    "gather": _gather,
    "dot_general": _dot_general,
    "dot": _dot,
    "reduce": _reduce,
    "broadcast_in_dim": _renamed(broadcast_dimensions="broadcast_dimensions"),
    "transpose": _renamed(permutation="permutation"),
    "reverse": _renamed(dimensions="dimensions"),
    "slice": _renamed(start="start_indices", limit="limit_indices", strides="strides"),
    "pad": _renamed(low="edge_padding_low", high="edge_padding_high", interior="interior_padding"),
    "dynamic_slice": _renamed(sizes="slice_sizes"),
}
