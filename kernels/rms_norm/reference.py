"""RMSNorm in float64."""

from __future__ import annotations

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
