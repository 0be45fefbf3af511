"""Times of building: what all kernels share, one kernel with that present, and finding the kernel again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from npu_kernels import toolchain
from npu_kernels.binding import Lowered
from npu_kernels.kernels import catalogue


@dataclass(frozen=True)
class BuildTimes:
    """Seconds: making the precompiled header and objects, building each kernel, the same in a second process."""

    header: float
    build: dict[str, float]
    found: dict[str, float]


def build_times() -> BuildTimes:
    """Measures in two child processes that share a new cache."""
    with tempfile.TemporaryDirectory() as cache:
        first, second = (_child(cache) for _ in range(2))
    return BuildTimes(first["header"], first["build"], second["build"])


def lowered(name: str) -> Lowered:
    """A library kernel at its first example's shapes."""
    operation = catalogue()[name]
    example = operation.examples[0]
    arrays = {name: jnp.zeros(shape, example.dtype) for name, shape in example.shapes.items()}
    launch = operation.prepare(**arrays, **example.keywords)
    return launch.kernel.lower(*launch.arrays, **launch.statics)


def _child(cache: str) -> dict[str, float | dict[str, float]]:
    environment = {**os.environ, "NPU_KERNELS_CACHE_DIR": cache}
    result = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=True, env=environment)
    return json.loads(result.stdout.splitlines()[-1])


def _measure() -> None:
    times = {}
    # The source is made before the clock starts: the numbers are about the compiler and the cache.
    sources = {name: lowered(name).generated for name in catalogue()}
    start = time.perf_counter()
    toolchain.precompiled_header(toolchain.find_compiler(), checked=False)
    header = time.perf_counter() - start
    for name, source in sources.items():
        start = time.perf_counter()
        toolchain.build(source)
        times[name] = time.perf_counter() - start
    print(json.dumps({"header": header, "build": times}))


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    _measure()
