"""Checked mode as a context, and JAX's own debugging of NaN."""

from __future__ import annotations

import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float

import npu_kernels
import npu_kernels.language as nl
from npu_kernels import npu_kernel


@npu_kernel
def root(x: Float[nl.Tensor, "n"]) -> Float[nl.Tensor, "n"]:
    out = nl.output(x.shape, x.dtype)
    nl.store(out, nl.sqrt(nl.load(x)))
    return out


root.defvjp(lambda x: (root(x), x), lambda x, g: (g * root(x),))
X = np.arange(16, dtype=np.float32)


def _modes(f: Any) -> list[bool]:
    """Whether each call of a kernel in a function is in checked mode."""

    def found(jaxpr: Any) -> list[bool]:
        modes = []
        for eqn in jaxpr.eqns:
            if eqn.primitive.name == "npu_kernel_call":
                modes.append(eqn.params["checked"])
            for inner in eqn.params.values():
                modes += (
                    found(getattr(inner, "jaxpr", inner)) if hasattr(getattr(inner, "jaxpr", inner), "eqns") else []
                )
        return modes

    return found(jax.make_jaxpr(lambda x: f(x))(X).jaxpr)  # a function of its own, which JAX has not traced yet


def test_the_context_decides_for_calls_that_do_not_say_themselves() -> None:
    assert _modes(root) == [False]
    with npu_kernels.debug():
        assert _modes(root) == [True]
        assert _modes(lambda x: root(x, check=False)) == [False]
        with npu_kernels.debug(check=False):
            assert _modes(root) == [False]
        assert _modes(root) == [True]
    assert _modes(root) == [False]


def test_the_context_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_KERNELS_CHECK", "1")
    assert _modes(root) == [True]
    with npu_kernels.debug(check=False):
        assert _modes(root) == [False]


def test_a_jitted_function_is_traced_again_inside_and_remembered_outside() -> None:
    traced: list[int] = []

    @jax.jit
    def f(x: Any) -> Any:
        traced.append(1)
        return root(x)

    f(X)
    with npu_kernels.debug():
        assert _modes(f) == [True]
        np.testing.assert_array_equal(f(X), np.sqrt(X))
    f(X)
    assert len(traced) == 2
    assert _modes(f) == [False]


def test_kernels_of_a_derivative_run_in_the_mode_of_the_call() -> None:
    with npu_kernels.debug():
        assert _modes(jax.grad(lambda x: jnp.sum(root(x)))) == [True, True]
    assert _modes(jax.grad(lambda x: jnp.sum(root(x)))) == [False, False]
    assert _modes(jax.grad(lambda x: jnp.sum(root(x, check=True)))) == [True, True]
    with npu_kernels.debug():
        assert _modes(jax.grad(lambda x: jnp.sum(root(x, check=False)))) == [False, False]


def test_the_context_is_the_threads_own() -> None:
    seen: list[list[bool]] = []
    with npu_kernels.debug():
        thread = threading.Thread(target=lambda: seen.append(_modes(root)))
        thread.start()
        thread.join()
    assert seen == [[False]]


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_debugging_of_nan_points_at_the_kernel_and_its_line(wrap: Any) -> None:
    def f(x: Any) -> Any:
        y = x - 20.0
        return root(y) * 2.0  # the line

    with jax.debug_nans(True), pytest.raises(FloatingPointError, match=r"\(nan\) encountered in root") as caught:
        wrap(f)(X)
    lines = [entry.lineno + 1 for entry in caught.traceback if entry.frame.code.name == "f"]
    assert lines[-1] == f.__code__.co_firstlineno + 2
