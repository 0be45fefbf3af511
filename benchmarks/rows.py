"""Row-wise kernels: RMSNorm from the library and a softmax written here, against XLA and Pallas' interpreter."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Float

import npu_kernels.language as nl
from harness import seconds
from npu_kernels import npu_kernel
from npu_kernels.kernels import rms_norm

EPS = 1e-6
#: One block of all rows would be no kernel any more, but XLA itself.
PALLAS_BLOCKS = (8, 32, 128, 512, 1024, 2048)


@npu_kernel
def softmax(x: Float[nl.Tensor, "rows dim"]) -> Float[nl.Tensor, "rows dim"]:
    rows, dim = x.shape
    out = nl.output((rows, dim), x.dtype)
    for r in nl.parallel(rows, step=8):
        block = nl.load(x[r : r + 8, :])
        exponentials = nl.exp(block - nl.max(block, axis=-1, keepdims=True))
        total = nl.sum(exponentials, axis=-1, keepdims=True)
        nl.store(out[r : r + 8, :], exponentials / total)
    return out


@npu_kernel
def softmax_row(x: Float[nl.Tensor, "dim"]) -> Float[nl.Tensor, "dim"]:
    out = nl.output(x.shape, x.dtype)
    row = nl.load(x)
    exponentials = nl.exp(row - nl.max(row))
    nl.store(out, exponentials / nl.sum(exponentials))
    return out


@npu_kernel
def softmax_each_row(x: Float[nl.Tensor, "rows dim"]) -> Float[nl.Tensor, "rows dim"]:
    """`softmax_row` with the batch written by hand."""
    rows, dim = x.shape
    out = nl.output((rows, dim), x.dtype)
    for r in nl.parallel(rows):
        row = nl.load(x[r, :])
        exponentials = nl.exp(row - nl.max(row))
        nl.store(out[r, :], exponentials / nl.sum(exponentials))
    return out


def norm(x: jax.Array, weight: jax.Array) -> jax.Array:
    return rms_norm(x, weight, eps=EPS)


def norm_xla(x: jax.Array, weight: jax.Array) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + EPS) * weight


def softmax_xla(x: jax.Array) -> jax.Array:
    return jax.nn.softmax(x, axis=-1)


def pallas(body: Callable[..., jax.Array], block: int) -> Callable[..., Any]:
    """The row-wise function `body` as a Pallas kernel in interpret mode, `block` rows at a time."""

    def kernel(*references: Any) -> None:
        *inputs, output = references
        output[...] = body(*(reference[...] for reference in inputs))

    def call(x: jax.Array, *rest: jax.Array) -> Any:
        rows, dim = x.shape
        by_rows = pl.BlockSpec((block, dim), lambda i: (i, 0))
        whole = [pl.BlockSpec(one.shape, lambda i: (0,) * 1) for one in rest]
        return pl.pallas_call(
            kernel,
            grid=(rows // block,),
            in_specs=[by_rows, *whole],
            out_specs=by_rows,
            out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            interpret=True,
        )(x, *rest)

    return jax.jit(call)


def best_pallas(body: Callable[..., jax.Array], *arrays: jax.Array) -> tuple[int, Callable[[], Any]]:
    """The block size at which Pallas' interpreter is fastest (best of three), and the call."""
    timed = {}
    for block in PALLAS_BLOCKS:
        if arrays[0].shape[0] % block == 0:
            call = functools.partial(pallas(body, block), *arrays)
            seconds(call)
            timed[block] = (min(seconds(call) for _ in range(3)), call)
    block = min(timed, key=lambda block: timed[block][0])
    return block, timed[block][1]
