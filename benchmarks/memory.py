"""Peak memory of attention in a fresh process: ``python memory.py PROGRAM LENGTH``, a program of ``PROGRAMS``."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from npu_kernels.kernels import attention

HEADS, WIDTH = 8, 64


def with_gradient(function: Callable[..., jax.Array]) -> Callable[..., Any]:
    """The function of query, key and value and its gradient, for a fourth array as the result's cotangent."""

    def program(query: jax.Array, key: jax.Array, value: jax.Array, cotangent: jax.Array) -> Any:
        result, pull = jax.vjp(function, query, key, value)
        return result, pull(cotangent)

    return program


#: Programs of as many arrays as the second entry says.
PROGRAMS = {
    "ours": (attention, 3),
    "xla": (jax.nn.dot_product_attention, 3),
    "ours-gradient": (with_gradient(attention), 4),
    "xla-gradient": (with_gradient(jax.nn.dot_product_attention), 4),
}


def peak_bytes(which: str, length: int) -> int:
    """Measures in a child, whose allocator has no earlier peak to hide in."""
    result = subprocess.run([sys.executable, __file__, which, str(length)], capture_output=True, text=True, check=True)
    return int(json.loads(result.stdout.splitlines()[-1]))


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


def _measure(which: str, length: int) -> int:
    rng = np.random.default_rng(0)
    program, count = PROGRAMS[which]
    arrays = [jnp.asarray(rng.standard_normal((1, length, HEADS, WIDTH)), jnp.float32) for _ in range(count)]
    compiled = jax.jit(program).lower(*arrays).compile()
    # What making the inputs and compiling freed must not serve the call for nothing.
    ctypes.CDLL(None).malloc_trim(0)
    before = _status("VmRSS")
    # Compiling had a peak of its own; 5 sets the high-water mark back to what is resident now.
    Path("/proc/self/clear_refs").write_text("5")
    jax.block_until_ready(compiled(*arrays))
    return _status("VmHWM") - before


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]))))
