"""Where in the user's own code a call stands, and what of a traceback is the user's."""

from __future__ import annotations

import sys
from types import FrameType, TracebackType

_OURS = ("npu_kernels", "jax", "jaxlib")


def caller_location() -> str | None:
    """``file:line`` of the innermost frame outside of this package and JAX."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if _module(frame).partition(".")[0] not in _OURS:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def authors_traceback(trace: TracebackType | None) -> TracebackType | None:
    """``trace`` with the frames of users and of library kernels, whose bodies are a kernel author's code too."""
    kept: list[TracebackType] = []
    while trace is not None:
        module = _module(trace.tb_frame)
        if not module.startswith("npu_kernels.") or module.startswith("npu_kernels.kernels."):
            kept.append(trace)
        trace = trace.tb_next
    chain: TracebackType | None = None
    for entry in reversed(kept):
        chain = TracebackType(chain, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return chain


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
