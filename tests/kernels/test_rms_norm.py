"""RMSNorm: dtypes of operands and result, and what it refuses."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from npu_kernels import kernels
from npu_kernels.errors import OperandError
from npu_kernels.kernels.rms_norm import rms_norm_reference
from npu_kernels.kernels.rms_norm.specs import TILE_ELEMENTS, block_rows


@pytest.mark.parametrize(
    ("weight", "result"), [("float32", "bfloat16"), ("float16", "float32"), ("bfloat16", "float32")]
)
def test_weight_and_result_may_have_other_dtypes_than_the_input(weight: str, result: str) -> None:
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((3, 40)), jnp.bfloat16)
    w = jnp.asarray(rng.standard_normal(40), weight)
    out = kernels.rms_norm(x, w, eps=1e-6, dtype=result)
    assert out.dtype == result
    unit = 2.0**-8 if result == "bfloat16" else 2.0**-20
    np.testing.assert_allclose(np.asarray(out, np.float64), rms_norm_reference(x, w, eps=1e-6), rtol=unit)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (2, 0, 4)])
def test_empty_input_gives_an_empty_result(shape: tuple[int, ...]) -> None:
    assert kernels.rms_norm(jnp.zeros(shape), jnp.ones(shape[-1:]), eps=1e-6).shape == shape


@pytest.mark.parametrize(
    ("x", "weight", "words"),
    [
        (jnp.zeros((2, 4)), jnp.zeros(5), "weight has shape (5,), but the last axis of x (2, 4) wants (4,)"),
        (jnp.zeros((2, 4)), jnp.zeros((1, 4)), "weight has shape (1, 4)"),
        (jnp.zeros(()), None, "x is a scalar"),
        (jnp.zeros((2, 4), jnp.int32), None, "x is int32"),
        (jnp.zeros((2, 4)), jnp.zeros(4, jnp.int32), "weight is int32"),
    ],
)
def test_operands_that_do_not_fit_are_refused_with_their_sizes(x: Any, weight: Any, words: str) -> None:
    with pytest.raises(OperandError) as error:
        kernels.rms_norm(x, weight, eps=1e-6)
    assert error.value.code == "NPK-NM01"
    assert words in str(error.value)


@pytest.mark.parametrize("shape", [(2, 4), (0, 4)])
@pytest.mark.parametrize("eps", [-1, -1e-30, np.nan, np.inf, 1e39])
def test_an_eps_that_makes_no_norm_is_refused(eps: float, shape: tuple[int, ...]) -> None:
    with pytest.raises(OperandError, match=r"NPK-NM01: rms_norm: eps is .*; give it a finite number of at least 0"):
        kernels.rms_norm(jnp.ones(shape), eps=eps)


def test_a_traced_eps_is_refused() -> None:
    with pytest.raises(OperandError, match="NPK-NM01: rms_norm: eps is a traced value"):
        jax.jit(lambda eps: kernels.rms_norm(jnp.ones((2, 4)), eps=eps))(1e-6)


@pytest.mark.parametrize("dim", [1, 3, 576, 4096, TILE_ELEMENTS])
@pytest.mark.parametrize("rows", [1, 7, 4096])
def test_blocks_fit_a_tile(rows: int, dim: int) -> None:
    assert 1 <= block_rows(rows, dim) * dim <= TILE_ELEMENTS or block_rows(rows, dim) == 1


def test_rows_longer_than_a_tile_are_walked_along() -> None:
    assert block_rows(10, TILE_ELEMENTS + 1) == 0
