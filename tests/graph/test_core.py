"""The graph's own small algorithms: order, users, cuts, what escapes, what regions capture."""

from __future__ import annotations

import pytest

from npu_kernels.errors import GraphError
from npu_kernels.graph.core import (
    Aval,
    Graph,
    captures,
    cut,
    dependencies,
    enclosing,
    escaping,
    topological_order,
)

F32 = Aval((2, 3), "float32")


def diamond() -> Graph:
    """y = x * x; a = sin(y); b = cos(y); return a + b, y"""
    graph = Graph("diamond")
    x = graph.add_input(F32)
    y = graph.add("multiply", [x, x], F32).result
    a = graph.add("sine", [y], F32).result
    b = graph.add("cosine", [y], F32).result
    graph.outputs = [graph.add("add", [a, b], F32).result, y]
    return graph


def with_region() -> Graph:
    """A branch that reads ``y`` of the graph around it."""
    graph = Graph("main")
    x = graph.add_input(F32)
    y = graph.add("exponential", [x], F32).result
    branch = Graph("branch")
    branch.outputs = [branch.add("negate", [y], F32).result]
    other = Graph("other", outputs=[y])
    graph.outputs = [graph.add("case", [x], F32, regions=[branch, other]).result]
    return graph


def test_a_value_knows_each_use_and_each_user_once() -> None:
    graph = diamond()
    (x,) = graph.inputs
    square = graph.nodes[0]
    assert x.uses == [(square, 0), (square, 1)]
    assert x.users == (square,)
    assert square.result.users == tuple(graph.nodes[1:3])
    assert square.result.is_output and not graph.nodes[1].result.is_output


def test_nodes_sort_into_the_graphs_order() -> None:
    graph = diamond()
    assert topological_order(reversed(graph.nodes)) == graph.nodes
    assert topological_order([]) == []


def test_a_cut_is_all_that_the_outputs_need_once_the_inputs_are_given() -> None:
    graph = diamond()
    square, sine, cosine, add = graph.nodes
    assert cut(graph.inputs, [add.result]) == [square, sine, cosine, add]
    assert cut([square.result], [add.result]) == [sine, cosine, add]
    assert cut([sine.result, cosine.result], [add.result]) == [add]
    assert cut([add.result], [add.result]) == []


def test_a_cut_includes_constants_and_refuses_an_input_that_is_not_listed() -> None:
    graph = Graph("main")
    x = graph.add_input(F32)
    one = graph.add("constant", [], F32, {"value": None})
    total = graph.add("add", [x, one.result], F32)
    assert cut([x], [total.result]) == [one, total]
    with pytest.raises(GraphError, match="NPK-GR02"):
        cut([], [total.result])


def test_what_is_read_outside_a_set_of_nodes_escapes() -> None:
    graph = diamond()
    square, sine, cosine, add = graph.nodes
    assert escaping([square]) == [square.result]
    assert escaping([sine, cosine, add]) == [add.result]
    assert escaping(graph.nodes) == [square.result, add.result]
    assert escaping(graph.nodes, inner=[sine.result, square.result]) == [square.result]


def test_a_value_read_in_a_region_of_a_member_does_not_escape() -> None:
    graph = with_region()
    exp, case = graph.nodes
    assert escaping([exp]) == [exp.result]
    assert escaping([exp, case]) == [case.result]


def test_regions_capture_what_they_read_or_return_from_outside() -> None:
    graph = with_region()
    exp, case = graph.nodes
    branch, other = case.regions
    assert captures(branch) == [exp.result] and captures(other) == [exp.result]
    assert dependencies(case) == [graph.inputs[0], exp.result]
    assert cut(graph.inputs, [case.result]) == [exp, case]


def test_a_region_that_returns_an_outer_value_uses_it() -> None:
    graph = Graph("main")
    x = graph.add_input(F32)
    y = graph.add("exponential", [x], F32)
    case = graph.add("case", [x], F32, regions=[Graph("branch", outputs=[y.result])])
    assert y.result.uses == [(case, -1)]
    assert escaping([y]) == [y.result] and escaping([y, case]) == []


def test_regions_know_what_they_lie_in() -> None:
    graph = with_region()
    case = graph.nodes[1]
    assert enclosing(case.regions[0], "case") is case
    assert enclosing(case.regions[0], "scan") is None and enclosing(graph, "case") is None
    assert [node.op for node in graph.walk()] == ["exponential", "case", "negate"]
    assert list(graph.graphs()) == [graph, *case.regions]


def test_the_printer_numbers_values_in_order_and_indents_regions() -> None:
    assert str(with_region()).splitlines() == [
        "main(%0: f32[2,3]) {",
        "  %1: f32[2,3] = exponential %0",
        "  %2: f32[2,3] = case %0",
        "    branch() {",
        "      %3: f32[2,3] = negate %1",
        "      return %3",
        "    }",
        "    other() {",
        "      return %1",
        "    }",
        "  return %2",
        "}",
    ]


@pytest.mark.parametrize(
    ("aval", "text", "size"),
    [
        (Aval((), "bfloat16"), "bf16[]", 1),
        (Aval((0, 7), "bool"), "bool[0,7]", 0),
        (Aval((2,), "float8_e4m3fn"), "float8_e4m3fn[2]", 2),
        (Aval((), "token"), "token[]", 1),
    ],
)
def test_avals_print_short_and_know_their_numpy_dtype(aval: Aval, text: str, size: int) -> None:
    assert str(aval) == text and aval.size == size
    assert (aval.numpy_dtype is None) == (aval.dtype == "token")
