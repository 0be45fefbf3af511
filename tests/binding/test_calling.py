"""A kernel takes what a JAX function takes: scalars, Python numbers, empty arrays, abstract values."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float, Int

import npu_kernels.language as nl
from npu_kernels import npu_kernel
from npu_kernels.errors import SignatureError


@npu_kernel
def axpy(
    a: Float[nl.Tensor, ""], x: Float[nl.Tensor, "n"], shift: Int[nl.Tensor, ""], *, factor: float = 1.0
) -> tuple[Float[nl.Tensor, "n"], Int[nl.Tensor, ""]]:
    """`factor * a * x`, and the shift."""
    (n,) = x.shape
    out = nl.output(x.shape, x.dtype)
    same = nl.output((), shift.dtype)
    scale = nl.load(a).astype(nl.float32)
    nl.store(same, nl.load(shift))
    for i in nl.parallel(n, step=8):
        tile = nl.load(x[i : i + 8]).astype(nl.float32)
        nl.store(out[i : i + 8], (tile * scale * factor).astype(out.dtype))
    return out, same


def _x(dtype: Any = np.float32) -> Any:
    return np.arange(10, dtype=dtype)


def test_scalars_may_be_traced_and_share_one_executable() -> None:
    before = len(axpy._specialisations)
    f = jax.jit(lambda a, x, shift: axpy(a, x, shift))
    for a in (2.0, -3.0):
        out, same = f(a, _x(), 7)
        np.testing.assert_array_equal(out, a * _x())
        assert (same.shape, int(same)) == ((), 7)
    assert f._cache_size() == 1
    assert len(axpy._specialisations) == before + 1


def test_scalars_may_be_carried_by_a_loop() -> None:
    def body(i: Any, carry: Any) -> Any:
        return axpy(i.astype(jnp.float32), carry, i)[0]

    np.testing.assert_array_equal(jax.lax.fori_loop(1, 4, body, jnp.asarray(_x())), 6 * _x())


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.bfloat16])
def test_python_numbers_take_the_dtype_of_the_other_arguments(dtype: Any, x64: bool) -> None:
    with jax.enable_x64(x64):
        x = jnp.asarray(_x(), dtype)
        for two in (2.0, 2, jnp.asarray(2.0)):  # the last is weakly typed, like everything made of numbers alone
            out, same = axpy(two, x, 3)
            assert (out.dtype, same.dtype) == (dtype, jnp.int32)
            assert not out.weak_type
            np.testing.assert_array_equal(out.astype(np.float32), 2 * _x())
        assert jax.eval_shape(lambda x: axpy(2.0, x, 3)[0], x).dtype == dtype
        (spec,) = {out.type.dtype.name for out in axpy.lower(2.0, jax.ShapeDtypeStruct((10,), dtype), 3).ir.inputs[:1]}
        assert spec == jnp.dtype(dtype).name


def test_a_number_keeps_its_kind_where_the_annotation_asks_for_it() -> None:
    # JAX would promote 3 and an array of floats to floats, which `shift` does not allow.
    assert axpy(1.0, _x(), 3)[1].dtype == jnp.int32
    with pytest.raises(SignatureError, match="NPK-DT01: `shift` is float32, but its annotation"):
        axpy(1.0, _x(), 3.5)


def test_64_bits_are_refused_and_never_rounded() -> None:
    with jax.enable_x64(True), pytest.raises(SignatureError, match="NPK-DT01: `x` is float64"):
        axpy(1.0, jnp.arange(10.0, dtype=jnp.float64), 3)


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_empty_arrays_go_in_and_come_out(wrap: Any) -> None:
    out, same = wrap(lambda x: axpy(2.0, x, 5))(jnp.zeros(0))
    assert (out.shape, out.dtype, int(same)) == ((0,), jnp.float32, 5)


def test_abstract_evaluation_neither_builds_nor_runs(fresh_cache: Any) -> None:
    spec = jax.ShapeDtypeStruct((10,), jnp.float16)
    out, same = jax.eval_shape(lambda x: axpy(2.0, x, 3, factor=5.0), spec)
    assert (out.shape, out.dtype, same.shape, same.dtype) == ((10,), jnp.float16, (), jnp.int32)
    assert not (fresh_cache / "artifacts").exists()


def test_a_jaxpr_and_its_text_name_the_kernel() -> None:
    jaxpr = jax.make_jaxpr(lambda x: axpy(2.0, x, 3))(_x())
    (call,) = [eqn for eqn in jaxpr.eqns if eqn.primitive.name == "npu_kernel_call"]
    assert call.params["kernel"].name == "axpy"
    assert "kernel=axpy" in str(jaxpr)


def test_equal_calls_are_lowered_to_one_function() -> None:
    text = jax.jit(lambda x: axpy(2.0, axpy(2.0, x, 3)[0], 3)).lower(_x()).as_text()
    assert text.count("stablehlo.custom_call @npu_kernels.launch") == 1
    assert text.count("call @npu_kernel_call") == 2


def test_operations_carry_the_name_of_the_kernel_for_profiles() -> None:
    def model(x: Any) -> Any:
        with jax.named_scope("layer"):
            return axpy(2.0, x, 3)

    text = jax.jit(model).lower(_x()).compile().as_text()
    assert text is not None
    assert 'op_name="jit(model)/layer/axpy"' in text
    assert "%axpy" in text  # XLA's profile shows its instructions by name


@pytest.mark.parametrize("tree", [{"x": 1.0}, [(1.0, 2.0), None], (jnp.ones(3), jnp.ones(2))])
def test_a_pytree_is_refused_with_what_to_do(tree: Any) -> None:
    with pytest.raises(SignatureError, match=r"NPK-SG02: .*`x` must be an array, not \w+.*one argument for each leaf"):
        axpy(1.0, tree, 3)
