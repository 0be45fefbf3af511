"""The model that is trained: the Llama of the other example, small, on bytes; and the text it learns."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from smollm2.model import Config, Layer, StackedParams, forward_scan

CONFIG = Config(
    layers=2, width=64, heads=4, kv_heads=2, ffn=128, vocab=128, head_width=16, rope_base=1e4, norm_eps=1e-5
)
#: Bytes that the model sees at once.
LENGTH = 64


def text() -> np.ndarray:
    """The text as bytes below 128, one token each."""
    return np.frombuffer(Path(__file__).with_name("text.txt").read_bytes(), np.uint8).astype(np.int32)


def batches(steps: int, size: int, seed: int = 0) -> np.ndarray:
    """Random pieces of the text: int32 ``[steps, size, LENGTH + 1]``."""
    tokens = text()
    starts = np.random.default_rng(seed).integers(0, len(tokens) - LENGTH, (steps, size))
    pieces: np.ndarray = tokens[starts[..., None] + np.arange(LENGTH + 1)]
    return pieces


def initial(seed: int = 0, config: Config = CONFIG) -> StackedParams:
    """Normal weights, each matrix scaled by the root of its inputs."""
    keys = iter(jax.random.split(jax.random.key(seed), 7))

    def matrix(rows: int, columns: int) -> jax.Array:
        weights: jax.Array = jax.random.normal(next(keys), (config.layers, rows, columns)) * rows**-0.5
        return weights

    ones = jnp.ones((config.layers, config.width))
    queries, keys_wide = config.heads * config.head_width, config.kv_heads * config.head_width
    layer = Layer(
        attention_norm=ones,
        query=matrix(config.width, queries),
        key=matrix(config.width, keys_wide),
        value=matrix(config.width, keys_wide),
        output=matrix(queries, config.width),
        ffn_norm=ones,
        gate=matrix(config.width, config.ffn),
        up=matrix(config.width, config.ffn),
        down=matrix(config.ffn, config.width),
    )
    embedding = jax.random.normal(jax.random.key(seed + 1), (config.vocab, config.width)) * config.width**-0.5
    return StackedParams(embedding, layer, jnp.ones(config.width), config)


def loss(params: StackedParams, tokens: jax.Array) -> jax.Array:
    """Mean cross entropy of each next byte, in nats: ``tokens`` is int32 ``[batch, LENGTH + 1]``."""
    logits = jax.nn.log_softmax(forward_scan(params, tokens[:, :-1]))
    return -jnp.mean(jnp.take_along_axis(logits, tokens[:, 1:, None], axis=-1))
