"""Prints the benchmark table: ``python benchmarks [--json FILE]``.

Every number is a median; a ratio is ours over theirs, from rounds in which the two take turns (see `harness`).
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from builds import build_times
from harness import Comparison, compare, self_check
from memory import peak_bytes
from npu_kernels.kernels import attention
from rows import best_pallas, norm, norm_xla, softmax, softmax_xla

ROOT = Path(__file__).parents[1]
ROWS, COLUMNS = 4096, 1024


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the table: a measured text, the bound it is held against, and whether it holds."""

    subject: str
    measured: str
    bound: str
    holds: bool
    detail: Comparison | float


def main(json_file: Annotated[Path | None, typer.Option("--json", help="Also write the numbers here.")] = None) -> None:
    """Measure attention, row kernels, building and the demo on this machine."""
    console = Console()
    table = Table("what", "measured", "bound", "", title="npu_kernels on the twin, float32, fast mode")
    lines = []
    with console.status("measuring") as status:
        for line in measure():
            status.update(f"measured {line.subject}")
            lines.append(line)
            table.add_row(line.subject, line.measured, line.bound, "[green]holds[/]" if line.holds else "[red]no[/]")
    console.print(table)
    if json_file is not None:
        json_file.parent.mkdir(parents=True, exist_ok=True)
        json_file.write_text(json.dumps([dataclasses.asdict(line) for line in lines], indent=1) + "\n")
        console.print(f"written to {json_file}")
    if not all(line.holds for line in lines):
        raise typer.Exit(1)


def measure() -> Iterator[Line]:
    yield from attention_lines()
    yield from row_lines()
    yield from build_lines()
    yield demo_line()


def attention_lines() -> Iterator[Line]:
    rng = np.random.default_rng(0)
    arrays = [jnp.asarray(rng.standard_normal((1, 1024, 8, 64)), jnp.float32) for _ in range(3)]
    theirs = functools.partial(jax.jit(jax.nn.dot_product_attention), *arrays)
    yield _self_line("attention of XLA:CPU", self_check(theirs))
    ours = functools.partial(jax.jit(attention), *arrays)
    yield _ratio_line("attention B1 H8 S1024 D64 / XLA:CPU", compare(ours, theirs), 1.0)
    ratio = (peak := peak_bytes("ours", 4096)) / (theirs_peak := peak_bytes("xla", 4096))
    text = f"{peak / 2**20:.0f} MiB / {theirs_peak / 2**20:.0f} MiB = {ratio:.3f}"
    yield Line("peak memory of attention at S4096 / XLA:CPU", text, "≤ 0.1", ratio <= 0.1, ratio)


def row_lines() -> Iterator[Line]:
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((ROWS, COLUMNS)), jnp.float32)
    weight = jnp.asarray(rng.standard_normal(COLUMNS), jnp.float32)
    for name, ours, theirs, arrays in (
        ("softmax", softmax, softmax_xla, (x,)),
        ("RMSNorm", norm, norm_xla, (x, weight)),
    ):
        mine = functools.partial(jax.jit(ours), *arrays)
        xla = functools.partial(jax.jit(theirs), *arrays)
        yield _self_line(f"{name} of XLA:CPU", self_check(xla))
        yield _ratio_line(f"{name} {ROWS}×{COLUMNS} / XLA:CPU", compare(mine, xla), 3.0)
        block, pallas = best_pallas(theirs, *arrays)
        subject = f"{name} {ROWS}×{COLUMNS} / Pallas interpret, {block} rows a block"
        yield _ratio_line(subject, compare(mine, pallas), 1.0)


def build_lines() -> Iterator[Line]:
    times = build_times()
    yield _seconds_line("precompiled header and instructions, once per compiler", times.header, 10.0)
    for name in times.build:
        yield _seconds_line(f"building {name}, header present", times.build[name], 1.5)
        yield _seconds_line(f"finding {name} in a second process", times.found[name], 0.02)


def demo_line() -> Line:
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NPU_KERNELS_CACHE_DIR": cache}
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "smollm2"], cwd=ROOT / "examples", env=environment, check=True, capture_output=True
        )
    return _seconds_line("the demo, nothing built", time.perf_counter() - start, 300.0)


def _self_line(subject: str, result: Comparison) -> Line:
    return Line(f"{subject} / itself", f"{result.ratio:.3f}", "1.00 ± 0.05", True, result)


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
