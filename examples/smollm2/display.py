"""The demo's two tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich import box
from rich.table import Table

from npu_kernels.substitution import Report

from .kernels import Call


def kernels_table(report: Report, calls: Sequence[Call], launched: Mapping[str, int], passes: int) -> Table:
    """What was replaced, by what, and how often it ran in `passes` forward passes.

    The report and the calls of the substituted program are both in program order, one entry per instance.
    """
    instances = Counter(
        (entry.pattern, _short_location(entry.location), call.kernel, call.shapes)
        for entry, call in zip(report.replaced, calls, strict=True)
    )
    # Two blanks between columns and no word broken: six columns of names and shapes fit 80 characters.
    table = Table(
        title=f"\nWhat runs as a kernel; launches in {passes} forward passes",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for heading in ("replaced", "line", "kernel", "shapes", "blocks", "launches"):
        table.add_column(heading, justify="right" if heading in ("blocks", "launches") else "left", no_wrap=True)
    for (pattern, location, kernel, shapes), count in instances.items():
        blocks, launches = str(kernel.source.blocks), f"{launched.get(kernel.name, 0)}"
        table.add_row(f"{count} {pattern}", location, kernel.name, "\n".join(shapes), blocks, launches)
    return table


def times_table(found_in: float, built_in: float, plain: Mapping[str, float], kernels: Mapping[str, float]) -> Table:
    """Seconds of each step, with and without kernels."""
    table = Table("seconds", "plain JAX", "kernels", title="\nTimes", title_justify="left")
    table.add_row("find the patterns", "", f"{found_in:.2f}")
    table.add_row("build the kernels", "", f"{built_in:.2f}")
    for step in plain:
        table.add_row(step, f"{plain[step]:.2f}", f"{kernels[step]:.2f}")
    return table


def _short_location(location: str) -> str:
    file, _, line = location.rpartition(":")
    return f"{Path(file).name}:{line}"
