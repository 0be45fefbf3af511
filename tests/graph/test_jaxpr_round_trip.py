"""Reading a jaxpr and writing it back changes nothing a caller can see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from npu_kernels import jax_compat
from npu_kernels.graph.expand import expand
from npu_kernels.graph.jaxpr_reader import read_jaxpr
from npu_kernels.graph.jaxpr_writer import rewrite_jaxpr, write_inlined, write_jaxpr

Program = tuple[Callable[..., Any], tuple[Any, ...]]


def same(left: Any, right: Any) -> None:
    left_leaves, right_leaves = jax.tree.leaves(left), jax.tree.leaves(right)
    assert len(left_leaves) == len(right_leaves)
    for a, b in zip(left_leaves, right_leaves, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_a_jaxpr_written_back_gives_identical_results(program: Program) -> None:
    function, arguments = program
    closed = jax.make_jaxpr(function)(*arguments)
    expected = jax.jit(jax_compat.jaxpr_to_function(closed))(*arguments)
    written = write_jaxpr(read_jaxpr(closed))
    assert str(read_jaxpr(written)) == str(read_jaxpr(closed))
    same(jax.jit(jax_compat.jaxpr_to_function(written))(*arguments), expected)


def test_inlining_every_call_keeps_the_results(program: Program) -> None:
    function, arguments = program
    closed = jax.make_jaxpr(function)(*arguments)
    expected = jax_compat.jaxpr_to_function(closed)(*arguments)
    inlined = write_inlined(read_jaxpr(closed))
    jax.extend.core.check_jaxpr(jax_compat.open_jaxpr(inlined))
    assert not any(node.op == "call" for node in read_jaxpr(inlined).walk())
    for a, b in zip(jax_compat.jaxpr_to_function(inlined)(*arguments), expected, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-6, atol=1e-6)


def test_an_expanded_graph_has_no_calls_and_knows_where_each_value_was(program: Program) -> None:
    function, arguments = program
    flat = expand(read_jaxpr(jax.make_jaxpr(function)(*arguments)))
    for node in flat.walk():
        assert node.op != "call"
        for result in node.results:
            path, first = result.aliases[0]
            assert path == node.path and first.producer is node.source
            assert all(alias.aval == result.aval for _, alias in result.aliases)


def test_rewriting_nothing_returns_the_jaxpr_itself() -> None:
    closed = jax.make_jaxpr(jax.nn.relu)(1.0)
    assert rewrite_jaxpr(expand(read_jaxpr(closed)), []) is closed


def test_the_printed_graph_is_the_same_on_every_run(program: Program) -> None:
    function, arguments = program
    first, second = (str(read_jaxpr(jax.make_jaxpr(function)(*arguments))) for _ in range(2))
    assert first == second and first.startswith("main(") and "conftest.py:" in first
