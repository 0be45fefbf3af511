"""Where in the user's own code a call stands."""

from __future__ import annotations

import sys
from types import FrameType

_OURS = ("npu_kernels", "jax", "jaxlib")


def caller_location() -> str | None:
    """``file:line`` of the innermost frame outside of this package and JAX."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _OURS:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None
