"""Greedy generation over a buffer of fixed length, so that one compiled forward pass serves every token."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from .model import Params

Forward = Callable[[Params, jax.Array], jax.Array]


def padded(ids: Sequence[int], length: int) -> jax.Array:
    """[1, length] token ids; what follows `ids` is never seen by it, because attention is causal."""
    if len(ids) > length:
        raise ValueError(f"{len(ids)} tokens do not fit into a buffer of {length}")
    buffer = np.zeros((1, length), dtype=np.int32)
    buffer[0, : len(ids)] = ids
    return jnp.asarray(buffer)


def generate(
    forward: Forward,
    params: Params,
    prompt: Sequence[int],
    *,
    length: int,
    new_tokens: int,
    stop: int | None = None,
    on_token: Callable[[int], None] | None = None,
) -> list[int]:
    """The `new_tokens` most likely tokens after `prompt`, one at a time; ends early after the token `stop`."""
    ids = list(prompt)
    for _ in range(new_tokens):
        logits = forward(params, padded(ids, length))
        ids.append(int(np.argmax(np.asarray(logits[0, len(ids) - 1]))))
        if on_token is not None:
            on_token(ids[-1])
        if ids[-1] == stop:
            break
    return ids[len(prompt) :]
