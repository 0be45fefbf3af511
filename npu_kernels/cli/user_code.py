"""What goes wrong in a user's own code, which the commands import and trace, becomes one sentence with its place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from npu_kernels.errors import CommandError, NpuKernelsError, OperandError, SignatureError, TransformError

#: Errors about a call carry the caller's line; where a command made the call, that is a line of the command's.
_OF_A_CALL = (SignatureError, TransformError, OperandError)
#: Frames of these say nothing about whose fault an exception is: JAX and the import system call everybody.
_THROUGH = ("jax", "jaxlib", "importlib", "functools", "contextlib", "inspect", "runpy")
#: Parts of the package that call a user's code on behalf of a command, and library kernels, which read arguments.
_ON_BEHALF = ("npu_kernels.cli", "npu_kernels.kernels")


@contextmanager
def user_code(subject: str) -> Iterator[None]:
    """Runs a user's code.

    Args:
        subject: beginning of the sentence, for example ``model.py:norm cannot be traced``.

    Raises:
        CommandError: NPK-CL01, for what the code raises, with the innermost line that is the user's own. An exception
            from inside of this package is a fault of ours and passes.
    """
    try:
        yield
    except _OF_A_CALL as error:
        raise type(error)(error.code, error.message, location=_place(error)) from None
    except NpuKernelsError:
        raise
    except (Exception, SystemExit) as error:
        modules = [module for module in map(_module, _frames(error)) if not _within(module, _THROUGH)]
        innermost = modules[-1] if modules else "npu_kernels.cli"
        if _within(innermost, ("npu_kernels",)) and not _within(innermost, _ON_BEHALF):
            raise
        message = error.msg if isinstance(error, SyntaxError) else str(error)
        reason = ": ".join([type(error).__name__, *message.splitlines()[:1]])
        raise CommandError("NPK-CL01", f"{subject}: {reason}", location=_place(error)) from error


def _place(error: BaseException) -> str | None:
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    for frame in reversed(_frames(error)):
        if not _within(_module(frame), ("npu_kernels", *_THROUGH)):
            return f"{frame.tb_frame.f_code.co_filename}:{frame.tb_lineno}"
    return None


def _frames(error: BaseException) -> list[TracebackType]:
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(trace)
        trace = trace.tb_next
    return frames


def _module(frame: TracebackType) -> str:
    return str(frame.tb_frame.f_globals.get("__name__", ""))


def _within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)
