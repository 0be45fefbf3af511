"""Loops, and the decorator for helpers that contain them."""

from __future__ import annotations

import builtins
import functools
import operator
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from .. import ir
from .machine import Loop, LoopKind, current, current_or_none
from .rewrite import prepare
from .source import fail
from .tile import Tile, as_operand

P = ParamSpec("P")
R = TypeVar("R")


def range(start: Tile | int, stop: Tile | int | None = None, step: int = 1, *, pipelined: bool = True) -> Loop:
    """Iterations in order on one core: ``for i in nl.range(n)``, ``nl.range(start, stop, step=8)``.

    Args:
        start, stop: integers or traced index scalars; ``stop`` is exclusive.
        step: a known positive number.
        pipelined: whether loads of the next iteration may overlap the work of this one.
    """
    return _loop("range", start, stop, step, pipelined)


def parallel(start: Tile | int, stop: Tile | int | None = None, step: int = 1) -> Loop:
    """Independent iterations, shared out over the cores. Nothing is carried from one to the next.

    Args:
        start, stop: integers or traced index scalars; ``stop`` is exclusive.
        step: a known positive number.
    """
    return _loop("parallel", start, stop, step, False)


def static_range(start: int, stop: int | None = None, step: int = 1) -> builtins.range:
    """A Python ``range`` of known numbers: the loop is unrolled while tracing."""
    ends: tuple[int, ...] = (0, start, step) if stop is None else (start, stop, step)
    items: tuple[object, ...] = ends
    for item in items:
        if isinstance(item, Tile) and not item.machine.eager:
            fail("NPK-LA03", "nl.static_range needs known numbers: use nl.range for a traced bound")
        if not hasattr(item, "__index__"):
            fail("NPK-LA09", f"nl.static_range counts in integers, not {item!r}")
    if operator.index(step) == 0:
        fail("NPK-LA09", "the step of nl.static_range is 0: it must not be")
    return builtins.range(*(operator.index(e) for e in ends))


def _loop(kind: LoopKind, start: object, stop: object, step: object, pipelined: bool) -> Loop:
    machine = current()
    if isinstance(step, Tile) and not machine.eager:
        fail("NPK-LA03", f"the step of nl.{kind} is a traced value: it must be a known number")
    stride = operator.index(step) if hasattr(step, "__index__") else 0
    if stride < 1:
        fail("NPK-LA09", f"the step of nl.{kind} is {step!r}: it must be a positive integer")
    ends: list[Tile | int] = []
    for role, item in (("start", 0 if stop is None else start), ("stop", start if stop is None else stop)):
        value = as_operand(item, f"the {role} of nl.{kind}")
        if isinstance(value, Tile):
            if value.shape or value.dtype not in (ir.index, ir.int32):
                fail("NPK-LA09", f"the {role} of nl.{kind} is {value.dtype} {list(value.shape)}, not an integer scalar")
            ends.append(value)
        elif isinstance(value, bool | float):
            fail("NPK-LA09", f"the {role} of nl.{kind} is {value!r}, not an integer")
        else:
            ends.append(int(value))
    return machine.loop(kind, ends[0], ends[1], stride, pipelined)


def function(fn: Callable[P, R]) -> Callable[P, R]:
    """Decorates a helper of kernels that contains loops or branches over traced values."""

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        machine = current_or_none()
        if machine is None or machine.eager:
            return fn(*args, **kwargs)
        try:
            result: R = prepare(fn)(*args, **kwargs)
        except RecursionError:
            fail(
                "NPK-LA01",
                f"the recursion of {fn.__name__} does not end while tracing, where an `if` over a traced value takes "
                "both sides: loop with nl.range instead",
            )
        return result

    return call
