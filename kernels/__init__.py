"""The kernel library: one folder per operation.

Importing it registers the patterns by which unmodified models find these operations. A new operation adds its folder,
its ``OPERATION`` here, and a ``pattern.py`` where models spell it out themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from . import attention as _attention
from . import rms_norm as _rms_norm
from .attention import pattern as _attention_pattern  # noqa: F401
from .library import Case, Example, Launch, Operation
from .rms_norm import pattern as _rms_norm_pattern  # noqa: F401

__all__ = ["Case", "Example", "Launch", "Operation", "attention", "catalogue", "rms_norm"]

_CATALOGUE = MappingProxyType({op.name: op for op in (_attention.OPERATION, _rms_norm.OPERATION)})

attention = _attention.attention
rms_norm = _rms_norm.rms_norm


def catalogue() -> Mapping[str, Operation]:
    """Every operation of the library by name."""
    return _CATALOGUE
