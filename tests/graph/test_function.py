"""A transformed function is called, jitted, differentiated and batched like the function it wraps."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from npu_kernels.graph.expand import expand
from npu_kernels.graph.function import Transformed, trace
from npu_kernels.graph.jaxpr_reader import read_jaxpr
from npu_kernels.graph.jaxpr_writer import rewrite_jaxpr
from npu_kernels.graph.replacement import Replacement

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Counted:
    """Doubles instead of taking tanh, and counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, closed: Any) -> Any:
        self.calls += 1
        flat = expand(read_jaxpr(closed))
        found = [node for node in flat.walk() if node.op == "tanh"]
        return rewrite_jaxpr(
            flat, [Replacement(node.operands, node.results, lambda x: (x * 2,), "double") for node in found]
        )


def transformed(function: Any) -> Any:
    return Transformed(function, Counted())


def test_pytrees_keywords_and_static_arguments_pass_through() -> None:
    def function(params: dict[str, Any], *xs: jax.Array, mode: str, scale: float = 1.0) -> dict[str, Any]:
        assert isinstance(scale, float)
        y = sum(jnp.tanh(x) for x in xs) * scale + params["b"][0]
        return {"y": y if mode == "plain" else -y, "mode": mode, "none": None, "count": len(xs)}

    result = transformed(function)({"b": [np.float32(1)]}, X, X, mode="minus", scale=3.0)
    np.testing.assert_array_equal(result["y"], -(X * 4 * 3.0 + 1))
    assert result["mode"] == "minus" and result["none"] is None and result["count"] == 2


def test_one_trace_per_signature() -> None:
    count = Counted()
    function = Transformed(lambda x, n: jnp.tanh(x) * n, count)
    for n in (2, 2, 3, 2.0, True):
        function(X, n)
    assert count.calls == 4, "2, 3, 2.0 and True are four static values"
    function(X[:1], 2)
    function(X.astype(np.float16), 2)
    assert count.calls == 6
    with jax.default_matmul_precision("highest"):
        function(X, 2)
    assert count.calls == 7


def test_numbers_are_traced_by_a_jitted_function_unless_it_says_static() -> None:
    count = Counted()
    jitted = jax.jit(lambda x, step, power: jnp.tanh(x) * step**power, static_argnames="power")
    function = Transformed(jitted, count)
    for step in (1, 2, 3):
        np.testing.assert_array_equal(function(X, step, power=2), X * 2 * step**2)
    assert count.calls == 1
    function(X, 1, power=3)
    assert count.calls == 2


def test_static_positions_of_a_jitted_function_are_kept() -> None:
    function = transformed(jax.jit(lambda f, x: f(jnp.tanh(x)), static_argnums=0))
    np.testing.assert_array_equal(function(jnp.negative, X), -2 * X)


def test_jit_inside_and_outside_give_the_same() -> None:
    def function(x: jax.Array, flag: bool) -> jax.Array:
        return jnp.tanh(x) + 1 if flag else x

    inside = transformed(jax.jit(function, static_argnums=1))
    outside = jax.jit(transformed(function), static_argnums=1)
    named = jax.jit(transformed(function), static_argnames="flag")
    for flag in (True, False):
        np.testing.assert_array_equal(inside(X, flag), outside(X, flag))
        np.testing.assert_array_equal(inside(X, flag), named(X, flag=flag))


def test_donation_inside_still_donates() -> None:
    def function(x: jax.Array) -> jax.Array:
        return jnp.tanh(x)

    donated, kept = jnp.asarray(X), jnp.asarray(X)
    np.testing.assert_array_equal(transformed(jax.jit(function, donate_argnums=0))(donated), X * 2)
    transformed(jax.jit(function))(kept)
    assert donated.is_deleted() and not kept.is_deleted()


def test_methods_are_bound() -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @functools.partial(Transformed, transform=Counted())
        def plain(self, x: Any) -> Any:
            return jnp.tanh(x) * self.scale

        @functools.partial(jax.jit, static_argnums=0)
        def jitted(self, x: Any) -> Any:
            return jnp.tanh(x) * self.scale

    two, three = Model(2), Model(3)
    np.testing.assert_array_equal(two.plain(X), X * 4)
    np.testing.assert_array_equal(three.plain(X), X * 6)
    np.testing.assert_array_equal(transformed(two.plain)(X), X * 4)
    np.testing.assert_array_equal(transformed(three.jitted)(X), X * 6)


def test_derivatives_batches_loops_and_effects_go_through(capfd: pytest.CaptureFixture[str]) -> None:
    def function(x: jax.Array) -> jax.Array:
        jax.debug.print("seen {}", x.sum())
        return jnp.tanh(x).sum() ** 2

    wrapped = transformed(function)
    np.testing.assert_allclose(jax.grad(wrapped)(X), np.full_like(X, 4 * 2 * X.sum()))
    np.testing.assert_allclose(jax.vmap(wrapped)(X), (2 * X.sum(1)) ** 2)
    np.testing.assert_allclose(jax.lax.map(wrapped, X), (2 * X.sum(1)) ** 2)
    jax.effects_barrier()
    assert capfd.readouterr().out.count("seen") == 1 + 2 + 2


def test_a_value_that_is_being_traced_outside_is_not_remembered() -> None:
    outer: dict[str, Any] = {}
    wrapped = transformed(lambda x: jnp.tanh(x) + outer["bias"])

    @jax.jit
    def function(x: jax.Array, bias: jax.Array) -> Any:
        outer["bias"] = bias
        return wrapped(x)

    for shape in ((2, 3), (1, 3)):
        np.testing.assert_array_equal(function(X, np.full(shape, 5, np.float32)), X * 2 + 5)


def test_an_argument_that_cannot_be_hashed_is_traced_each_time() -> None:
    count = Counted()
    wrapped = Transformed(lambda x, chosen: jnp.tanh(x) * len(chosen), count)
    np.testing.assert_array_equal(wrapped(X, {1, 2}), X * 4)
    np.testing.assert_array_equal(wrapped(X, {1, 2, 3}), X * 6)
    assert count.calls == 2


def test_an_error_of_the_function_is_raised_unchanged() -> None:
    def function(x: jax.Array) -> jax.Array:
        if x[0, 0] > 0:
            return x
        return jnp.tanh(x)

    with pytest.raises(jax.errors.TracerBoolConversionError):
        transformed(function)(X)


def test_the_wrapper_keeps_name_and_documentation() -> None:
    def model(x: jax.Array) -> jax.Array:
        """Says something."""
        return x

    assert transformed(model).__name__ == "model" and transformed(model).__doc__ == "Says something."


def test_shapes_may_stand_for_arrays_in_a_trace() -> None:
    traced = trace(lambda x, n: jnp.tanh(x) * n, (jax.ShapeDtypeStruct((2, 3), np.float32), 3), {})
    assert [aval.shape for aval in traced.jaxpr.out_avals] == [(2, 3)]
    assert len(traced.jaxpr.in_avals) == 1
