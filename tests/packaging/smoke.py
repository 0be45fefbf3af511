"""Runs one kernel of the library inside `jax.jit` and compares it with plain JAX; for environments without pytest.

python -P tests/packaging/smoke.py [oldest|newest]
"""

from __future__ import annotations

import sys
from importlib.metadata import version

import jax
import jax.numpy as jnp
import numpy as np

import npu_kernels
from npu_kernels.kernels import rms_norm

OLDEST = (0, 10, 2)


def main(wanted: str = "any") -> None:
    newer = jax.__version_info__ > OLDEST
    if wanted in ("oldest", "newest") and newer != (wanted == "newest"):
        raise SystemExit(f"wanted the {wanted} jax, but this environment has {jax.__version__}")
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((37, 192)), jnp.float32)
    weight = jnp.asarray(rng.standard_normal(192), jnp.float32)
    got = jax.jit(lambda x, weight: rms_norm(x, weight, eps=1e-6))(x, weight)
    x64 = np.asarray(x, np.float64)
    want = x64 / np.sqrt(np.mean(x64**2, axis=-1, keepdims=True) + 1e-6) * np.asarray(weight, np.float64)
    # A mean of 192 products and one square root in float32: a few units in the last place of values up to 10.
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, atol=1e-5)
    launched = sum(npu_kernels.launches().values())
    if launched != 1:
        raise SystemExit(f"one call, but {launched} launches were counted")
    print(f"ok: npu_kernels {version('npu-kernels')} from {npu_kernels.__path__[0]}, jax {jax.__version__}")


if __name__ == "__main__":
    main(*sys.argv[1:])
