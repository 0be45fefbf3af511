"""Patterns by example, their matcher, and the report of what was and what nearly was replaced."""

from __future__ import annotations

from npu_kernels.substitution.explain import explain, require
from npu_kernels.substitution.match import Match
from npu_kernels.substitution.module import substitute_module
from npu_kernels.substitution.pattern import Argument, Declined, Example, Pattern, Reason, array, mask
from npu_kernels.substitution.policy import DEFAULT, EXACT, FAST, Permission, Policy
from npu_kernels.substitution.registry import load_kernel_library, register, registered
from npu_kernels.substitution.report import NearMiss, Replaced, Report
from npu_kernels.substitution.substitute import Substituted, substitute

__all__ = [
    "DEFAULT",
    "EXACT",
    "FAST",
    "Argument",
    "Declined",
    "Example",
    "Match",
    "NearMiss",
    "Pattern",
    "Permission",
    "Policy",
    "Reason",
    "Replaced",
    "Report",
    "Substituted",
    "array",
    "explain",
    "load_kernel_library",
    "mask",
    "register",
    "registered",
    "require",
    "substitute",
    "substitute_module",
]
