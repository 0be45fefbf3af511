"""The arguments of a call: arrays by JAX's rules for anything array-like, and static values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from npu_kernels import ir
from npu_kernels.errors import SignatureError

from .signature import ArraySpec, KernelSignature


def as_arrays(kernel: str, signature: KernelSignature, values: Mapping[str, Any]) -> dict[str, Any]:
    """The positional arguments as arrays.

    Weakly typed ones (Python numbers, and what JAX computes from nothing else) take the dtype to which JAX promotes
    them together with the other arguments, when the annotation allows it; else their own dtype of at most 32 bits.

    Raises:
        SignatureError: NPK-SG02, for what is no array.
    """
    arrays = {name: _as_array(kernel, name, value) for name, value in values.items()}
    weak = [name for name, array in arrays.items() if array.weak_type]
    if weak:
        strong = [array for name, array in arrays.items() if name not in weak]
        for name in weak:
            arrays[name] = _strengthened(signature.arrays[name], arrays[name], strong)
    return arrays


def _as_array(kernel: str, name: str, value: Any) -> Any:
    if isinstance(value, (jax.Array, jax.ShapeDtypeStruct)):
        return value
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError, OverflowError):
        hint = " (a pytree of arrays is passed as one argument for each leaf)" if _is_pytree(value) else ""
        raise SignatureError(
            "NPK-SG02", f"kernel {kernel}: `{name}` must be an array, not {type(value).__name__}{hint}."
        ) from None


def _is_pytree(value: Any) -> bool:
    return not jax.tree_util.all_leaves([value])


def _strengthened(spec: ArraySpec, value: Any, strong: list[Any]) -> Any:
    together = jnp.result_type(value, *strong)
    # Weak types alone never ask for 64 bits, also when those are enabled.
    alone = {"float64": jnp.float32, "int64": jnp.int32}.get(value.dtype.name, value.dtype)
    dtype = next((dtype for dtype in (together, alone) if ir.dtype_of(dtype) in spec.dtypes), alone)
    if isinstance(value, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(value.shape, dtype)
    return jax.lax.convert_element_type(value, dtype)


def static_key(kernel: str, statics: Mapping[str, Any]) -> tuple[Any, ...]:
    """What tells static arguments apart.

    Raises:
        SignatureError: NPK-SG02, for an array and for what cannot be hashed.
    """
    key = tuple([_key(value) for value in statics.values()])
    try:
        hash(key)
    except TypeError:
        for name, value in statics.items():
            _check_static(kernel, name, value)
        raise
    return key


def _key(value: Any) -> Any:
    kind = type(value)
    if kind in (int, str, bool, ir.DType, type(None)):
        return kind, value
    # 1 and 1.0 are equal, and so are 0.0 and -0.0; kernels made with them are not.
    return (kind, repr(value)) if kind is float else (kind, repr(value), value)


def _check_static(kernel: str, name: str, value: Any) -> None:
    if isinstance(value, (jax.Array, np.ndarray)):
        raise SignatureError(
            "NPK-SG02",
            f"kernel {kernel}: `{name}` is static, so it must be a Python value that is known while tracing, not an "
            "array; inside jax.jit, name it in static_argnames.",
        )
    try:
        hash(value)
    except TypeError:
        raise SignatureError(
            "NPK-SG02", f"kernel {kernel}: `{name}` is static, so it must be hashable, not {type(value).__name__}."
        ) from None
