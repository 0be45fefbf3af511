"""``rms_norm``: what a caller sees."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import npu_kernels.language as nl
from npu_kernels.binding import user_facing
from npu_kernels.errors import OperandError

from ..library import Array, Launch
from .kernel import rms_norm_rows, rms_norm_wide
from .specs import WIDE_COLUMNS, block_rows

_DTYPES = ("float32", "float16", "bfloat16")
_LARGEST = float(np.finfo(np.float32).max)


@user_facing
def rms_norm(x: Array, weight: Array | None = None, *, eps: float, dtype: Any = None) -> jax.Array:
    """``x / sqrt(mean(x²) + eps) * weight`` along the last axis, computed in float32.

    Args:
        x: ``[..., dim]``, float32, float16 or bfloat16, any leading dimensions.
        weight: ``[dim]`` in any of these dtypes, not necessarily that of ``x``; None for all ones. A model that scales
            by ``1 + w`` passes that sum.
        eps: added to the mean of squares; a Python number, at least 0 (where a row of zeros gives NaN).
        dtype: element type of the result; None for that of ``x``.

    Returns:
        The shape of ``x``. The result is rounded once, at the end, to ``dtype``.

    Raises:
        OperandError: NPK-NM01, when shapes or dtypes do not fit together, or ``eps`` is negative, not finite or traced.
    """
    operand = jnp.asarray(x)
    result = jnp.dtype(operand.dtype if dtype is None else dtype)
    if operand.size == 0:
        _check(operand, weight, eps, result)
        return jnp.zeros(operand.shape, result)
    output: jax.Array = prepare(operand, weight, eps=eps, dtype=dtype)()
    return output


def prepare(x: Array, weight: Array | None = None, *, eps: float, dtype: Any = None) -> Launch:
    """The kernel call behind :func:`rms_norm`, which has the same arguments. ``x`` is not empty."""
    operand = jnp.asarray(x)
    result = jnp.dtype(operand.dtype if dtype is None else dtype)
    _check(operand, weight, eps, result)
    dim = operand.shape[-1]
    rows = math.prod(operand.shape[:-1])
    scale = jnp.ones((dim,), jnp.float32) if weight is None else jnp.asarray(weight)
    statics: dict[str, Any] = {"eps": float(eps), "dtype": getattr(nl, result.name)}
    step = block_rows(rows, dim)
    if step:
        kernel, statics["block_rows"] = rms_norm_rows, step
    else:
        kernel, statics["block_columns"] = rms_norm_wide, WIDE_COLUMNS
    return Launch(kernel, (operand.reshape(rows, dim), scale), statics, lambda out: out.reshape(operand.shape))


def _check(x: jax.Array, weight: Array | None, eps: Any, result: np.dtype[Any]) -> None:
    if isinstance(eps, jax.core.Tracer):
        raise OperandError("NPK-NM01", "rms_norm: eps is a traced value. Pass a Python number.")
    if not 0 <= float(eps) <= _LARGEST:
        raise OperandError("NPK-NM01", f"rms_norm: eps is {eps}; give it a finite number of at least 0, such as 1e-6.")
    if x.ndim == 0:
        raise OperandError("NPK-NM01", "rms_norm: x is a scalar; it needs at least one axis to normalise along.")
    named = {"x": x.dtype, "the result": result}
    if weight is not None:
        scale = jnp.asarray(weight)
        named["weight"] = scale.dtype
        if scale.shape != x.shape[-1:]:
            raise OperandError(
                "NPK-NM01",
                f"rms_norm: weight has shape {scale.shape}, but the last axis of x {x.shape} wants {x.shape[-1:]}.",
            )
    for name, dtype in named.items():
        if dtype.name not in _DTYPES:
            raise OperandError("NPK-NM01", f"rms_norm: {name} is {dtype.name}; cast it to one of {', '.join(_DTYPES)}.")
