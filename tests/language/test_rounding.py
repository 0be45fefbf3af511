"""Casts with a rounding mode, against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import npu_kernels.language as nl
from npu_kernels import ir

from .kernels import BF16, BOOL, F16, F32, I32

HALVES = [F16, BF16]
MODES = list(ir.ROUNDINGS)


def cast(values: np.ndarray[Any, Any], dtype: ir.DType, rounding: str | None) -> np.ndarray[Any, Any]:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output(x.shape, dtype)
        nl.store(out, nl.load(x).astype(dtype, rounding=rounding))
        return out

    (result,) = nl.interpret(kernel, {"x": values}, {})
    return result


def choose(exact: Fraction, below: float, above: float, even_below: bool, mode: str) -> float:
    """The one of two neighbours that a mode picks."""
    low, high = exact - Fraction(below), Fraction(above) - exact
    match mode:
        case "floor":
            return below
        case "ceil":
            return above
        case "trunc":
            return below if exact > 0 else above
        case "rint":
            tie = below if even_below else above
        case _:
            tie = below if exact < 0 else above
    return tie if low == high else below if low < high else above


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_float32_to_half_width_picks_the_neighbour_of_the_mode(dtype: ir.DType, mode: str) -> None:
    rng = np.random.default_rng(5)
    kind = dtype.numpy
    near = rng.standard_normal(200).astype(kind)
    above = np.nextafter(near, np.array(np.inf, kind))
    middle = (near.astype(np.float32) + above.astype(np.float32)) / 2
    points = np.concatenate([middle, np.nextafter(middle, np.float32(9)), np.nextafter(middle, np.float32(-9))])
    got = cast(points.astype(np.float32), dtype, mode)
    for point, value, low, high in zip(points, got, np.tile(near, 3), np.tile(above, 3), strict=True):
        even = int(np.array(low, kind).view(np.uint16)) % 2 == 0
        assert float(value) == choose(Fraction(float(point)), float(low), float(high), even, mode)


@pytest.mark.parametrize("mode", MODES)
def test_floats_to_integers_saturate_and_nan_is_zero(mode: str) -> None:
    points = np.array([0.5, 1.5, -0.5, -1.5, -2.5, 2.49, -0.0, 3e9, -3e9, np.inf, -np.inf, np.nan, 2.0**31], np.float32)
    whole = {
        "rint": [0, 2, 0, -2, -2, 2, 0],
        "floor": [0, 1, -1, -2, -3, 2, 0],
        "ceil": [1, 2, 0, -1, -2, 3, 0],
        "trunc": [0, 1, 0, -1, -2, 2, 0],
        "round": [1, 2, -1, -2, -3, 2, 0],
    }[mode]
    top, bottom = 2**31 - 1, -(2**31)
    assert cast(points, I32, mode).tolist() == [*whole, top, bottom, top, bottom, 0, top]


def test_the_default_truncates_towards_integers_and_rounds_to_even_elsewhere() -> None:
    assert cast(np.array([2.5, -2.5], np.float32), I32, None).tolist() == [2, -2]
    assert cast(np.array([2049.0], np.float32), F16, None).tolist() == [2048.0]
    assert cast(np.array([2**24 + 1], np.int32), F32, None).tolist() == [2.0**24]
    assert cast(np.array([2**24 + 1], np.int32), F32, "ceil").tolist() == [2.0**24 + 2]


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_overflow_follows_the_direction(dtype: ir.DType) -> None:
    largest = float(ml_dtypes.finfo(dtype.numpy).max)
    huge = np.array([3.4028235e38, -3.4028235e38], np.float32)
    assert cast(huge, dtype, "rint").tolist() == [np.inf, -np.inf]
    assert cast(huge, dtype, "trunc").tolist() == [largest, -largest]
    assert cast(huge, dtype, "floor").tolist() == [largest, -np.inf]
    assert cast(huge, dtype, "ceil").tolist() == [np.inf, -largest]


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_widening_is_exact(dtype: ir.DType) -> None:
    every = np.arange(2**16, dtype=np.uint16).view(dtype.numpy)
    wide = cast(every, F32, None)
    assert wide.dtype == np.float32
    np.testing.assert_array_equal(wide, every.astype(np.float32))


def test_bool_is_zero_or_one_and_not_zero() -> None:
    assert cast(np.array([True, False]), F16, None).tolist() == [1.0, 0.0]
    assert cast(np.array([True, False]), I32, None).tolist() == [1, 0]
    assert cast(np.array([0.0, -0.0, np.nan, 1e-45], np.float32), BOOL, None).tolist() == [False, False, True, True]
