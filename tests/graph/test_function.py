"""A function traced, rewritten and called again behaves like the function, once per signature."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from npu_kernels import jax_compat
from npu_kernels.graph.expand import expand
from npu_kernels.graph.function import TraceCache, Traced
from npu_kernels.graph.jaxpr_reader import read_jaxpr
from npu_kernels.graph.jaxpr_writer import rewrite_jaxpr
from npu_kernels.graph.replacement import Replacement

X = np.arange(6, dtype=np.float32).reshape(2, 3)


class Doubled:
    """A function that doubles where the given one takes tanh; counts how often it was traced."""

    def __init__(self, function: Any) -> None:
        functools.update_wrapper(self, function)
        self.traces = 0
        self._cache = TraceCache(function, self._build)

    def _build(self, traced: Traced, extra: Any) -> Any:
        self.traces += 1
        flat = expand(read_jaxpr(traced.jaxpr))
        found = [node for node in flat.walk() if node.op == "tanh"]
        double = [Replacement(node.operands, node.results, lambda x: (x * 2,), "double") for node in found]
        return traced, jax_compat.jaxpr_to_function(rewrite_jaxpr(flat, double))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        arguments, (traced, run) = self._cache.get(args, kwargs)
        return traced.result(run(*arguments.arrays))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return functools.partial(self, instance)


def test_pytrees_keywords_and_static_arguments_pass_through() -> None:
    def function(params: dict[str, Any], *xs: jax.Array, mode: str, scale: float = 1.0) -> dict[str, Any]:
        assert isinstance(scale, float)
        y = sum(jnp.tanh(x) for x in xs) * scale + params["b"][0]
        return {"y": y if mode == "plain" else -y, "mode": mode, "none": None, "count": len(xs)}

    result = Doubled(function)({"b": [np.float32(1)]}, X, X, mode="minus", scale=3.0)
    np.testing.assert_array_equal(result["y"], -(X * 4 * 3.0 + 1))
    assert result["mode"] == "minus" and result["none"] is None and result["count"] == 2


def test_one_trace_per_signature() -> None:
    function = Doubled(lambda x, n: jnp.tanh(x) * n)
    for n in (2, 2, 3, 2.0, True):
        function(X, n)
    assert function.traces == 4, "2, 3, 2.0 and True are four static values"
    function(X[:1], 2)
    function(X.astype(np.float16), 2)
    assert function.traces == 6
    with jax.default_matmul_precision("highest"):
        function(X, 2)
    assert function.traces == 7


def test_numbers_are_traced_by_a_jitted_function_unless_it_says_static() -> None:
    jitted = jax.jit(lambda x, step, power: jnp.tanh(x) * step**power, static_argnames="power")
    function = Doubled(jitted)
    for step in (1, 2, 3):
        np.testing.assert_array_equal(function(X, step, power=2), X * 2 * step**2)
    assert function.traces == 1
    function(X, 1, power=3)
    assert function.traces == 2


def test_static_positions_of_a_jitted_function_are_kept() -> None:
    function = Doubled(jax.jit(lambda f, x: f(jnp.tanh(x)), static_argnums=0))
    np.testing.assert_array_equal(function(jnp.negative, X), -2 * X)


def test_jit_inside_and_outside_give_the_same() -> None:
    def function(x: jax.Array, flag: bool) -> jax.Array:
        return jnp.tanh(x) + 1 if flag else x

    inside = Doubled(jax.jit(function, static_argnums=1))
    outside = jax.jit(Doubled(function), static_argnums=1)
    named = jax.jit(Doubled(function), static_argnames="flag")
    for flag in (True, False):
        np.testing.assert_array_equal(inside(X, flag), outside(X, flag))
        np.testing.assert_array_equal(inside(X, flag), named(X, flag=flag))


def test_donation_inside_still_donates() -> None:
    def function(x: jax.Array) -> jax.Array:
        return jnp.tanh(x)

    donated, kept = jnp.asarray(X), jnp.asarray(X)
    np.testing.assert_array_equal(Doubled(jax.jit(function, donate_argnums=0))(donated), X * 2)
    Doubled(jax.jit(function))(kept)
    assert donated.is_deleted() and not kept.is_deleted()


def test_methods_are_bound() -> None:
    class Model:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @Doubled
        def plain(self, x: Any) -> Any:
            return jnp.tanh(x) * self.scale

        @functools.partial(jax.jit, static_argnums=0)
        def jitted(self, x: Any) -> Any:
            return jnp.tanh(x) * self.scale

    two, three = Model(2), Model(3)
    np.testing.assert_array_equal(two.plain(X), X * 4)
    np.testing.assert_array_equal(three.plain(X), X * 6)
    np.testing.assert_array_equal(Doubled(two.plain)(X), X * 4)
    np.testing.assert_array_equal(Doubled(three.jitted)(X), X * 6)


def test_derivatives_batches_loops_and_effects_go_through(capfd: pytest.CaptureFixture[str]) -> None:
    def function(x: jax.Array) -> jax.Array:
        jax.debug.print("seen {}", x.sum())
        return jnp.tanh(x).sum() ** 2

    wrapped = Doubled(function)
    np.testing.assert_allclose(jax.grad(wrapped)(X), np.full_like(X, 4 * 2 * X.sum()))
    np.testing.assert_allclose(jax.vmap(wrapped)(X), (2 * X.sum(1)) ** 2)
    np.testing.assert_allclose(jax.lax.map(wrapped, X), (2 * X.sum(1)) ** 2)
    jax.effects_barrier()
    assert capfd.readouterr().out.count("seen") == 1 + 2 + 2


def test_a_value_that_is_being_traced_outside_is_not_remembered() -> None:
    outer: dict[str, Any] = {}
    wrapped = Doubled(lambda x: jnp.tanh(x) + outer["bias"])

    @jax.jit
    def function(x: jax.Array, bias: jax.Array) -> Any:
        outer["bias"] = bias
        return wrapped(x)

    for shape in ((2, 3), (1, 3)):
        np.testing.assert_array_equal(function(X, np.full(shape, 5, np.float32)), X * 2 + 5)


def test_an_argument_that_cannot_be_hashed_is_traced_each_time() -> None:
    wrapped = Doubled(lambda x, chosen: jnp.tanh(x) * len(chosen))
    np.testing.assert_array_equal(wrapped(X, {1, 2}), X * 4)
    np.testing.assert_array_equal(wrapped(X, {1, 2, 3}), X * 6)
    assert wrapped.traces == 2


def test_an_error_of_the_function_is_raised_unchanged() -> None:
    def function(x: jax.Array) -> jax.Array:
        if x[0, 0] > 0:
            return x
        return jnp.tanh(x)

    with pytest.raises(jax.errors.TracerBoolConversionError):
        Doubled(function)(X)


def test_what_the_caller_adds_is_part_of_the_key() -> None:
    built: list[Any] = []
    cache = TraceCache(jnp.tanh, lambda traced, extra: built.append(extra))
    for extra in ("a", "b", "a"):
        cache.get((X,), {}, extra)
    assert built == ["a", "b"]


def test_old_signatures_are_forgotten() -> None:
    built: list[float] = []
    cache = TraceCache(lambda x, n: x * n, lambda traced, extra: built.append(0.0))
    for n in range(300):
        cache.get((X, float(n)), {})
    cache.get((X, 299.0), {})
    assert len(built) == 300
    cache.get((X, 0.0), {})
    assert len(built) == 301


def test_shapes_may_stand_for_arrays() -> None:
    cache = TraceCache(lambda x, n: jnp.tanh(x) * n, lambda traced, extra: traced.jaxpr)
    _, jaxpr = cache.get((jax.ShapeDtypeStruct((2, 3), np.float32), 3), {})
    assert [aval.shape for aval in jaxpr.out_avals] == [(2, 3)]
    assert len(jaxpr.in_avals) == 1
