"""What a body finds outside of itself, and what it does there.

The body of a traced loop or branch runs once, so what it does to Python objects would happen once only. A traced kernel
is kept for later calls, so the values it found are part of what it is kept under.
"""

from __future__ import annotations

import contextlib
import inspect
import operator
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FrameType, FunctionType, GeneratorType, ModuleType
from typing import Any

import numpy as np

from .names import same
from .rewrite import HOOKS

#: How deep the objects that a name reaches are looked at.
_DEPTH = 3
#: Their objects are values, or keep caches of their own.
_FOREIGN = ("builtins", "npu_kernels", "numpy", "jax", "jaxlib", "ml_dtypes")


class _Content(tuple[Any, ...]):
    """What a mutable object holds."""


def reachable(frame: FrameType) -> dict[str, Any]:
    """What the names of a function mean: its own, those of functions around it, and the globals it mentions."""
    found = {name: frame.f_globals[name] for name in frame.f_code.co_names if name in frame.f_globals}
    found.update(frame.f_locals)
    return {name: value for name, value in found.items() if not name.startswith(HOOKS)}


def environment(fn: Callable[..., Any]) -> tuple[tuple[str, str, str], ...]:
    """The numbers, strings and tuples of them that ``fn`` and the helpers it names find outside of themselves."""
    found: list[tuple[str, str, str]] = []
    seen: set[CodeType] = set()
    pending: list[Any] = [fn]
    while pending:
        item = inspect.unwrap(pending.pop())
        if not isinstance(item, FunctionType) or item.__code__ in seen or _root(item.__module__) in _FOREIGN:
            continue
        seen.add(item.__code__)
        for name, value in _outside(item):
            if isinstance(value, FunctionType):
                pending.append(value)
            elif isinstance(value, bool | int | float | str | tuple | np.generic | None):
                found.append((name, type(value).__name__, repr(value)))
    return tuple(found)


def _outside(fn: FunctionType) -> Iterator[tuple[str, Any]]:
    codes = [fn.__code__]
    for code in codes:
        codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
        yield from ((name, fn.__globals__[name]) for name in code.co_names if name in fn.__globals__)
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # empty: assigned later, or deleted
            yield name, cell.cell_contents


def contents(values: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Each value with what it holds now."""
    return {name: (value, _content(value, _DEPTH)) for name, value in values.items()}


def changed(before: Mapping[str, tuple[Any, Any]], values: Mapping[str, Any], assigned: tuple[str, ...]) -> str | None:
    """A name whose value changed other than by an assignment to one of the ``assigned`` names."""
    for name, (value, held) in before.items():
        now = values.get(name, value)
        if name in assigned and now is not value:
            continue
        if not _equal(held, _content(now, _DEPTH)):
            return name
    return None


def _content(value: Any, depth: int) -> Any:
    parts = list(_parts(value)) if depth else []
    return _Content((type(value), *(_content(part, depth - 1) for part in parts))) if parts else value


def _root(module: str | None) -> str:
    return (module or "").partition(".")[0]


def _parts(value: Any) -> Iterator[Any]:
    """What ``value`` is compared by; a value that cannot change has no parts."""
    kind = type(value)
    if isinstance(value, list | tuple | deque):
        yield from (len(value), *value)
    elif isinstance(value, dict):
        yield from (len(value), *value, *value.values())
    elif isinstance(value, set | bytearray):
        yield repr(sorted(map(repr, value)))
    elif isinstance(value, np.ndarray):
        yield value.tobytes()
    elif isinstance(value, GeneratorType):
        yield value.gi_frame.f_lasti if value.gi_frame is not None else None
    elif hasattr(kind, "__next__") and hasattr(kind, "__length_hint__"):
        yield operator.length_hint(value)
    elif not isinstance(value, type | ModuleType | FunctionType) and _root(kind.__module__) not in _FOREIGN:
        # Attributes with an underscore are an object's own affair, caches for example.
        attributes = {n: v for n, v in getattr(value, "__dict__", {}).items() if not n.startswith("_")}
        yield from (len(attributes), *attributes, *attributes.values())


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, _Content) and isinstance(b, _Content):
        return len(a) == len(b) and all(map(_equal, a, b))
    return same(a, b) or (isinstance(a, str | bytes) and a == b)
