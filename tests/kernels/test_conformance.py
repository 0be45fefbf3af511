"""Every library operation, over its own cases, in every way a kernel runs, against its reference in float64."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest

from npu_kernels import kernels
from npu_kernels.kernels import Case, Operation
from npu_kernels.knobs import CHECK

_NUMPY = {"float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def _every() -> list[Any]:
    """Each case in each dtype and mode; the checks do not depend on the element type, so they take one per case."""
    return [
        pytest.param(op, case, dtype, mode, id=f"{op.name}-{case.name.replace(' ', '_')}-{dtype}-{mode}")
        for op in kernels.catalogue().values()
        for case in op.cases
        for dtype in case.dtypes
        for mode in ("eager", "jit", "interpret", *(["checked"] if dtype == case.dtypes[0] else []))
    ]


def arguments_of(case: Case, dtype: str) -> dict[str, Any]:
    """The case's arguments, the floating ones cast to ``dtype``; the same for every mode."""
    named = case.arguments(np.random.default_rng(20260101))
    return {
        name: array.astype(_NUMPY[dtype]) if np.issubdtype(array.dtype, np.floating) else array
        for name, array in named.items()
    }


def assert_agrees(actual: Any, expected: Any, allowed: Any) -> None:
    """NaN in the same places, equal infinities, and finite values within ``allowed``."""
    actual, expected = np.asarray(actual).astype(np.float64), np.asarray(expected)
    np.testing.assert_array_equal(np.isnan(actual), np.isnan(expected), "NaN elsewhere than in the reference")
    finite = np.isfinite(expected)
    special = ~finite & ~np.isnan(expected)
    np.testing.assert_array_equal(actual[special], expected[special], "infinities differ")
    excess = np.where(finite, np.abs(actual - np.where(finite, expected, 0.0)) - allowed, -1.0)
    worst = np.unravel_index(np.argmax(excess), excess.shape)
    bound = np.broadcast_to(allowed, expected.shape)[worst]
    assert excess[worst] <= 0, (
        f"at {worst}: {actual[worst]!r} instead of {expected[worst]!r}, allowed error {bound:.3g}; "
        f"{np.count_nonzero(excess > 0)} of {excess.size} elements are off"
    )


def _run(op: Operation, named: Mapping[str, Any], keywords: Mapping[str, Any], mode: str) -> Any:
    function = partial(op.function, **keywords)
    if mode == "jit":
        return jax.jit(function)(**named)
    if mode == "interpret":
        return op.prepare(**named, **keywords)(interpret=True)
    return function(**named)


@pytest.mark.parametrize(("op", "case", "dtype", "mode"), _every())
def test_agrees_with_the_float64_reference(
    op: Operation, case: Case, dtype: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "checked":
        monkeypatch.setenv(CHECK.name, "1")
    named = arguments_of(case, dtype)
    expected = op.reference(**named, **case.keywords)
    actual = _run(op, named, case.keywords, mode)
    assert np.shape(actual) == expected.shape
    assert np.asarray(actual).dtype == _NUMPY[dtype]
    assert_agrees(actual, expected, op.tolerance(dtype, {**named, **case.keywords}, expected))


@pytest.mark.parametrize("op", kernels.catalogue().values(), ids=lambda op: op.name)
def test_is_listed_with_what_the_command_line_shows(op: Operation) -> None:
    assert op.summary and op.examples
    assert op.function.__doc__
    for example in op.examples:
        arrays = {name: np.zeros(shape, _NUMPY[example.dtype]) for name, shape in example.shapes.items()}
        launch = op.prepare(**arrays, **example.keywords)
        assert all(np.shape(array) for array in launch.arrays)


@pytest.mark.parametrize("op", kernels.catalogue().values(), ids=lambda op: op.name)
def test_tolerance_is_small_against_the_values(op: Operation) -> None:
    """A tolerance as large as the result would accept anything."""
    for case in op.cases:
        named = arguments_of(case, "float32")
        expected = op.reference(**named, **case.keywords)
        allowed = op.tolerance("float32", {**named, **case.keywords}, expected)
        finite = np.isfinite(expected)
        largest = np.max(np.abs(expected[finite]))
        assert np.median(np.broadcast_to(allowed, expected.shape)[finite]) < 1e-4 * largest, case.name
