"""Where the author is: frames, lines, carets, and the one way this package raises."""

from __future__ import annotations

import functools
import linecache
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType
from typing import NoReturn, ParamSpec, TypeVar

from .. import ir
from ..errors import LanguageError

P = ParamSpec("P")
R = TypeVar("R")

#: Standard modules whose frames stand between an author's and ours.
_BETWEEN = ("functools", "contextlib")
#: Libraries that an author may hand a tile to: their lines are not the author's.
_LIBRARIES = ("numpy", "jax", "jaxlib")


@dataclass(frozen=True)
class Span:
    """A stretch of source. Columns count UTF-8 bytes from 0, as ``ast`` and code objects do; ``-1`` is unknown."""

    file: str
    line: int
    column: int = -1
    end_line: int = -1
    end_column: int = -1
    function: str = ""

    @property
    def location(self) -> ir.Location:
        return ir.Location(self.file, self.line, self.function)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


def module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def is_ours(frame: FrameType) -> bool:
    """Whether a frame is the package's inside. The bodies of library kernels are a kernel author's code like any."""
    module = module_of(frame)
    return module in _BETWEEN or (module.startswith("npu_kernels.") and not module.startswith("npu_kernels.kernels."))


def author_frame() -> FrameType:
    """The innermost frame of an author's code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (is_ours(frame) or module_of(frame).partition(".")[0] in _LIBRARIES):
        frame = frame.f_back
    if frame is None:
        raise RuntimeError("no frame outside the language")
    return frame


def here() -> Span:
    """The expression the author's code is evaluating."""
    frame = author_frame()
    line, end_line, column, end_column = _positions(frame.f_code)[frame.f_lasti // 2]
    return Span(
        frame.f_code.co_filename,
        line or frame.f_lineno,
        -1 if column is None else column,
        -1 if end_line is None else end_line,
        -1 if end_column is None else end_column,
        frame.f_code.co_name,
    )


def author_line() -> ir.Location:
    """Like :func:`here`, without the columns: cheap enough to call for every operation."""
    frame = author_frame()
    return ir.Location(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


_cache: dict[CodeType, list[tuple[int | None, int | None, int | None, int | None]]] = {}


def _positions(code: CodeType) -> list[tuple[int | None, int | None, int | None, int | None]]:
    if code not in _cache:
        _cache[code] = list(code.co_positions())
    return _cache[code]


def text_of_line(span: Span) -> str:
    """The line of source that a span begins on, without its indentation."""
    return linecache.getline(span.file, span.line).strip()


def excerpt(span: Span) -> str:
    """The source line with carets under the span; empty when the source is not at hand."""
    line = linecache.getline(span.file, span.line).rstrip("\n")
    if not line.strip():
        return ""
    indent = len(line) - len(line.lstrip())
    shown = f"    {line.lstrip()}"
    if span.column < 0:
        return shown
    start = len(line.encode()[: span.column].decode(errors="replace"))
    end = len(line)
    if span.end_line == span.line:
        end = len(line.encode()[: span.end_column].decode(errors="replace"))
    return f"{shown}\n    {' ' * (start - indent)}{'^' * max(1, end - start)}"


_raised: ContextVar[list[LanguageError] | None] = ContextVar("npu_kernels.language.raised", default=None)


@contextmanager
def recording() -> Iterator[list[LanguageError]]:
    """Collects the errors raised inside the ``with``, those that the author's code swallows included."""
    errors: list[LanguageError] = []
    token = _raised.set(errors)
    try:
        yield errors
    finally:
        _raised.reset(token)


def error(code: str, message: str, span: Span | None = None) -> LanguageError:
    """The coded error at ``span`` (the author's current expression by default), with an excerpt."""
    span = span or here()
    made = LanguageError(code, message, location=str(span))
    shown = excerpt(span)
    if shown:
        made.args = (f"{made.args[0]}\n{shown}",)
    collected = _raised.get()
    if collected is not None:
        collected.append(made)
    return made


def fail(code: str, message: str, span: Span | None = None) -> NoReturn:
    raise error(code, message, span)


def authors_traceback(trace: TracebackType | None) -> TracebackType | None:
    """``trace`` without the frames of the package's inside, so that an error shows the author's code only."""
    kept: list[TracebackType] = []
    while trace is not None:
        if not is_ours(trace.tb_frame):
            kept.append(trace)
        trace = trace.tb_next
    chain: TracebackType | None = None
    for entry in reversed(kept):
        chain = TracebackType(chain, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return chain


def authors_errors(function: Callable[P, R]) -> Callable[P, R]:
    """What the author's code raises inside ``function`` leaves it without frames of the package's inside.

    Errors that arise in the package and are none of its own stay as they are: they are faults of the package.
    """

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except LanguageError as error:
            raise error.with_traceback(authors_traceback(error.__traceback__)) from None
        except Exception as error:
            if not arose_here(error):
                error.__traceback__ = authors_traceback(error.__traceback__)
            raise

    return wrapper


def arose_here(error: BaseException) -> bool:
    """Whether the innermost frame of an error is the package's."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and is_ours(trace.tb_frame)
