"""Operator folders for CANN's operator repositories."""

from __future__ import annotations

from .export import export

__all__ = ["export"]
