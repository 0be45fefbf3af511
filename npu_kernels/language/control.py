"""What rewritten source calls while it is traced: loops, branches and names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from .. import ir
from .effects import changed, contents, reachable
from .machine import Loop, LoopKind
from .source import Span, fail
from .tile import Tile
from .unavailable import Unavailable

if TYPE_CHECKING:
    from .rewrite import Site
    from .tracer import Tracer


class Construct(Protocol):
    """A loop or branch in progress, in the words of the rewritten source."""

    traced: bool

    def __iter__(self) -> Iterator[Any]: ...


class Plain:
    """A loop or branch that Python runs as it stands."""

    traced = False

    def __init__(self, items: Iterable[Any]) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


class TracedRange(Loop):
    """``nl.range`` or ``nl.parallel`` while tracing."""

    def __init__(
        self, tracer: Tracer, kind: LoopKind, start: Tile, stop: Tile, step: int, pipelined: bool, span: Span
    ) -> None:
        self.tracer = tracer
        self.kind = kind
        self.start = start
        self.stop = stop
        self.step = step
        self.pipelined = pipelined
        self.span = span


class Hooks:
    """The hidden free variable of a rewritten function."""

    def __init__(self, sites: tuple[Site, ...]) -> None:
        self.sites = sites

    def loop(self, number: int, items: Any) -> Construct:
        from .traced_loop import TracedLoop

        if not isinstance(items, TracedRange):
            return Plain(items)
        site = self.sites[number]
        refuse(site, f"an nl.{items.kind} loop")
        if site.target is None:
            fail("NPK-LA01", f"the variable of an nl.{items.kind} loop is one plain name", site.span)
        if site.has_else:
            fail("NPK-LA01", f"an nl.{items.kind} loop has no else: nothing can break out of it", site.span)
        return TracedLoop(items, site)

    def branch(self, number: int, condition: Any) -> Construct:
        from .branch import Branch

        if not _is_traced(condition):
            return Plain((bool(condition),))
        site = self.sites[number]
        refuse(site, "an if over a traced value")
        return Branch(condition, site)

    def known(self, number: int, condition: Any) -> Any:
        """The condition of an ``if`` that breaks or continues, which cannot be traced."""
        if _is_traced(condition):
            refuse(self.sites[number], "an if over a traced value")
        return condition

    def choose(self, number: int, condition: Any, then: Callable[[], Any], orelse: Callable[[], Any]) -> Any:
        from .branch import Branch

        if not _is_traced(condition):
            return then() if condition else orelse()
        branch = Branch(condition, self.sites[number])
        picked = {"it": None}
        for side in branch:
            picked["it"] = then() if side else orelse()
            branch.collect(picked)
        return branch.merge(("it",))[0]

    def name(self, names: str | tuple[str, ...], value: Any) -> Any:
        """``value``, which is being assigned to ``names``."""
        if isinstance(names, str):
            _name(names, value)
        elif isinstance(value, tuple) and len(value) == len(names):
            for name, item in zip(names, value, strict=True):
                _name(name, item)
        return value


def _is_traced(value: object) -> bool:
    if isinstance(value, Unavailable):
        value.refuse()
    if not isinstance(value, Tile) or value.machine.eager:
        return False
    value.machine.admit(value)
    if value.shape:
        fail("NPK-LA03", f"a tile of shape {list(value.shape)} is no condition: use nl.where to choose per element")
    if value.dtype != ir.bool_:
        fail("NPK-LA03", f"a condition is bool, not {value.dtype}: compare it, for example with != 0")
    return True


def _name(name: str, value: object) -> None:
    from .tensor import Tensor
    from .tracer import Tracer

    if isinstance(value, Tile) and isinstance(value.machine, Tracer):
        value.machine.name(value, name)
    elif isinstance(value, Tensor) and value.is_output and isinstance(value.payload, ir.Value) and not value.named:
        value.rename(name)


def refuse(site: Site, where: str) -> None:
    """Raises NPK-LA01 when the body holds what ``where`` cannot trace."""
    for what, span in site.refused:
        ways = {
            "break": "let the loop run and mask with nl.where, or bound it with nl.minimum",
            "continue": "put the rest of the body under an if",
            "return": "assign to a name that exists before, and return at the end",
        }
        way = ways.get(what, "move it out of the body")
        fail("NPK-LA01", f"{what} inside {where} (line {site.span.line}) cannot be traced: {way}", span)


class Body:
    """The author's code between the ``enter`` and the ``leave`` of a construct, which may do nothing but compute."""

    def __init__(self, site: Site, where: str) -> None:
        self.site = site
        self.where = where
        self.before: dict[str, tuple[Any, Any]] = {}

    def enter(self) -> dict[str, Any]:
        """The names of the function that called the hook which calls this."""
        frame = sys._getframe(2)
        self.before = contents(reachable(frame))
        return dict(frame.f_locals)

    def leave(self) -> dict[str, Any]:
        """Its names now; NPK-LA01 when the body changed more than the names that it assigns."""
        frame = sys._getframe(2)
        assigned = self.site.names if self.site.target is None else (*self.site.names, self.site.target)
        name = changed(self.before, reachable(frame), assigned)
        if name is not None:
            fail(
                "NPK-LA01",
                f"{self.where} changes the Python value of `{name}` in place, and tracing runs the body once: "
                "keep what changes in names that the body itself assigns, or use nl.static_range",
                self.site.span,
            )
        return dict(frame.f_locals)
