"""Which kernels a function calls, and building them before they are needed, so that progress can be shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from npu_kernels.binding.primitive import KernelCall, npu_kernel_call_p

_SHORT = {"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int32": "i32", "bool": "bool"}


@dataclass(frozen=True)
class Call:
    """One place in a function that calls a kernel: the kernel for these shapes, and the shapes."""

    kernel: KernelCall
    shapes: tuple[str, ...]


def kernel_calls(function: Callable[..., Any], *arguments: Any) -> list[Call]:
    """Every call in the order of the program; the body of a loop counts once."""
    return list(_walk(jax.make_jaxpr(function)(*arguments)))


def build_all(calls: Sequence[Call], done: Callable[[], None]) -> list[Path]:
    """Builds each kernel once, or finds it in the cache; gives the generated sources."""
    sources = []
    for kernel in dict.fromkeys(call.kernel for call in calls):
        sources.append(kernel.build(checked=False).source)
        done()
    return sources


def _walk(jaxpr: Any) -> Iterator[Call]:
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        if equation.primitive is npu_kernel_call_p:
            shapes = tuple(_short(variable.aval) for variable in equation.invars)
            yield Call(equation.params["kernel"], shapes)
        for value in equation.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                if hasattr(inner, "eqns") or hasattr(inner, "jaxpr"):
                    yield from _walk(inner)


def _short(aval: Any) -> str:
    return f"{_SHORT[aval.dtype.name]}[{'×'.join(map(str, aval.shape))}]"
