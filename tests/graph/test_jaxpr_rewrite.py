"""What rewrite_jaxpr replaces, where it puts the replacement, and what it leaves as it stood."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from npu_kernels import jax_compat
from npu_kernels.errors import GraphError
from npu_kernels.graph.core import Graph, Node, Value
from npu_kernels.graph.expand import expand
from npu_kernels.graph.jaxpr_reader import read_jaxpr
from npu_kernels.graph.jaxpr_writer import rewrite_jaxpr
from npu_kernels.graph.replacement import Replacement

X = np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32)
Activation = Callable[[jax.Array], jax.Array]


def double(x: jax.Array) -> jax.Array:
    return x * 2


def flatten(function: Callable[..., Any], *arguments: Any) -> Graph:
    return expand(read_jaxpr(jax.make_jaxpr(function)(*arguments)))


def nodes_of(graph: Graph, op: str) -> list[Node]:
    return [node for node in graph.walk() if node.op == op]


def swap(node: Node, function: Activation = double) -> Replacement:
    return Replacement(node.operands, node.results, lambda *xs: (function(*xs),), "swapped")


def run(closed: Any, *arguments: Any) -> list[np.ndarray[Any, Any]]:
    jax.extend.core.check_jaxpr(jax_compat.open_jaxpr(closed))
    return [np.asarray(value) for value in jax.jit(jax_compat.jaxpr_to_function(closed))(*arguments)]


def in_scan(act: Activation) -> Activation:
    return lambda x: jax.lax.scan(lambda c, r: (act(c + r), act(r)), X[0], x)[1]


def in_while(act: Activation) -> Activation:
    return lambda x: jax.lax.while_loop(lambda s: act(s[0]) < 9, lambda s: (s[0] + 1, act(s[1])), (2.0, x))[1]


def in_cond(act: Activation) -> Activation:
    return lambda x: jax.lax.cond(x[0, 0] > 0, lambda v: act(v) + 1, lambda v: v - act(v), x)


def in_remat(act: Activation) -> Activation:
    return jax.checkpoint(lambda x: act(x + 1) * 3)


def in_jit(act: Activation) -> Activation:
    inner = jax.jit(lambda x: act(x) + 1)
    return lambda x: jax.jit(lambda y: inner(inner(y)))(x)


def in_custom_jvp(act: Activation) -> Activation:
    function = jax.custom_jvp(lambda x: act(x) + 1)
    function.defjvp(lambda p, t: (function(*p), t[0] * 7))
    return function


def deep(act: Activation) -> Activation:
    step = jax.jit(in_cond(act))
    return lambda x: jax.lax.scan(lambda c, _: (jax.checkpoint(step)(c), None), x, None, length=2)[0]


CONTEXTS = [in_scan, in_while, in_cond, in_remat, in_jit, in_custom_jvp, deep]


@pytest.mark.parametrize("context", CONTEXTS)
def test_every_occurrence_is_replaced_in(context: Callable[[Activation], Activation]) -> None:
    flat = flatten(context(jnp.tanh), X)
    found = nodes_of(flat, "tanh")
    assert found
    closed = rewrite_jaxpr(flat, [swap(node) for node in found])
    assert not nodes_of(read_jaxpr(closed), "tanh")
    np.testing.assert_allclose(run(closed, X)[0], jax.jit(context(double))(X), rtol=1e-6)


@pytest.mark.parametrize("context", [in_scan, in_cond, in_remat, in_jit, deep])
def test_derivatives_and_batches_go_through_the_replacement_in(
    context: Callable[[Activation], Activation],
) -> None:
    flat = flatten(context(jnp.tanh), X)
    closed = rewrite_jaxpr(flat, [swap(node) for node in nodes_of(flat, "tanh")])
    rewritten, wanted = jax_compat.jaxpr_to_function(closed), context(double)

    def loss(function: Any) -> Any:
        return lambda x: jnp.sum(jnp.asarray(function(x)) ** 2)

    first = jax.grad(loss(lambda x: rewritten(x)[0]))(X)
    np.testing.assert_allclose(first, jax.grad(loss(wanted))(X), rtol=1e-5)
    batch = np.stack([X, -X])
    np.testing.assert_allclose(jax.vmap(rewritten)(batch)[0], jax.vmap(wanted)(batch), rtol=1e-6)


def test_a_custom_jvp_keeps_its_own_rule() -> None:
    flat = flatten(in_custom_jvp(jnp.tanh), X)
    closed = rewrite_jaxpr(flat, [swap(node) for node in nodes_of(flat, "tanh")])
    gradient = jax.grad(lambda x: jnp.sum(jax_compat.jaxpr_to_function(closed)(x)[0]))(X)
    np.testing.assert_array_equal(gradient, np.full_like(X, 7))


def test_a_call_in_the_middle_of_the_match_is_not_inlined_and_vanishes() -> None:
    middle = jax.jit(lambda x: jnp.cos(x) + 1)

    def function(x: jax.Array) -> jax.Array:
        return jax.nn.silu(jnp.exp(middle(jnp.sin(x)))) * 2

    flat = flatten(function, X)
    (exp,) = nodes_of(flat, "exponential")
    replacement = Replacement(flat.inputs, exp.results, lambda x: (x + 5,), "short")
    graph = read_jaxpr(rewrite_jaxpr(flat, [replacement]))
    assert [node.attrs["name"] for node in graph.nodes if node.op == "call"] == ["short", "silu"]
    np.testing.assert_allclose(run(graph.origin, X)[0], jax.nn.silu(X + 5) * 2, rtol=1e-6)


def test_a_call_is_inlined_when_the_match_ends_inside_it() -> None:
    @jax.jit
    def tail(y: jax.Array) -> tuple[jax.Array, jax.Array]:
        logs = jnp.log(y)
        return logs * 3 + X[1], y + logs

    flat = flatten(lambda x: tail(jnp.exp(x)), X)
    (log,) = nodes_of(flat, "log")
    closed = rewrite_jaxpr(flat, [Replacement(flat.inputs, log.results, lambda x: (x,), "identity")])
    assert not nodes_of(read_jaxpr(closed), "log")
    first, second = run(closed, X)
    np.testing.assert_allclose(first, X * 3 + X[1], rtol=1e-6)
    np.testing.assert_allclose(second, np.exp(X) + X, rtol=1e-6)


def test_a_call_is_inlined_when_the_match_begins_inside_it() -> None:
    head = jax.jit(lambda x: jnp.sqrt(jnp.abs(x) + 1))
    flat = flatten(lambda x: jnp.square(head(x)) + head(x), X)
    first = nodes_of(flat, "sqrt")[0]
    square = next(node for node in nodes_of(flat, "multiply") if node.operands[0] is node.operands[1])
    assert square.operands[0] is first.result
    closed = rewrite_jaxpr(flat, [Replacement(first.operands, square.results, lambda y: (y,), "identity")])
    assert (
        len([node for node in read_jaxpr(closed).nodes if node.op == "call" and node.attrs["name"] != "identity"]) == 1
    )
    base = np.abs(X) + 1
    np.testing.assert_allclose(run(closed, X)[0], base + np.sqrt(base), rtol=1e-6)


def test_only_the_call_that_holds_the_match_gets_a_copy() -> None:
    shared = jax.jit(lambda x: jnp.tanh(x) + 1)
    closed = jax.make_jaxpr(lambda x: shared(shared(x)))(X)
    flat = expand(read_jaxpr(closed))
    rewritten = rewrite_jaxpr(flat, [swap(nodes_of(flat, "tanh")[0])])
    before, after = jax_compat.open_jaxpr(closed).eqns, jax_compat.open_jaxpr(rewritten).eqns
    assert after[1] is before[1]
    assert after[0].params["jaxpr"] is not before[0].params["jaxpr"]
    np.testing.assert_allclose(run(rewritten, X)[0], np.tanh(X * 2 + 1) + 1, rtol=1e-6)


def test_calls_that_become_equal_share_one_jaxpr() -> None:
    block = jax.jit(lambda x, scale: jnp.tanh(x) * scale)
    flat = flatten(lambda x: block(block(block(x, 2), 2), 2.0) + jnp.tanh(x), X)
    found = nodes_of(flat, "tanh")
    same = rewrite_jaxpr(flat, [swap(node) for node in found])
    blocks = [eqn.params["jaxpr"] for eqn in same.eqns if eqn.primitive.name in ("jit", "pjit")]
    assert len(blocks) == 4 and len(set(map(id, blocks))) == 3, (
        "two blocks share, the third takes a float, one is swapped"
    )
    inner = [eqn.params["jaxpr"] for jaxpr in blocks[:3] for eqn in jaxpr.eqns if "jaxpr" in eqn.params]
    assert len({id(jaxpr) for jaxpr in [*inner, blocks[3]]}) == 1

    triple = [swap(node, lambda x, factor=1 + i: x * factor) for i, node in enumerate(found)]
    different = rewrite_jaxpr(flat, triple)
    blocks = [eqn.params["jaxpr"] for eqn in different.eqns if eqn.primitive.name in ("jit", "pjit")]
    assert len(set(map(id, blocks))) == 4
    np.testing.assert_allclose(run(different, X)[0], X * 1 * 2 * 2 * 2 * 3 * 2 + X * 4, rtol=1e-6)


def test_what_is_outside_the_match_is_the_very_same_equation() -> None:
    closed = jax.make_jaxpr(lambda x: jnp.sin(jnp.tanh(jnp.cos(x))) + 1)(X)
    flat = expand(read_jaxpr(closed))
    rewritten = rewrite_jaxpr(flat, [swap(nodes_of(flat, "tanh")[0])])
    before, after = jax_compat.open_jaxpr(closed).eqns, jax_compat.open_jaxpr(rewritten).eqns
    assert [str(eqn.primitive) for eqn in after] == ["cos", "jit", "sin", "add"]
    assert after[0] is before[0] and after[3] is before[3]


def test_the_replacement_has_the_location_of_what_it_replaces() -> None:
    flat = flatten(lambda x: jnp.tanh(x) + 1, X)
    (node,) = nodes_of(flat, "tanh")
    graph = read_jaxpr(rewrite_jaxpr(flat, [swap(node)]))
    assert node.location is not None and node.location.startswith(__file__)
    assert graph.nodes[0].location == node.location


def test_jit_keeps_its_name_donation_and_options() -> None:
    function = jax.jit(lambda x, y: (jnp.tanh(x), y), donate_argnums=0, keep_unused=True)
    closed = jax.make_jaxpr(lambda x: function(x + 1, x))(X)
    flat = expand(read_jaxpr(closed))
    assert flat.nodes[-1].op == "jit", "a jit that donates is no transparent call"
    rewritten = rewrite_jaxpr(flat, [swap(node) for node in nodes_of(flat, "tanh")])
    before, after = (jax_compat.open_jaxpr(jaxpr).eqns[-1].params for jaxpr in (closed, rewritten))
    assert before["donated_invars"] == (True, False)
    assert {k: v for k, v in after.items() if k != "jaxpr"} == {k: v for k, v in before.items() if k != "jaxpr"}
    np.testing.assert_allclose(run(rewritten, X)[0], (X + 1) * 2, rtol=1e-6)


def test_a_node_that_something_else_reads_stays() -> None:
    def function(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        y = jnp.sin(x)
        return jnp.tanh(y), y * 2

    flat = flatten(function, X)
    (node,) = nodes_of(flat, "tanh")
    closed = rewrite_jaxpr(flat, [Replacement(flat.inputs, node.results, lambda x: (x,), "identity")])
    assert [n.op for n in read_jaxpr(closed).nodes if n.op != "constant"] == ["sine", "call", "multiply"]
    np.testing.assert_array_equal(run(closed, X)[0], X)


def test_two_outputs_may_be_read_before_the_last_input_exists() -> None:
    def function(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        first = jnp.sin(x)
        used_early = first + 1
        late = jnp.exp(x)
        return used_early, first * late

    flat = flatten(function, X)
    (sine,), (exp,), (product,) = (nodes_of(flat, op) for op in ("sine", "exponential", "multiply"))
    replacement = Replacement(
        [flat.inputs[0], exp.result], [sine.result, product.result], lambda x, e: (x, x + e), "pair"
    )
    closed = rewrite_jaxpr(flat, [replacement])
    assert not nodes_of(read_jaxpr(closed), "sine")
    first, second = run(closed, X)
    np.testing.assert_allclose(first, X + 1, rtol=1e-6)
    np.testing.assert_allclose(second, X + np.exp(X), rtol=1e-6)


def test_replacements_may_feed_each_other() -> None:
    flat = flatten(lambda x: jnp.tanh(jnp.tanh(x) + jnp.tanh(x * 3)), X)
    closed = rewrite_jaxpr(flat, [swap(node) for node in reversed(nodes_of(flat, "tanh"))])
    np.testing.assert_allclose(run(closed, X)[0], (X * 2 + X * 6) * 2, rtol=1e-6)


def test_effects_stay_in_order(capfd: pytest.CaptureFixture[str]) -> None:
    def function(x: jax.Array) -> jax.Array:
        jax.debug.print("before {}", x[0, 0] * 0, ordered=True)
        y = jnp.tanh(x)
        jax.debug.print("after {}", y[0, 0] * 0, ordered=True)
        return y

    flat = flatten(function, X)
    closed = rewrite_jaxpr(flat, [swap(node) for node in nodes_of(flat, "tanh")])
    run(closed, X)
    jax.effects_barrier()
    assert [line.split()[0] for line in capfd.readouterr().out.splitlines()] == ["before", "after"]


def refused(flat: Graph, inputs: Sequence[Value], outputs: Sequence[Value], function: Any) -> str:
    with pytest.raises(GraphError) as caught:
        rewrite_jaxpr(flat, [Replacement(inputs, outputs, function, "bad")])
    assert caught.value.code == "NPK-GR02"
    return str(caught.value)


def test_the_inside_of_a_custom_vjp_is_refused() -> None:
    function = jax.custom_vjp(lambda x: jnp.tanh(x) + 1)
    function.defvjp(lambda x: (function(x), x), lambda x, g: (g,))
    flat = flatten(function, X)
    (node,) = nodes_of(flat, "tanh")
    assert "custom_vjp" in refused(flat, node.operands, node.results, lambda x: (x,))


def test_the_inside_of_a_shard_map_is_refused() -> None:
    mesh = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("d")
    flat = flatten(jax.shard_map(jnp.tanh, mesh=mesh, in_specs=spec, out_specs=spec), X)
    (node,) = nodes_of(flat, "tanh")
    assert "shard_map" in refused(flat, node.operands, node.results, lambda x: (x,))


def test_a_result_of_another_shape_is_refused() -> None:
    flat = flatten(jnp.tanh, X)
    (node,) = nodes_of(flat, "tanh")
    message = refused(flat, node.operands, node.results, lambda x: (x[0],))
    assert "f32[4]" in message and "f32[3,4]" in message


def test_a_match_that_depends_on_itself_is_refused() -> None:
    flat = flatten(lambda x: jnp.exp(jnp.sin(jnp.tanh(x))), X)
    (tanh,), (sine,), (exp,) = (nodes_of(flat, op) for op in ("tanh", "sine", "exponential"))
    message = refused(flat, [flat.inputs[0], sine.result], [tanh.result, exp.result], lambda x, s: (x, s))
    assert "its own result" in message


def test_an_input_the_match_reads_must_be_listed() -> None:
    flat = flatten(lambda x, y: jnp.tanh(x) * jnp.sin(y), X, X)
    (product,) = nodes_of(flat, "multiply")
    assert "does not list it" in refused(flat, flat.inputs[:1], product.results, lambda x: (x,))


def test_values_of_a_graph_that_was_not_expanded_are_refused() -> None:
    graph = read_jaxpr(jax.make_jaxpr(jnp.tanh)(X))
    assert "expand()" in refused(graph, graph.inputs, graph.outputs, lambda x: (x,))
