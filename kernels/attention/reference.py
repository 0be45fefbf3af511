"""Scaled dot product attention in float64."""

from __future__ import annotations

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
    visible = np.ones(scores.shape, bool)
    rows, columns = np.arange(q.shape[1])[:, None], np.arange(k.shape[1])[None, :]
    if mask is not None:
        visible &= np.asarray(mask).reshape((1,) * (4 - np.ndim(mask)) + np.shape(mask))
    if is_causal:
        visible &= columns <= rows
    if query_seq_lengths is not None:
        visible &= rows < np.asarray(query_seq_lengths)[:, None, None, None]
    if key_value_seq_lengths is not None:
        visible &= columns < np.asarray(key_value_seq_lengths)[:, None, None, None]
    return np.where(visible, scores, mask_value)


def _softmax(scores: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if scores.shape[-1] == 0:
        return scores
    weights: npt.NDArray[Any] = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    weights /= np.sum(weights, axis=-1, keepdims=True)
    return weights


def _batched(array: npt.ArrayLike) -> npt.NDArray[np.float64]:
    wide = np.asarray(array).astype(np.float64)
    return wide[None] if wide.ndim == 3 else wide
