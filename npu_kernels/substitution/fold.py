"""Constants: which values are one number everywhere, and what a value that depends on no input is.

Folding is done in the value's own dtype, so that ``sqrt`` of a bfloat16 constant rounds as the program would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npu_kernels.graph.core import Node, Value

Array = np.ndarray[Any, Any]

#: A mask larger than this is not evaluated to see whether it is causal: 4096 x 4096.
_MAX_ELEMENTS = 1 << 24

_UNARY: dict[str, Callable[[Array], Any]] = {
    "abs": np.abs, "negate": np.negative, "sign": np.sign, "exponential": np.exp, "log": np.log, "sqrt": np.sqrt,
    "rsqrt": lambda x: np.asarray(1, x.dtype) / np.sqrt(x), "floor": np.floor, "ceil": np.ceil,
    "not": lambda x: np.logical_not(x) if x.dtype == np.bool_ else np.invert(x),
    "copy": lambda x: x, "is_finite": np.isfinite, "tanh": np.tanh,
}  # fmt: skip


def _logical(on_bool: Callable[..., Any], on_int: Callable[..., Any]) -> Callable[[Array, Array], Any]:
    return lambda a, b: on_bool(a, b) if a.dtype == np.bool_ else on_int(a, b)


def _divide(a: Array, b: Array) -> Any:
    if np.issubdtype(a.dtype, np.integer):
        quotient = np.abs(a) // np.abs(np.where(b == 0, 1, b))
        return np.where(b == 0, -1, quotient * np.sign(a) * np.sign(b))
    return a / b


_BINARY: dict[str, Callable[[Array, Array], Any]] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": _divide,
    "maximum": np.maximum, "minimum": np.minimum, "power": np.power,
    "and": _logical(np.logical_and, np.bitwise_and), "or": _logical(np.logical_or, np.bitwise_or),
    "xor": _logical(np.logical_xor, np.bitwise_xor),
}  # fmt: skip

COMPARE: dict[str, Callable[[Array, Array], Any]] = {
    "EQ": np.equal, "NE": np.not_equal, "LT": np.less, "LE": np.less_equal, "GT": np.greater,
    "GE": np.greater_equal,
}  # fmt: skip

_REDUCE: dict[str, Callable[..., Any]] = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "and": np.all, "or": np.any,
}  # fmt: skip

#: Reading one element of these is reading one element of the operand.
_MOVES = frozenset({"broadcast_in_dim", "reshape", "transpose", "slice", "reverse", "copy", "dynamic_slice"})


class Folder:
    """Folds values of one program; results are remembered per value."""

    def __init__(self) -> None:
        self._splats: dict[Value, Array | None] = {}
        self._arrays: dict[Value, Array | None] = {}

    def splat(self, value: Value) -> Array | None:
        """The number a value holds at every position, as a zero-dimensional array, or ``None``."""
        if value not in self._splats:
            self._splats[value] = None
            self._splats[value] = self._find_splat(value)
        return self._splats[value]

    def scalar(self, value: Value) -> float | None:
        """:meth:`splat` as a Python float; ``None`` for complex numbers too."""
        found = self.splat(value)
        if found is None or np.iscomplexobj(found):
            return None
        return float(found)

    def _find_splat(self, value: Value) -> Array | None:
        node, dtype = value.producer, value.aval.numpy_dtype
        if node is None or dtype is None or value.aval.size == 0:
            return None
        if node.op == "constant":
            array = value.constant
            if array is None or array.size == 0:
                return None
            first = array.reshape(-1)[:1]
            return first.reshape(()) if bool((array == first).all()) else None
        if node.op in _MOVES:
            return self.splat(node.operands[0])
        if node.op == "concatenate":
            parts = [self.splat(v) for v in node.operands]
            if parts and all(p is not None and p == parts[0] for p in parts):
                return parts[0]
            return None
        if node.op == "reduce" and len(node.operands) == 1 and node.attrs["kind"] in ("max", "min", "and", "or"):
            return self.splat(node.operands[0])
        if node.op == "select":
            pred = self.splat(node.operands[0])
            if pred is not None:
                return self.splat(node.operands[1] if bool(pred) else node.operands[2])
        operands = [self.splat(v) for v in node.operands]
        if not operands or any(v is None for v in operands):
            return None
        return _elementwise(node, [np.asarray(v) for v in operands], dtype)

    def array(self, value: Value) -> Array | None:
        """The whole value when it depends on no input, else ``None``; ``None`` too when it is very large."""
        if value not in self._arrays:
            self._arrays[value] = None
            self._arrays[value] = self._find_array(value)
        return self._arrays[value]

    def _find_array(self, value: Value) -> Array | None:
        node, dtype = value.producer, value.aval.numpy_dtype
        if node is None or dtype is None or value.aval.size > _MAX_ELEMENTS or value.aval.size == 0:
            return None
        if node.op == "constant":
            return value.constant
        if node.op == "iota":
            dimension = node.attrs["dimension"]
            shape = [1] * value.aval.ndim
            shape[dimension] = -1
            line = np.arange(value.shape[dimension]).astype(dtype).reshape(shape)
            return np.broadcast_to(line, value.shape)
        operands = []
        for operand in node.operands:
            array = self.array(operand)
            if array is None:
                return None
            operands.append(array)
        return _evaluate(node, operands, value, dtype) if operands else None


def _elementwise(node: Node, operands: list[Array], dtype: np.dtype[Any]) -> Array | None:
    with np.errstate(all="ignore"):
        result: Any
        if node.op == "convert":
            result = operands[0].astype(bool) if dtype == np.bool_ else operands[0]
        elif node.op == "select":
            result = np.where(*operands)
        elif node.op == "compare":
            result = COMPARE[node.attrs["direction"]](*operands)
        elif node.op == "integer_pow":
            result = np.power(operands[0], np.asarray(node.attrs["y"], operands[0].dtype))
        elif node.op in _UNARY:
            result = _UNARY[node.op](*operands)
        elif node.op in _BINARY:
            result = _BINARY[node.op](*operands)
        else:
            return None
        return np.asarray(result).astype(dtype)


def _evaluate(node: Node, operands: list[Array], value: Value, dtype: np.dtype[Any]) -> Array | None:
    attrs = node.attrs
    if node.op == "broadcast_in_dim":
        shape = [1] * value.aval.ndim
        for i, d in enumerate(attrs["broadcast_dimensions"]):
            shape[d] = operands[0].shape[i]
        return np.broadcast_to(operands[0].reshape(shape), value.shape)
    if node.op == "reshape":
        return operands[0].reshape(value.shape)
    if node.op == "transpose":
        return operands[0].transpose(attrs["permutation"])
    if node.op == "slice":
        strides = attrs["strides"] or (1,) * value.aval.ndim
        window = tuple(slice(a, b, c) for a, b, c in zip(attrs["start"], attrs["limit"], strides, strict=True))
        return operands[0][window]
    if node.op == "dynamic_slice":
        sizes = value.shape
        starts = [min(max(int(s), 0), d - n) for s, d, n in zip(operands[1:], operands[0].shape, sizes, strict=True)]
        return operands[0][tuple(slice(s, s + n) for s, n in zip(starts, sizes, strict=True))]
    if node.op == "reverse":
        return np.flip(operands[0], attrs["dimensions"])
    if node.op == "concatenate":
        return np.concatenate(operands, axis=attrs["dimension"])
    if node.op == "reduce" and len(operands) == 1 and attrs["kind"] in _REDUCE:
        return np.asarray(_REDUCE[attrs["kind"]](operands[0], axis=tuple(attrs["axes"]))).astype(dtype)
    return _elementwise(node, operands, dtype)
