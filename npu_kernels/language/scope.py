"""Where a traced value was made: the kernel, a pass over a loop's body, or a branch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from .. import ir
from .source import Span


@dataclass(eq=False)
class Scope:
    """A block under construction.

    Attributes:
        prologue: how many operations at the head of the block were hoisted there.
    """

    parent: Scope | None
    kind: Literal["kernel", "parallel", "range", "branch"]
    block: ir.Block
    span: Span
    prologue: int = 0

    def chain(self) -> Iterator[Scope]:
        """This scope and those around it, innermost first."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def encloses(self, other: Scope) -> bool:
        return any(scope is self for scope in other.chain())

    @property
    def depth(self) -> int:
        return sum(1 for _ in self.chain())

    @property
    def title(self) -> str:
        what = {"kernel": "kernel", "branch": "branch of the if"}.get(self.kind, f"nl.{self.kind} loop")
        return f"the {what} at line {self.span.line}"
