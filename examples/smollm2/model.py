"""A Llama-style language model in plain JAX.

Nothing here knows about NPUs: attention and RMSNorm are written the way a model author writes them, and the demo
replaces them from outside.

Shapes: B sequences, T tokens, D model width, N query heads, K key/value heads, H head width, F feed-forward width,
V vocabulary.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class Config:
    """The sizes of a Llama; hashable, so that it can be the static part of a pytree."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    head_width: int
    rope_base: float
    norm_eps: float


class Layer(NamedTuple):
    """One decoder layer; every matrix maps its first axis to its second."""

    attention_norm: jax.Array  # [D]
    query: jax.Array  # [D, N*H]
    key: jax.Array  # [D, K*H]
    value: jax.Array  # [D, K*H]
    output: jax.Array  # [N*H, D]
    ffn_norm: jax.Array  # [D]
    gate: jax.Array  # [D, F]
    up: jax.Array  # [D, F]
    down: jax.Array  # [F, D]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Params:
    """What `forward` needs."""

    embedding: jax.Array  # [V, D], also the output projection
    layers: tuple[Layer, ...]
    norm: jax.Array  # [D]
    config: Config = dataclasses.field(metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class StackedParams:
    """What `forward_scan` needs: as `Params`, but one `Layer` whose arrays have the layers as their first axis."""

    embedding: jax.Array
    layers: Layer
    norm: jax.Array
    config: Config = dataclasses.field(metadata={"static": True})


def rms_norm(x: jax.Array, weight: jax.Array, eps: float) -> jax.Array:
    variance = jnp.mean(jnp.square(x), axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(variance + eps) * weight


def rope(x: jax.Array, base: float) -> jax.Array:
    """Rotates [B, T, heads, H] by position; feature i pairs with feature i + H/2."""
    half = x.shape[-1] // 2
    frequency = base ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angle = jnp.arange(x.shape[1], dtype=jnp.float32)[:, None] * frequency
    cos, sin = jnp.cos(angle)[:, None, :], jnp.sin(angle)[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    """Causal attention; q is [B, T, N, H], k and v are [B, T, K, H], each shared by N/K query heads."""
    tokens, heads, head_width = q.shape[1:]
    k = jnp.repeat(k, heads // k.shape[2], axis=2)
    v = jnp.repeat(v, heads // v.shape[2], axis=2)
    scores = jnp.einsum("btnh,bsnh->bnts", q, k) / math.sqrt(head_width)
    causal = jnp.tril(jnp.ones((tokens, tokens), dtype=bool))
    scores = jnp.where(causal, scores, -jnp.inf)
    return jnp.einsum("bnts,bsnh->btnh", jax.nn.softmax(scores, axis=-1), v)


def decoder_layer(config: Config, layer: Layer, x: jax.Array) -> jax.Array:
    batch, tokens, _ = x.shape
    h = rms_norm(x, layer.attention_norm, config.norm_eps)
    q = (h @ layer.query).reshape(batch, tokens, config.heads, config.head_width)
    k = (h @ layer.key).reshape(batch, tokens, config.kv_heads, config.head_width)
    v = (h @ layer.value).reshape(batch, tokens, config.kv_heads, config.head_width)
    mixed = attention(rope(q, config.rope_base), rope(k, config.rope_base), v)
    x = x + mixed.reshape(batch, tokens, -1) @ layer.output
    h = rms_norm(x, layer.ffn_norm, config.norm_eps)
    return x + (jax.nn.silu(h @ layer.gate) * (h @ layer.up)) @ layer.down


def forward(params: Params, tokens: jax.Array) -> jax.Array:
    """Logits [B, T, V] of the token ids [B, T], the layers unrolled in Python."""
    x = params.embedding[tokens]
    for layer in params.layers:
        x = decoder_layer(params.config, layer, x)
    return rms_norm(x, params.norm, params.config.norm_eps) @ params.embedding.T


def forward_scan(params: StackedParams, tokens: jax.Array) -> jax.Array:
    """As `forward`, in one `lax.scan` over the layers."""

    def step(x: jax.Array, layer: Layer) -> tuple[jax.Array, None]:
        return decoder_layer(params.config, layer, x), None

    x, _ = jax.lax.scan(step, params.embedding[tokens], params.layers)
    return rms_norm(x, params.norm, params.config.norm_eps) @ params.embedding.T


def stack_layers(params: Params) -> StackedParams:
    layers: Layer = jax.tree.map(lambda *arrays: jnp.stack(arrays), *params.layers)
    return StackedParams(params.embedding, layers, params.norm, params.config)
