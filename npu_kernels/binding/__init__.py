"""Kernels as JAX functions: the decorator, the primitive with its rules, the XLA custom call."""

from __future__ import annotations

from . import batching as _batching  # noqa: F401
from . import partitioning as _partitioning  # noqa: F401
from .callsite import user_facing
from .debugging import debug
from .gradients import save_kernels
from .kernel import Kernel, npu_kernel
from .lowered import Lowered
from .registration import ensure_registered, launches, reset_launches
from .report import Report

__all__ = [
    "Kernel",
    "Lowered",
    "Report",
    "debug",
    "ensure_registered",
    "launches",
    "npu_kernel",
    "reset_launches",
    "save_kernels",
    "user_facing",
]
