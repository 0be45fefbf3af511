"""Attention with the arguments and the layout of ``jax.nn.dot_product_attention``."""

from __future__ import annotations

from ..library import Gradient, Operation
from .api import attention, prepare
from .cases import CASES, GRADIENT_CASES
from .gradient import backward, forward
from .kernel import flash_attention
from .reference import attention_gradient_reference, attention_reference
from .specs import EXAMPLES, gradient_tolerance, tolerance

__all__ = ["OPERATION", "attention", "attention_reference"]

OPERATION = Operation(
    name="attention",
    summary="scaled dot product attention as a flash kernel, with the arguments of jax.nn.dot_product_attention",
    function=attention,
    prepare=prepare,
    reference=attention_reference,
    tolerance=tolerance,
    examples=EXAMPLES,
    cases=CASES,
    gradient=Gradient(
        rules={flash_attention: (forward, backward)},
        operands={"query": 0, "key": 1, "value": 2},
        reference=attention_gradient_reference,
        tolerance=gradient_tolerance,
        cases=GRADIENT_CASES,
    ),
)
