"""Attention as models write it, for the matcher: whatever the canonical view makes equal needs no second example."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from npu_kernels.substitution.pattern import Example, array, mask


def _plain(query: jax.Array, key: jax.Array, value: jax.Array, *, scale: float) -> jax.Array:
    scores = jnp.einsum("btnd,bsnd->bnts", query, key) * scale
    return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(scores, axis=-1), value)


def _masked(
    query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array, *, scale: float, fill: float
) -> jax.Array:
    scores = jnp.where(mask, jnp.einsum("btnd,bsnd->bnts", query, key) * scale, fill)
    return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(scores, axis=-1), value)


def _late(query: jax.Array, key: jax.Array, value: jax.Array, *, scale: float) -> jax.Array:
    return _divided_last(jnp.einsum("btnd,bsnd->bnts", query, key) * scale, value)


def _masked_late(
    query: jax.Array, key: jax.Array, value: jax.Array, mask: jax.Array, *, scale: float, fill: float
) -> jax.Array:
    return _divided_last(jnp.where(mask, jnp.einsum("btnd,bsnd->bnts", query, key) * scale, fill), value)


def _divided_last(scores: jax.Array, value: jax.Array) -> jax.Array:
    """Softmax whose division comes after the second product."""
    weights = jnp.exp(scores - jnp.max(scores, axis=-1, keepdims=True))
    summed = jnp.einsum("bnts->btn", weights)[..., None]
    return jnp.einsum("bnts,bsnh->btnh", weights, value) / summed


_ARRAYS = {"query": array("b t n d"), "key": array("b s n d"), "value": array("b s n h")}
_MASKED_ARRAYS = {**_ARRAYS, "mask": mask("b n t s")}
_RESULT = ("b", "t", "n", "h")

EXAMPLES = (
    Example(_plain, _ARRAYS, _RESULT, ("scale",)),
    Example(_masked, _MASKED_ARRAYS, _RESULT, ("scale", "fill")),
    Example(_late, _ARRAYS, _RESULT, ("scale",)),
    Example(_masked_late, _MASKED_ARRAYS, _RESULT, ("scale", "fill")),
)
