"""Read a StableHLO module into a graph.

How the operands of nodes with regions map to the inputs of their regions:

* ``while``: one to one to both regions (no constants apart: a region reads outer values directly);
* ``case``, ``if``: the first operand chooses; the branches have no inputs and read outer values directly.

Operations that carry a small function of scalars (sort, scatter, a reduction that is no plain sum or maximum ...)
are ``opaque``; outer values such a function reads follow its own operands.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jax.extend.mlir import ir as mlir

from npu_kernels import jax_compat
from npu_kernels.errors import GraphError
from npu_kernels.graph.core import Aval, Graph, Value
from npu_kernels.graph.mlir_constants import read_constant
from npu_kernels.graph.stablehlo_ops import describe
from npu_kernels.graph.stablehlo_types import aval_of

_TERMINATORS = frozenset({"func.return", "stablehlo.return"})
_REGIONS = {
    "stablehlo.while": ("while", ("cond", "body")),
    "stablehlo.if": ("if", ("on_true", "on_false")),
    "stablehlo.case": ("case", ()),
}


def read_stablehlo(source: str | bytes | Path | mlir.Module) -> Graph:
    """Graph of a module's ``main``: from a file, text, bytecode, a portable artifact or a parsed module.

    Raises:
        GraphError: ``NPK-GR01`` when the source is no StableHLO module, has no ``main``, calls itself, or has a
            dimension that is not a known number.
    """
    module = source if isinstance(source, mlir.Module) else parse(source)
    file = str(source) if isinstance(source, Path) else "<module>"
    functions = {}
    for view in module.body.operations:
        operation = view.operation
        if operation.name == "func.func":
            functions[mlir.StringAttr(operation.attributes["sym_name"]).value] = operation
    if "main" not in functions:
        raise GraphError(
            "NPK-GR01", f"the module has no function main; it has {', '.join(sorted(functions)) or 'none'}"
        )
    graph = _Reader(functions, file).function("main")
    graph.origin = module
    return graph


def parse(source: str | bytes | Path) -> mlir.Module:
    """Parse a module in a context of its own."""
    if isinstance(source, Path):
        source = source.read_bytes()
    if isinstance(source, bytes) and not source.startswith(b"ML\xefR"):
        source = source.decode("utf-8", errors="replace")
    try:
        return jax_compat.parse_module(source)
    except mlir.MLIRError as error:
        first = str(error).strip().splitlines()
        detail = next((line for line in first if "error:" in line), first[-1])
        raise GraphError("NPK-GR01", f"this is no StableHLO module that XLA's parser accepts: {detail}") from error


class _Reader:
    def __init__(self, functions: dict[str, mlir.Operation], file: str) -> None:
        self.functions = functions
        self.file = file
        self.active: list[str] = []

    def function(self, name: str) -> Graph:
        if name in self.active:
            raise GraphError("NPK-GR01", f"function @{name} calls itself; XLA would refuse the module too")
        self.active.append(name)
        operation = self.functions[name]
        if not operation.regions[0].blocks:
            raise GraphError("NPK-GR01", f"function @{name} is declared without a body")
        graph = self.block(operation.regions[0].blocks[0], name, {})
        self.active.pop()
        return graph

    def block(self, block: mlir.Block, name: str, values: dict[mlir.Value[Any], Value]) -> Graph:
        graph = Graph(name, origin=block)
        for argument in block.arguments:
            values[argument] = graph.add_input(aval_of(argument.type), argument)
        for view in block.operations:
            operation = view.operation
            if operation.name in _TERMINATORS:
                graph.outputs = [values[operand] for operand in operation.operands]
            else:
                self.operation(graph, operation, values)
        return graph

    def operation(self, graph: Graph, operation: mlir.Operation, values: dict[mlir.Value[Any], Value]) -> None:
        operands = [values[operand] for operand in operation.operands]
        attrs: dict[str, Any] = {}
        regions: list[Graph] = []
        if operation.name == "func.call":
            callee = mlir.FlatSymbolRefAttr(operation.attributes["callee"]).value
            op, attrs, regions = "call", {"name": callee, "kind": "func"}, [self.function(callee)]
        elif operation.name in _REGIONS:
            op, names = _REGIONS[operation.name]
            attrs = {"cond_nconsts": 0, "body_nconsts": 0} if op == "while" else {}
            regions = [
                self.block(region.blocks[0], names[i] if names else f"branch{i}", values)
                for i, region in enumerate(operation.regions)
            ]
        elif operation.name == "stablehlo.constant":
            op, attrs = "constant", {"value": read_constant(operation)}
        else:
            op, operands, attrs = describe(operation, operands)
            if op == "opaque":
                operands += [values[value] for value in _captured(operation)]
        results: list[tuple[Aval, Any]] = [(aval_of(result.type), result) for result in operation.results]
        location = jax_compat.mlir_location(operation)
        if location is not None and location.startswith("-:"):
            location = self.file + location[1:]
        node = graph.add(op, operands, results, attrs, regions, location=location, origin=operation)
        values.update(zip(operation.results, node.results, strict=True))


def _captured(operation: mlir.Operation) -> list[mlir.Value[Any]]:
    """Values defined outside an operation that its regions read."""
    inside: set[mlir.Value[Any]] = set()
    read: dict[mlir.Value[Any], None] = {}

    def visit(block: mlir.Block) -> None:
        inside.update(block.arguments)
        for view in block.operations:
            inner = view.operation
            read.update(dict.fromkeys(inner.operands))
            inside.update(inner.results)
            for region in inner.regions:
                for nested in region.blocks:
                    visit(nested)

    for region in operation.regions:
        for block in region.blocks:
            visit(block)
    return [value for value in read if value not in inside]
