"""Any part of any program can be replaced by a function that computes the same, and nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from npu_kernels import jax_compat
from npu_kernels.errors import GraphError
from npu_kernels.graph.core import Graph, Node, Value, cut, escaping
from npu_kernels.graph.expand import expand
from npu_kernels.graph.jaxpr_reader import read_jaxpr
from npu_kernels.graph.jaxpr_writer import rewrite_jaxpr
from npu_kernels.graph.replacement import Replacement
from npu_kernels.graph.stablehlo_reader import read_stablehlo
from npu_kernels.graph.stablehlo_writer import rewrite_stablehlo

UNARY: dict[str, Callable[[Any], Any]] = {"sine": jnp.sin, "tanh": jnp.tanh, "negate": jnp.negative}
BINARY: dict[str, Callable[[Any, Any], Any]] = {"add": jnp.add, "multiply": jnp.multiply, "maximum": jnp.maximum}
ARGUMENTS = tuple(np.random.default_rng(i).standard_normal(3).astype(np.float32) for i in range(2))

PHASES = (Phase.generate,)

#: A body: each step is an op with the values it reads, counted from the newest, or a body that is called (jitted,
#: under ``cond`` or in a loop of two rounds) with the values it reads. It returns its newest values.
Body = list[Any]


def bodies(depth: int) -> st.SearchStrategy[Body]:
    index = st.integers(0, 5)
    step: st.SearchStrategy[Any] = st.one_of(
        st.tuples(st.sampled_from(sorted(UNARY)), index),
        st.tuples(st.sampled_from(sorted(BINARY)), index, index),
    )
    if depth:
        call = st.tuples(st.sampled_from(["jit", "jit", "cond", "loop"]), bodies(depth - 1), index, index)
        step = st.one_of(step, step, call)
    return st.lists(step, min_size=3, max_size=5)


def build(body: Body) -> Callable[..., tuple[Any, ...]]:
    """The JAX function of a body; the same sub-body object is the same jitted function."""
    inner: dict[int, Any] = {}

    def function(*arguments: Any) -> tuple[Any, ...]:
        values = list(arguments)
        for i, step in enumerate(body):
            kind, *rest = step
            if kind in UNARY:
                values.append(UNARY[kind](values[-1 - rest[0] % len(values)]))
            elif kind in BINARY:
                values.append(BINARY[kind](*(values[-1 - j % len(values)] for j in rest)))
            else:
                called = inner.setdefault(i, build(rest[0]))
                read = [values[-1 - j % len(values)] for j in rest[1:]]
                values += _call(kind, called, read)
        return tuple(values[-2:])

    return function


def _call(kind: str, called: Callable[..., tuple[Any, ...]], read: Sequence[Any]) -> Sequence[Any]:
    if kind == "jit":
        jitted = jax.jit(called)
        first = jitted(*read)
        return [*first, *jitted(first[0], read[0])]
    if kind == "cond":
        return list(jax.lax.cond(read[0][0] > 0, called, lambda a, b: (b, a * 2), *read))
    return list(jax.lax.fori_loop(0, 2, lambda _, state: called(*state), tuple(read)))


def evaluate(nodes: Sequence[Node], inputs: Sequence[Value], outputs: Sequence[Value]) -> Callable[..., Any]:
    """The JAX function of a cut."""

    def function(*arguments: Any) -> tuple[Any, ...]:
        values = dict(zip(inputs, arguments, strict=True))
        for node in nodes:
            operands = [values[operand] for operand in node.operands]
            values[node.result] = (UNARY.get(node.op) or BINARY[node.op])(*operands)
        return tuple(values[output] for output in outputs)

    return function


def draw_replacement(flat: Graph, data: st.DataObject) -> tuple[Replacement, bool] | None:
    """Part of one graph, grown backwards from one or two nodes, and whether it depends on itself."""
    simple = [node for node in flat.walk() if node.op in UNARY or node.op in BINARY]
    if not simple:
        return None
    start = data.draw(st.sampled_from(simple[::-1]))
    chosen = {start}
    if data.draw(st.booleans()):
        chosen.add(data.draw(st.sampled_from([node for node in simple if node.graph is start.graph])))
    for _ in range(data.draw(st.integers(1, 9))):
        makers = {v.producer for node in chosen for v in node.operands if v.graph is start.graph} - chosen
        grown = sorted((m for m in makers if m in simple), key=start.graph.nodes.index)
        if not grown:
            break
        chosen.add(data.draw(st.sampled_from(grown)))
    nodes = [node for node in start.graph.nodes if node in chosen]
    inputs = list(dict.fromkeys(v for node in nodes for v in node.operands if v.producer not in chosen))
    outputs = escaping(nodes)
    if not outputs:
        return None
    assert set(cut(inputs, outputs)) <= chosen
    used = cut(inputs, outputs)
    cyclic = any(depends(value, chosen) for value in inputs)
    return Replacement(inputs, outputs, evaluate(used, inputs, outputs), "part"), cyclic


def depends(value: Value, nodes: set[Node]) -> bool:
    pending, seen = [value], set()
    while pending:
        node = pending.pop().producer
        if node is None or node in seen:
            continue
        if node in nodes:
            return True
        seen.add(node)
        pending += node.operands
        pending += [v for region in node.regions for inner in region.walk() for v in inner.operands]
        pending += [v for region in node.regions for v in region.outputs if v.graph is not region]
    return False


def is_read(values: Sequence[Value]) -> bool:
    """Whether some value leads to an output of its graph; a rewrite may drop what does not."""
    pending, seen = list(values), set(values)
    while pending:
        value = pending.pop()
        if value.is_output:
            return True
        reached = {result for user in value.users for result in user.results} - seen
        seen |= reached
        pending += reached
    return False


def check(results: Sequence[Any], expected: Sequence[Any]) -> None:
    for a, b in zip(results, expected, strict=True):
        # XLA may fuse and contract differently around a call: a few ulps of values of size one.
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-5, atol=1e-5)


@settings(max_examples=60, phases=PHASES)
@given(bodies(2), st.data())
def test_in_a_jaxpr(body: Body, data: st.DataObject) -> None:
    closed = jax.make_jaxpr(build(body))(*ARGUMENTS)
    flat = expand(read_jaxpr(closed))
    drawn = draw_replacement(flat, data)
    if drawn is None:
        return
    replacement, cyclic = drawn
    try:
        rewritten = rewrite_jaxpr(flat, [replacement])
    except GraphError as error:
        assert cyclic, str(error)
        return
    assert not cyclic
    jax.extend.core.check_jaxpr(jax_compat.open_jaxpr(rewritten))
    assert "name=part" in str(rewritten) or not is_read(replacement.outputs)
    expected = jax_compat.jaxpr_to_function(closed)(*ARGUMENTS)
    check(jax_compat.jaxpr_to_function(rewritten)(*ARGUMENTS), expected)


@settings(max_examples=60, phases=PHASES)
@given(bodies(2), st.data())
def test_in_a_module(body: Body, data: st.DataObject) -> None:
    graph = read_stablehlo(jax_compat.lower_to_module(build(body), ARGUMENTS))
    flat = expand(graph)
    drawn = draw_replacement(flat, data)
    if drawn is None:
        return
    replacement, cyclic = drawn
    try:
        rewritten = rewrite_stablehlo(flat, [replacement])
    except GraphError as error:
        assert cyclic, str(error)
        return
    assert not cyclic
    assert "@part(" in str(rewritten) or not is_read(replacement.outputs)
    check(jax_compat.run_module(rewritten, ARGUMENTS), jax_compat.run_module(graph.origin, ARGUMENTS))
