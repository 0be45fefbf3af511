"""Finds a kernel by its name on the command line and specialises it to shapes."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from npu_kernels.binding import Kernel, Lowered
from npu_kernels.errors import CommandError
from npu_kernels.kernels import Example, Launch, Operation, catalogue

from .shapes import arrange
from .user_code import user_code


def specialise(name: str, shapes: Sequence[str], settings: Sequence[str]) -> Lowered:
    """The stages of a kernel, for the shapes and keyword arguments of the command line.

    Args:
        name: an operation of the library, ``module:name`` or ``file.py:name`` of a kernel.
        shapes: as `shapes.parse_shape` reads them; none takes the first example of a library operation.
        settings: ``NAME=VALUE`` with a Python literal or a word.

    Raises:
        CommandError: NPK-CL01, when there is no such kernel or the shapes do not fit its tensors.
    """
    if ":" not in name:
        operation = find_operation(name)
        return _of_operation(operation, shapes, read_settings(settings, operation.function))
    kernel = load_object(name)
    if not isinstance(kernel, Kernel):
        raise CommandError("NPK-CL01", f"{name} is of type {type(kernel).__name__}, not a kernel made by @npu_kernel.")
    keywords = read_settings(settings, kernel, needed=True)
    arrays = arrange(shapes, _positional(kernel))
    with user_code(f"{name} cannot be traced"):
        return kernel.lower(*arrays.values(), **keywords)


def find_operation(name: str) -> Operation:
    """An operation of the library; raises NPK-CL01 with the names there are."""
    operations = catalogue()
    if name not in operations:
        raise CommandError(
            "NPK-CL01",
            f"there is no kernel {name!r}: take one of {', '.join(operations)}, or write module:name or file.py:name.",
        )
    return operations[name]


def example_shapes(example: Example) -> list[str]:
    """An example's shapes in the notation of ``--shape``."""
    return [f"{name}={'x'.join(map(str, shape))}:{example.dtype}" for name, shape in example.shapes.items()]


def operation_shapes(operation: Operation, texts: Sequence[str]) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes of the command line by the operation's parameters; raises NPK-CL01 when they do not fit."""
    return arrange(texts, _positional(operation.function), _optional(operation.function))


def one_dtype(arrays: Sequence[jax.ShapeDtypeStruct]) -> str:
    """The element type that all arrays have; raises NPK-CL01 when they have several."""
    names = [str(name) for name in dict.fromkeys(array.dtype.name for array in arrays)]
    if len(names) != 1:
        raise CommandError("NPK-CL01", f"an operator's arrays have one dtype, these have {' and '.join(names)}.")
    return names[0]


def read_text(file: Path) -> str:
    """The text of a file; raises NPK-CL01 when it cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError("NPK-CL01", f"{file} cannot be read: {error}.") from error


def load_object(name: str) -> Any:
    """What ``module:name`` or ``file.py:name`` names; raises NPK-CL01 when it is not there.

    Modules are looked for in the working directory too, as ``python -m`` does.
    """
    module_name, _, attribute = name.rpartition(":")
    if not module_name or not attribute:
        raise CommandError("NPK-CL01", f"{name!r} names nothing: write module:name or file.py:name.")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    with user_code(f"{module_name!r} cannot be imported"):
        module = _load_file(module_name) if module_name.endswith(".py") else importlib.import_module(module_name)
    if not hasattr(module, attribute):
        raise CommandError("NPK-CL01", f"{module_name} has no {attribute!r}.")
    return getattr(module, attribute)


def read_settings(settings: Sequence[str], function: Any, *, needed: bool = False) -> dict[str, Any]:
    """The keyword arguments of the command line; raises NPK-CL01 for one that ``function`` does not have.

    Args:
        settings: ``NAME=VALUE`` each.
        function: whose keyword-only parameters they are.
        needed: whether those without a default have to be given.
    """
    keywords = dict(map(parse_setting, settings))
    parameters = {p.name: p for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY}
    for name in keywords:
        if name not in parameters:
            has = f"there are {', '.join(parameters)}" if parameters else "there is none"
            raise CommandError("NPK-CL01", f"--set {name}=… fits no keyword argument: {has}.")
    missing = [p.name for p in parameters.values() if p.default is p.empty and p.name not in keywords]
    if needed and missing:
        raise CommandError("NPK-CL01", f"no value for {', '.join(missing)}: add --set {missing[0]}=VALUE.")
    return keywords


def parse_setting(text: str) -> tuple[str, Any]:
    """``NAME=VALUE``: a Python literal, or else the word itself."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise CommandError("NPK-CL01", f"--set {text!r} cannot be read: write NAME=VALUE, for example eps=1e-5.")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def _of_operation(operation: Operation, shapes: Sequence[str], keywords: Mapping[str, Any]) -> Lowered:
    example = operation.examples[0]
    texts = shapes or example_shapes(example)
    arrays = arrange(texts, _positional(operation.function), _optional(operation.function))
    launches: list[Launch] = []

    def trace(arrays: dict[str, jax.Array]) -> None:
        launches.append(operation.prepare(**arrays, **{**example.keywords, **keywords}))

    with user_code(f"{operation.name} cannot take these arguments"):
        jax.eval_shape(trace, arrays)
        (launch,) = launches
        specs = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in launch.arrays]
        lowered: Lowered = launch.kernel.lower(*specs, **launch.statics)
    return lowered


def _positional(function: Any) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.kind is not one.KEYWORD_ONLY]


def _optional(function: Any) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    return [one.name for one in parameters if one.default is None]


def _load_file(path: str) -> Any:
    if not Path(path).is_file():
        raise CommandError("NPK-CL01", f"there is no file {path!r}.")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None  # the name ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
