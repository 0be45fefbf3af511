"""Reads the program that `npu-kernels explain` is asked about."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from npu_kernels.errors import CommandError
from npu_kernels.substitution import Report, explain, load_kernel_library

from .library import load_object, read_settings
from .shapes import arrange
from .user_code import user_code


def explain_program(program: str, shapes: Sequence[str], settings: Sequence[str]) -> Report:
    """The report for a StableHLO file, or for ``module:function`` at the given shapes of its positional arguments.

    Raises:
        CommandError: NPK-CL01, when the program is not there or cannot be traced, or a shape or keyword argument is
            missing.
        GraphError: NPK-GR01, when a file cannot be read.
    """
    load_kernel_library()
    if Path(program).is_file() or ":" not in program:
        if not Path(program).is_file():
            raise CommandError(
                "NPK-CL01", f"there is no file {program!r}. A function is written module:function or file.py:function."
            )
        if Path(program).suffix == ".py":
            raise CommandError("NPK-CL01", f"{program} is Python: say which function, {program}:function.")
        if shapes or settings:
            raise CommandError("NPK-CL01", f"--shape and --set go with a function; {program} has its shapes.")
        return explain(Path(program))
    function = load_object(program)
    if not callable(function):
        raise CommandError("NPK-CL01", f"{program} is of type {type(function).__name__}, not a function.")
    keywords = read_settings(settings, function, needed=True)
    arrays = arrange(shapes, _needed(function))
    bound = functools.partial(function, **keywords) if keywords else function
    with user_code(f"{program} cannot be traced with {', '.join(shapes) or 'no arrays'}"):
        jax.eval_shape(bound, *arrays.values())
    return explain(bound, *arrays.values())


def _needed(function: Callable[..., Any]) -> list[str]:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.default is one.empty and one.kind in positional]
