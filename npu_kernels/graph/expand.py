"""The flat view of a graph: transparent calls replaced by their bodies."""

from __future__ import annotations

from npu_kernels.graph.core import Graph, Node, Value

Path = tuple[Node, ...]


def expand(graph: Graph) -> Graph:
    """A new graph in which every ``call`` node is replaced by its callee, in nested regions too.

    Each node remembers the call nodes it was inlined through (``path``) and what it was copied from (``source``);
    each value remembers every value it stands for (``aliases``), among them arguments and results of the calls it
    passed through. Writers use both to find the place of a match in the program as it was written.
    """
    flat = Graph(graph.name, origin=graph.origin)
    values: dict[Value, Value] = {}
    _copy_inputs(graph, flat, values, ())
    flat.outputs = _inline(graph, flat, values, ())
    return flat


def _copy_inputs(source: Graph, flat: Graph, values: dict[Value, Value], path: Path) -> None:
    for value in source.inputs:
        copy = flat.add_input(value.aval, value.origin)
        copy.aliases.append((path, value))
        values[value] = copy


def _inline(source: Graph, flat: Graph, values: dict[Value, Value], path: Path) -> list[Value]:
    for node in source.nodes:
        if node.op == "call":
            _inline_call(node, flat, values, path)
            continue
        regions = []
        for region in node.regions:
            copy = Graph(region.name, origin=region.origin)
            _copy_inputs(region, copy, values, path)
            copy.outputs = _inline(region, copy, values, path)
            regions.append(copy)
        new = flat.add(
            node.op,
            [values[operand] for operand in node.operands],
            [(result.aval, result.origin) for result in node.results],
            node.attrs,
            regions,
            location=node.location,
            origin=node.origin,
            path=path,
            source=node,
        )
        for result, copy_of_result in zip(node.results, new.results, strict=True):
            copy_of_result.aliases.append((path, result))
            values[result] = copy_of_result
    return [values[output] for output in source.outputs]


def _inline_call(node: Node, flat: Graph, values: dict[Value, Value], path: Path) -> None:
    (callee,) = node.regions
    inner_path = (*path, node)
    inner: dict[Value, Value] = {}
    for formal, actual in zip(callee.inputs, node.operands, strict=True):
        inner[formal] = values[actual]
        values[actual].aliases.append((inner_path, formal))
    outputs = _inline(callee, flat, inner, inner_path)
    for result, output in zip(node.results, outputs, strict=True):
        values[result] = output
        output.aliases.append((path, result))
