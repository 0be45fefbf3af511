"""Eager runs against references in float64, at edge values and edge shapes."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import npu_kernels.language as nl
from npu_kernels import ir
from npu_kernels.errors import LanguageError

from .kernels import BF16, BOOL, F16, F32

EDGES = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-40, -1e-45, 3.4e38, 1e-8, 88.0, -104.0, 2.0**-24, 65519.0]
#: Units in the last place of each dtype: an operation rounds once, and float32 sums of a few terms stay below 4.
ULP = {F32: 2.0**-23, F16: 2.0**-10, BF16: 2.0**-7}


def run(fn: Callable[..., Any], *arrays: np.ndarray[Any, Any], **statics: object) -> np.ndarray[Any, Any]:
    names = fn.__code__.co_varnames[: len(arrays)]
    (result,) = nl.interpret(fn, dict(zip(names, arrays, strict=True)), statics)
    return result


def elementwise(x: nl.Tensor, y: nl.Tensor, *, apply: Callable[[Any, Any], Any]) -> nl.Tensor:
    out = nl.output(x.shape, x.dtype)
    nl.store(out, apply(nl.load(x), nl.load(y)))
    return out


OPERATIONS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "sub": (lambda a, b: a - b, lambda a, b: a - b),
    "mul": (lambda a, b: a * b, lambda a, b: a * b),
    "div": (lambda a, b: a / b, lambda a, b: a / b),
    "rsub": (lambda a, b: 1.5 - a, lambda a, b: 1.5 - a),
    "rdiv": (lambda a, b: 1 / a, lambda a, b: 1 / a),
    "square": (lambda a, b: a**2, lambda a, b: a * a),
    "neg": (lambda a, b: -a, lambda a, b: -a),
    "abs": (lambda a, b: abs(a), lambda a, b: np.abs(a)),
    "exp": (lambda a, b: nl.exp(a), lambda a, b: np.exp(a)),
    "log": (lambda a, b: nl.log(a), lambda a, b: np.log(a)),
    "sqrt": (lambda a, b: nl.sqrt(a), lambda a, b: np.sqrt(a)),
    "rsqrt": (lambda a, b: nl.rsqrt(a), lambda a, b: 1 / np.sqrt(a)),
    "reciprocal": (lambda a, b: nl.reciprocal(a), lambda a, b: 1 / a),
    "tanh": (lambda a, b: nl.tanh(a), lambda a, b: np.tanh(a)),
    "maximum": (lambda a, b: nl.maximum(a, b), np.maximum),
    "minimum": (lambda a, b: nl.minimum(a, b), np.minimum),
    "clip": (lambda a, b: nl.clip(a, -1.0, 2.0), lambda a, b: np.clip(a, -1.0, 2.0)),
    "where": (lambda a, b: nl.where(a > b, a, 3.0), lambda a, b: np.where(a > b, a, 3.0)),
    "where eq": (lambda a, b: nl.where(a == b, 1.0, 0.0).astype(a.dtype), lambda a, b: np.where(a == b, 1.0, 0.0)),
    "where not": (lambda a, b: nl.where(~(a <= b) | (a != a), a, b), lambda a, b: np.where(~(a <= b) | (a != a), a, b)),
}


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_elementwise_operations_round_once(name: str, dtype: ir.DType) -> None:
    apply, reference = OPERATIONS[name]
    rng = np.random.default_rng(0)
    values = np.concatenate([np.array(EDGES), rng.standard_normal(100) * 4])
    with np.errstate(all="ignore"):
        x, y = (v.astype(dtype.numpy) for v in np.broadcast_arrays(values[:, None], values[None, :]))
        got = run(elementwise, x, y, apply=apply)
        exact = reference(x.astype(np.float64), y.astype(np.float64))
        # Half-width operations compute in float32 and round from there.
        expected = exact.astype(np.float32).astype(dtype.numpy)
    assert got.dtype == dtype.numpy
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    with np.errstate(all="ignore"):
        near = np.abs(got.astype(np.float64) - expected.astype(np.float64)) <= ULP[dtype] * np.abs(exact)
    assert np.all(same | near)
    if name in ("add", "sub", "mul", "div", "neg", "abs", "maximum", "where", "sqrt"):
        assert np.all(same), "one rounding gives the nearest value"
        zero = (got == 0) & (expected == 0) & ~np.isnan(exact)
        if name not in ("maximum", "minimum", "clip"):
            assert np.array_equal(np.signbit(got[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "neg", "abs", "maximum", "minimum", "where"])
def test_int32_arithmetic_wraps(name: str) -> None:
    applied = {
        "abs": (lambda a, b: nl.abs(a), lambda a, b: np.abs(a)),
        "where": (lambda a, b: nl.where(a > b, a, 3), lambda a, b: np.where(a > b, a, 3)),
    }
    apply, reference = applied.get(name) or OPERATIONS[name]
    values = np.array([0, 1, -1, 7, 2**31 - 1, -(2**31), 65536, -65537], np.int32)
    x, y = np.broadcast_arrays(values[:, None], values[None, :])
    with np.errstate(all="ignore"):
        assert np.array_equal(run(elementwise, x, y, apply=apply), reference(x, y).astype(np.int32))


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (13, 5), (8, 1)], ids=str)
@pytest.mark.parametrize("kind", ["sum", "max", "min", "mean"])
def test_reductions_respect_ragged_tails(kind: str, shape: tuple[int, int], dtype: ir.DType) -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((x.shape[0],), x.dtype)
        for r in nl.parallel(x.shape[0], step=4):
            nl.store(out[r : r + 4], getattr(nl, kind)(nl.load(x[r : r + 4, :]), axis=1))
        return out

    x = np.random.default_rng(1).standard_normal(shape).astype(dtype.numpy)
    expected = getattr(np, kind)(x.astype(np.float64), axis=1)
    np.testing.assert_allclose(run(kernel, x).astype(np.float64), expected, rtol=4 * ULP[dtype], atol=4 * ULP[F32])


def test_reductions_along_the_ragged_axis_see_valid_elements_only() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((2, 5), F32)
        for r in nl.range(0, 11, step=8):
            t = nl.load(x[r : r + 8, :])
            row = nl.minimum(r // 8, 1)
            nl.store(out[row, :], nl.mean(t, axis=0) + nl.min(t))
        return out

    x = np.random.default_rng(2).standard_normal((11, 5)).astype(np.float32) + 10
    expected = np.stack([p.mean(0) + p.min() for p in (x[:8].astype(np.float64), x[8:].astype(np.float64))])
    np.testing.assert_allclose(run(kernel, x), expected, rtol=4 * ULP[F32])


def test_extremes_of_rows_with_a_nan_are_nan() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((2,), F32)
        t = nl.load(x)
        nl.store(out[0:1], nl.max(t))
        nl.store(out[1:2], nl.min(t))
        return out

    assert np.isnan(run(kernel, np.array([1.0, np.nan, np.inf], np.float32))).all()


@pytest.mark.parametrize("dtype", [F32, F16, BF16], ids=str)
@pytest.mark.parametrize("flip_a", [False, True])
@pytest.mark.parametrize("flip_b", [False, True])
def test_dot_accumulates_in_float32(dtype: ir.DType, flip_a: bool, flip_b: bool) -> None:
    def kernel(a: nl.Tensor, b: nl.Tensor, c: nl.Tensor) -> nl.Tensor:
        out = nl.output(c.shape, F32)
        left, right = nl.load(a), nl.load(b)
        nl.store(out, nl.dot(left.T if flip_a else left, right.T if flip_b else right, nl.load(c)))
        return out

    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((5, 33)).astype(dtype.numpy), rng.standard_normal((33, 7)).astype(dtype.numpy)
    c = rng.standard_normal((5, 7)).astype(np.float32)
    expected = a.astype(np.float64) @ b.astype(np.float64) + c
    got = run(kernel, a.T.copy() if flip_a else a, b.T.copy() if flip_b else b, c)
    # 34 additions of terms of about 1, each with at most half a unit of float32 at the size of the sum.
    np.testing.assert_allclose(got, expected, atol=34 * 8 * 2.0**-24)


def test_dot_contracts_the_valid_elements() -> None:
    def kernel(a: nl.Tensor, b: nl.Tensor) -> nl.Tensor:
        out = nl.output((3, 2), F32)
        acc = nl.zeros((3, 2))
        for k in nl.range(11, step=4):
            acc = nl.dot(nl.load(a[:, k : k + 4]), nl.load(b[k : k + 4, :]), acc)
        nl.store(out, acc)
        return out

    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((3, 11)).astype(np.float32), rng.standard_normal((11, 2)).astype(np.float32)
    np.testing.assert_allclose(run(kernel, a, b), a.astype(np.float64) @ b, atol=2.0**-20)


def test_parts_of_different_length_meet_at_the_shorter_one() -> None:
    def kernel(x: nl.Tensor, y: nl.Tensor) -> nl.Tensor:
        out = nl.output((8,), F32)
        nl.store(out, -1.0)
        for r in nl.range(5, step=8):
            nl.store(out[r : r + 8], nl.load(x[r : r + 8]) + nl.load(y[r : r + 8]))
        return out

    got = run(kernel, np.ones(7, np.float32), np.ones(5, np.float32))
    assert got.tolist() == [2.0] * 5 + [-1.0] * 3


def test_axes_are_added_and_spread() -> None:
    def kernel(x: nl.Tensor, y: nl.Tensor) -> nl.Tensor:
        out = nl.output((3, 4), F32)
        rows, columns = nl.load(x), nl.load(y)
        nl.store(out, rows[:, None] * columns + nl.broadcast_to(columns[None, :], (3, 4)) + nl.full((1, 4), 2))
        return out

    x, y = np.arange(3, dtype=np.float32), np.arange(4, dtype=np.float32)
    assert np.array_equal(run(kernel, x, y), x[:, None] * y + y + 2)


def test_counting_and_masks() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output(x.shape, BOOL)
        for r in nl.parallel(x.shape[0], step=4):
            rows = nl.arange(r, r + 4)[:, None]
            columns = nl.arange(x.shape[1])[None, :] * 1
            nl.store(out[r : r + 4, :], (columns <= rows) & nl.load(x[r : r + 4, :]).astype(BOOL))
        return out

    x = np.array([[2, 1, 0], [-1, 0, 1], [1, 1, 1], [5, 5, 5], [1, 1, 1]], np.int32)
    assert np.array_equal(run(kernel, x), np.tril(np.ones((5, 3), bool)) & (x != 0))


def test_a_launch_with_nothing_to_do_returns_an_empty_array() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output(x.shape, F32)
        for r in nl.parallel(x.shape[0], step=4):
            nl.store(out[r : r + 4, :], nl.load(x[r : r + 4, :]))
        return out

    assert run(kernel, np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_an_output_without_a_store_is_refused() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        return nl.output(x.shape, F32)

    with pytest.raises(LanguageError, match="NPK-LA08"):
        run(kernel, np.zeros((2,), np.float32))


def test_values_are_known_to_python_and_print() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((4,), F32)
        for r in nl.range(x.shape[0], step=3):
            t = nl.load(x[r : r + 3])
            print(f"{r} {r:02d}", t)
            if nl.sum(t) > 3 and r == 3:
                nl.store(out, max(float(nl.max(t)), 1.0))
        return out

    heard = io.StringIO()
    with redirect_stdout(heard):
        got = run(kernel, np.array([1, 2, 3, 4], np.float32))
    assert heard.getvalue() == ("0 00 <float32 tile [3]>\n[1. 2. 3.]\n3 03 <float32 tile [3], [1] of it valid>\n[4.]\n")
    assert got.tolist() == [4.0] * 4


def test_scalars_of_every_dtype() -> None:
    def kernel(x: nl.Tensor, n: nl.Tensor, b: nl.Tensor) -> nl.Tensor:
        out = nl.output((2,), F32)
        whole = nl.load(n[0])
        half = nl.load(x[1])
        value = half.astype(F32) * 2.0 + (whole // 2 - whole % 3).astype(F32) + nl.load(b[0]).astype(F32)
        nl.store(out, nl.where(nl.load(b[1]), value, nl.cast(1, F32)))
        return out

    got = run(kernel, np.array([1, 2], ml_dtypes.bfloat16), np.array([-7], np.int32), np.array([True, True]))
    assert got.tolist() == [4.0 + (-7 // 2 - -7 % 3) + 1.0] * 2
