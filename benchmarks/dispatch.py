"""What a call costs beside its work: ours against a raw `jax.ffi` handler, and the time to trace and lower calls.

Both add 1 to eight floats; the handler is built here, from `raw_handler.cpp`.
"""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.ffi
import jax.numpy as jnp
from jaxtyping import Float

import npu_kernels.language as nl
from harness import Comparison, Program, compare, self_check
from npu_kernels import npu_kernel, toolchain
from npu_kernels.binding import Kernel

SIZE = 8
#: Calls of a jitted function in one timed program, and iterations of the compiled loop.
CALLS, ITERATIONS = 2_000, 200_000
CHAIN, SHAPES = 1_000, 100


def make_kernel() -> Kernel:
    """A new kernel that has seen no shape yet, with a derivative rule."""

    @npu_kernel
    def add_one(x: Float[nl.Tensor, "n"]) -> Float[nl.Tensor, "n"]:
        out = nl.output(x.shape, x.dtype)
        nl.store(out, nl.load(x) + 1.0)
        return out

    add_one.defvjp(lambda x: (add_one(x), ()), lambda _, cotangent: (cotangent,))
    return add_one


@functools.cache
def raw_handler() -> Callable[..., Any]:
    """The same by a handler in C++."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "raw_handler.so"
        source = Path(__file__).with_name("raw_handler.cpp")
        flags = ["-std=c++17", "-O3", "-w", "-shared", "-fPIC", f"-I{jax.ffi.include_dir()}"]
        subprocess.run([*toolchain.find_compiler().argv, *flags, str(source), "-o", str(library)], check=True)
        handler = ctypes.cdll.LoadLibrary(str(library)).AddOne
    jax.ffi.register_ffi_target("benchmark_add_one", jax.ffi.pycapsule(handler), platform="cpu")
    return jax.ffi.ffi_call("benchmark_add_one", jax.ShapeDtypeStruct((SIZE,), jnp.float32))


def jitted(function: Callable[..., Any]) -> Program:
    """Many calls of a function that is one call, from Python."""
    call = jax.jit(function)
    x = jnp.arange(float(SIZE))

    def program() -> Any:
        for _ in range(CALLS):
            result = call(x)
        return result

    return program


def looped(function: Callable[..., Any]) -> Program:
    """Many calls in one compiled loop."""
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, ITERATIONS, lambda _, x: function(x), x))
    return functools.partial(loop, jnp.arange(float(SIZE)))


def dispatch(rounds: int) -> tuple[Comparison, Comparison]:
    """A jitted call of ours over the handler's, and the handler over itself."""
    theirs = jitted(raw_handler())
    return self_check(theirs, rounds), compare(jitted(make_kernel()), theirs, rounds)


def loop(rounds: int) -> tuple[Comparison, float]:
    """Ours and theirs inside the loop, and how much longer one call of ours takes, in seconds."""
    result = compare(looped(make_kernel()), looped(raw_handler()), rounds)
    return result, (result.ours - result.theirs) / ITERATIONS


def chain_seconds() -> float:
    """Tracing and lowering a chain of calls of one kernel, built already: the best of five."""
    kernel = make_kernel()
    x = jnp.arange(float(SIZE))
    kernel(x)

    def chain(x: Any) -> Any:
        for _ in range(CHAIN):
            x = kernel(x)
        return x

    def once() -> float:
        start = time.perf_counter()
        jax.jit(lambda x: chain(x)).lower(x)  # a function of its own each time, which no cache knows
        return time.perf_counter() - start

    return min(once() for _ in range(5))


def shapes_seconds() -> tuple[float, float]:
    """Lowering a function that calls a kernel at many shapes: once with the builds, and once when they are there."""
    arrays = [jnp.zeros(SIZE + i) for i in range(SHAPES)]

    def once() -> float:
        kernel = make_kernel()
        start = time.perf_counter()
        jax.jit(lambda arrays: [kernel(x) for x in arrays]).lower(arrays)
        return time.perf_counter() - start

    return once(), once()
