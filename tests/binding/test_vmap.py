"""``jax.vmap`` of kernels: one call with the batch as a parallel dimension, whatever the axes."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float, Int32

import npu_kernels.language as nl
from npu_kernels import ir, npu_kernel, substitute
from npu_kernels.binding import launches, reset_launches
from npu_kernels.errors import LoweringError, TransformError
from npu_kernels.kernels import attention, rms_norm

ROWS, DIM, BATCH = 3, 40, 5


@npu_kernel
def scaled_row(
    x: Float[nl.Tensor, "dim"], factor: Float[nl.Tensor, ""], *, negate: bool = False
) -> tuple[Float[nl.Tensor, "dim"], Float[nl.Tensor, "1"]]:
    """Two results, a scalar and a static."""
    out, top = nl.output(x.shape, x.dtype), nl.output((1,), x.dtype)
    t = nl.load(x) * nl.load(factor[...])
    nl.store(out, -t if negate else t)
    nl.store(top[0], nl.max(t))
    return out, top


@npu_kernel
def softmax(x: Float[nl.Tensor, "rows dim"], weight: Float[nl.Tensor, "dim"]) -> Float[nl.Tensor, "rows dim"]:
    """What stands before its parallel loop is needed inside."""
    out = nl.output(x.shape, x.dtype)
    scale = nl.load(weight)
    for r in nl.parallel(x.shape[0], step=2):
        t = nl.load(x[r : r + 2, :])
        e = nl.exp(t - nl.max(t, axis=-1, keepdims=True))
        nl.store(out[r : r + 2, :], e / nl.sum(e, axis=-1, keepdims=True) * scale)
    return out


def plain_row(x: Any, factor: Any, *, negate: bool = False) -> tuple[Any, Any]:
    t = x * factor
    return (-t if negate else t), t.max(keepdims=True)


def plain_softmax(x: Any, weight: Any) -> Any:
    return jax.nn.softmax(x) * weight


def normal(*shape: int, seed: int = 0) -> Any:
    return jax.random.normal(jax.random.key(seed), shape)


def agree(got: Any, expected: Any, atol: float = 1e-6) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=atol), got, expected)


@pytest.fixture(autouse=True)
def _count_from_zero() -> None:
    reset_launches()


@pytest.mark.parametrize("in_axes", [(0, None), (1, 0), (None, 0), (-1, -1)])
def test_results_scalars_and_statics(in_axes: Any) -> None:
    x = normal(DIM) if in_axes[0] is None else jnp.moveaxis(normal(BATCH, DIM), 0, in_axes[0])
    factor = jnp.float32(2) if in_axes[1] is None else normal(BATCH, seed=1)
    for negate in (False, True):
        got = jax.vmap(lambda x, f, n=negate: scaled_row(x, f, negate=n), in_axes)(x, factor)
        agree(got, jax.vmap(lambda x, f, n=negate: plain_row(x, f, negate=n), in_axes)(x, factor))
    assert launches() == {"scaled_row": 2}


@pytest.mark.parametrize("in_axes", [(0, None), (1, 0), (2, None), (0, 1), (None, 0)])
def test_batch_axes_of_any_place(in_axes: Any) -> None:
    x = normal(ROWS, DIM) if in_axes[0] is None else jnp.moveaxis(normal(BATCH, ROWS, DIM), 0, in_axes[0])
    weight = normal(DIM) if in_axes[1] is None else jnp.moveaxis(normal(BATCH, DIM, seed=1), 0, in_axes[1])
    for out_axes in (0, -1):
        got = jax.jit(jax.vmap(softmax, in_axes, out_axes))(x, weight)
        agree(got, jax.vmap(plain_softmax, in_axes, out_axes)(x, weight))
    assert launches() == {"softmax": 2}


def test_no_operand_is_copied_where_the_chip_can_read_it() -> None:
    jaxpr = str(jax.make_jaxpr(jax.vmap(softmax, (1, None)))(normal(ROWS, BATCH, DIM), normal(DIM)))
    assert "transpose" not in jaxpr and "broadcast" not in jaxpr
    assert jaxpr.count("npu_kernel_call") == 1


def test_a_batch_axis_that_the_chip_cannot_read_is_moved_first() -> None:
    """Rows of tiles must be contiguous, which they are not behind a last batch axis."""
    jaxpr = str(jax.make_jaxpr(jax.vmap(softmax, (2, None)))(normal(ROWS, DIM, BATCH), normal(DIM)))
    assert jaxpr.count("transpose") == 1 and jaxpr.count("npu_kernel_call") == 1


def test_nested() -> None:
    x, weight = normal(2, BATCH, ROWS, DIM), normal(2, DIM, seed=1)
    fn = jax.vmap(jax.vmap(softmax, (0, None)), (0, 0))
    agree(fn(x, weight), jax.vmap(jax.vmap(plain_softmax, (0, None)), (0, 0))(x, weight))
    crossed = jax.vmap(jax.vmap(softmax, (1, None), 1), (1, None), 1)
    y = normal(ROWS, 2, BATCH, DIM)
    agree(crossed(y, weight[0]), jax.vmap(jax.vmap(plain_softmax, (1, None), 1), (1, None), 1)(y, weight[0]))
    assert launches() == {"softmax": 2}


def test_equal_batches_are_one_call() -> None:
    def twice(x: Any, weight: Any) -> Any:
        f = jax.vmap(softmax, (0, None))
        return f(f(x, weight), weight)

    module = jax.jit(twice).lower(normal(BATCH, ROWS, DIM), normal(DIM)).as_text()
    assert module.count("npu_kernels.launch") == 1, "one outlined function"


def test_names_of_the_batch_axis() -> None:
    x, weight = normal(BATCH, ROWS, DIM), normal(DIM)
    f = jax.vmap(lambda x: softmax(x, weight) - jax.lax.pmean(x, "i"), axis_name="i", axis_size=BATCH)
    agree(f(x), jax.vmap(lambda x: plain_softmax(x, weight))(x) - x.mean(0))
    agree(jax.vmap(softmax, (0, None), spmd_axis_name="data")(x, weight), jax.vmap(plain_softmax, (0, None))(x, weight))


def test_calls_that_share_everything_are_one_call() -> None:
    got = jax.vmap(softmax, (None, None), axis_size=BATCH)(normal(ROWS, DIM), normal(DIM))
    agree(got, jnp.broadcast_to(plain_softmax(normal(ROWS, DIM), normal(DIM)), (BATCH, ROWS, DIM)))


def test_an_empty_batch() -> None:
    out, top = jax.vmap(scaled_row, (0, None))(normal(0, DIM), jnp.float32(1))
    assert out.shape == (0, DIM) and top.shape == (0, 1)
    assert not launches()


def test_control_flow_around_the_batch() -> None:
    def step(carry: Any, weight: Any) -> Any:
        return jax.vmap(softmax, (0, None))(carry, weight), None

    x, weights = normal(BATCH, ROWS, DIM), normal(4, DIM, seed=1)
    got, _ = jax.jit(lambda x, w: jax.lax.scan(step, x, w))(x, weights)
    agree(got, jax.lax.scan(lambda c, w: (jax.vmap(plain_softmax, (0, None))(c, w), None), x, weights)[0])


def test_a_batched_predicate_selects() -> None:
    x, p = normal(BATCH, ROWS, DIM), jnp.arange(BATCH) % 2 == 0
    got = jax.vmap(lambda p, x: jax.lax.cond(p, lambda x: softmax(x, x[0]), lambda x: x, x))(p, x)
    agree(got, jnp.where(p[:, None, None], jax.vmap(lambda x: plain_softmax(x, x[0]))(x), x))


def test_checked_mode_holds_for_the_batch() -> None:
    got = jax.vmap(lambda x, w: softmax(x, w, check=True), (1, None))(normal(ROWS, BATCH, DIM), normal(DIM))
    agree(got, jax.vmap(plain_softmax, (1, None))(normal(ROWS, BATCH, DIM), normal(DIM)))


@npu_kernel
def picked(x: Float[nl.Tensor, "rows dim"], at: Int32[nl.Tensor, ""]) -> Float[nl.Tensor, "dim"]:
    out = nl.output((x.shape[1],), x.dtype)
    nl.store(out, nl.load(x[nl.clip(nl.load(at[...]), 0, x.shape[0] - 1), :]))
    return out


def test_a_position_that_differs_between_calls() -> None:
    x, at = normal(ROWS, DIM), jnp.array([2, 0, 7], jnp.int32)
    agree(jax.vmap(picked, (None, 0))(x, at), x[jnp.array([2, 0, ROWS - 1])])


# ------------------------------------------------------------------------------------------------------
# Derivatives


def test_vmap_and_grad_commute() -> None:
    @npu_kernel
    def square(x: Float[nl.Tensor, "dim"], w: Float[nl.Tensor, "dim"]) -> Float[nl.Tensor, "dim"]:
        out = nl.output(x.shape, x.dtype)
        t = nl.load(x)
        nl.store(out, t * t * nl.load(w))
        return out

    square.defvjp(
        lambda x, w: (square(x, w), (x, w)),
        lambda kept, ct: (2 * kept[0] * kept[1] * ct, square(kept[0], ct)),
    )

    def loss(x: Any, w: Any) -> Any:
        return square(x, w).sum()

    x, w = normal(BATCH, DIM), normal(DIM, seed=1)
    rows = jax.vmap(jax.grad(loss, (0, 1)), (0, None))(x, w)
    agree(rows, (2 * x * w, x * x), 1e-5)
    whole = jax.grad(lambda x, w: jax.vmap(loss, (0, None))(x, w).sum(), (0, 1))(x, w)
    agree(whole, (2 * x * w, (x * x).sum(0)), 1e-5)
    turned = jax.grad(lambda x, w: jax.vmap(loss, (1, None))(x, w).sum(), (0, 1))(x.T, w)
    agree(turned, ((2 * x * w).T, (x * x).sum(0)), 1e-5)
    agree(jax.vmap(jax.vmap(jax.grad(loss), (0, None)), (0, 0))(x[None], w[None]), (2 * x * w)[None], 1e-5)


# ------------------------------------------------------------------------------------------------------
# What cannot be batched, and one call after the other


def test_sequential_calls_one_after_the_other() -> None:
    in_turn = npu_kernel(vmap="sequential")(softmax.__wrapped__)
    x, weight = normal(ROWS, BATCH, DIM), normal(DIM)
    agree(jax.vmap(in_turn, (1, None))(x, weight), jax.vmap(plain_softmax, (1, None))(x, weight))
    assert launches() == {"softmax": BATCH}


def test_a_kernel_given_as_text(add_one: Any) -> None:
    kernel = add_one(4)
    with pytest.raises(TransformError, match=r"NPK-TR01: kernel add_one is given as Ascend C text.*sequential"):
        jax.vmap(lambda x: kernel(x, checked=False)[0])(jnp.zeros((3, 4)))
    kernel.vmap = "sequential"
    np.testing.assert_array_equal(jax.vmap(lambda x: kernel(x, checked=False)[0])(jnp.zeros((3, 4))), np.ones((3, 4)))


def test_a_batch_that_does_not_fit_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise LoweringError("NPK-UB01", "too large", location="kernels.py:7")

    fresh = npu_kernel(softmax.__wrapped__)
    fresh.lower(normal(ROWS, DIM), normal(DIM))
    monkeypatch.setattr("npu_kernels.lowering.lower", refuse)
    with pytest.raises(
        LoweringError, match=r"NPK-UB01: kernel softmax under jax\.vmap, 5 calls at once: too large.*\n"
    ):
        jax.vmap(fresh, (0, None))(normal(BATCH, ROWS, DIM), normal(DIM))


def test_a_wrong_option() -> None:
    with pytest.raises(TypeError, match=r"NPK-SG01: npu_kernel\(vmap=\.\.\.\) takes 'parallel' or 'sequential'"):
        npu_kernel(vmap="loop")  # type: ignore[call-overload]


# ------------------------------------------------------------------------------------------------------
# Library


@pytest.mark.parametrize("axis", [0, 2, 3])
def test_attention(axis: int) -> None:
    q, k = normal(2, 9, 4, 16), normal(2, 12, 2, 16, seed=1)
    batched = jnp.moveaxis(jnp.stack([q, -q, 2 * q]), 0, axis)
    got = jax.vmap(lambda q: attention(q, k, k, is_causal=True), axis)(batched)
    agree(got, jax.vmap(lambda q: jax.nn.dot_product_attention(q, k, k, is_causal=True), axis)(batched), 1e-5)
    assert launches() == {"flash_attention": 1}


def test_rms_norm_and_substitution() -> None:
    def norm(x: Any, w: Any) -> Any:
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * w

    x, w = normal(BATCH, ROWS, DIM), normal(BATCH, DIM, seed=1)
    agree(jax.vmap(lambda x, w: rms_norm(x, w, eps=1e-6))(x, w), jax.vmap(norm)(x, w), 1e-5)
    # Inside: the model is substituted, then batched. Outside: vmap is part of the model.
    agree(jax.vmap(substitute(norm), (0, None))(x, w[0]), jax.vmap(norm, (0, None))(x, w[0]), 1e-5)
    agree(substitute(jax.vmap(norm, (0, None)))(x, w[0]), jax.vmap(norm, (0, None))(x, w[0]), 1e-5)
    assert launches() == {"rms_norm_rows": 3}


def test_the_batched_kernel_is_verified_and_dealt_out_together() -> None:
    lowered = softmax.lower(normal(ROWS, DIM), normal(DIM))
    batched = ir.batch(lowered.ir, [0, None], 7)
    from npu_kernels import lowering

    assert lowering.lower(batched).units == 7 * 2
