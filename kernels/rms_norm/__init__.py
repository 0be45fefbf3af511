"""RMSNorm: ``x / sqrt(mean(x²) + eps) * weight`` along the last axis."""

from __future__ import annotations

from ..library import Gradient, Operation
from .api import prepare, rms_norm
from .gradient import backward, forward_rows, forward_wide
from .kernel import rms_norm_rows, rms_norm_wide
from .reference import rms_norm_gradient_reference, rms_norm_reference
from .specs import CASES, EXAMPLES, GRADIENT_CASES, gradient_tolerance, tolerance

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
    gradient=Gradient(
        rules={rms_norm_rows: (forward_rows, backward), rms_norm_wide: (forward_wide, backward)},
        operands={"x": 0, "weight": 1},
        reference=rms_norm_gradient_reference,
        tolerance=gradient_tolerance,
        cases=GRADIENT_CASES,
    ),
)
