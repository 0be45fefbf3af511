"""The commands of `npu-kernels`: arguments in, text out, one error a line; the work is done elsewhere."""

from __future__ import annotations

import enum
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from npu_kernels.errors import NpuKernelsError

app = typer.Typer(
    help="Ascend NPU kernels written in Python.", no_args_is_help=True, add_completion=False, rich_markup_mode="rich"
)
out = Console(soft_wrap=True)

_MARKS = {"ok": "[green]ok[/]", "absent": "[yellow]--[/]", "bad": "[red]no[/]"}


class View(enum.StrEnum):
    """What `show` prints of a kernel."""

    source = "source"
    ir = "ir"
    report = "report"


Shapes = Annotated[
    list[str] | None,
    typer.Option("--shape", help="NAME=SIZExSIZE:DTYPE, one per tensor, for example x=4096x1024:float32."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="NAME=VALUE of a keyword argument, for example eps=1e-5."),
]


@app.command()
def doctor() -> None:
    """Look at Python, JAX, the compiler, CANN, devices and the cache: each is ok, or what to do."""
    from .doctor import examine

    healthy = True
    for finding in examine():
        healthy &= finding.state != "bad"
        out.print(f"{_MARKS[finding.state]} {finding.subject:<13}", end=" ")
        out.print(finding.text, markup=False, highlight=False)
    if not healthy:
        raise typer.Exit(1)


@app.command("list")
def list_kernels() -> None:
    """The kernels of the library, with shapes that real models give them."""
    from npu_kernels.kernels import catalogue

    from .library import example_shapes

    table = Table("kernel", "what it does", "for example")
    for operation in catalogue().values():
        examples = [f"{one.model}: {' '.join(example_shapes(one))}" for one in operation.examples]
        table.add_row(operation.name, operation.summary, "\n".join(examples))
    out.print(table)


@app.command()
def show(
    kernel: Annotated[str, typer.Argument(help="A kernel of `list`, or module:name, or file.py:name.")],
    shape: Shapes = None,
    setting: Settings = None,
    view: Annotated[View, typer.Option(help="The Ascend C, the IR, or what is on chip and how work is shared.")] = (
        View.source
    ),
) -> None:
    """Print a kernel specialised to shapes; without --shape a library kernel's first example."""
    from .library import specialise

    lowered = specialise(kernel, shape or [], setting or [])
    if view is View.source:
        _print_source(lowered.source)
    else:
        out.print(str(lowered.ir if view is View.ir else lowered.report()), markup=False, highlight=False)


@app.command()
def explain(
    program: Annotated[str, typer.Argument(help="A StableHLO file (.mlir), or module:function, or file.py:function.")],
    shape: Shapes = None,
    setting: Settings = None,
    as_json: Annotated[bool, typer.Option("--json", help="Keys: replaced, near_misses.")] = False,
) -> None:
    """Say which patterns of a program would be replaced, which nearly, and why not.

    A function takes one array for each --shape; what takes more, such as a tree of parameters, goes through StableHLO:
    jax.jit(function).lower(...).as_text(debug_info=True).
    """
    from .programs import explain_program

    report = explain_program(program, shape or [], setting or [])
    if as_json:
        sys.stdout.write(json.dumps(report.to_json(), indent=2) + "\n")
    else:
        out.print(report)


@app.command()
def export(
    kernel: Annotated[str, typer.Argument(help="A kernel of `list`.")],
    folder: Annotated[Path, typer.Argument(help="Where the operator folder is written.")],
    shape: Shapes = None,
    licence: Annotated[
        Path | None, typer.Option(help="A text file that becomes the first comment of every source.", dir_okay=False)
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write over a folder that is there already.")] = False,
) -> None:
    """Write a kernel as an operator folder in the layout of CANN's operator repositories.

    Without --shape for the kernel's first example in float32, float16 and bfloat16.
    """
    from npu_kernels.upstream import export as export_operator

    from .library import find_operation, one_dtype, operation_shapes, read_text

    options: dict[str, Any] = {}
    shapes: list[list[tuple[int, ...]]] = []
    if shape:
        arrays = list(operation_shapes(find_operation(kernel), shape).values())
        shapes = [[array.shape for array in arrays]]
        options["dtypes"] = [one_dtype(arrays)]
    if licence is not None:
        options["licence"] = read_text(licence)
    for file in export_operator(kernel, shapes, folder, overwrite=overwrite, **options):
        out.print(str(file), markup=False, highlight=False)


def _print_source(text: str) -> None:
    if out.is_terminal:
        out.print(Syntax(text, "cpp", background_color="default"))
    else:
        sys.stdout.write(text)


def main() -> None:
    """Entry point: an error of the project is one coded sentence and exit code 2, never a traceback."""
    try:
        app()
    except NpuKernelsError as error:
        Console(stderr=True, soft_wrap=True).print(str(error), markup=False, highlight=False)
        raise SystemExit(2) from None
