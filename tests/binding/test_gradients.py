"""A kernel is differentiated by the rule declared beside it, whatever JAX does around it.

The kernel is `y = scale * x * w` on `[rows, dim]` by `[dim]`; its rule is made of itself and of a sum over rows.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads
from jaxtyping import Float, Int

import npu_kernels
import npu_kernels.language as nl
from npu_kernels import npu_kernel, save_kernels
from npu_kernels.binding import launches
from npu_kernels.binding.kernel import Kernel
from npu_kernels.errors import TransformError
from npu_kernels.kernels.rms_norm.pattern import make_pattern

ROWS, DIM = 5, 8


def _times(x: Float[nl.Tensor, "rows dim"], w: Float[nl.Tensor, "dim"], *, scale: float = 2.0):  # type: ignore[no-untyped-def]
    rows, _dim = x.shape
    out = nl.output(x.shape, x.dtype)
    row = nl.load(w)
    for r in nl.parallel(rows, step=4):
        nl.store(out[r : r + 4, :], nl.load(x[r : r + 4, :]) * row * scale)
    return out


def plain(x: Any, w: Any, *, scale: float = 2.0) -> Any:
    return x * w * scale


def fwd(x: Any, w: Any, *, scale: float) -> Any:
    return times(x, w, scale=scale), {"x": x, "w": w}


def bwd(residuals: Any, g: Any, *, scale: float) -> Any:
    return times(g, residuals["w"], scale=scale), jnp.sum(g * residuals["x"], axis=0) * scale


def jvp(primals: Any, tangents: Any, *, scale: float) -> Any:
    (x, w), (dx, dw) = primals, tangents
    return by_jvp(x, w, scale=scale), plain(dx, w, scale=scale) + plain(x, dw, scale=scale)


times = npu_kernel(_times)
times.defvjp(fwd, bwd)
by_jvp = npu_kernel(_times)
by_jvp.defjvp(jvp)
by_reference = npu_kernel(reference=plain)(_times)
by_both = npu_kernel(reference=plain)(_times)
by_both.defvjp(
    lambda x, w, scale: (plain(x, w, scale=scale), {"x": x, "w": w}),
    lambda r, g, scale: (g * r["w"] * scale, jnp.sum(g * r["x"], axis=0) * scale),
)
KINDS = {"vjp": times, "jvp": by_jvp, "reference": by_reference, "vjp and reference": by_both}
#: Which of them have a forward mode.
FORWARD = {name: kernel for name, kernel in KINDS.items() if kernel is not times}

each = pytest.mark.parametrize("kernel", KINDS.values(), ids=KINDS)
each_forward = pytest.mark.parametrize("kernel", FORWARD.values(), ids=FORWARD)


@npu_kernel
def parts(x: Float[nl.Tensor, "n"], index: Int[nl.Tensor, "n"]) -> tuple[nl.Tensor, nl.Tensor, nl.Tensor]:
    """`2 x`, `3 x` and the index: several results, and integers in and out."""
    double, triple = nl.output(x.shape, x.dtype), nl.output(x.shape, x.dtype)
    same = nl.output(index.shape, index.dtype)
    t = nl.load(x)
    nl.store(double, t * 2.0)
    nl.store(triple, t * 3.0)
    nl.store(same, nl.load(index))
    return double, triple, same


def _norm(x: Float[nl.Tensor, "rows dim"], w: Float[nl.Tensor, "dim"], *, eps: float) -> Float[nl.Tensor, "rows dim"]:
    rows, _dim = x.shape
    out = nl.output(x.shape, x.dtype)
    row = nl.load(w)
    for r in nl.parallel(rows, step=4):
        t = nl.load(x[r : r + 4, :])
        nl.store(out[r : r + 4, :], t * nl.rsqrt(nl.mean(t * t, axis=-1, keepdims=True) + eps) * row)
    return out


norm = npu_kernel(_norm)
seen_cotangents: list[Any] = []


def _parts_bwd(_residuals: Any, cotangents: Any) -> Any:
    seen_cotangents.append(cotangents)
    return cotangents[0] * 2 + cotangents[1] * 3, None


parts.defvjp(lambda x, index: (parts(x, index), ()), _parts_bwd)


def _arrays(dtype: Any = np.float32) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    # Small integers: every product and sum below is exact, so results are compared bit by bit.
    return rng.integers(-4, 5, (ROWS, DIM)).astype(dtype), rng.integers(-4, 5, DIM).astype(dtype)


def _loss(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    return lambda x, w: jnp.sum(jnp.square(function(x, w)))


def _same(ours: Any, theirs: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, ours, theirs)


WAYS: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "grad": lambda f: jax.grad(_loss(f), (0, 1)),
    "jit of grad": lambda f: jax.jit(jax.grad(_loss(f), (0, 1))),
    "grad of jit": lambda f: jax.grad(jax.jit(_loss(f)), (0, 1)),
    "jit inside": lambda f: jax.grad(_loss(jax.jit(f)), (0, 1)),
    "one argument": lambda f: jax.grad(_loss(f), 1),
    "remat": lambda f: jax.grad(_loss(jax.checkpoint(f)), (0, 1)),
    "jit of remat": lambda f: jax.jit(jax.grad(_loss(jax.checkpoint(f)), (0, 1))),
    "cond": lambda f: jax.grad(_loss(lambda x, w: jax.lax.cond(x[0, 0] > -9, f, lambda x, w: x, x, w)), (0, 1)),
    "scan": lambda f: jax.grad(
        _loss(lambda x, w: jax.lax.scan(lambda c, _: (f(c, w), c.sum()), x, None, length=2)[0]), (0, 1)
    ),
    "jit of scan of remat": lambda f: jax.jit(
        jax.grad(_loss(lambda x, w: jax.lax.scan(jax.checkpoint(lambda c, _: (f(c, w), None)), x, None, 2)[0]), (0, 1))
    ),
    "vjp": lambda f: lambda x, w: jax.vjp(f, x, w)[1](jnp.ones_like(x)),
    "linear_transpose of linearize": lambda f: (
        lambda x, w: jax.linear_transpose(jax.linearize(f, x, w)[1], x, w)(jnp.ones_like(x))
    ),
    "grad of grad": lambda f: jax.grad(lambda x, w: jnp.sum(jax.grad(_loss(f), 1)(x, w) ** 2), (0, 1)),
    "jit of grad of grad": lambda f: jax.jit(
        jax.grad(lambda x, w: jnp.sum(jax.grad(jax.jit(_loss(f)), 1)(x, w) ** 2), (0, 1))
    ),
    "custom_vjp around": lambda f: jax.grad(_loss(_wrapped(f)), (0, 1)),
}


def _wrapped(f: Callable[..., Any]) -> Any:
    wrapped = jax.custom_vjp(f)
    wrapped.defvjp(lambda x, w: jax.vjp(f, x, w), lambda pullback, g: pullback(g))
    return wrapped


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@each
def test_reverse_mode_agrees_with_jax_on_the_plain_function(kernel: Kernel, way: Any) -> None:
    _same(way(kernel)(*_arrays()), way(plain)(*_arrays()))


FORWARD_WAYS: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "jvp": lambda f: lambda x, w: jax.jvp(f, (x, w), (x + 1, w - 1)),
    "jit of jvp": lambda f: jax.jit(lambda x, w: jax.jvp(f, (x, w), (x + 1, w - 1))),
    "jvp of one": lambda f: lambda x, w: jax.jvp(lambda w: f(x, w), (w,), (w - 1,)),
    "linearize": lambda f: lambda x, w: jax.linearize(f, x, w)[1](x + 1, w - 1),
    "jit of linearized": lambda f: lambda x, w: jax.jit(jax.linearize(f, x, w)[1])(x + 1, w - 1),
    "vmap of linearized": lambda f: (
        lambda x, w: jax.vmap(jax.linearize(f, x, w)[1], (0, None))(jnp.stack([x, x + 1]), w)
    ),
    "transpose of vmap of linearized": lambda f: (
        lambda x, w: jax.linear_transpose(jax.vmap(jax.linearize(f, x, w)[1], (0, None)), jnp.stack([x, x]), w)(
            jnp.stack([x, x + 1])
        )
    ),
    "while": lambda f: (
        lambda x, w: jax.jvp(
            lambda x: jax.lax.while_loop(lambda c: c[1] < 2, lambda c: (f(c[0], w), c[1] + 1), (x, 0))[0],
            (x,),
            (x + 1,),
        )
    ),
    "jvp of grad": lambda f: lambda x, w: jax.jvp(lambda x: jax.grad(_loss(f))(x, w), (x,), (x + 1,)),
    "grad of jvp": lambda f: jax.grad(lambda x, w: jnp.sum(jax.jvp(f, (x, w), (x * x, w * w))[1] ** 2), (0, 1)),
    "jvp of jvp": lambda f: (
        lambda x, w: jax.jvp(lambda x, w: jax.jvp(f, (x, w), (x * x, w * w))[1], (x, w), (x + 1, w - 1))
    ),
}


@pytest.mark.parametrize("way", FORWARD_WAYS.values(), ids=FORWARD_WAYS)
@each_forward
def test_forward_mode_agrees_with_jax_on_the_plain_function(kernel: Kernel, way: Any) -> None:
    _same(way(kernel)(*_arrays()), way(plain)(*_arrays()))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_numerical_derivatives_agree(dtype: Any) -> None:
    check_grads(lambda x, w: times(x, w), _arrays(), order=2, modes=["rev"], atol=1e-2, rtol=1e-2)
    x, w = _arrays(dtype)
    g = jax.grad(lambda x: jnp.sum(times(x, w)))(x)
    np.testing.assert_array_equal(g, np.broadcast_to(w * 2, g.shape))


def test_statics_reach_every_rule() -> None:
    x, w = _arrays()
    for kernel in KINDS.values():
        g = jax.grad(lambda x, kernel=kernel: jnp.sum(kernel(x, w, scale=3.0)))(x)
        np.testing.assert_array_equal(g, np.broadcast_to(3 * w, x.shape))


def test_the_backward_kernel_is_what_runs() -> None:
    x, w = _arrays()
    before = launches()["_times"]
    jax.block_until_ready(jax.jit(jax.grad(lambda x: jnp.sum(times(x, w) ** 2)))(x))
    assert launches()["_times"] - before == 2


# ----------------------------------------------------------------------------------------------------
# Several results, integers, zeros


def test_several_results_and_integers() -> None:
    x, index = jnp.arange(8.0), jnp.arange(8)

    def loss(x: Any) -> Any:
        double, triple, same = parts(x, index)
        return jnp.sum(double) + 2 * jnp.sum(triple) + jnp.sum(same)

    np.testing.assert_array_equal(jax.grad(loss)(x), np.full(8, 2 + 2 * 3))
    np.testing.assert_array_equal(jax.jit(jax.grad(loss))(x), np.full(8, 8))


def test_cotangents_of_unused_and_of_integer_results_are_zeros() -> None:
    seen_cotangents.clear()
    g = jax.grad(lambda x: jnp.sum(parts(x, jnp.arange(8))[0]))(jnp.arange(8.0))
    np.testing.assert_array_equal(g, np.full(8, 2.0))
    ((double, triple, same),) = seen_cotangents
    np.testing.assert_array_equal(double, np.ones(8))
    np.testing.assert_array_equal(triple, np.zeros(8))
    assert (same.dtype, same.shape) == (jax.dtypes.float0, (8,))


def test_the_cotangent_of_an_integer_argument_is_float0() -> None:
    x, index = jnp.arange(8.0), jnp.arange(8)
    _, pullback = jax.vjp(lambda x, i: parts(x, i)[0], x, index)
    dx, di = pullback(jnp.ones(8))
    np.testing.assert_array_equal(dx, np.full(8, 2.0))
    assert di.dtype == jax.dtypes.float0
    g = jax.grad(lambda x, i: jnp.sum(parts(x, i)[1]), (0, 1), allow_int=True)(x, index)[1]
    assert g.dtype == jax.dtypes.float0


def test_a_rule_may_answer_none_for_zero() -> None:
    kernel = npu_kernel(_times)
    kernel.defvjp(lambda x, w, scale: (times(x, w, scale=scale), None), lambda _, g, scale: (None, jnp.sum(g, 0)))
    for wrap in (lambda f: f, jax.jit):
        dx, dw = wrap(jax.grad(lambda x, w: jnp.sum(kernel(x, w)), (0, 1)))(*_arrays())
        np.testing.assert_array_equal(dx, np.zeros((ROWS, DIM)))
        np.testing.assert_array_equal(dw, np.full(DIM, ROWS))


def test_a_substituted_function_is_differentiated_by_the_rules_of_its_kernels() -> None:
    seen: list[Any] = []

    def norm_bwd(residuals: Any, g: Any, *, eps: float) -> Any:
        seen.append(g.shape)
        return jax.vjp(lambda x, w: model(x, w), *residuals)[1](g)

    norm.defvjp(lambda x, w, eps: (norm(x, w, eps=eps), (x, w)), norm_bwd)

    def model(x: Any, w: Any) -> Any:
        return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * w

    pattern = make_pattern(lambda x, w, *, eps, dtype: norm(x, w, eps=eps))
    fast = npu_kernels.substitute(model, patterns=[pattern])
    x, w = _arrays()
    for wrap in (lambda f: f, jax.jit):
        ours = wrap(jax.grad(_loss(fast), (0, 1)))(x, w)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4),
            ours,
            jax.grad(_loss(model), (0, 1))(x, w),
        )
    assert seen[0] == (ROWS, DIM)


def _declare(kernel: Kernel, factor: float) -> None:
    """A rule that is `factor` times the derivative, so that it can be told from others."""
    kernel.defvjp(
        lambda x, w, scale: (kernel(x, w, scale=scale), (x, w)),
        lambda r, g, scale: (factor * g * r[1] * scale, factor * jnp.sum(g * r[0], axis=0) * scale),
    )


def test_a_substituted_function_takes_a_rule_that_is_declared_after_its_first_call() -> None:
    kernel = npu_kernel(_norm)

    def model(x: Any, w: Any) -> Any:
        return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * w

    pattern = make_pattern(lambda x, w, *, eps, dtype: kernel(x, w, eps=eps))
    fast = npu_kernels.substitute(model, patterns=[pattern])
    x, w = _arrays()
    fast(x, w)
    with pytest.raises(TransformError, match="NPK-TR01"):
        jax.grad(_loss(fast))(x, w)
    kernel.defvjp(lambda x, w, eps: (kernel(x, w, eps=eps), x), lambda x, g, eps: (jnp.full_like(x, 3.0), None))
    for wrap in (lambda f: f, jax.jit):
        np.testing.assert_array_equal(wrap(jax.grad(_loss(fast)))(x, w), np.full_like(x, 3.0))


def _ways(kernel: Kernel) -> dict[str, Callable[..., Any]]:
    """Functions of `(x, w)` that JAX or we keep a trace of, and that are gradients of the kernel's sum."""

    def total(x: Any, w: Any) -> Any:
        return jnp.sum(kernel(x, w))

    def rows(x: Any, w: Any) -> Any:
        return jnp.sum(jax.vmap(lambda row: kernel(row[None], w)[0])(x))

    fast = npu_kernels.substitute(total)
    return {
        "grad": jax.grad(total),
        "grad of jit": jax.grad(jax.jit(total)),
        "jit of grad": jax.jit(jax.grad(total)),
        "grad of vmap": jax.grad(rows),
        "grad of jit of vmap": jax.grad(jax.jit(rows)),
        "grad of substitute": jax.grad(fast),
        "jit of grad of remat": jax.jit(jax.grad(jax.checkpoint(total))),
        "grad of scan": jax.grad(lambda x, w: jax.lax.scan(lambda c, _: (c + total(x, w), None), 0.0, None, 1)[0]),
    }


@pytest.mark.parametrize("way", _ways(times))
@pytest.mark.parametrize("first", ["no rule", "vjp", "reference"])
def test_a_rule_declared_later_holds_for_calls_that_are_traced_already(way: str, first: str) -> None:
    reference = (lambda x, w, scale: 5 * plain(x, w, scale=scale)) if first == "reference" else None
    kernel = npu_kernel(reference=reference)(_times)
    if first == "vjp":
        _declare(kernel, 5)
    gradient, (x, w) = _ways(kernel)[way], _arrays()
    jax.jit(kernel)(x, w)
    if first == "no rule":
        with pytest.raises(TransformError, match="NPK-TR01"):
            gradient(x, w)
    else:
        np.testing.assert_allclose(gradient(x, w), np.broadcast_to(10 * w, x.shape), rtol=1e-6)
    _declare(kernel, 7)
    np.testing.assert_allclose(gradient(x, w), np.broadcast_to(14 * w, x.shape), rtol=1e-6)


def test_a_derivative_under_way_keeps_the_rule_it_began_with() -> None:
    kernel = npu_kernel(_times)
    _declare(kernel, 1)
    x, w = _arrays()
    _, pullback = jax.vjp(kernel, x, w)
    kernel.defvjp(lambda x, w, scale: (kernel(x, w, scale=scale), None), lambda _, g, scale: (None, None))
    np.testing.assert_allclose(pullback(jnp.ones_like(x))[0], np.broadcast_to(2 * w, x.shape), rtol=1e-6)


def test_a_rule_that_nothing_was_differentiated_by_clears_no_cache() -> None:
    kernel, (x, w) = npu_kernel(_times), _arrays()
    traces: list[int] = []

    @jax.jit
    def counted(x: Any) -> Any:
        traces.append(1)
        return kernel(x, w)

    counted(x)
    _declare(kernel, 1)
    counted(x)
    assert len(traces) == 1


def test_results_that_nothing_depends_on_cost_no_backward_call() -> None:
    seen_cotangents.clear()
    jax.grad(lambda x: jnp.sum(x) + jax.lax.stop_gradient(jnp.sum(parts(x, jnp.arange(8))[0])))(jnp.arange(8.0))
    assert seen_cotangents == []


# ----------------------------------------------------------------------------------------------------
# jax.checkpoint


@pytest.mark.parametrize("kernel", [times, by_reference], ids=["vjp", "reference"])
@pytest.mark.parametrize(
    ("policy", "again"),
    [
        (None, 1),
        (save_kernels("_times"), 0),
        (save_kernels("_ti*"), 0),
        (save_kernels("another"), 1),
        (jax.checkpoint_policies.save_only_these_names("npu_kernels._times"), 0),
        (jax.checkpoint_policies.everything_saveable, 0),
    ],
    ids=["none", "name", "pattern", "other name", "names of JAX", "everything"],
)
def test_a_checkpoint_policy_can_name_a_kernel(kernel: Kernel, policy: Any, again: int) -> None:
    x, w = _arrays()

    def loss(x: Any) -> Any:
        # The sine makes the result of the kernel a value that its backward pass needs.
        return jnp.sum(jnp.sin(jax.checkpoint(lambda x: jnp.sin(kernel(x, w)), policy=policy)(x)))

    text = str(jax.make_jaxpr(jax.grad(loss))(x))
    forward_and_backward = 2 if kernel is times else 1
    assert text.count("npu_kernel_call[") == forward_and_backward + again
    _same(jax.jit(jax.grad(loss))(x), jax.jit(jax.grad(lambda x: jnp.sum(jnp.sin(jnp.sin(kernel(x, w))))))(x))


def test_a_checkpoint_policy_can_name_a_kernel_that_is_not_differentiated() -> None:
    x, w = _arrays()

    def loss(v: Any) -> Any:
        return jnp.sum(jax.checkpoint(lambda v: jnp.sin(v * times(x, w)), policy=save_kernels("_times"))(v))

    assert str(jax.make_jaxpr(jax.grad(loss))(1.0)).count("npu_kernel_call[") == 1


# ----------------------------------------------------------------------------------------------------
# Batches: what a batching rule builds on


def test_rules_can_be_batched() -> None:
    x, w = _arrays()
    rules = by_both._specialise({"x": jnp.asarray(x), "w": jnp.asarray(w)}, {"scale": 2.0}).call.rules
    assert rules is not None
    xs = jnp.stack([x, x + 1, x - 1], axis=1)
    many = rules.batched((1, None), 3)
    assert many.forward is not None and many.pullback is not None
    (result,), residuals = many.forward([xs, jnp.asarray(w)])
    np.testing.assert_array_equal(result, np.moveaxis(xs, 1, 0) * w * 2)
    assert sorted(leaf.size for leaf in jax.tree.leaves(residuals)) == [DIM, 3 * ROWS * DIM]  # w is not copied
    dx, dw = many.pullback(residuals, [jnp.ones_like(result)])
    np.testing.assert_array_equal(dx, np.broadcast_to(2 * w, xs.shape))
    np.testing.assert_array_equal(dw, 2 * np.sum(xs, axis=(0, 1)))


@pytest.mark.parametrize("kernel", [by_reference, by_jvp], ids=["reference", "jvp"])
def test_forward_rules_can_be_batched(kernel: Kernel) -> None:
    x, w = _arrays()
    rules = kernel._specialise({"x": jnp.asarray(x), "w": jnp.asarray(w)}, {"scale": 2.0}).call.rules
    assert rules is not None
    ws = jnp.stack([w, w + 1])
    many = rules.batched((None, 0), 2, out_axes=1)
    if many.pullback is not None:
        dx, dw = many.pullback([jnp.asarray(x), ws], [jnp.ones((ROWS, 2, DIM))])
        np.testing.assert_array_equal(dx, np.broadcast_to(2 * ws.sum(0), x.shape))
        np.testing.assert_array_equal(dw, np.broadcast_to(2 * x.sum(0), ws.shape))
    assert many.pushforward is not None
    if kernel is by_reference:  # the jvp rule calls a kernel, for which batching is another rule's matter
        results, tangents = many.pushforward([jnp.asarray(x), ws], [None, jnp.ones_like(ws)])
        np.testing.assert_array_equal(results[0], np.stack([x * ws[0], x * ws[1]], 1) * 2)
        np.testing.assert_array_equal(tangents[0], np.stack([x, x], 1) * 2)


def test_a_gradient_inside_vmap_needs_batching_of_ordinary_functions_only() -> None:
    kernel = npu_kernel(_times)
    kernel.defvjp(lambda x, w, scale: (plain(x, w, scale=scale), (x, w)), lambda r, g, scale: (g * r[1] * scale, None))
    x, w = _arrays()
    g = jax.vmap(jax.grad(lambda w, x: jnp.sum(kernel(x, w)), 1), (0, None))(jnp.stack([w, w + 1]), x)
    np.testing.assert_array_equal(g, np.stack([np.broadcast_to(2 * w, x.shape), np.broadcast_to(2 * (w + 1), x.shape)]))


# ----------------------------------------------------------------------------------------------------
# What is refused, and what is said


def _broken(**changed: Any) -> Kernel:
    kernel = npu_kernel(_times)
    kernel.defvjp(
        changed.get("fwd", lambda x, w, scale: (times(x, w, scale=scale), (x, w))),
        changed.get("bwd", lambda r, g, scale: (g, r[1])),
    )
    return kernel


@pytest.mark.parametrize(
    ("kernel", "sentence"),
    [
        (
            _broken(bwd=lambda r, g, scale: (g[:, :3], r[1])),
            r"bwd returned the cotangent of `x` with shape \(5, 3\), but it must have shape \(5, 8\)",
        ),
        (
            _broken(bwd=lambda r, g, scale: (g, r[1].astype(jnp.float16))),
            r"bwd returned the cotangent of `w` as float16, but it must be float32",
        ),
        (
            _broken(bwd=lambda r, g, scale: (g,)),
            r"bwd returned 1 cotangents, but the kernel has 2 array arguments \(x, w",
        ),
        (_broken(bwd=lambda r, g, scale: g), r"bwd must return a tuple .* it returned an array of shape \(5, 8\)"),
        (_broken(bwd=lambda r, g, scale: (g, "w")), r"bwd returned 'w' of type str as the cotangent of `w`"),
        (_broken(fwd=lambda x, w, scale: x), r"fwd must return a pair \(result, residuals\), but it returned an array"),
        (
            _broken(fwd=lambda x, w, scale: (x[:2], None)),
            r"fwd returned the result with shape \(2, 8\), but it must have shape \(5, 8\)",
        ),
        (_broken(fwd=lambda x, w, scale: ((x, x), None)), "fwd returned 2 arrays as its result, but the kernel has 1"),
        (
            _broken(fwd=lambda x, w, scale: (x, {"mode": "fast"})),
            r"the residuals of fwd must be arrays, but residuals\['mode'\] is 'fast' of type str",
        ),
        (
            npu_kernel(reference=lambda x, w, scale: x[0])(_times),
            r"the reference returned the result with shape \(8,\)",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_a_rule_that_returns_the_wrong_thing_is_named_at_the_line_of_the_call(
    kernel: Kernel, sentence: str, wrap: Any
) -> None:
    x, w = _arrays()

    def loss(x: Any, w: Any) -> Any:
        return jnp.sum(kernel(x, w))  # the line

    with pytest.raises(TransformError, match=f"NPK-TR02: derivative of kernel _times: .*{sentence}") as caught:
        wrap(jax.grad(loss, (0, 1)))(x, w)
    line = loss.__code__.co_firstlineno + 1
    assert caught.value.location == f"{__file__}:{line}"


def test_a_cotangent_for_an_integer_is_refused() -> None:
    kernel = npu_kernel(parts.__wrapped__)
    kernel.defvjp(lambda x, i: (parts(x, i), ()), lambda _, g: (g[0], g[1]))
    with pytest.raises(TransformError, match="`index` is int32, so bwd must return None as its cotangent"):
        jax.grad(lambda x: jnp.sum(kernel(x, jnp.arange(8))[0]))(jnp.arange(8.0))


@pytest.mark.parametrize(
    ("transform", "backwards_first"),
    [
        (lambda f, x: jax.jvp(f, (x,), (x,)), False),
        (lambda f, x: jax.jit(lambda x: jax.jvp(f, (x,), (x,)))(x), False),
        (lambda f, x: jax.linearize(f, x)[1](x), False),
        (lambda f, x: jax.jacfwd(f)(x), False),
        (lambda f, x: jax.grad(lambda x: jnp.sum(jax.jvp(f, (x,), (x,))[1]))(x), False),
        (lambda f, x: jax.hessian(lambda x: jnp.sum(f(x) ** 2))(x), True),
    ],
    ids=["jvp", "jit-jvp", "linearize", "jacfwd", "grad-of-jvp", "hessian"],
)
def test_forward_mode_without_a_rule_is_one_sentence(transform: Any, backwards_first: bool) -> None:
    x, w = _arrays()

    def f(x: Any) -> Any:
        return times(x, w)  # the line

    with pytest.raises(TransformError, match=r"NPK-TR01: kernel _times has no rule for forward mode") as caught:
        transform(f, x)
    # Of a gradient, what has no forward mode is the kernel inside `fwd`.
    call = fwd.__code__.co_firstlineno if backwards_first else f.__code__.co_firstlineno
    assert caught.value.location == f"{__file__}:{call + 1}"


def test_a_kernel_without_a_rule_is_named_at_the_line_of_the_call() -> None:
    kernel = npu_kernel(_times)
    x, w = _arrays()

    def loss(x: Any) -> Any:
        return jnp.sum(kernel(x, w))  # the line

    for f in (loss, jax.jit(loss)):
        with pytest.raises(TransformError, match=r"NPK-TR01: kernel _times has no derivative rule; .*defvjp") as caught:
            jax.grad(f)(x)
        assert caught.value.location == f"{__file__}:{loss.__code__.co_firstlineno + 1}"


def test_the_way_through_the_reference_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    @npu_kernel(reference=lambda x, w, scale: plain(x, w, scale=scale))
    def said(x: Float[nl.Tensor, "rows dim"], w: Float[nl.Tensor, "dim"], *, scale: float = 2.0) -> nl.Tensor:
        out = nl.output(x.shape, x.dtype)
        nl.store(out, nl.load(x) * nl.load(w) * scale)
        return out

    x, w = _arrays()
    with caplog.at_level(logging.WARNING, "npu_kernels"):
        for _ in range(3):
            jax.grad(lambda x: jnp.sum(said(x, w)))(x)
    assert [record.getMessage() for record in caplog.records] == [
        "kernel said has no derivative kernel: it is differentiated through its reference"
    ]


def test_a_kernel_called_on_tangents_is_transposed_by_its_own_rule() -> None:
    kernel = npu_kernel(_times)

    def rule(primals: Any, tangents: Any, *, scale: float) -> Any:
        (x, w), (dx, dw) = primals, tangents
        return times(x, w, scale=scale), times(dx, w, scale=scale) + plain(x, dw, scale=scale)

    kernel.defjvp(rule)
    way = WAYS["jit of grad"]
    _same(way(kernel)(*_arrays()), way(plain)(*_arrays()))
    _same(FORWARD_WAYS["grad of jvp"](kernel)(*_arrays()), FORWARD_WAYS["grad of jvp"](plain)(*_arrays()))


def test_a_kernel_called_on_tangents_without_a_rule_is_named() -> None:
    bare = npu_kernel(_times)
    kernel = npu_kernel(_times)
    kernel.defjvp(lambda p, t, scale: (times(*p, scale=scale), bare(t[0], p[1], scale=scale)))
    x, w = _arrays()
    with pytest.raises(TransformError, match="NPK-TR01: kernel _times is called on tangents"):
        jax.grad(lambda x: jnp.sum(kernel(x, w)))(x)


def test_every_case_has_its_row_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "transformations.md").read_text()
    table = page[page.index("| Transformation |") : page.index("- R: ")]
    assert set(re.findall(r'"([^"\n]+)"', table)) == WAYS.keys() | FORWARD_WAYS.keys()
