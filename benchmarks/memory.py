"""Peak memory of one attention call, in a fresh process: ``python memory.py ours|xla LENGTH``."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from npu_kernels.kernels import attention

HEADS, WIDTH = 8, 64
FUNCTIONS = {"ours": attention, "xla": jax.nn.dot_product_attention}


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
    q, k, v = (jnp.asarray(rng.standard_normal((1, length, HEADS, WIDTH)), jnp.float32) for _ in range(3))
    compiled = jax.jit(FUNCTIONS[which]).lower(q, k, v).compile()
    # What making the inputs and compiling freed must not serve the call for nothing.
    ctypes.CDLL(None).malloc_trim(0)
    before = _status("VmRSS")
    # Compiling had a peak of its own; 5 sets the high-water mark back to what is resident now.
    Path("/proc/self/clear_refs").write_text("5")
    jax.block_until_ready(compiled(q, k, v))
    return _status("VmHWM") - before


if __name__ == "__main__":
    print(json.dumps(_measure(sys.argv[1], int(sys.argv[2]))))
