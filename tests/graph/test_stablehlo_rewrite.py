"""What rewrite_stablehlo replaces, where it puts the replacement, and what it leaves as it stood."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from npu_kernels import jax_compat
from npu_kernels.errors import GraphError
from npu_kernels.graph.core import Graph, Node
from npu_kernels.graph.expand import expand
from npu_kernels.graph.replacement import Replacement
from npu_kernels.graph.stablehlo_reader import read_stablehlo
from npu_kernels.graph.stablehlo_writer import rewrite_stablehlo, write_inlined

X = np.random.default_rng(5).standard_normal((3, 4)).astype(np.float32)
Program = tuple[Callable[..., Any], tuple[Any, ...]]


def lowered(function: Callable[..., Any], *arguments: Any) -> str:
    return jax_compat.lower_to_module(function, arguments)


def nodes_of(graph: Graph, op: str) -> list[Node]:
    return [node for node in graph.walk() if node.op == op]


def swap(node: Node) -> Replacement:
    return Replacement(node.operands, node.results, lambda x: (x * 2,), "double")


def run(module: Any, *arguments: Any) -> list[np.ndarray[Any, Any]]:
    return jax_compat.run_module(module, arguments)


def called(graph: Graph) -> list[str]:
    return [node.attrs["name"] for node in graph.walk() if node.op == "call"]


def test_a_lowered_function_keeps_its_results_when_inlined(program: Program) -> None:
    function, arguments = program
    expected = jax.tree.leaves(jax.jit(function)(*arguments))
    inlined = write_inlined(read_stablehlo(lowered(function, *arguments)))
    assert not called(read_stablehlo(inlined))
    for a, b in zip(run(inlined, *arguments), expected, strict=True):
        np.testing.assert_allclose(np.asarray(a, np.complex128), np.asarray(b, np.complex128), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "build",
    [
        lambda act: lambda x: jax.lax.scan(lambda c, r: (act(c + r), act(r)), X[0], x)[1],
        lambda act: lambda x: jax.lax.while_loop(lambda s: act(s[0]) < 9, lambda s: (s[0] + 1, act(s[1])), (2.0, x)),
        lambda act: lambda x: jax.lax.cond(x[0, 0] > 0, lambda v: act(v) + 1, lambda v: v - act(v), x),
        lambda act: lambda x: jax.lax.switch(x[0, 0].astype(int), [lambda: act(x), lambda: x, lambda: act(x + 1)]),
        lambda act: lambda x: jax.jit(lambda y: jax.jit(act)(y) + jax.jit(act)(y + 1))(x),
    ],
    ids=["scan", "while", "cond", "switch", "nested functions"],
)
def test_every_occurrence_is_replaced_in(build: Callable[[Any], Any]) -> None:
    flat = expand(read_stablehlo(lowered(build(jnp.tanh), X)))
    found = nodes_of(flat, "tanh")
    assert found
    module = rewrite_stablehlo(flat, [swap(node) for node in found])
    assert not nodes_of(read_stablehlo(module), "tanh")
    for a, b in zip(run(module, X), jax.tree.leaves(jax.jit(build(lambda x: x * 2))(X)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


TWICE = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @outer(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @outer(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @outer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @inner(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func private @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %x : tensor<4xf32>
  %1 = stablehlo.add %0, %x : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


@pytest.mark.parametrize("chosen", [[], [0], [1], [3], [0, 3], [1, 2], [0, 1, 2, 3]])
def test_a_function_called_from_many_places_is_changed_only_where_it_matched(chosen: list[int]) -> None:
    flat = expand(read_stablehlo(TWICE))
    found = nodes_of(flat, "tanh")
    module = rewrite_stablehlo(flat, [swap(found[i]) for i in chosen])
    x = expected = X[0]
    for i in range(4):
        expected = expected + (2 * expected if i in chosen else np.tanh(expected))
    np.testing.assert_allclose(run(module, x)[0], expected, rtol=1e-6)
    names = called(read_stablehlo(module))
    assert names.count("double") == len(chosen)
    assert ("inner" in names) == (len(chosen) < 4), "the original stays while something calls it"


CROSSING = """
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = stablehlo.exponential %x : tensor<4xf32>
  %1:2 = call @middle(%0) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %2 = stablehlo.negate %1#0 : tensor<4xf32>
  return %2, %1#1 : tensor<4xf32>, tensor<4xf32>
}
func.func private @middle(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = call @last(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = stablehlo.add %0, %0 : tensor<4xf32>
  return %1, %x : tensor<4xf32>, tensor<4xf32>
}
func.func private @last(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.log %x : tensor<4xf32>
  %1 = stablehlo.sine %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""


def test_calls_are_inlined_when_the_match_ends_inside_them() -> None:
    flat = expand(read_stablehlo(CROSSING))
    (log,) = nodes_of(flat, "log")
    module = rewrite_stablehlo(flat, [Replacement(flat.inputs, log.results, lambda x: (x + 1,), "short")])
    graph = read_stablehlo(module)
    assert called(graph) == ["short"] and not nodes_of(graph, "log")
    first, second = run(module, X[0])
    np.testing.assert_allclose(first, -2 * np.sin(X[0] + 1), rtol=1e-5)
    np.testing.assert_allclose(second, np.exp(X[0]), rtol=1e-6)


def test_calls_are_inlined_when_the_match_begins_inside_them() -> None:
    flat = expand(read_stablehlo(CROSSING))
    (log,), (negate,) = nodes_of(flat, "log"), nodes_of(flat, "negate")
    module = rewrite_stablehlo(flat, [Replacement(log.results, negate.results, lambda y: (y * 3,), "rest")])
    graph = read_stablehlo(module)
    assert called(graph) == ["rest"] and not nodes_of(graph, "sine")
    np.testing.assert_allclose(run(module, X[0])[0], X[0] * 3, rtol=1e-5)


def test_a_call_in_the_middle_of_the_match_is_not_inlined_and_vanishes() -> None:
    flat = expand(read_stablehlo(CROSSING))
    (exp,), (negate,) = nodes_of(flat, "exponential"), nodes_of(flat, "negate")
    module = rewrite_stablehlo(flat, [Replacement(exp.results, negate.results, lambda y: (y - 1,), "all")])
    graph = read_stablehlo(module)
    assert called(graph) == ["middle", "last", "all"], "its second result is still read"
    np.testing.assert_allclose(run(module, X[0])[0], np.exp(X[0]) - 1, rtol=1e-5)


def test_results_of_a_replacement_may_be_read_before_its_last_input_exists() -> None:
    text = """
    func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %0 = stablehlo.sine %x : tensor<4xf32>
      %1 = stablehlo.negate %0 : tensor<4xf32>
      %2 = stablehlo.abs %1 : tensor<4xf32>
      %3 = stablehlo.exponential %x : tensor<4xf32>
      %4 = stablehlo.multiply %0, %3 : tensor<4xf32>
      return %2, %4 : tensor<4xf32>, tensor<4xf32>
    }"""
    flat = expand(read_stablehlo(text))
    (sine,), (exp,), (product,) = (nodes_of(flat, op) for op in ("sine", "exponential", "multiply"))
    pair = Replacement([flat.inputs[0], exp.result], [sine.result, product.result], lambda x, e: (x, x + e), "pair")
    module = rewrite_stablehlo(flat, [pair])
    first, second = run(module, X[0])
    np.testing.assert_allclose(first, np.abs(X[0]), rtol=1e-6)
    np.testing.assert_allclose(second, X[0] + np.exp(X[0]), rtol=1e-6)

    cyclic = Replacement([flat.inputs[0], nodes_of(flat, "abs")[0].result], [sine.result, exp.result],
                         lambda x, e: (x, e), "cyclic")  # fmt: skip
    with pytest.raises(GraphError, match="its own result"):
        rewrite_stablehlo(flat, [cyclic])


def test_an_input_the_match_does_not_read_may_be_made_after_it() -> None:
    text = """
    func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %0 = stablehlo.sine %x : tensor<4xf32>
      %1 = stablehlo.negate %0 : tensor<4xf32>
      %2 = stablehlo.exponential %x : tensor<4xf32>
      return %1, %2 : tensor<4xf32>, tensor<4xf32>
    }"""
    flat = expand(read_stablehlo(text))
    (sine,), (exp,) = nodes_of(flat, "sine"), nodes_of(flat, "exponential")
    module = rewrite_stablehlo(
        flat, [Replacement([flat.inputs[0], exp.result], sine.results, lambda x, e: (x + e,), "late")]
    )
    np.testing.assert_allclose(run(module, X[0])[0], -(X[0] + np.exp(X[0])), rtol=1e-6)


def test_replacements_may_feed_each_other() -> None:
    flat = expand(read_stablehlo(lowered(lambda x: jnp.tanh(jnp.tanh(x) + jnp.tanh(x * 3)), X)))
    for order in (1, -1):
        module = rewrite_stablehlo(flat, [swap(node) for node in nodes_of(flat, "tanh")[::order]])
        np.testing.assert_allclose(run(module, X)[0], (X * 2 + X * 6) * 2, rtol=1e-6)
        assert len(set(called(read_stablehlo(module)))) == 1, "equal functions are merged once"


def test_unrelated_operations_and_side_effects_stay() -> None:
    text = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %unread = stablehlo.cosine %x : tensor<4xf32>
      %0 = stablehlo.sine %x : tensor<4xf32>
      %1 = stablehlo.custom_call @effect(%0) {has_side_effect = true} : (tensor<4xf32>) -> tensor<4xf32>
      %2 = stablehlo.custom_call @pure(%0) {has_side_effect = false} : (tensor<4xf32>) -> tensor<4xf32>
      %3 = stablehlo.add %1, %2 : tensor<4xf32>
      return %3 : tensor<4xf32>
    }"""
    flat = expand(read_stablehlo(text))
    (total,) = nodes_of(flat, "add")
    module = rewrite_stablehlo(flat, [Replacement(flat.inputs, total.results, lambda x: (x,), "identity")])
    left = [node.attrs.get("name", node.op) for node in read_stablehlo(module).nodes]
    assert left == ["cosine", "sine", "custom_call @effect", "identity"]


def test_values_that_regions_read_from_outside_stay_alive() -> None:
    text = """
    func.func @main(%x: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
      %0 = stablehlo.sine %x : tensor<4xf32>
      %1 = stablehlo.tanh %0 : tensor<4xf32>
      %2 = "stablehlo.if"(%p) ({
        stablehlo.return %1 : tensor<4xf32>
      }, {
        %3 = stablehlo.tanh %0 : tensor<4xf32>
        stablehlo.return %3 : tensor<4xf32>
      }) : (tensor<i1>) -> tensor<4xf32>
      return %2 : tensor<4xf32>
    }"""
    flat = expand(read_stablehlo(text))
    outer, inner = nodes_of(flat, "tanh")
    assert outer.result.users == (flat.nodes[-1],) and outer.graph is not inner.graph
    for chosen, factors in (([outer], (2, None)), ([inner], (None, 2)), ([outer, inner], (2, 2))):
        module = rewrite_stablehlo(flat, [swap(node) for node in chosen])
        for predicate, factor in zip((True, False), factors, strict=True):
            sine = np.sin(X[0])
            expected = np.tanh(sine) if factor is None else sine * factor
            np.testing.assert_allclose(run(module, X[0], np.bool_(predicate))[0], expected, rtol=1e-5)


def test_a_result_of_another_type_is_refused() -> None:
    flat = expand(read_stablehlo(lowered(jnp.tanh, X)))
    (node,) = nodes_of(flat, "tanh")
    with pytest.raises(GraphError, match=r"returns tensor<4xf32>, the program needs tensor<3x4xf32>"):
        rewrite_stablehlo(flat, [Replacement(node.operands, node.results, lambda x: (x[0],), "bad")])


def test_the_module_that_was_read_is_not_changed() -> None:
    graph = read_stablehlo(TWICE)
    before = str(graph.origin)
    flat = expand(graph)
    rewrite_stablehlo(flat, [swap(node) for node in nodes_of(flat, "tanh")])
    assert str(graph.origin) == before
