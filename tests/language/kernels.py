"""Shorthands for tests of the language."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import npu_kernels.language as nl
from npu_kernels import ir

F32, F16, BF16, I32, BOOL = nl.float32, nl.float16, nl.bfloat16, nl.int32, nl.bool_


def tensor(shape: tuple[int, ...], dtype: ir.DType = F32) -> ir.TensorType:
    return ir.TensorType(shape, dtype)


def trace(fn: Callable[..., Any], *inputs: ir.TensorType, **statics: object) -> ir.Kernel:
    """Traces ``fn`` with its first parameters as arrays."""
    names = list(inspect.signature(fn).parameters)[: len(inputs)]
    return nl.trace(fn, dict(zip(names, inputs, strict=True)), statics)


def text(fn: Callable[..., Any], *inputs: ir.TensorType, **statics: object) -> str:
    """The body of the traced kernel as text, without the constants at its head and the frame around it."""
    lines = ir.print_kernel(trace(fn, *inputs, **statics)).splitlines()[1:-1]
    return "\n".join(line[2:] for line in lines if " = constant " not in line)


def ops(kernel: ir.Kernel, kind: type[ir.Op]) -> list[Any]:
    return [op for op in ir.walk(kernel.body) if isinstance(op, kind)]


def marked_line(fn: Callable[..., Any], mark: str = "# here") -> str:
    """``file:line`` of the only line of ``fn`` that carries ``mark``."""
    lines, first = inspect.getsourcelines(fn)
    (number,) = [first + n for n, line in enumerate(lines) if mark in line]
    return f"{fn.__code__.co_filename}:{number}"
