"""Every operation of the tile IR gives, on the twin in checked mode, what NumPy gives in float64.

float16 and bfloat16 results are rounded once per operation, from a float32 result; float32 functions differ from
correctly rounded ones by a few units in the last place. The tolerances below are those roundings.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from . import kernels as K

#: Relative errors: 4 units in the last place of float32 (24 bits), one of float16 (11 bits) and of bfloat16 (8).
TOLERANCE = {"float32": 5e-7, "float16": 2**-10, "bfloat16": 2**-7}
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 3e4, -1e-3)
NUMPY = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
FLOATS = ("float32", "float16", "bfloat16")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def with_special(x: np.ndarray, start: int) -> np.ndarray:
    """``x`` with the special values spread over it, where there is room."""
    if x.shape[1] > 20:
        for i, value in enumerate(SPECIAL):
            x[(i + start) % x.shape[0], 3 * i] = value
    return x


def check(name: str, got: Any, reference: Any, dtype: str, tolerance: float | None = None, floor: float = 0.0) -> None:
    """Equal to the reference rounded to the dtype, but for the tolerance; NaN, infinities and signed zeros exactly."""
    with np.errstate(all="ignore"):
        want = np.asarray(reference, np.float64).astype(NUMPY[dtype]).astype(np.float64)
    have = np.asarray(got).astype(np.float64)
    assert have.shape == want.shape, name
    np.testing.assert_array_equal(np.isnan(have), np.isnan(want), err_msg=name)
    zeros = (have == 0) & (want == 0)
    np.testing.assert_array_equal(np.signbit(have[zeros]), np.signbit(want[zeros]), err_msg=f"{name}: signed zeros")
    finite = np.isfinite(want) & np.isfinite(have)
    infinite = ~finite & ~np.isnan(want)
    np.testing.assert_array_equal(have[infinite], want[infinite], err_msg=name)
    # Below the smallest normal number precision is absolute.
    tiny = float(ml_dtypes.finfo(NUMPY[dtype]).smallest_normal)
    allowed = (TOLERANCE[dtype] if tolerance is None else tolerance) * np.maximum(np.abs(want), max(tiny, floor))
    worst = np.max(np.abs(have[finite] - want[finite]) - allowed[finite], initial=0.0)
    assert worst <= 0.0, f"{name}: off by {worst:g} more than allowed"


def elementwise_references(a: Any, b: Any, w: Any, c: Any) -> list[Any]:
    ones = np.ones_like(a)
    return [
        a + b, a - b, a * b, a / b, np.maximum(a, b), np.minimum(a, b),
        a + w, w - a, a * c, c / a, c + w * ones, np.maximum(c, w * ones),
        a + 2.0, 2.0 - a, a - 0.5, a * 3.0, a / 3.0, 3.0 / a, np.maximum(a, 0.25), np.minimum(0.25, a),
        -a, np.exp(a), np.log(a), np.sqrt(a), 1 / np.sqrt(a), 1 / a, np.tanh(a), np.abs(a),
        np.where(a > b, a, b), np.where(a >= w, 1.0, c * ones), np.where((c < w) & (ones > 0), a, -1.0),
        np.clip(a, -0.5, 0.5), np.where((a == b) | ~(a != w) & (c <= 0.125), a, 0.0), np.where(a <= 0.25, 2.0, a),
    ]  # fmt: skip


#: One element, one column, less and more than a block, one block, a step that leaves a tail, rows of 130.
SHAPES = {
    "float32": [(1, 1, 1), (3, 1, 2), (5, 33, 2), (16, 64, 16), (1, 130, 1)],
    "float16": [(5, 33, 2)],
    "bfloat16": [(9, 72, 4)],
}


@pytest.mark.parametrize(("dtype", "shape"), [(d, s) for d, shapes in SHAPES.items() for s in shapes])
def test_elementwise_operations_match_float64(dtype: str, shape: tuple[int, int, int], rng: Any) -> None:
    rows, cols, step = shape
    x = with_special(rng.standard_normal((rows, cols)), 0).astype(NUMPY[dtype])
    y = with_special(rng.standard_normal((rows, cols)), 1).astype(NUMPY[dtype])
    row, column = (rng.standard_normal(s).astype(NUMPY[dtype]) for s in ((cols,), (rows, 1)))
    got = K.elementwise(*map(jnp.asarray, (x, y, row, column)), step=step, check=True)
    with np.errstate(all="ignore"):
        references = elementwise_references(*(t.astype(np.float64) for t in (x, y, row, column)))
    assert len(references) == K.ELEMENTWISE
    for i, reference in enumerate(references):
        check(f"operation {i}", got[i], reference, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (9, 72, 4, 40), (2, 2100, 2, 700)])
def test_reductions_match_float64(dtype: str, shape: tuple[int, int, int, int], rng: Any) -> None:
    rows, cols, step, width = shape
    x = rng.standard_normal((rows, cols)).astype(NUMPY[dtype])
    wide = x.astype(np.float64)
    along_rows, along_columns, to_scalars = K.reductions(jnp.asarray(x), step=step, width=width, check=True)
    # A float32 sum of n terms near 1 is off by a few units of its largest partial sum.
    sums = {"tolerance": max(TOLERANCE[dtype], 1e-6), "floor": float(np.sqrt(cols)) * 4}
    check("sum of rows", along_rows[0], wide.sum(1), dtype, **sums)
    check("max of rows", along_rows[1], wide.max(1), dtype, tolerance=0.0)
    check("min of rows", along_rows[2], wide.min(1), dtype, tolerance=0.0)
    check("mean of rows", along_rows[3], wide.mean(1), dtype, tolerance=max(TOLERANCE[dtype], 1e-6), floor=0.2)
    check("sum of columns", along_columns[0], wide.sum(0), dtype, **sums)
    check("max of columns", along_columns[1], wide.max(0), dtype, tolerance=0.0)
    check("min of columns", along_columns[2], wide.min(0), dtype, tolerance=0.0)
    check("sum", to_scalars[0], wide.sum(1), "float32", tolerance=1e-6, floor=float(np.sqrt(cols)) * 4)
    check("max", to_scalars[1], wide.max(1), "float32", tolerance=0.0)
    check("min", to_scalars[2], wide.min(1), "float32", tolerance=0.0)
    blocks = [wide[:, c : c + width].mean(1) for c in range(0, cols, width)]
    check("mean", to_scalars[3], sum(blocks), "float32", tolerance=1e-6, floor=1.0)


def test_a_nan_reaches_maximum_minimum_and_sum_of_its_row_only(rng: Any) -> None:
    x = rng.standard_normal((9, 72)).astype(np.float32)
    x[4, 70] = np.nan
    along_rows, along_columns, _ = K.reductions(jnp.asarray(x), step=4, width=40, check=True)
    for result in np.asarray(along_rows):
        np.testing.assert_array_equal(np.isnan(result), np.arange(9) == 4)
    for result in np.asarray(along_columns):
        np.testing.assert_array_equal(np.isnan(result), np.arange(72) == 70)


@pytest.mark.parametrize("shape", [(1, 1, 1), (5, 33, 2), (4, 64, 4)])
def test_integers_and_masks_are_exact(shape: tuple[int, int, int], rng: Any) -> None:
    rows, cols, step = shape
    a = rng.integers(-(2**31), 2**31, (rows, cols)).astype(np.int32)
    b = rng.integers(-9, 9, (rows, cols)).astype(np.int32)
    a[::2] = rng.integers(-9, 9, a[::2].shape)
    k, mr = rng.random((rows, cols)) < 0.5, rng.random(cols) < 0.5
    numbers, masks = K.integers(*map(jnp.asarray, (a, b, k, mr)), step=step, check=True)
    i, j = np.arange(rows, dtype=np.int32)[:, None], np.arange(cols, dtype=np.int32)[None, :]
    with np.errstate(over="ignore"):
        made = [
            a + b, a - b, a * b, np.maximum(a, b), np.minimum(a, b), -a, np.abs(a), np.where(k, a, b),
            np.where(a < b, a, 7), k.astype(np.int32), i + j, np.where(i >= j, a, b), np.maximum(i, 2) * j, 3 - a,
        ]  # fmt: skip
    said = [
        a < b, a <= b, a > b, a >= b, a == b, a != b, k & (a < 5), k | mr, ~k, k ^ mr, a != 0,
        np.where(k, a < b, mr), (i < j),
    ]  # fmt: skip
    for n, reference in enumerate(made):
        np.testing.assert_array_equal(numbers[n], np.broadcast_to(reference, (rows, cols)), err_msg=f"number {n}")
    for n, reference in enumerate(said):
        np.testing.assert_array_equal(masks[n], reference, err_msg=f"mask {n}")


def test_casts_round_as_asked(rng: Any) -> None:
    edges = [np.nan, np.inf, -np.inf, -0.0, 0.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 65504, 65519, 65520, 1e-8, 6e-8]
    x = np.concatenate([rng.standard_normal(48) * 10.0 ** rng.uniform(-6, 6, 48), edges]).astype(np.float32)
    x = x.reshape(4, 16)
    halves, brains, integers = (np.asarray(t) for t in K.casts(jnp.asarray(x), check=True))
    wide = x.astype(np.float64)
    rint, floor, ceil, trunc, round_ = integers
    inside = np.isfinite(wide)
    np.testing.assert_array_equal(rint[inside], np.rint(wide[inside]).astype(np.int32))
    np.testing.assert_array_equal(floor[inside], np.floor(wide[inside]).astype(np.int32))
    np.testing.assert_array_equal(ceil[inside], np.ceil(wide[inside]).astype(np.int32))
    np.testing.assert_array_equal(trunc[inside], np.trunc(wide[inside]).astype(np.int32))
    away = np.trunc(wide + np.copysign(0.5, wide))
    np.testing.assert_array_equal(round_[inside], away[inside].astype(np.int32))
    for results, dtype in ((halves, "float16"), (brains, "bfloat16")):
        check(f"rint to {dtype}", results[0], wide, dtype, tolerance=0.0)
        down, up = results[1].astype(np.float64), results[2].astype(np.float64)
        finite = np.isfinite(wide) & np.isfinite(down) & np.isfinite(up)
        assert (down[finite] <= wide[finite]).all() and (up[finite] >= wide[finite]).all()
        toward = results[3].astype(np.float64)[finite]
        np.testing.assert_array_equal(toward, np.where(wide[finite] < 0, up[finite], down[finite]))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(33, 20, 17, 32, 64), (40, 72, 24, 16, 32), (3, 5, 2, 1, 8)])
def test_products_match_float64(dtype: str, shape: tuple[int, ...], rng: Any) -> None:
    m, k, n, step, depth = shape
    a, b = rng.standard_normal((m, k)).astype(NUMPY[dtype]), rng.standard_normal((k, n)).astype(NUMPY[dtype])
    at, bt = rng.standard_normal((k, m)).astype(NUMPY[dtype]), rng.standard_normal((n, k)).astype(NUMPY[dtype])
    got = K.products(*map(jnp.asarray, (a, b, at, bt)), step=step, depth=depth, check=True)
    wide = [t.astype(np.float64) for t in (a, b, at, bt)]
    raised = (b.astype(np.float32) + 1).astype(NUMPY[dtype]).astype(np.float64)
    plain = wide[0] @ wide[1]
    references = [
        plain, wide[2].T @ wide[1], wide[0] @ wide[3].T, wide[2].T @ wide[3].T, 2 * wide[0] @ raised,
        plain - plain.sum(1, keepdims=True),
    ]  # fmt: skip
    for i, reference in enumerate(references):
        # Products are exact or rounded once in float32; sums of k terms near 1 lose a few units.
        check(f"product {i}", got[i], reference, "float32", tolerance=2e-6, floor=float(np.sqrt(k)) * 4)


def test_a_product_whose_rows_are_mixed_is_computed_on_both_vector_cores(rng: Any) -> None:
    a, b = rng.standard_normal((20, 12)).astype(np.float32), rng.standard_normal((12, 40)).astype(np.float32)
    product, sums = K.product_mixing_rows(jnp.asarray(a), jnp.asarray(b), check=True)
    reference = a.astype(np.float64) @ b
    check("product", product, reference, "float32", tolerance=2e-6, floor=10.0)
    check("sums", sums, reference.sum(0), "float32", tolerance=2e-6, floor=40.0)


def test_a_product_larger_than_l0_is_cut_into_tiles(rng: Any) -> None:
    a, b = rng.standard_normal((150, 300)).astype(np.float32), rng.standard_normal((300, 150)).astype(np.float32)
    product, _ = K.product_mixing_rows(jnp.asarray(a), jnp.asarray(b), check=True)
    check("product", product, a.astype(np.float64) @ b, "float32", tolerance=2e-6, floor=80.0)


def test_loops_branches_and_scalars_follow_python(rng: Any) -> None:
    x, index = rng.standard_normal((7, 37)).astype(np.float32), np.arange(7, dtype=np.int32)
    got = [np.asarray(t, np.float64) for t in K.control(jnp.asarray(x), jnp.asarray(index), check=True)]
    for r in range(7):
        a, b, n = x[r].astype(np.float64), np.ones(37), int(index[r])
        for _ in range(5):
            a, b = b, a + b
        if n > 2:
            a, k = a * 2.0, n // 2
        elif n == 0:
            k = n - 7
        else:
            b, k = b + a, n % 3
        for j in range(n, 6, 2):
            b = b + 1.0 if j > 3 else b
            a = a + j
        m = max(a.sum(), 0.5)
        m = m + np.sqrt(m) if a.sum() > 1.0 else m
        np.testing.assert_allclose(got[0][r], a, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(got[1][r], b, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(got[2][:, r], [a.sum(), m, 8, k], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", FLOATS)
def test_strided_slices_are_gathered_and_spread(dtype: str, rng: Any) -> None:
    x = rng.standard_normal((5, 3, 7)).astype(NUMPY[dtype])
    raised, swapped = K.strided(jnp.asarray(x), check=True)
    check("raised", raised, x.astype(np.float64) + 1.0, dtype)
    np.testing.assert_array_equal(np.asarray(swapped), x.transpose(1, 0, 2))


def test_scalars_follow_numpy() -> None:
    x = np.asarray([0.5, 1.5, -2.5, 2.5, 3.0, np.nan, np.inf, -0.0], np.float32)
    g, flags = 0.75, np.arange(8) % 2 == 0
    operands = (jnp.asarray(x), jnp.float32(g), jnp.asarray([1.5], jnp.float16), jnp.asarray(flags))
    floats, whole, inverted, doubled = (np.asarray(t) for t in K.scalars(*operands, check=True))
    v = x.astype(np.float64)
    with np.errstate(all="ignore"):
        references = [
            np.exp(v), np.log(v), np.sqrt(v), 1 / np.sqrt(v), np.tanh(v), 1 / v, np.abs(v), -v, v + g,
            np.maximum(v, g), v * 1.5, np.where(v > g, v, g),
        ]  # fmt: skip
    for i, reference in enumerate(references):
        check(f"function {i}", floats[i], reference, "float32")
    finite = v[:5]
    away = np.trunc(finite + np.copysign(0.5, finite))
    rounded = [np.rint(finite), np.floor(finite), np.ceil(finite), np.trunc(finite), away]
    np.testing.assert_array_equal(whole[:, :5], np.asarray(rounded, np.int32))
    np.testing.assert_array_equal(inverted, ~flags)
    assert doubled == 1.5
