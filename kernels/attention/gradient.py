"""The derivative of flash attention: which kernels compute it, and how their arguments are laid out."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

import npu_kernels.language as nl

from ..library import Array, tiling_that_fits
from .backward import attention_delta, attention_query_gradient, flash_attention_backward
from .kernel import flash_attention_residuals
from .specs import BACKWARD_BLOCKS, KEY_BLOCKS_PER_CALL, enough

Residuals = tuple[Array, ...]
Spec = tuple[tuple[int, ...], Any]


def forward(*arrays: Array, interpret: bool = False, **statics: Any) -> tuple[Array, Residuals]:
    """The result of ``flash_attention``, and for :func:`backward` the arguments, the result, maxima and sums."""
    out, maximum, total = flash_attention_residuals(*arrays, interpret=interpret, **statics)
    return out, (*arrays, out, maximum, total)


def backward(
    residuals: Residuals, cotangent: Array, *, interpret: bool = False, **statics: Any
) -> tuple[Array, Array, Array, None, None, None]:
    """Cotangents of query, key and value.

    The kernel writes one contribution to ``dQ`` for each block of keys. Long sequences are cut into calls of
    ``KEY_BLOCKS_PER_CALL`` blocks, one after the other, so that these take a bounded multiple of ``dQ``'s own size.
    """
    query, key, value, mask, query_lengths, key_lengths, out, maximum, total = residuals
    options = {name: statics[name] for name in _OPTIONS}
    tiling = _tiling((query.shape, query.dtype), (key.shape, key.dtype), tuple(options.items()))
    if options["query_padded"]:
        inside = jnp.arange(query.shape[1])[None, :] < query_lengths[:, None]
        cotangent = jnp.where(inside[:, :, None, None], cotangent, jnp.zeros((), cotangent.dtype))
    delta = attention_delta(out, cotangent, block_queries=tiling["block_queries"], interpret=interpret)
    across = jnp.swapaxes(mask, 2, 3)
    keys, step = key.shape[1], tiling["block_keys"] * KEY_BLOCKS_PER_CALL
    dtype = getattr(nl, query.dtype.name if keys <= step else "float32")

    def part(first: Any, size: int) -> tuple[Array, Array, Array]:
        """What ``size`` keys from ``first`` on give."""

        def cut(array: Array, axis: int) -> Array:
            return array if array.shape[axis] in (1, size) else lax.dynamic_slice_in_dim(array, first, size, axis)

        place = jnp.asarray(first, jnp.int32).reshape(1)
        parts, dk, dv = flash_attention_backward(
            query,
            cut(key, 1),
            cut(value, 1),
            cotangent,
            maximum,
            total,
            delta,
            cut(across, 2),
            query_lengths,
            key_lengths,
            place,
            interpret=interpret,
            **options,
            **tiling,
        )
        dq = attention_query_gradient(
            parts,
            place,
            scale=options["scale"],
            causal=options["causal"],
            dtype=dtype,
            interpret=interpret,
            **tiling,
        )
        return dq, dk, dv

    if keys <= step:
        return *part(0, keys), None, None, None

    def turn(dq: Array, first: Array) -> tuple[Array, tuple[Array, Array]]:
        more, dk, dv = part(first, step)
        return dq + more, (dk, dv)

    whole = keys // step
    # A loop, because calls that do not wait for each other could hold their parts of dQ all at once.
    with jax.disable_jit(interpret):
        dq, stacked = lax.scan(turn, jnp.zeros(query.shape, jnp.float32), jnp.arange(whole) * step)
    dk, dv = (jnp.moveaxis(array, 0, 1).reshape(key.shape[0], whole * step, *key.shape[2:]) for array in stacked)
    if whole * step < keys:
        more, dk_rest, dv_rest = part(whole * step, keys - whole * step)
        dq = dq + more
        dk, dv = jnp.concatenate([dk, dk_rest], axis=1), jnp.concatenate([dv, dv_rest], axis=1)
    return dq.astype(query.dtype), dk, dv, None, None, None


_OPTIONS = ("scale", "mask_value", "masked", "causal", "query_padded", "key_padded")


@functools.cache
def _tiling(query: Spec, key: Spec, options: tuple[tuple[str, Any], ...]) -> Mapping[str, Any]:
    """The first of the preferred block sizes for which the backward kernel fits on chip."""
    statics = dict(options)
    batch, queries, heads, _ = query[0]
    keys = key[0][1]
    rows = jax.ShapeDtypeStruct((batch, heads, queries, 1), jnp.float32)
    one = jax.ShapeDtypeStruct((1,), jnp.int32)
    specs = (
        *(jax.ShapeDtypeStruct(*spec) for spec in (query, key, key, query)),
        *(rows, rows, rows),
        jax.ShapeDtypeStruct((1, 1, keys, queries) if statics["masked"] else (1, 1, 1, 1), jnp.bool_),
        *(
            jax.ShapeDtypeStruct((batch,), jnp.int32) if statics[flag] else one
            for flag in ("query_padded", "key_padded")
        ),
        one,
    )
    return tiling_that_fits(flash_attention_backward, specs, statics, _candidates(queries, keys))


def _candidates(queries: int, keys: int) -> Iterator[dict[str, int]]:
    seen = set()
    for wanted in BACKWARD_BLOCKS:
        block = min(wanted[0], enough(queries)), min(wanted[1], enough(keys))
        if block not in seen:
            seen.add(block)
            yield dict(zip(("block_queries", "block_keys"), block, strict=True))
