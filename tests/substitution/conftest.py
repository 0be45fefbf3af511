"""Stand-ins for the library kernels, so that these tests see the matcher and not the compiler.

They have the arguments of the real functions and compute in float32 by another route than the examples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from npu_kernels.kernels.attention.pattern import make_pattern as make_attention
from npu_kernels.kernels.rms_norm.pattern import make_pattern as make_rms_norm
from npu_kernels.substitution import Pattern, Report, explain, substitute

Check = Callable[..., Report]


def attention(
    query: Any, key: Any, value: Any, mask: Any = None, *, scale: float, is_causal: bool, mask_value: float = -1.0
) -> Any:
    q, k, v = (x.astype(jnp.float32) for x in (query, key, value))
    groups = q.shape[2] // k.shape[2]
    q = q.reshape(*q.shape[:2], k.shape[2], groups, q.shape[3])
    scores = jnp.einsum("btkgh,bskh->bkgts", q, k, precision="highest") * scale
    visible = jnp.ones((1, 1, 1, q.shape[1], k.shape[1]), bool)
    if is_causal:
        visible = jnp.tri(q.shape[1], k.shape[1], dtype=bool)[None, None, None]
    if mask is not None:
        heads = (k.shape[2], groups) if mask.shape[1] != 1 else (1, 1)
        visible = visible & mask.reshape(mask.shape[0], *heads, *mask.shape[2:])
    scores = jnp.where(visible, scores, mask_value)
    weights = jnp.exp(scores - scores.max(axis=-1, keepdims=True))
    out = jnp.einsum("bkgts,bskh->btkgh", weights, v, precision="highest")
    total = jnp.moveaxis(weights.sum(axis=-1), 3, 1)[..., None]
    return (out / total).reshape(query.shape).astype(query.dtype)


def rms_norm(x: Any, weight: Any = None, *, eps: float, dtype: Any = None) -> Any:
    wide = x.astype(jnp.float32)
    out = wide / jnp.sqrt(jnp.square(wide).mean(axis=-1, keepdims=True) + eps)
    return (out if weight is None else out * weight.astype(jnp.float32)).astype(dtype or x.dtype)


@pytest.fixture(scope="session")
def patterns() -> tuple[Pattern, ...]:
    return (make_attention(attention), make_rms_norm(rms_norm))


#: Largest error relative to the largest result: float32 sums in another order; 16-bit rounding of intermediates.
TOLERANCE = {"float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


@pytest.fixture
def check(patterns: tuple[Pattern, ...]) -> Check:
    """Replaces, counts instances, runs both, compares; returns the report."""

    def run(function: Callable[..., Any], *args: Any, policy: str = "default", **counts: int) -> Report:
        report = explain(function, *args, patterns=patterns, policy=policy)
        assert report.counts == counts, str(report)
        if counts:
            got = jax.jit(substitute(function, patterns=patterns, policy=policy))(*args)
            wanted = jax.jit(function)(*args)
            jax.tree.map(assert_close, got, wanted)
        return report

    return run


def assert_close(got: Any, wanted: Any) -> None:
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    x, y = (np.asarray(a).astype(np.float64) for a in (got, wanted))
    np.testing.assert_array_equal(np.isnan(x), np.isnan(y))
    infinite = np.isinf(y)
    np.testing.assert_array_equal(x[infinite], y[infinite])
    x, y = x[~infinite], y[~infinite]
    scale = max(float(np.nanmax(np.abs(y), initial=0.0)), 1e-30)
    np.testing.assert_allclose(x / scale, y / scale, atol=TOLERANCE[str(wanted.dtype)], rtol=0)
