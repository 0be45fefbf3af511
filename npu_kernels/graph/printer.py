"""Deterministic text of a graph, for people and for golden tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from npu_kernels.graph.core import Graph, Value


def print_graph(graph: Graph) -> str:
    """One line per node, regions indented below their node. Values are numbered in order of definition."""
    names: dict[Value, str] = {}
    lines: list[str] = []
    _print(graph, names, lines, "")
    return "\n".join(lines) + "\n"


def _name(value: Value, names: dict[Value, str]) -> str:
    return names.setdefault(value, f"%{len(names)}")


def _print(graph: Graph, names: dict[Value, str], lines: list[str], indent: str) -> None:
    inputs = ", ".join(f"{_name(v, names)}: {v.aval}" for v in graph.inputs)
    lines.append(f"{indent}{graph.name}({inputs}) {{")
    for node in graph.nodes:
        operands = ", ".join(_name(v, names) for v in node.operands)
        results = ", ".join(f"{_name(v, names)}: {v.aval}" for v in node.results)
        attrs = ", ".join(f"{key}={_attr(value)}" for key, value in sorted(node.attrs.items()))
        text = f"{indent}  {results} = " if results else f"{indent}  "
        text += node.op + (f" {operands}" if operands else "") + (f" {{{attrs}}}" if attrs else "")
        lines.append(text + (f"  # {node.location}" if node.location else ""))
        for region in node.regions:
            _print(region, names, lines, indent + "    ")
    lines.append(f"{indent}  return {', '.join(_name(v, names) for v in graph.outputs)}")
    lines.append(f"{indent}}}")


def _attr(value: Any) -> str:
    if isinstance(value, np.ndarray):
        if value.size == 0:
            return "[]"
        flat = value.reshape(-1)
        if value.size == 1 or (flat[0] == flat).all():
            return str(flat[0])
        shown = " ".join(str(x) for x in flat[:4])
        return f"[{shown}{' ...' if value.size > 4 else ''}]"
    if isinstance(value, tuple):
        return f"[{','.join(map(str, value))}]"
    return str(value)
