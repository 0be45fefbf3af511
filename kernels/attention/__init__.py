"""Attention with the arguments and the layout of ``jax.nn.dot_product_attention``."""

from __future__ import annotations

from ..library import Operation
from .api import attention, prepare
from .cases import CASES
from .reference import attention_reference
from .specs import EXAMPLES, tolerance

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
)
