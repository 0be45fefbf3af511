"""JAX functions of many kinds and the corpus of modules: what readers and writers must carry unchanged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

_rng = np.random.default_rng(7)
X = _rng.standard_normal((4, 6)).astype(np.float32)
W = _rng.standard_normal((6, 6)).astype(np.float32)
N = _rng.integers(-9, 9, (4, 6)).astype(np.int32)


def _loop(x: jax.Array, w: jax.Array) -> jax.Array:
    def body(carry: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        carry = jnp.tanh(carry @ w + row)
        return carry, jax.nn.softmax(carry)

    carry, rows = jax.lax.scan(body, jnp.zeros(6), x)
    return rows + carry


def _while(x: jax.Array) -> jax.Array:
    limit = jnp.abs(x).sum()
    return jax.lax.while_loop(lambda s: s[0] < limit, lambda s: (s[0] * 2 + 1, s[1] + x), (1.0, x))[1]


def _cond(x: jax.Array) -> jax.Array:
    scale = x.mean()
    return jax.lax.cond(scale > 0, lambda v: v * scale, lambda v: jnp.sin(v), x)


def _switch(n: jax.Array, x: jax.Array) -> jax.Array:
    return jax.lax.switch(n[0, 0] % 3, [jnp.sin, jnp.cos, lambda v: v @ v.T @ v], x)


@jax.custom_jvp
def clipped(x: jax.Array) -> jax.Array:
    return jnp.clip(x, -1, 1)


@clipped.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return clipped(*primals), tangents[0] * 3


@jax.custom_vjp
def doubled(x: jax.Array) -> jax.Array:
    return jnp.tanh(x) * 2


doubled.defvjp(lambda x: (doubled(x), x), lambda x, g: (g * 5,))


@jax.jit
def inner(x: jax.Array, y: jax.Array) -> jax.Array:
    return jax.nn.silu(x) + jnp.where(y > 0, y, -jnp.inf).max()


def _nested(x: jax.Array, y: jax.Array) -> jax.Array:
    return inner(inner(x, y), x) + jax.jit(lambda a: a + X[0])(y)


def _unread(x: jax.Array) -> jax.Array:
    jnp.exp(x)
    return x + 1


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "elementwise": (lambda x: jnp.exp(-x) / (1 + jnp.abs(x)) ** 3 - jnp.log1p(x * x) + jax.lax.erf(x), (X,)),
    "matmul": (lambda x, w: jnp.einsum("ij,kj->ki", x, w).astype(jnp.bfloat16), (X, W)),
    "reductions": (lambda x: (x.sum(0), x.max(), x.prod(1), (x > 0).any(), x.argmax(1), x.var()), (X,)),
    "integers": (lambda n: (n // 3, n % 5, n << 1, ~n, n ^ 7, jnp.cumsum(n, 0), jnp.bitwise_count(n)), (N,)),
    "booleans": (lambda x, n: jnp.where((x > 0) & (n != 2), x, 0.5), (X, N)),
    "complex": (lambda x: jnp.abs(jnp.exp(1j * x)) + (x + 2j * x).real, (X,)),
    "shapes": (lambda x: jnp.pad(jnp.concatenate([x.T, x.T[::-1]], 1)[1:, ::2], ((1, 0), (0, 2))), (X,)),
    "split and iota": (lambda x: jnp.split(x, 3, axis=1)[1] + jnp.arange(2), (X,)),
    "convolution": (
        lambda x: jax.lax.conv_general_dilated(x[None, None], x[:2, :2][None, None], (1, 1), "SAME"),
        (X,),
    ),
    "sort and top_k": (lambda x: (jnp.sort(x, axis=0), jnp.argsort(x), jax.lax.top_k(x, 2)), (X,)),
    "gather and scatter": (lambda x, n: x[n[:, 0] % 4].at[n[0] % 4].add(2.0, mode="drop"), (X, N)),
    "dynamic slices": (
        lambda x, n: jax.lax.dynamic_update_slice(x, jax.lax.dynamic_slice(x, (n[0, 0], 1), (2, 2)), (1, n[0, 1])),
        (X, N),
    ),
    "linear algebra": (lambda x: jnp.linalg.solve(x @ x.T + 4 * jnp.eye(4), x), (X,)),
    "random": (lambda n: jax.random.normal(jax.random.key(n[0, 0]), (3, 2)), (N,)),
    "scan": (_loop, (X, W)),
    "scan reversed without inputs": (
        lambda x: jax.lax.scan(lambda c, _: (c * 0.5, c.sum()), x, None, length=3, reverse=True),
        (X,),
    ),
    "while": (_while, (X,)),
    "fori": (lambda x: jax.lax.fori_loop(0, 3, lambda i, v: v * i + X, x), (X,)),
    "cond": (_cond, (X,)),
    "switch": (_switch, (N, X)),
    "nested jit": (_nested, (X, X)),
    "custom_jvp": (lambda x: clipped(x) * jax.nn.relu(x), (X,)),
    "custom_vjp": (lambda x: doubled(x) + 1, (X,)),
    "remat": (jax.checkpoint(lambda x: jnp.sin(jax.nn.gelu(x))), (X,)),
    "closed over arrays": (lambda x: x @ jnp.asarray(W) + W[0], (X,)),
    "unread operations": (_unread, (X,)),
    "outputs that are inputs and constants": (lambda x: (x, 3.0, jnp.zeros(2), x), (X,)),
    "empty arrays": (lambda x: (x[:0] @ jnp.ones((6, 2)), x[:, :0].sum(1)), (X,)),
    "gradient": (jax.grad(lambda x: jnp.sum(jax.nn.softmax(x) * jax.nn.gelu(x))), (X,)),
    "vmap": (jax.vmap(lambda row: jnp.outer(row, row).sum(0)), (X,)),
    "half precision": (lambda x: jnp.dot(x.astype(jnp.float16), x.T.astype(jnp.float16)).sum(), (X,)),
}


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A function and arguments for it."""
    return PROGRAMS[request.param]


CORPUS = Path(__file__).resolve().parent.parent / "data" / "corpus"


@pytest.fixture(params=sorted(CORPUS.glob("*.mlir")), ids=lambda path: path.name.removesuffix(".mlir"))
def corpus_file(request: pytest.FixtureRequest) -> Path:
    """A module of the corpus, forward or gradient."""
    path: Path = request.param
    return path


@pytest.fixture(params=sorted(CORPUS.glob("*.fwd.mlir")), ids=lambda path: path.name.removesuffix(".fwd.mlir"))
def forward_file(request: pytest.FixtureRequest) -> Path:
    """A forward module of the corpus."""
    path: Path = request.param
    return path
