"""Times of building: what all kernels share, one kernel with that present, and finding the kernel again."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from npu_kernels import toolchain
from npu_kernels.binding import Lowered
from npu_kernels.kernels import catalogue


@dataclass(frozen=True)
class BuildTimes:
    """Seconds.

    Attributes:
        header: making what every kernel shares, the precompiled header and the instructions, once per compiler.
        build: by kernel, from its Python to its library, with the header present.
        found: by kernel, finding the library of a generated source in a second process.
    """

    header: float
    build: dict[str, float]
    found: dict[str, float]


def build_times(repeats: int) -> BuildTimes:
    """Medians over `repeats` new caches, each shared by two child processes."""
    firsts, seconds = [], []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            firsts.append(_child(cache))
            seconds.append(_child(cache))
    names = firsts[0]["build"]
    return BuildTimes(
        statistics.median(first["header"] for first in firsts),
        {name: statistics.median(first["build"][name] for first in firsts) for name in names},
        {name: statistics.median(second["found"][name] for second in seconds) for name in names},
    )


def lowered(name: str) -> Lowered:
    """A library kernel at its first example's shapes."""
    operation = catalogue()[name]
    example = operation.examples[0]
    arrays = {name: jnp.zeros(shape, example.dtype) for name, shape in example.shapes.items()}
    launch = operation.prepare(**arrays, **example.keywords)
    return launch.kernel.lower(*launch.arrays, **launch.statics)


def _child(cache: str) -> Any:
    environment = {**os.environ, "NPU_KERNELS_CACHE_DIR": cache}
    result = subprocess.run([sys.executable, __file__], capture_output=True, text=True, check=True, env=environment)
    return json.loads(result.stdout.splitlines()[-1])


def _measure() -> None:
    start = time.perf_counter()
    toolchain.precompiled_header(toolchain.find_compiler(), checked=False)
    header = time.perf_counter() - start
    build, found = {}, {}
    for name in catalogue():
        start = time.perf_counter()
        source = lowered(name).generated
        generated = time.perf_counter()
        toolchain.build(source)
        built = time.perf_counter()
        build[name], found[name] = built - start, built - generated
    print(json.dumps({"header": header, "build": build, "found": found}))


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    _measure()
