"""The derivative of every library operation, against its reference in float64 and against finite differences."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from npu_kernels import kernels
from npu_kernels.kernels import Case, Operation
from npu_kernels.knobs import CHECK

from .test_conformance import arguments_of, assert_agrees


def _every() -> list[Any]:
    return [
        pytest.param(op, case, dtype, mode, id=f"{op.name}-{case.name.replace(' ', '_')}-{dtype}-{mode}")
        for op in kernels.catalogue().values()
        for case in op.gradient.cases
        for dtype in case.dtypes
        for mode in ("grad", "interpret", *(["checked"] if dtype == case.dtypes[0] else []))
    ]


#: Scores of 1e8, whose softmax float32 does not determine; a norm of one element, whose gradient is a difference of
#: two equal numbers.
_ILL_CONDITIONED = {("attention", "inputs of 1e4"), ("rms_norm", "one element a row")}


def _gradients(
    op: Operation, named: dict[str, Any], keywords: dict[str, Any], cotangent: Any, mode: str
) -> dict[str, Any]:
    names = [name for name in op.gradient.operands if name in named]
    if mode == "interpret":
        launch = op.prepare(**named, **keywords)
        fwd, bwd = op.gradient.rules[launch.kernel]
        out, residuals = fwd(*launch.arrays, interpret=True, **launch.statics)
        made = bwd(residuals, jnp.asarray(cotangent).reshape(out.shape), interpret=True, **launch.statics)
        return {name: made[op.gradient.operands[name]].reshape(named[name].shape) for name in names}

    def function(*arrays: Any) -> Any:
        return op.function(**{**named, **dict(zip(names, arrays, strict=True))}, **keywords)

    @jax.jit
    def pull(arrays: Any, cotangent: Any) -> Any:
        return jax.vjp(function, *arrays)[1](cotangent)

    return dict(zip(names, pull([named[name] for name in names], cotangent), strict=True))


@pytest.mark.parametrize(("op", "case", "dtype", "mode"), _every())
def test_agrees_with_the_float64_reference(
    op: Operation, case: Case, dtype: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "checked":
        monkeypatch.setenv(CHECK.name, "1")
    named = arguments_of(case, dtype)
    everything = {**named, **case.keywords}
    shape = op.reference(**everything).shape
    cotangent = np.random.default_rng(7).standard_normal(shape).astype(next(iter(named.values())).dtype)
    exact = np.asarray(cotangent).astype(np.float64)
    expected = op.gradient.reference(exact, everything)
    allowed = op.gradient.tolerance(dtype, exact, everything)
    actual = _gradients(op, named, dict(case.keywords), cotangent, mode)
    assert set(actual) == set(expected)
    for name, value in actual.items():
        assert value.dtype == named[name].dtype
        assert_agrees(value, expected[name], allowed[name])


@pytest.mark.parametrize("op", kernels.catalogue().values(), ids=lambda op: op.name)
def test_tolerance_is_small_against_the_values(op: Operation) -> None:
    """A tolerance as large as the gradient would accept anything."""
    for case in op.gradient.cases:
        if (op.name, case.name) in _ILL_CONDITIONED:
            continue
        named = {**arguments_of(case, "float32"), **case.keywords}
        cotangent = np.random.default_rng(7).standard_normal(op.reference(**named).shape)
        expected = op.gradient.reference(cotangent, named)
        allowed = op.gradient.tolerance("float32", cotangent, named)
        for name, values in expected.items():
            finite = np.isfinite(values)
            if finite.any() and np.max(np.abs(values[finite])) > 0:
                largest = np.max(np.abs(values[finite]))
                assert np.median(np.broadcast_to(allowed[name], values.shape)[finite]) < 2e-4 * largest, case.name
