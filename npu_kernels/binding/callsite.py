"""Where in the user's own code a call stands, and what of a traceback is the user's."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FrameType
from typing import ParamSpec, TypeVar

from npu_kernels import jax_compat
from npu_kernels.errors import NpuKernelsError, OperandError, SignatureError, TransformError
from npu_kernels.language.source import arose_here, authors_traceback, module_of

_OURS = ("npu_kernels", "jax", "jaxlib")
#: Errors about a call, not about a line of a kernel's body: their place is where the call stands.
_OF_A_CALL = (SignatureError, TransformError, OperandError)

P = ParamSpec("P")
T = TypeVar("T")


def user_facing(function: Callable[P, T]) -> Callable[P, T]:
    """A public function whose errors of this project show the caller's line and no frame of the package's inside."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except NpuKernelsError as error:
            raise _for_user(error) from None
        except Exception as error:
            # What the body of a kernel raises of itself; a fault of ours keeps its whole traceback.
            if not arose_here(error):
                error.__traceback__ = authors_traceback(error.__traceback__)
            raise

    return wrapper


def located(rule: Callable[P, T]) -> Callable[P, T]:
    """A rule of a primitive whose errors about a call name the line where the user made that call.

    JAX may run a rule long after the call; what it remembers of the call's line comes first.
    """

    @functools.wraps(rule)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return rule(*args, **kwargs)
        except _OF_A_CALL as error:
            if error.location is not None:
                raise
            location = jax_compat.current_location() or caller_location()
            raise type(error)(error.code, error.message, location=location).with_traceback(None) from None

    return wrapper


def _for_user(error: NpuKernelsError) -> NpuKernelsError:
    if not isinstance(error, _OF_A_CALL):
        return error.with_traceback(authors_traceback(error.__traceback__))
    if error.location is None:
        error = type(error)(error.code, error.message, location=caller_location())
    return error.with_traceback(None)


def caller_location() -> str | None:
    """``file:line`` of the innermost frame outside of this package and JAX."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if module_of(frame).partition(".")[0] not in _OURS:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None
