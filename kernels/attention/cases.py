"""What the conformance suite runs on attention: shapes of real models (fewer heads where more add nothing), edges of
the tiling, and values that break a careless softmax."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..library import Case

Arguments = Callable[[np.random.Generator], Mapping[str, Any]]
_F32 = ("float32",)
_F16 = ("float16",)
_BF16 = ("bfloat16",)


def _random(
    batch: int, queries: int, keys: int, heads: int, kv_heads: int, dim: int, *, scale: float = 1.0, rank: int = 4
) -> Arguments:
    def arguments(rng: np.random.Generator) -> Mapping[str, Any]:
        lead = (batch,) if rank == 4 else ()
        return {
            "query": rng.standard_normal((*lead, queries, heads, dim)) * scale,
            "key": rng.standard_normal((*lead, keys, kv_heads, dim)) * scale,
            "value": rng.standard_normal((*lead, keys, kv_heads, dim)) * scale,
        }

    return arguments


def _with(base: Arguments, change: Callable[[dict[str, Any], np.random.Generator], None]) -> Arguments:
    def arguments(rng: np.random.Generator) -> Mapping[str, Any]:
        named = dict(base(rng))
        change(named, rng)
        return named

    return arguments


def _mask(*shape: int, hide_row: int | None = None) -> Callable[[dict[str, Any], np.random.Generator], None]:
    def change(named: dict[str, Any], rng: np.random.Generator) -> None:
        mask = rng.random(shape) < 0.6
        if hide_row is not None:
            mask[..., hide_row, :] = False
        named["mask"] = mask

    return change


def _lengths(
    queries: list[int] | None, keys: list[int] | None
) -> Callable[[dict[str, Any], np.random.Generator], None]:
    def change(named: dict[str, Any], rng: np.random.Generator) -> None:
        if queries is not None:
            named["query_seq_lengths"] = np.array(queries, np.int32)
        if keys is not None:
            named["key_value_seq_lengths"] = np.array(keys, np.int32)

    return change


def _hide_first_keys(named: dict[str, Any], rng: np.random.Generator) -> None:
    """Together with a causal mask the first rows see nothing, and most of what they average lies in skipped blocks."""
    mask = np.ones((1, 1, 1, named["key"].shape[1]), bool)
    mask[..., :3] = False
    named["mask"] = mask


def _far_apart(named: dict[str, Any], rng: np.random.Generator) -> None:
    """Scores that differ by 100 and more: one key takes all."""
    named["query"] *= 8.0
    named["key"] *= 8.0


def _poison(name: str, value: float) -> Callable[[dict[str, Any], np.random.Generator], None]:
    def change(named: dict[str, Any], rng: np.random.Generator) -> None:
        named[name][0, 5, 0, 1] = value

    return change


def _poison_blocks(named: dict[str, Any], rng: np.random.Generator) -> None:
    """A NaN among the values that the first queries see, and infinities in a block of keys that they skip."""
    named["value"][0, 5, 0, 1] = np.nan
    named["value"][0, -3, 1, 2:4] = np.inf, -np.inf


def _infinite_scores(named: dict[str, Any], rng: np.random.Generator) -> None:
    """Head 0: query 2 scores only +inf. Head 1: every query scores -inf on key 4, but query 3 scores +inf there."""
    named["key"][0, :, 0, 0] = np.abs(named["key"][0, :, 0, 0]) + 0.1
    named["query"][0, 2, 0, 0] = np.inf
    named["key"][0, 4, 1, 0] = -np.inf
    named["query"][0, :, 1, 0] = np.abs(named["query"][0, :, 1, 0]) + 0.1
    named["query"][0, 3, 1, 0] *= -1.0


def _zeros_and_denormals(named: dict[str, Any], rng: np.random.Generator) -> None:
    named["query"][0, 0] = 0.0
    named["query"][0, 1] = -0.0
    named["query"][0, 2] = 1e-40
    named["value"][0, :, :, 0] = -0.0
    named["value"][0, :, :, 1] = 1e-40


_SMALL = _random(1, 24, 24, 2, 2, 16)
_TWO_BLOCKS = _random(1, 150, 150, 2, 2, 16)

CASES = (
    # shapes of real models
    Case("smollm2 causal", _random(1, 45, 45, 9, 3, 64), {"is_causal": True}, _F32),
    Case("llama3 causal", _random(1, 130, 130, 4, 1, 128), {"is_causal": True}, _BF16),
    Case("gemma2 head size 256", _random(1, 70, 70, 2, 1, 256), {"is_causal": True}, _BF16),
    Case("bert with padding", _with(_random(2, 64, 64, 3, 3, 64), _lengths(None, [64, 21])), {}, _F32),
    Case("vit", _random(1, 197, 197, 2, 2, 64), {}, _F32),
    Case("whisper cross attention, another scale", _random(1, 5, 300, 2, 2, 64), {"scale": 0.3}, _F16),
    Case("decoding one token", _random(2, 1, 77, 6, 2, 64), {}, ("float32", "bfloat16")),
    # edges of the tiling
    Case("one key", _random(1, 3, 1, 1, 1, 8), {}, _F16),
    Case("one of everything", _random(1, 1, 1, 1, 1, 1), {}, _F32),
    Case("odd head size", _random(1, 33, 65, 2, 1, 17)),
    Case("lengths beyond one block", _random(1, 129, 257, 1, 1, 32), {}, _F32),
    Case("causal with more keys than queries", _random(1, 40, 170, 2, 1, 16), {"is_causal": True}, _F16),
    Case("causal with more queries than keys", _random(1, 170, 40, 2, 1, 16), {"is_causal": True}, _F32),
    Case("no batch axis", _random(1, 24, 24, 2, 2, 16, rank=3), {}, _F32),
    # masks
    Case(
        "full mask", _with(_random(2, 20, 30, 4, 2, 16), _mask(2, 4, 20, 30, hide_row=7)), {}, ("float32", "bfloat16")
    ),
    Case("mask per batch and key", _with(_random(2, 20, 30, 4, 2, 16), _mask(2, 1, 1, 30)), {}, _F32),
    Case("mask per head and query", _with(_random(2, 20, 30, 4, 2, 16), _mask(1, 4, 20, 1)), {}, _F32),
    Case("mask over two blocks", _with(_TWO_BLOCKS, _mask(1, 1, 150, 150, hide_row=140)), {"is_causal": True}, _F32),
    Case("causal rows that see nothing", _with(_TWO_BLOCKS, _hide_first_keys), {"is_causal": True}, _BF16),
    Case(
        "lengths of queries and keys", _with(_random(3, 20, 30, 2, 2, 16), _lengths([20, 7, 0], [0, 30, 11])), {}, _F32
    ),
    Case("causal and padded", _with(_TWO_BLOCKS, _lengths(None, [0])), {"is_causal": True}, _F32),
    Case("NaN where nothing is seen", _with(_SMALL, _mask(1, 1, 24, 24, hide_row=3)), {"mask_value": -np.inf}, _F32),
    # values
    Case("scores 100 apart", _with(_SMALL, _far_apart)),
    Case("inputs of 1e-4", _random(1, 24, 24, 2, 2, 16, scale=1e-4)),
    Case("inputs of 1e4", _random(1, 24, 24, 2, 2, 16, scale=1e4)),
    Case("NaN in a query", _with(_SMALL, _poison("query", np.nan))),
    Case("NaN in a key, causal", _with(_TWO_BLOCKS, _poison("key", np.nan)), {"is_causal": True}, _F32),
    Case("NaN and infinities in values, causal", _with(_TWO_BLOCKS, _poison_blocks), {"is_causal": True}, _F32),
    Case("infinity in a value", _with(_SMALL, _poison("value", np.inf)), {}, _F32),
    Case("infinite scores", _with(_SMALL, _infinite_scores), {}, _F32),
    Case("zeros of both signs and denormals", _with(_SMALL, _zeros_and_denormals)),
)

#: Where a NaN or an infinity of a hidden pair ends up is not part of the contract, so these values meet no mask.
GRADIENT_CASES = (
    Case("smollm2 causal", _random(1, 45, 45, 9, 3, 64), {"is_causal": True}, _F32),
    Case("gemma2 head size 256", _random(1, 70, 70, 2, 1, 256), {"is_causal": True}, _BF16),
    Case("decoding one token", _random(2, 1, 77, 6, 2, 64), {}, _F32),
    Case("odd head size", _random(1, 33, 65, 2, 1, 17), {}, _F16),
    Case("no batch axis", _random(1, 20, 30, 2, 2, 16, rank=3), {"scale": 0.3}, _F32),
    Case("causal with more queries than keys", _random(1, 170, 40, 2, 1, 16), {"is_causal": True}, _F32),
    Case("full mask", _with(_random(2, 20, 30, 4, 2, 16), _mask(2, 4, 20, 30, hide_row=7)), {}, _F32),
    Case("mask per head and query", _with(_random(2, 20, 30, 4, 2, 16), _mask(1, 4, 20, 1)), {}, _BF16),
    Case("causal rows that see nothing", _with(_TWO_BLOCKS, _hide_first_keys), {"is_causal": True}, _F32),
    Case(
        "lengths of queries and keys", _with(_random(3, 20, 30, 2, 2, 16), _lengths([20, 7, 0], [0, 30, 11])), {}, _F32
    ),
    Case("scores 100 apart", _with(_SMALL, _far_apart), {}, _F32),
    Case("inputs of 1e4", _random(1, 24, 24, 2, 2, 16, scale=1e4), {}, _F32),
    Case("NaN in a query", _with(_SMALL, _poison("query", np.nan)), {}, _F32),
    Case("zeros of both signs and denormals", _with(_SMALL, _zeros_and_denormals), {}, ("float32", "bfloat16")),
)
