"""Tile IR to device IR, one pass per module."""

from __future__ import annotations

from .lower import lower

__all__ = ["lower"]
