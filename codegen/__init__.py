"""Device IR to Ascend C: text from templates, no decisions."""

from __future__ import annotations

from .generate import generate

__all__ = ["generate"]
