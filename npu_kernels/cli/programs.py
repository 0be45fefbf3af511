"""Reads the program that `npu-kernels explain` is asked about."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path

from npu_kernels.errors import CommandError
from npu_kernels.substitution import Report, explain, load_kernel_library

from .library import load_object
from .shapes import arrange


def explain_program(program: str, shapes: Sequence[str]) -> Report:
    """The report for a StableHLO file, or for ``module:function`` at the given shapes of its positional arguments.

    Raises:
        CommandError: NPK-CL01, when the program is not there or a shape is missing.
        GraphError: NPK-GR01, when a file cannot be read.
    """
    load_kernel_library()
    if ":" not in program:
        if not Path(program).is_file():
            raise CommandError("NPK-CL01", f"no such file: {program}. A function is written module:function.")
        return explain(Path(program))
    function = load_object(program)
    if not callable(function):
        raise CommandError("NPK-CL01", f"{program} is a {type(function).__name__}, not a function.")
    parameters = inspect.signature(function).parameters.values()
    needed = [one.name for one in parameters if one.default is one.empty and one.kind is not one.KEYWORD_ONLY]
    return explain(function, *arrange(shapes, needed).values())
