"""Scaled dot product attention in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

#: What ``jax.nn.dot_product_attention`` puts where a query may not look: finite, so that a row with nothing to see
#: becomes the mean of all values rather than NaN.
MASK_VALUE = float(np.float32(-0.7 * float(np.finfo(np.float32).max)))


def attention_reference(
    query: npt.ArrayLike,
    key: npt.ArrayLike,
    value: npt.ArrayLike,
    bias: None = None,
    mask: npt.ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: npt.ArrayLike | None = None,
    key_value_seq_lengths: npt.ArrayLike | None = None,
    mask_value: float = MASK_VALUE,
) -> npt.NDArray[np.float64]:
    """``softmax(scale · Q Kᵀ, masked) V`` over the whole score matrix at once; arguments as in
    :func:`npu_kernels.kernels.attention`.

    Returns:
        float64, of the shape of ``query``.
    """
    del bias
    q, k, v = (_batched(a) for a in (query, key, value))
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        probabilities = _softmax(
            scores_reference(
                query,
                key,
                mask=mask,
                scale=scale,
                is_causal=is_causal,
                query_seq_lengths=query_seq_lengths,
                key_value_seq_lengths=key_value_seq_lengths,
                mask_value=mask_value,
            )
        )
        out: npt.NDArray[np.float64] = np.einsum(
            "bnts,bsnh->btnh", probabilities, np.repeat(v, q.shape[2] // k.shape[2], axis=2)
        )
        if query_seq_lengths is not None:
            inside = np.arange(q.shape[1])[None, :] < np.asarray(query_seq_lengths)[:, None]
            out = out * inside[:, :, None, None]
    return out.reshape(np.shape(query))


def attention_gradient_reference(
    cotangent: npt.NDArray[np.float64], arguments: Mapping[str, Any]
) -> dict[str, npt.NDArray[np.float64]]:
    """Cotangents of query, key and value over whole score matrices (the formulas are in ``backward.py``).

    Args:
        cotangent: of the result, float64.
        arguments: of :func:`npu_kernels.kernels.attention`, by name.

    Returns:
        float64, of the arguments' shapes.
    """
    shapes = {name: np.shape(arguments[name]) for name in ("query", "key", "value")}
    q, k, v = (_batched(arguments[name]) for name in shapes)
    groups = q.shape[2] // k.shape[2]
    scale = arguments.get("scale")
    factor = 1.0 / np.sqrt(q.shape[-1]) if scale is None else scale
    options = {name: arguments[name] for name in SCORE_OPTIONS if name in arguments}
    do = _batched(cotangent)
    with np.errstate(invalid="ignore", over="ignore"):
        weights = _softmax(scores_reference(arguments["query"], arguments["key"], **options))
        lengths = arguments.get("query_seq_lengths")
        if lengths is not None:
            do = do * (np.arange(q.shape[1])[None, :] < np.asarray(lengths)[:, None])[:, :, None, None]
        change = np.einsum("btnh,bsnh->bnts", do, np.repeat(v, groups, axis=2))
        change = weights * (change - np.sum(weights * change, axis=-1, keepdims=True))
        change = np.where(visible_reference(change.shape, **options), change, 0.0) * factor
        found = {
            "query": np.einsum("bnts,bsnh->btnh", change, np.repeat(k, groups, axis=2)),
            "key": _of_groups(np.einsum("bnts,btnh->bsnh", change, q), groups),
            "value": _of_groups(np.einsum("bnts,btnh->bsnh", weights, do), groups),
        }
    return {name: array.reshape(shapes[name]) for name, array in found.items()}


def _of_groups(array: npt.NDArray[np.float64], groups: int) -> npt.NDArray[np.float64]:
    """The sum over the query heads that share a key head."""
    batch, keys, heads, dim = array.shape
    total: npt.NDArray[np.float64] = array.reshape(batch, keys, heads // groups, groups, dim).sum(axis=3)
    return total


#: Arguments of :func:`scores_reference` beside query and key.
SCORE_OPTIONS = ("mask", "scale", "is_causal", "query_seq_lengths", "key_value_seq_lengths", "mask_value")


def scores_reference(
    query: npt.ArrayLike,
    key: npt.ArrayLike,
    *,
    mask: npt.ArrayLike | None = None,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: npt.ArrayLike | None = None,
    key_value_seq_lengths: npt.ArrayLike | None = None,
    mask_value: float = MASK_VALUE,
) -> npt.NDArray[np.float64]:
    """The masked scores ``[B, N, T, S]`` that the softmax sees."""
    q, k = _batched(query), _batched(key)
    factor = 1.0 / np.sqrt(q.shape[-1]) if scale is None else scale
    with np.errstate(invalid="ignore", over="ignore"):
        scores = np.einsum("btnh,bsnh->bnts", q, np.repeat(k, q.shape[2] // k.shape[2], axis=2)) * factor
    visible = visible_reference(
        scores.shape,
        mask=mask,
        is_causal=is_causal,
        query_seq_lengths=query_seq_lengths,
        key_value_seq_lengths=key_value_seq_lengths,
    )
    return np.where(visible, scores, mask_value)


def visible_reference(
    shape: tuple[int, ...],
    *,
    mask: npt.ArrayLike | None = None,
    is_causal: bool = False,
    query_seq_lengths: npt.ArrayLike | None = None,
    key_value_seq_lengths: npt.ArrayLike | None = None,
    scale: float | None = None,
    mask_value: float = MASK_VALUE,
) -> npt.NDArray[np.bool_]:
    """Which of the scores ``[B, N, T, S]`` are not hidden; ``scale`` and ``mask_value`` are ignored."""
    del scale, mask_value
    visible = np.ones(shape, bool)
    rows, columns = np.arange(shape[2])[:, None], np.arange(shape[3])[None, :]
    if mask is not None:
        visible &= np.asarray(mask).reshape((1,) * (4 - np.ndim(mask)) + np.shape(mask))
    if is_causal:
        visible &= columns <= rows
    if query_seq_lengths is not None:
        visible &= rows < np.asarray(query_seq_lengths)[:, None, None, None]
    if key_value_seq_lengths is not None:
        visible &= columns < np.asarray(key_value_seq_lengths)[:, None, None, None]
    return visible


def _softmax(scores: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if scores.shape[-1] == 0:
        return scores
    weights: npt.NDArray[Any] = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    weights /= np.sum(weights, axis=-1, keepdims=True)
    return weights


def _batched(array: npt.ArrayLike) -> npt.NDArray[np.float64]:
    wide = np.asarray(array).astype(np.float64)
    return wide[None] if wide.ndim == 3 else wide
