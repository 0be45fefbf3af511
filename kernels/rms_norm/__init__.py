"""RMSNorm: ``x / sqrt(mean(x²) + eps) * weight`` along the last axis."""

from __future__ import annotations

from ..library import Operation
from .api import prepare, rms_norm
from .reference import rms_norm_reference
from .specs import CASES, EXAMPLES, tolerance

__all__ = ["OPERATION", "rms_norm", "rms_norm_reference"]

OPERATION = Operation(
    name="rms_norm",
    summary="root mean square normalisation of the last axis, with a weight",
    function=rms_norm,
    prepare=prepare,
    reference=rms_norm_reference,
    tolerance=tolerance,
    examples=EXAMPLES,
    cases=CASES,
)
