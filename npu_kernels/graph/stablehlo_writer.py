"""Write a graph back as a StableHLO module, with replacements.

The module that was read is cloned and edited: a replacement becomes a call of a private function, lowered from its
JAX function. A private function that holds a match is copied for the calls that lead to it; every operation outside the
matches stays as it stood.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax
from jax.extend.mlir import ir as mlir
from jax.extend.mlir.dialects import func

from npu_kernels import jax_compat
from npu_kernels.errors import GraphError
from npu_kernels.graph import mlir_edit
from npu_kernels.graph.core import Graph, Node, Value
from npu_kernels.graph.mlir_edit import Operations, Values
from npu_kernels.graph.placement import Placed, Plan, make_plan
from npu_kernels.graph.replacement import Replacement


def rewrite_stablehlo(flat: Graph, replacements: Sequence[Replacement]) -> mlir.Module:
    """A new module in which each replacement is one call of a private function named after it.

    Args:
        flat: ``expand(read_stablehlo(source))``.
        replacements: of values of ``flat`` or of its regions; they must not overlap.

    Raises:
        GraphError: ``NPK-GR02`` when a replacement cannot be placed, depends on its own result, or its function
            returns another shape or dtype.
    """
    if not replacements:
        return _clone(flat.origin)
    return _Writer(make_plan(flat, replacements)).write()


def write_inlined(graph: Graph) -> mlir.Module:
    """The module of a graph as :func:`read_stablehlo` gives it, every call replaced by the function's body."""
    calls = {node for node in graph.walk() if node.op == "call"}
    return _Writer(Plan(graph, inlined=calls, changed=set(graph.graphs()))).write()


class _Writer:
    """One module being edited.

    Attributes:
        values, operations: by function graph (of the graph read), what each value and operation of the module read
            is in the module written. Copies of one function have maps of their own.
        redirected: results of replaced operations and what is read instead.
        candidates: operations that may have become unused.
        merged: names of merged functions by the text of their modules.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.values: dict[Graph, Values] = {}
        self.operations: dict[Graph, Operations] = {}
        self.redirected: Values = {}
        self.candidates: list[mlir.Operation] = []
        self.merged: dict[str, str] = {}
        self.module = _clone(plan.root.origin)

    def write(self) -> mlir.Module:
        module, root = self.module, self.plan.root
        referred = mlir_edit.symbols(module)
        with module.context, mlir.Location.unknown():
            main = mlir_edit.functions(root.origin)["main"]
            self.adopt(root, main, mlir_edit.functions(module)["main"])
            self.calls(root)
            for placed in self.plan.placed.values():
                for each in placed:
                    self.replace(each)
            mlir_edit.erase_unread(module, self.candidates)
        mlir_edit.erase_uncalled(module, referred)
        if not module.operation.verify():
            raise GraphError("NPK-GR02", "the rewritten module does not verify")
        return module

    def adopt(self, graph: Graph, old: mlir.Operation, new: mlir.Operation) -> None:
        self.values[graph], self.operations[graph] = {}, {}
        mlir_edit.pair(old, new, self.values[graph], self.operations[graph])

    def calls(self, graph: Graph) -> None:
        """Inline the calls to inline, and give changed functions copies of their own."""
        for node in _function_nodes(graph):
            if node.op != "call":
                continue
            (called,) = node.regions
            operation = self.operations[graph][node.origin]
            if node in self.plan.inlined:
                self.inline(graph, node, called, operation)
            elif called in self.plan.changed:
                name = node.attrs["name"]
                old = mlir_edit.functions(self.plan.root.origin)[name]
                new = mlir_edit.clone_function(self.module, mlir_edit.functions(self.module)[name], name)
                self.adopt(called, old, new)
                symbol = mlir_edit.symbol_name(new)
                operation.attributes["callee"] = mlir.FlatSymbolRefAttr.get(symbol)
                self.calls(called)

    def inline(self, graph: Graph, node: Node, called: Graph, operation: mlir.Operation) -> None:
        inner: Values = dict(zip(called.origin.arguments, operation.operands, strict=True))
        operations: Operations = {}
        returned = mlir_edit.inline(operation, called.origin, inner, operations)
        self.values[called], self.operations[called] = inner, operations
        self.calls(called)
        # Only now: a call in the body may be inlined too, and its results become other values.
        self.values[graph].update((r, inner[value]) for r, value in zip(node.origin.results, returned, strict=True))
        self.candidates += [
            operations[inner_node.origin] for inner_node in called.nodes if inner_node not in self.plan.inlined
        ]
        operation.erase()

    def actual(self, value: Value) -> mlir.Value[Any]:
        """What a value of the graph read is now."""
        found = self.values[_function_of(value.graph)][value.origin]
        while found in self.redirected:
            found = self.redirected[found]
        return found

    def replace(self, placed: Placed) -> None:
        replacement = placed.replacement
        symbol, result_types = self.merge(replacement)
        inputs = [self.actual(value) for value in placed.inputs]
        outputs = [list(dict.fromkeys(self.actual(alias) for alias in aliases)) for aliases in placed.outputs]
        anchors = [self.operations[_function_of(anchor.graph)][anchor.origin] for anchor in placed.anchors]
        last = anchors[0]
        for anchor in anchors[1:]:
            last = anchor if last.is_before_in_block(anchor) else last
        with last.location:
            call = func.CallOp(result_types, symbol, inputs, ip=mlir.InsertionPoint(last)).operation
        late = [maker for maker in _makers(inputs) if maker.block == call.block and call.is_before_in_block(maker)]
        for maker in late:
            # An input the match itself does not read may be made after the last output was.
            if call.is_before_in_block(maker):
                call.move_after(maker)
        for values, result in zip(outputs, call.results, strict=True):
            for value in values:
                value.replace_all_uses_with(result)
                self.redirected[value] = result
        if late or len(anchors) > 1:
            _move_early_readers(call, replacement.name)
        self.candidates += [*anchors, *_makers(value for values in outputs for value in values)]

    def merge(self, replacement: Replacement) -> tuple[str, list[mlir.Type]]:
        """Name of the function that is called instead, and its result types."""

        def function(*arguments: Any) -> tuple[Any, ...]:
            return tuple(replacement.function(*arguments))

        function.__name__ = function.__qualname__ = replacement.name
        avals = []
        for value in replacement.inputs:
            if value.aval.numpy_dtype is None:
                raise GraphError("NPK-GR02", f"{replacement.name} reads a value of dtype {value.dtype}")
            avals.append(jax.ShapeDtypeStruct(value.shape, value.aval.numpy_dtype))
        text = jax_compat.lower_to_module(function, avals)
        if text not in self.merged:
            self.merged[text] = mlir_edit.merge(self.module, text, replacement.name)
        symbol = self.merged[text]
        kind = mlir.FunctionType(
            mlir.TypeAttr(mlir_edit.functions(self.module)[symbol].attributes["function_type"]).value
        )
        wanted = [value.origin.type for value in replacement.outputs]
        if kind.results != wanted:
            raise GraphError(
                "NPK-GR02",
                f"{replacement.name} returns {', '.join(map(str, kind.results))}, "
                f"the program needs {', '.join(map(str, wanted))}",
            )
        return symbol, wanted


def _clone(module: mlir.Module) -> mlir.Module:
    return mlir.Module.parse(jax_compat.module_to_bytecode(module), module.context)


def _function_of(graph: Graph) -> Graph:
    """The function graph around a region."""
    while graph.parent is not None and graph.parent.op != "call":
        graph = graph.parent.graph
    return graph


def _function_nodes(graph: Graph) -> Iterator[Node]:
    """Nodes of a function and of its regions, but not of the functions it calls."""
    for node in graph.nodes:
        yield node
        if node.op != "call":
            for region in node.regions:
                yield from _function_nodes(region)


def _makers(values: Iterable[mlir.Value[Any]]) -> list[mlir.Operation]:
    """Operations that make the values; arguments of blocks have none."""
    owners = (value.owner for value in values)
    return [owner.operation for owner in owners if not isinstance(owner, mlir.Block)]


def _move_early_readers(call: mlir.Operation, name: str) -> None:
    """Move what reads a result and stands before the call to after it."""
    late = set(call.results)
    after = call
    inputs = set(call.operands)
    for view in list(call.block.operations):
        operation = view.operation
        if operation == call:
            break
        if any(operand in late for inner in mlir_edit.walk(operation) for operand in inner.operands):
            if inputs & set(operation.results):
                raise GraphError("NPK-GR02", f"{name} depends on its own result: an input is computed from an output")
            operation.move_after(after)
            after = operation
            late.update(operation.results)
