"""A substituted function is the function it was: signatures, transformations, caching, and reports."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from npu_kernels import jax_compat
from npu_kernels.errors import SubstitutionError
from npu_kernels.substitution import EXACT, Pattern, Policy, explain, require, substitute, substitute_module

Patterns = tuple[Pattern, ...]
X = jnp.asarray(np.random.default_rng(0).standard_normal((3, 16)), jnp.float32)
W = jnp.linspace(0.5, 1.5, 16)


def norm(x: Any, w: Any, eps: float = 1e-5) -> Any:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps) * w


def attention(x: Any) -> Any:
    return jax.nn.dot_product_attention(*(x.reshape(1, 3, 2, 8),) * 3, is_causal=True)


def layers(x: Any, ws: Any) -> Any:
    def layer(h: Any, w: Any) -> Any:
        return h + attention(norm(h, w)).reshape(h.shape), None

    return norm(jax.lax.scan(layer, x, ws)[0], W)


def near(got: Any, wanted: Any) -> None:
    np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)


def kernels_in(jaxpr: Any) -> list[str]:
    """Names of the replaced patterns in a jaxpr."""
    names = [e.params["name"] for e in jaxpr.eqns if e.params.get("name") in ("attention", "rms_norm")]
    for eqn in jaxpr.eqns:
        for param in eqn.params.values():
            inner = getattr(param, "jaxpr", param)
            names += kernels_in(inner) if hasattr(inner, "eqns") else []
    return names


def test_the_kernels_are_called(patterns: Patterns) -> None:
    closed = jax.make_jaxpr(substitute(norm, patterns=patterns))(X, W)
    assert kernels_in(closed.jaxpr) == ["rms_norm"]
    primitives = {eqn.primitive.name for eqn in closed.jaxpr.eqns}
    assert "rsqrt" not in primitives


def test_jit_may_be_applied_before_or_after(patterns: Patterns) -> None:
    inside = substitute(jax.jit(norm), patterns=patterns)
    outside = jax.jit(substitute(norm, patterns=patterns))
    near(inside(X, W), norm(X, W))
    near(outside(X, W), norm(X, W))
    assert kernels_in(jax.make_jaxpr(inside)(X, W).jaxpr) == ["rms_norm"]


def test_disabling_jit_changes_nothing(patterns: Patterns) -> None:
    with jax.disable_jit():
        near(substitute(lambda x, w: norm(x, w), patterns=patterns)(X, W), norm(X, W))


def test_a_loop_over_layers_has_one_instance_of_each_layer_pattern(patterns: Patterns) -> None:
    ws = jnp.stack([W, W * 2, W + 1, W - 2])
    assert explain(layers, X, ws, patterns=patterns).counts == {"attention": 1, "rms_norm": 2}
    near(jax.jit(substitute(layers, patterns=patterns))(X, ws), layers(X, ws))


@pytest.mark.parametrize("wrap", ["cond", "while", "remat", "jit", "switch"])
def test_control_flow_is_entered(patterns: Patterns, wrap: str) -> None:
    def function(x: Any, w: Any) -> Any:
        match wrap:
            case "cond":
                return jax.lax.cond(x[0, 0] > -9, lambda: norm(x, w), lambda: x)
            case "while":
                return jax.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, norm(c[1], w)), (0, x))[1]
            case "remat":
                return jax.checkpoint(norm)(x, w)
            case "switch":
                return jax.lax.switch(1, [lambda: x, lambda: norm(x, w)])
        return jax.jit(norm)(x, w)

    report = explain(function, X, W, patterns=patterns)
    assert report.count("rms_norm") == 1, str(report)
    near(substitute(function, patterns=patterns)(X, W), function(X, W))


def test_grad_vmap_and_jvp_see_the_replaced_function(patterns: Patterns) -> None:
    replaced = substitute(norm, patterns=patterns)
    near(jax.grad(lambda x: replaced(x, W).sum())(X), jax.grad(lambda x: norm(x, W).sum())(X))
    near(jax.vmap(replaced, (0, None))(X, W), norm(X, W))
    near(jax.jvp(lambda x: replaced(x, W), (X,), (X,))[1], jax.jvp(lambda x: norm(x, W), (X,), (X,))[1])


def test_a_substituted_gradient_keeps_what_the_backward_pass_reads(patterns: Patterns) -> None:
    def loss(x: Any) -> Any:
        return (attention(x) ** 2).sum()

    gradient = jax.grad(loss)
    assert explain(gradient, X, patterns=patterns).count("attention") == 0
    near(substitute(gradient, patterns=patterns)(X), gradient(X))


def test_static_arguments_pytrees_and_keywords_pass_through(patterns: Patterns) -> None:
    def model(params: dict[str, Any], x: Any, *, mode: str, flag: bool = True) -> Any:
        y = norm(x, params["w"]) if flag else x
        return {"out": y, "mode": mode, "nothing": None, "count": 3}

    replaced = substitute(model, patterns=patterns)
    result = replaced({"w": W}, X, mode="a")
    assert (result["mode"], result["nothing"], result["count"]) == ("a", None, 3)
    near(result["out"], norm(X, W))
    assert (replaced({"w": W}, X, mode="b", flag=False)["out"] == X).all()


def test_static_argnums_of_a_jitted_function_stay_static(patterns: Patterns) -> None:
    def model(x: Any, w: Any, n: int) -> Any:
        for _ in range(n):
            x = norm(x, w)
        return x

    jitted = jax.jit(model, static_argnums=2)
    assert explain(jitted, X, W, 3, patterns=patterns).counts == {"rms_norm": 3}
    near(substitute(jitted, patterns=patterns)(X, W, 3), model(X, W, 3))


def test_methods_are_bound(patterns: Patterns) -> None:
    class Model:
        w = W
        forward = substitute(lambda self, x: norm(x, self.w), patterns=patterns)

        def plain(self, x: Any) -> Any:
            return norm(x, self.w)

        jitted = jax.jit(plain, static_argnums=0)

    model, other = Model(), Model()
    other.w = W * 3
    near(model.forward(X), norm(X, W))
    for name in ("plain", "jitted"):
        for each in (model, other):
            near(substitute(getattr(each, name), patterns=patterns)(X), norm(X, each.w))


def test_a_signature_is_traced_once(patterns: Patterns) -> None:
    traces = []

    def counted(x: Any) -> Any:
        traces.append(x.shape)
        return norm(x, W)

    replaced = substitute(counted, patterns=patterns)
    for _ in range(3):
        replaced(X)
    replaced(X[:2])
    replaced(X.astype(jnp.bfloat16))
    assert traces == [(3, 16), (2, 16), (3, 16)]


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["function", "jitted"])
def test_equal_calls_of_substitute_share_the_trace(patterns: Patterns, wrap: Callable[..., Any]) -> None:
    traces = []

    def counted(x: Any) -> Any:
        traces.append(x.shape)
        return norm(x, W)

    function = wrap(counted)
    assert explain(function, X, patterns=patterns).count("rms_norm") == 1
    for _ in range(2):
        jax.jit(substitute(function, patterns=patterns))(X)
    once = substitute(function, patterns=patterns)
    assert once is substitute(function, patterns=patterns) is substitute(once, patterns=patterns)
    assert len(traces) == 1
    assert substitute(function, patterns=patterns, policy="exact") is not substitute(function, patterns=patterns)
    assert substitute(function, patterns=["rms_norm"]) is not substitute(function, patterns=["attention"])


def test_a_decorated_function_is_another_function(patterns: Patterns) -> None:
    substitute(norm, patterns=patterns)
    twice = functools.wraps(norm)(lambda x, w: norm(norm(x, w), w))
    assert explain(twice, X, W, patterns=patterns).count("rms_norm") == 2
    assert explain(jax.jit(twice), X, W, patterns=patterns).count("rms_norm") == 2


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["function", "jitted"])
def test_what_was_made_of_a_function_does_not_outlive_it(patterns: Patterns, wrap: Callable[..., Any]) -> None:
    function = wrap(lambda x: norm(x, W))
    substitute(function, patterns=patterns)(X)
    gone = weakref.ref(function)
    del function
    gc.collect()
    assert gone() is None


def test_closed_over_tracers_do_not_leak_into_later_calls(patterns: Patterns) -> None:
    def outer(w: Any, x: Any) -> Any:
        return replaced_with(w)(x).sum()

    def replaced_with(w: Any) -> Callable[..., Any]:
        return substitute(lambda x: norm(x, w), patterns=patterns)

    near(jax.grad(outer)(W, X), jax.grad(lambda w, x: norm(x, w).sum())(W, X))
    near(jax.jit(outer)(W * 2, X), norm(X, W * 2).sum())


def test_effects_stay(patterns: Patterns, capsys: pytest.CaptureFixture[str]) -> None:
    def talkative(x: Any) -> Any:
        jax.debug.print("seen {}", x[0, 0])
        return norm(x, W)

    jax.block_until_ready(substitute(talkative, patterns=patterns)(X))
    jax.effects_barrier()
    assert capsys.readouterr().out.count("seen") == 1


def test_a_function_without_patterns_is_called_as_it_is(patterns: Patterns) -> None:
    replaced = substitute(lambda x: x + 1, patterns=patterns)
    near(replaced(X), X + 1)
    assert not explain(replaced, X).replaced


def test_names_choose_patterns_and_unknown_names_are_refused() -> None:
    assert explain(layers, X, W[None], patterns=["rms_norm"]).counts == {"rms_norm": 2}
    with pytest.raises(SubstitutionError, match=r"NPK-SB02.*no pattern is named 'nrom'.*attention"):
        explain(norm, X, W, patterns=["nrom"])
    with pytest.raises(ValueError, match="exact"):
        substitute(norm, policy="strict")


def test_explain_takes_shapes_functions_and_modules(patterns: Patterns, tmp_path: Path) -> None:
    shapes = jax.ShapeDtypeStruct(X.shape, X.dtype), jax.ShapeDtypeStruct(W.shape, W.dtype)
    report = explain(norm, *shapes, patterns=patterns)
    assert report.to_json()["replaced"][0]["location"].endswith(
        f"{Path(__file__).name}:{norm.__code__.co_firstlineno + 1}"
    )
    text = jax.jit(norm).lower(*shapes).as_text()
    file = tmp_path / "model.mlir"
    file.write_text(text)
    assert explain(text, patterns=patterns).counts == explain(file, patterns=patterns).counts == {"rms_norm": 1}


def test_a_report_is_data_and_a_table(patterns: Patterns) -> None:
    report = explain(norm, X, W, patterns=patterns, policy=EXACT)
    data = report.to_json()
    assert set(data) == {"policy", "replaced", "near_misses"}
    assert {"pattern", "location", "reason"} <= set(data["near_misses"][0])
    assert str(report).startswith("Nothing is replaced under the numerics policy exact; these came near:\n")
    assert "near miss" in str(report)
    assert "replaced" in str(explain(norm, X, W, patterns=patterns))
    assert explain(norm, X, W, patterns=patterns, policy=Policy.of("reorder sums")).counts == {"rms_norm": 1}


@pytest.mark.parametrize(
    ("count", "ending"),
    [
        (2, "no part of the program resembles attention or rms_norm."),
        (0, "no pattern is registered. Importing npu_kernels.kernels registers the library's."),
    ],
)
def test_a_report_of_nothing_is_a_sentence(patterns: Patterns, count: int, ending: str) -> None:
    report = explain(jnp.sin, X, patterns=patterns[:count])
    assert str(report) == f"Nothing is replaced under the numerics policy default: {ending}\n"


def test_require_fails_when_a_model_stops_matching(patterns: Patterns) -> None:
    replaced = substitute(norm, patterns=patterns)
    with require("rms_norm", count=1):
        replaced(X, W)
        replaced(X, W)
    wanted = "NPK-SB01: 1 instances of rms_norm were replaced, 2 required"
    with pytest.raises(SubstitutionError, match=wanted), require("rms_norm", count=2):
        replaced(X, W)
    with pytest.raises(SubstitutionError, match="no substituted function was traced"), require("rms_norm"):
        norm(X, W)
    exact = explain(norm, X, W, patterns=patterns, policy="exact")
    with pytest.raises(SubstitutionError, match=r"near miss at .*numerics"):
        require("rms_norm", report=exact)

    @require("rms_norm", 1)
    def decorated() -> None:
        replaced(X, W)

    decorated()


def test_an_exception_inside_require_is_not_replaced(patterns: Patterns) -> None:
    with pytest.raises(KeyError), require("rms_norm", 7):
        raise KeyError


def test_a_module_is_rewritten_and_runs(patterns: Patterns) -> None:
    text = jax.jit(layers).lower(X, W[None]).as_text()
    module, report = substitute_module(text, patterns=patterns)
    assert report.counts == {"attention": 1, "rms_norm": 2}
    (got,) = jax_compat.run_module(module, [np.asarray(X), np.asarray(W[None])])
    near(got, layers(X, W[None]))
