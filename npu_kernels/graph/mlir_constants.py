"""Values of MLIR's dense constants as NumPy arrays."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
from jax.extend.mlir import ir as mlir

from npu_kernels.graph.stablehlo_types import aval_of

_DENSE = re.compile(r"dense<(.*)>\s*:\s*tensor<", re.DOTALL)
_SMALL_INTEGERS = frozenset(np.dtype(getattr(ml_dtypes, name)) for name in ("int2", "int4", "uint2", "uint4"))
_NUMBER = re.compile(r"0x[0-9A-Fa-f]+|[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|true|false")


def read_constant(operation: mlir.Operation) -> np.ndarray[Any, Any] | None:
    """The array of a ``stablehlo.constant``; ``None`` for resources and types NumPy lacks.

    Its text is read: the bindings convert neither bfloat16 nor 8-bit floats, and raise for complex numbers.
    """
    match = _DENSE.search(str(operation))
    if match is None:
        return None
    text = match.group(1)
    aval = aval_of(operation.results[0].type)
    dtype = aval.numpy_dtype
    if dtype is None:
        return None
    if text.startswith('"0x'):
        return _from_bytes(bytes.fromhex(text[3:-1]), aval.shape, dtype)
    if not text:
        return np.zeros(aval.shape, dtype)
    values = _numbers(text, dtype)
    if len(values) != aval.size:
        return np.broadcast_to(values.reshape(()), aval.shape)
    return values.reshape(aval.shape)


def _from_bytes(data: bytes, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    size = int(np.prod(shape))
    if dtype == np.bool_:
        # Some releases write one byte per boolean, others pack eight into one.
        if len(data) == size:
            return np.frombuffer(data, np.uint8).astype(np.bool_).reshape(shape)
        bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
        return bits[:size].astype(np.bool_).reshape(shape)
    values = np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype)
    return np.broadcast_to(values.reshape(()), shape) if len(values) != size else values.reshape(shape)


def _numbers(text: str, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    tokens = _NUMBER.findall(text)
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return _numbers(text, part).view(dtype) if tokens else np.zeros(0, dtype)
    if dtype.kind == "b":
        return np.array([token == "true" for token in tokens], dtype)
    if dtype.kind in "iu":
        return np.array([int(token, 0) for token in tokens], dtype)
    if dtype in _SMALL_INTEGERS:
        return np.array([int(token, 0) for token in tokens], np.int8).astype(dtype)
    bits = np.dtype(f"u{dtype.itemsize}")
    return np.array([_float(token, dtype, bits) for token in tokens], dtype)


def _float(token: str, dtype: np.dtype[Any], bits: np.dtype[Any]) -> Any:
    """MLIR writes what has no short decimal form (NaN, infinities) as the bits in hexadecimal."""
    if token.startswith("0x"):
        return np.array(int(token, 16), bits).view(dtype)[()]
    return np.array(float(token), np.float64).astype(dtype)[()]
