"""Prints the benchmark table: ``python benchmarks [attention rows dispatch build demo] [--json FILE]``.

Every time and every peak of memory is a median, but for the demo, which runs once; a ratio is ours over theirs, from
rounds in which the two take turns (see `harness`), on the same threads.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

import dispatch
from builds import build_times
from harness import ROUNDS, SELF_TOLERANCE, Comparison, compare, self_check
from memory import PROGRAMS, peak_bytes
from npu_kernels import knobs
from rows import PALLAS_BLOCKS, best_pallas, norm, norm_xla, softmax, softmax_each_row, softmax_row, softmax_xla

ROOT = Path(__file__).parents[1]
ROWS, COLUMNS = 4096, 1024
VMAP_ROWS = 64
#: Fresh processes, of which the median is taken.
PROCESSES = 3


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the table: a measured text, the bound it is held against, and whether it holds."""

    subject: str
    measured: str
    bound: str
    holds: bool
    detail: Comparison | float


class Group(enum.StrEnum):
    """What can be measured alone."""

    attention = "attention"
    rows = "rows"
    dispatch = "dispatch"
    vmap = "vmap"
    build = "build"
    demo = "demo"


def main(
    groups: Annotated[list[Group] | None, typer.Argument(help="What to measure; everything by default.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write the numbers here.")] = None,
    rounds: Annotated[int, typer.Option(min=2, help="Rounds of a comparison.")] = ROUNDS,
) -> None:
    """Measure attention, row kernels, calls, building and the demo on this machine."""
    threads = same_threads()
    console = Console()
    title = f"npu_kernels on the twin, float32, fast mode; {threads} threads on both sides, {rounds} rounds"
    table = Table("what", "measured", "bound", "", title=title)
    lines = []
    # What was measured is shown even if a later step fails.
    with Live(table, console=console, vertical_overflow="visible"):
        for line in measure(groups or list(Group), rounds):
            lines.append(line)
            if not console.is_terminal:
                console.print(f"{line.subject}: {line.measured}", soft_wrap=True, highlight=False)
            table.add_row(line.subject, line.measured, line.bound, "[green]holds[/]" if line.holds else "[red]no[/]")
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps([dataclasses.asdict(line) for line in lines], indent=1) + "\n")
        console.print(f"written to {json_file}")
    if not all(line.holds for line in lines):
        raise typer.Exit(1)


def same_threads() -> int:
    """The threads of either side: XLA:CPU and the twin both take every CPU this process may use."""
    cpus = len(os.sched_getaffinity(0))
    if (knobs.THREADS.get() or cpus) != cpus:
        raise typer.BadParameter(f"{knobs.THREADS.name} gives the twin other threads than XLA's {cpus}: unset it")
    return cpus


def measure(groups: list[Group], rounds: int) -> Iterator[Line]:
    lines = {
        Group.attention: functools.partial(attention_lines, rounds),
        Group.rows: functools.partial(row_lines, rounds),
        Group.dispatch: functools.partial(dispatch_lines, rounds),
        Group.vmap: functools.partial(vmap_lines, rounds),
        Group.build: build_lines,
        Group.demo: demo_lines,
    }
    for group in groups:
        yield from lines[group]()


def attention_lines(rounds: int) -> Iterator[Line]:
    rng = np.random.default_rng(0)
    arrays = [jnp.asarray(rng.standard_normal((1, 1024, 8, 64)), jnp.float32) for _ in range(4)]
    for what, suffix in (("attention", ""), ("attention and its gradient", "-gradient")):
        mine, xla = (
            functools.partial(jax.jit(program), *arrays[:count])
            for program, count in (PROGRAMS[f"{which}{suffix}"] for which in ("ours", "xla"))
        )
        yield _self_line(f"{what} of XLA:CPU", self_check(xla, rounds))
        yield _ratio_line(f"{what} B1 H8 S1024 D64 / XLA:CPU", compare(mine, xla, rounds), 1.0)
        peak, theirs_peak = (
            statistics.median(peak_bytes(f"{which}{suffix}", 4096) for _ in range(PROCESSES))
            for which in ("ours", "xla")
        )
        ratio = peak / theirs_peak
        text = f"{peak / 2**20:.0f} MiB / {theirs_peak / 2**20:.0f} MiB = {ratio:.3f}"
        yield Line(f"peak memory of {what} at S4096 / XLA:CPU", text, "≤ 0.1", ratio <= 0.1, ratio)


def row_lines(rounds: int) -> Iterator[Line]:
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((ROWS, COLUMNS)), jnp.float32)
    weight = jnp.asarray(rng.standard_normal(COLUMNS), jnp.float32)
    for name, ours, theirs, arrays in (
        ("softmax", softmax, softmax_xla, (x,)),
        ("RMSNorm", norm, norm_xla, (x, weight)),
    ):
        mine = functools.partial(jax.jit(ours), *arrays)
        xla = functools.partial(jax.jit(theirs), *arrays)
        yield _self_line(f"{name} of XLA:CPU", self_check(xla, rounds))
        yield _ratio_line(f"{name} {ROWS}×{COLUMNS} / XLA:CPU", compare(mine, xla, rounds), 3.0)
        block, pallas = best_pallas(theirs, *arrays)
        tried = f"best of {PALLAS_BLOCKS[0]} … {PALLAS_BLOCKS[-1]}"
        subject = f"{name} {ROWS}×{COLUMNS} / Pallas interpret, {block} rows a block ({tried})"
        yield _ratio_line(subject, compare(mine, pallas, rounds), 1.0)


def dispatch_lines(rounds: int) -> Iterator[Line]:
    themselves, jitted = dispatch.dispatch(rounds)
    yield _self_line("a jitted raw FFI handler", themselves)
    yield _ratio_line(f"{dispatch.CALLS} jitted calls of a kernel / of a raw FFI handler", jitted, 1.15)
    loop, more = dispatch.loop(rounds)
    text = f"{more * 1e6:.2f} µs ({loop.ours * 1e3:.1f} ms / {loop.theirs * 1e3:.1f} ms)"
    yield Line("a call in a compiled loop, beyond a raw FFI handler", text, "≤ 0.5 µs", more <= 0.5e-6, loop)
    seconds = dispatch.chain_seconds()
    yield _seconds_line(f"tracing and lowering {dispatch.CHAIN} calls of one kernel", seconds, 0.5)
    builds, found = dispatch.shapes_seconds()
    yield _seconds_line(
        f"one kernel at {dispatch.SHAPES} shapes, built already (their builds: {builds:.0f} s)", found, 1.0
    )


def vmap_lines(rounds: int) -> Iterator[Line]:
    """``jax.vmap`` of a kernel for one row against the same kernel with the batch written by hand."""
    x = jnp.asarray(np.random.default_rng(0).standard_normal((VMAP_ROWS, COLUMNS)), jnp.float32)
    ours, theirs = _repeated(jax.vmap(softmax_row), x), _repeated(softmax_each_row, x)
    subject = f"vmap of a softmax of {COLUMNS} over {VMAP_ROWS} rows / batched by hand"
    yield _ratio_line(subject, compare(ours, theirs, rounds), 1.1)


def _repeated(function: Callable[[jax.Array], jax.Array], x: jax.Array, times: int = 100) -> Callable[[], jax.Array]:
    """Many calls in one program, so that what is measured is not the dispatch."""
    step = functools.partial(jax.lax.fori_loop, 0, times, lambda _, y: function(y))
    return functools.partial(jax.jit(step), x)


def build_lines() -> Iterator[Line]:
    times = build_times(PROCESSES)
    yield _seconds_line("precompiled header and instructions, once per compiler", times.header, 10.0)
    for name in times.build:
        yield _seconds_line(f"building {name} from its Python, header present", times.build[name], 1.5)
        yield _seconds_line(f"finding {name} in a second process", times.found[name], 0.02)


def demo_lines() -> Iterator[Line]:
    """``make demo`` in a clean clone with an empty cache: environment, wheel, weights, kernels and answers."""
    with tempfile.TemporaryDirectory() as folder:
        clone, cache = Path(folder) / "clone", Path(folder) / "cache"
        cache.mkdir(mode=0o700)
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
        environment = {**os.environ, "NPU_KERNELS_CACHE_DIR": str(cache)}
        command = ["make", "-C", str(clone), "demo", f"PYTHON={getattr(sys, '_base_executable', sys.executable)}"]
        start = time.perf_counter()
        subprocess.run(command, env=environment, check=True, capture_output=True)
        seconds = time.perf_counter() - start
    yield _seconds_line("make demo from a clean clone, downloads included", seconds, 300.0)


def _self_line(subject: str, result: Comparison) -> Line:
    return Line(
        f"{subject} / itself",
        f"{result.ratio:.3f}",
        f"1.00 ± {SELF_TOLERANCE:.2f}",
        abs(result.ratio - 1) <= SELF_TOLERANCE,
        result,
    )


def _ratio_line(subject: str, result: Comparison, bound: float) -> Line:
    text = (
        f"{result.ours * 1e3:.2f} ms / {result.theirs * 1e3:.2f} ms = {result.ratio:.2f} "
        f"[{result.low:.2f}, {result.high:.2f}]"
    )
    return Line(subject, text, f"≤ {bound:g}", result.ratio <= bound, result)


def _seconds_line(subject: str, seconds: float, bound: float) -> Line:
    text = f"{seconds * 1e3:.1f} ms" if seconds < 0.1 else f"{seconds:.2f} s"
    return Line(subject, text, f"≤ {bound:g} s", seconds <= bound, seconds)


if __name__ == "__main__":
    typer.run(main)
