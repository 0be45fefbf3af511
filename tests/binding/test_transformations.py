"""What a kernel has no rule for is refused in one sentence with a code, whatever JAX does around it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from npu_kernels.errors import TransformError


@pytest.fixture
def f(add_one: Any) -> Any:
    kernel = add_one(4)
    return lambda x: kernel.bind(x, checked=False)[0]


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: jax.grad(lambda x: f(x).sum())(jnp.zeros(4)),
        lambda f: jax.jit(jax.grad(lambda x: f(x).sum()))(jnp.zeros(4)),
        lambda f: jax.jvp(f, (jnp.zeros(4),), (jnp.ones(4),)),
        lambda f: jax.grad(lambda x: jax.checkpoint(f)(x).sum())(jnp.zeros(4)),
    ],
    ids=["grad", "jit-grad", "jvp", "remat"],
)
def test_differentiating_says_which_kernel_has_no_rule_and_what_to_do(f: Any, transform: Any) -> None:
    with pytest.raises(TransformError, match=r"NPK-TR01: kernel add_one has no derivative rule; .*add_one.defvjp"):
        transform(f)


def test_a_custom_vjp_around_the_call_gives_it_a_derivative(f: Any) -> None:
    @jax.custom_vjp
    def g(x: Any) -> Any:
        return f(x)

    g.defvjp(lambda x: (f(x), None), lambda _, ct: (2 * ct,))
    np.testing.assert_array_equal(jax.grad(lambda x: g(x).sum())(jnp.zeros(4)), np.full(4, 2))


def test_an_argument_that_is_not_differentiated_needs_no_rule(f: Any) -> None:
    assert jax.grad(lambda w: (w * f(jnp.zeros(4))).sum())(1.0) == 4


def test_lax_map_runs_a_kernel_over_a_batch(f: Any) -> None:
    np.testing.assert_array_equal(jax.jit(lambda x: jax.lax.map(f, x))(jnp.zeros((3, 4))), np.ones((3, 4)))


def test_another_platform_is_refused_by_name(f: Any) -> None:
    with pytest.raises(TransformError, match=r"NPK-PL01: kernel add_one .* compiled for cuda"):
        jax.jit(f).trace(jnp.zeros(4)).lower(lowering_platforms=("cuda",))


def test_a_branch_that_is_not_taken_does_not_launch(f: Any) -> None:
    g = jax.jit(lambda p, x: jax.lax.cond(p, f, lambda x: x, x))
    np.testing.assert_array_equal(g(True, jnp.zeros(4)), np.ones(4))
    np.testing.assert_array_equal(g(False, jnp.zeros(4)), np.zeros(4))


def test_without_jit_a_kernel_is_still_compiled(f: Any) -> None:
    with jax.disable_jit():
        np.testing.assert_array_equal(f(jnp.zeros(4)), np.ones(4))
        np.testing.assert_array_equal(jax.jit(lambda x: 2 * f(x))(jnp.zeros(4)), np.full(4, 2))


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_debug_nans_names_the_kernel_that_made_one(f: Any, wrap: Any) -> None:
    with jax.debug_nans(True):
        np.testing.assert_array_equal(wrap(f)(jnp.zeros(4)), np.ones(4))
        with pytest.raises(FloatingPointError, match=r"invalid value \(nan\) encountered in add_one"):
            wrap(f)(np.array([1, np.nan, 2, 3], np.float32))


def test_the_result_of_a_shard_differs_between_devices(f: Any) -> None:
    mesh = jax.sharding.AbstractMesh((2,), ("devices",), (jax.sharding.AxisType.Auto,))
    split = jax.sharding.PartitionSpec("devices")
    shards = jax.shard_map(f, mesh=mesh, in_specs=split, out_specs=split)
    assert jax.eval_shape(shards, jnp.zeros(8)).shape == (8,)
    same = jax.shard_map(f, mesh=mesh, in_specs=split, out_specs=jax.sharding.PartitionSpec())
    with pytest.raises(ValueError, match="replicat"):
        jax.eval_shape(same, jnp.zeros(8))
