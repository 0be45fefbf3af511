"""What was replaced, what nearly was, and why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from npu_kernels.errors import SubstitutionError


@dataclass(frozen=True)
class Replaced:
    """A replaced instance.

    Attributes:
        pattern: name of the pattern.
        location: the user's own ``file:line``; the function or region of a module without locations.
        reason: permissions of the numerics policy that were used.
        shapes: operands and result, for example ``query f32[2,128,4,32]``.
    """

    pattern: str
    location: str
    reason: str
    shapes: tuple[str, ...] = ()


@dataclass(frozen=True)
class NearMiss:
    """Something a pattern is about but was not replaced.

    Attributes:
        pattern: name of the pattern.
        location: the user's own ``file:line``; the function or region of a module without locations.
        reason: stable code of the guard that stopped it, see ``docs/substitution.md``.
        sentence: what the guard found.
        shapes: shape of the value concerned.
    """

    pattern: str
    location: str
    reason: str
    sentence: str
    shapes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """All static instances of a program; the body of a loop counts once.

    Attributes:
        replaced: instances that call a kernel now.
        near_misses: instances that do not, with the reason.
        policy: name of the numerics policy.
        patterns: names of the patterns that were looked for.
    """

    replaced: Sequence[Replaced] = ()
    near_misses: Sequence[NearMiss] = ()
    policy: str = "default"
    patterns: Sequence[str] = ()

    def count(self, pattern: str) -> int:
        """Replaced instances of a pattern."""
        return sum(entry.pattern == pattern for entry in self.replaced)

    @property
    def counts(self) -> dict[str, int]:
        """Replaced instances by pattern."""
        return dict(Counter(entry.pattern for entry in self.replaced))

    def require(self, pattern: str, count: int | None = None) -> None:
        """Fail unless a pattern was replaced.

        Args:
            pattern: name of the pattern.
            count: exact number of static instances; ``None`` accepts any but zero.

        Raises:
            SubstitutionError: ``NPK-SB01``, with the near misses.
        """
        found = self.count(pattern)
        if found == count or (count is None and found > 0):
            return
        wanted = "at least one" if count is None else str(count)
        lines = [f"{found} instances of {pattern} were replaced, {wanted} required"]
        misses = [miss for miss in self.near_misses if miss.pattern == pattern]
        lines += [f"  near miss at {miss.location}: {miss.reason}: {miss.sentence}" for miss in misses]
        if not misses:
            lines.append(f"  nothing else in the program resembles {pattern}")
        raise SubstitutionError("NPK-SB01", "\n".join(lines))

    def to_json(self) -> dict[str, Any]:
        """Plain data with the keys ``replaced`` and ``near_misses``."""
        return {
            "policy": self.policy,
            "replaced": [
                {"pattern": r.pattern, "location": r.location, "reason": r.reason, "shapes": list(r.shapes)}
                for r in self.replaced
            ],
            "near_misses": [
                {
                    "pattern": m.pattern,
                    "location": m.location,
                    "reason": m.reason,
                    "sentence": m.sentence,
                    "shapes": list(m.shapes),
                }
                for m in self.near_misses
            ],
        }

    def __rich__(self) -> RenderableType:
        if self.replaced:
            return self._table(f"Substitutions under the numerics policy {self.policy}")
        nothing = f"Nothing is replaced under the numerics policy {self.policy}"
        if self.near_misses:
            return Group(Text(f"{nothing}; these came near:"), self._table(None))
        if not self.patterns:
            return Text(f"{nothing}: no pattern is registered. Importing npu_kernels.kernels registers the library's.")
        return Text(f"{nothing}: no part of the program resembles {' or '.join(self.patterns)}.")

    def _table(self, title: str | None) -> Table:
        table = Table(title=title, title_justify="left")
        for column in ("", "pattern", "location", "reason", "shapes"):
            table.add_column(column, overflow="fold")
        for entry in self.replaced:
            table.add_row("replaced", entry.pattern, entry.location, entry.reason, "\n".join(entry.shapes))
        for miss in self.near_misses:
            text = f"{miss.reason}: {miss.sentence}"
            table.add_row("near miss", miss.pattern, miss.location, text, "\n".join(miss.shapes))
        return table

    def __str__(self) -> str:
        console = Console(width=140, no_color=True, force_terminal=False)
        with console.capture() as capture:
            console.print(self)
        return capture.get()


def merge(reports: Sequence[Report]) -> Report:
    """One report of several programs."""
    return Report(
        [entry for report in reports for entry in report.replaced],
        [miss for report in reports for miss in report.near_misses],
        reports[0].policy if reports else "default",
        list(dict.fromkeys(name for report in reports for name in report.patterns)),
    )
