"""RMSNorm in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


def rms_norm_reference(
    x: npt.ArrayLike, weight: npt.ArrayLike | None = None, *, eps: float, dtype: Any = None
) -> npt.NDArray[np.float64]:
    """``x / sqrt(mean(x²) + eps) * weight`` along the last axis (https://arxiv.org/abs/1910.07467, equation 4, with the
    usual ``eps``), all in float64. ``dtype`` is accepted and ignored: the result is never rounded.

    Args:
        x: ``[..., dim]``.
        weight: ``[dim]`` or None.

    Returns:
        float64, of the shape of ``x``.
    """
    del dtype
    wide = np.asarray(x).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        normal: npt.NDArray[np.float64] = wide / np.sqrt(np.mean(wide * wide, axis=-1, keepdims=True) + eps)
        return normal if weight is None else normal * np.asarray(weight).astype(np.float64)


def rms_norm_gradient_reference(
    cotangent: npt.NDArray[np.float64], arguments: Mapping[str, Any]
) -> dict[str, npt.NDArray[np.float64]]:
    """Cotangents of ``x`` and, where there is one, ``weight``, in float64 (the formula is in ``backward.py``)."""
    x = np.asarray(arguments["x"]).astype(np.float64)
    weight = arguments.get("weight")
    scale = 1.0 if weight is None else np.asarray(weight).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        factor = 1.0 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + arguments["eps"])
        normal, scaled = x * factor, cotangent * scale
        found = {"x": (scaled - normal * np.mean(scaled * normal, axis=-1, keepdims=True)) * factor}
        if weight is not None:
            found["weight"] = np.sum((cotangent * normal).reshape(-1, x.shape[-1]), axis=0)
    return found
