"""Where a call runs: the kernel on cpu and npu, elsewhere its reference when that is asked for."""

from __future__ import annotations

import logging
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float

import npu_kernels.language as nl
from npu_kernels import npu_kernel
from npu_kernels.binding import launches
from npu_kernels.errors import NpuKernelsError, SignatureError, TransformError


def _double(x: Float[nl.Tensor, "n"], *, limit: int = 100):  # type: ignore[no-untyped-def]
    (n,) = x.shape
    out = nl.output(x.shape, x.dtype)
    if n > limit:
        nl.arange(-1)  # refused: a length below 1
    nl.store(out, nl.load(x) * 2.0)
    return out


def reference(x: Any, *, limit: int = 100) -> Any:
    return x * 2 + 0 * limit


kernel = npu_kernel(_double)
either = npu_kernel(reference=reference)(_double)
anywhere = npu_kernel(reference=reference, fallback="reference")(_double)
X = np.arange(16, dtype=np.float32)


def _lowered(f: Any, *platforms: str) -> str:
    return jax.jit(lambda x: f(x)).trace(X).lower(lowering_platforms=platforms).as_text()


@pytest.mark.parametrize("f", [kernel, either, anywhere], ids=["plain", "reference", "fallback"])
@pytest.mark.parametrize("platforms", [("cpu",), ("npu",), ("cpu", "npu")], ids=str)
def test_the_kernel_is_what_runs_on_cpu_and_npu(f: Any, platforms: tuple[str, ...]) -> None:
    text = _lowered(f, *platforms)
    assert "@npu_kernels.launch" in text
    assert "stablehlo.multiply" not in text


@pytest.mark.parametrize("f", [kernel, either], ids=["plain", "reference"])
@pytest.mark.parametrize("platforms", [("cuda",), ("tpu",), ("cpu", "cuda")], ids=str)
def test_any_other_platform_is_refused_at_the_line_of_the_call(f: Any, platforms: tuple[str, ...]) -> None:
    def call(x: Any) -> Any:
        return f(x)  # the line

    with pytest.raises(TransformError, match=r"NPK-PL01: kernel _double .* fallback='reference'") as caught:
        _lowered(call, *platforms)
    assert caught.value.location == f"{__file__}:{call.__code__.co_firstlineno + 1}"


def test_a_fallback_runs_the_reference_on_other_platforms_and_only_there() -> None:
    assert "@npu_kernels.launch" not in _lowered(anywhere, "cuda")
    both = _lowered(anywhere, "cpu", "cuda")
    assert both.count("@npu_kernels.launch") == 1
    assert both.count("stablehlo.multiply") >= 1
    before = launches()["_double"]
    np.testing.assert_array_equal(anywhere(X), 2 * X)
    assert launches()["_double"] == before + 1


def test_a_fallback_that_does_not_return_what_the_kernel_does_is_refused() -> None:
    wrong = npu_kernel(reference=lambda x, limit: x[:3], fallback="reference")(_double)
    with pytest.raises(TransformError, match=r"NPK-TR02: .*the reference returned the result with shape \(3,\)"):
        _lowered(wrong, "cuda")


@pytest.mark.parametrize(
    ("implementation", "launched"), [("npu", 1), ("xla", 0), (("npu", "xla"), 1), (("xla", "npu"), 0)], ids=str
)
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_an_implementation_can_be_chosen(implementation: Any, launched: int, wrap: Any) -> None:
    before = launches()["_double"]
    result = wrap(lambda x: either(x, implementation=implementation))(X)
    np.testing.assert_array_equal(result, 2 * X)
    assert launches()["_double"] - before == launched


def test_an_implementation_that_cannot_run_is_passed_over_and_said(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "npu_kernels"):
        result = either(X, implementation=("npu", "xla"), limit=3)
    np.testing.assert_array_equal(result, 2 * X)
    assert "implementation 'npu' is passed over: NPK-LA" in caplog.text


def test_with_xla_as_second_choice_other_platforms_are_served() -> None:
    text = _lowered(lambda x: either(x, implementation=("npu", "xla")), "cuda")
    assert "stablehlo.multiply" in text


def test_a_failure_of_all_implementations_is_one_group_of_their_reasons() -> None:
    def broken(x: Any, *, limit: int) -> Any:
        raise ValueError("no such thing")

    both = npu_kernel(reference=broken)(_double)
    with pytest.raises(
        ExceptionGroup, match="NPK-PL02: kernel _double: none of the implementations npu, xla"
    ) as caught:
        jax.jit(lambda x: both(x, implementation=("npu", "xla"), limit=3))(X)
    first, second = caught.value.exceptions
    assert isinstance(first, NpuKernelsError) and first.code.startswith("NPK-LA")
    assert isinstance(second, ValueError) and str(second) == "no such thing"
    assert f"at {__file__}:" in str(caught.value)


@pytest.mark.parametrize("implementation", ["cuda", (), ("npu", "reference"), 3])
def test_an_unknown_implementation_is_refused(implementation: Any) -> None:
    with pytest.raises(SignatureError, match=r"NPK-SG02: .*'npu', 'xla'"):
        either(X, implementation=implementation)


def test_xla_needs_a_reference() -> None:
    with pytest.raises(SignatureError, match=r"NPK-SG02: .*but it has none"):
        kernel(X, implementation=("npu", "xla"))


@pytest.mark.parametrize(
    "options", [{"fallback": "reference"}, {"fallback": "xla", "reference": reference}, {"reference": 3}], ids=str
)
def test_options_of_the_decorator_are_checked(options: Any) -> None:
    with pytest.raises(SignatureError, match="NPK-SG01") as caught:
        npu_kernel(**options)
    assert caught.value.location is not None and caught.value.location.startswith(__file__)


def test_the_reference_as_implementation_is_differentiated_as_it_is() -> None:
    g = jax.grad(lambda x: jnp.sum(either(x, implementation="xla")))(X)
    np.testing.assert_array_equal(g, np.full(16, 2.0))
