"""``cd examples && python -m training``: trains twice, compares, and draws both loss curves."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import jax
import typer
from rich.console import Console
from rich.table import Table

# Before anything asks JAX for its devices.
jax.config.update("jax_num_cpu_devices", 4)

from .picture import draw  # noqa: E402
from .run import Run, disagreements, gradient_differences, loss_differences, on_kernels, plain  # noqa: E402


def main(
    steps: Annotated[int, typer.Option(min=1, help="Updates of each run.")] = 300,
    picture: Annotated[Path, typer.Option(help="Where the curves go (png, svg or pdf).")] = Path("training.png"),
) -> None:
    """Train a small language model as plain JAX and on kernels, on 4 devices, and compare."""
    console = Console(soft_wrap=True)
    runs: dict[str, Run] = {}
    table = Table("run", "first loss", "last loss", "seconds")
    for name, run in (("plain JAX", plain), ("on kernels", on_kernels)):
        start = time.perf_counter()
        with console.status(f"training: {name}"):
            runs[name] = run(steps)
        losses = runs[name].losses
        table.add_row(name, f"{losses[0]:.4f}", f"{losses[-1]:.4f}", f"{time.perf_counter() - start:.1f}")
    ours, theirs = runs["on kernels"], runs["plain JAX"]
    console.print(table)
    launches = Table("kernel", "launches")
    for kernel, count in ours.launches.items():
        launches.add_row(kernel, str(count))
    console.print(launches)
    console.print(f"losses differ by {loss_differences(ours, theirs).max():.1e} at most (relative)")
    console.print(f"gradients of step 1 by {max(gradient_differences(ours, theirs).values()):.1e} (relative)")
    draw(theirs.losses, ours.losses, picture)
    console.print(f"curves: {picture}")
    wrong = disagreements(ours, theirs)
    for line in wrong:
        console.print(f"[red]{line}[/]")
    if wrong:
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
