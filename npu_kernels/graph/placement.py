"""Where a replacement goes in the program as it was written, and which calls must be inlined for it.

A match lies in the expanded graph. The program has calls, so the replacement is put into the innermost function that
holds all of the match. A call is inlined only when the match begins or ends in the middle of it; a call that lies
within the match whole merely becomes unused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from npu_kernels.errors import GraphError
from npu_kernels.graph.core import Graph, Node, Value, cut, dependencies, enclosing
from npu_kernels.graph.replacement import Replacement

#: Regions that are not entered, and why.
_CLOSED = {
    "custom_vjp": "whose derivative would not follow",
    "shard_map": "where types say how values vary over the mesh, which a function traced outside cannot",
}


@dataclass(frozen=True, eq=False)
class Placed:
    """A replacement in terms of the graph that was read.

    Attributes:
        replacement: what was asked for.
        host: the graph that gets the new call, after inlining.
        inputs: for each input, the value to read in the host.
        outputs: for each output, every value of the host (inlined calls included) that stands for it.
        anchors: nodes of the host, or of calls inlined into it, that produced the outputs.
    """

    replacement: Replacement
    host: Graph
    inputs: list[Value]
    outputs: list[list[Value]]
    anchors: list[Node]


@dataclass(eq=False)
class Plan:
    """All replacements of one rewrite.

    Attributes:
        root: the graph that was read.
        placed: replacements by the graph that hosts them.
        inlined: call nodes to inline.
        changed: graphs that are written anew: hosts and everything around them.
    """

    root: Graph
    placed: dict[Graph, list[Placed]] = field(default_factory=dict)
    inlined: set[Node] = field(default_factory=set)
    changed: set[Graph] = field(default_factory=set)

    def host(self, graph: Graph) -> Graph:
        """The graph that holds another one's nodes once calls are inlined."""
        while graph.parent is not None and graph.parent in self.inlined:
            graph = graph.parent.graph
        return graph


def make_plan(flat: Graph, replacements: Sequence[Replacement]) -> Plan:
    """Place replacements in the program an expanded graph came from.

    Raises:
        GraphError: ``NPK-GR02`` when values do not belong together or a replacement lies inside a ``custom_vjp``.
    """
    plan = Plan(_root(flat))
    levels = []
    for replacement in replacements:
        _check(replacement, flat)
        nodes = cut(replacement.inputs, replacement.outputs)
        level = _level_of_inputs(replacement, _level(nodes))
        levels.append(level)
        _inline_for(replacement, nodes, level, plan)
    for replacement, level in zip(replacements, levels, strict=True):
        while calls := _calls_on_cycle(_place(replacement, plan.host(level), plan), plan):
            plan.inlined |= calls
    for replacement, level in zip(replacements, levels, strict=True):
        placed = _place(replacement, plan.host(level), plan)
        plan.placed.setdefault(placed.host, []).append(placed)
    for host in plan.placed:
        graph: Graph | None = host
        while graph is not None:
            plan.changed.add(graph)
            graph = graph.parent.graph if graph.parent is not None else None
    return plan


def _root(flat: Graph) -> Graph:
    for value in [*flat.inputs, *(result for node in flat.nodes for result in node.results)]:
        if value.aliases:
            graph = value.aliases[0][1].graph
            while graph.parent is not None:
                graph = graph.parent.graph
            return graph
    raise GraphError("NPK-GR02", "replacements belong to an expanded graph; call expand() first")


def _check(replacement: Replacement, flat: Graph) -> None:
    graphs = {value.graph for value in replacement.outputs}
    if len(graphs) != 1:
        raise GraphError("NPK-GR02", f"the outputs of {replacement.name} lie in {len(graphs)} graphs, not in one")
    (graph,) = graphs
    for op, why in _CLOSED.items():
        if enclosing(graph, op) is not None:
            raise GraphError("NPK-GR02", f"{replacement.name} lies inside a {op}, {why}")
    while graph.parent is not None:
        graph = graph.parent.graph
    if graph is not flat:
        raise GraphError("NPK-GR02", f"the outputs of {replacement.name} do not belong to the graph rewritten")


def _level(nodes: Sequence[Node]) -> Graph:
    """The innermost function graph (of the graph read) that holds all nodes, constants aside."""
    deciding = [node for node in nodes if node.op != "constant"] or list(nodes)
    if not deciding:
        raise GraphError("NPK-GR02", "a replacement needs an operation between its inputs and outputs")
    first = deciding[0]
    depth = len(first.path)
    for node in deciding[1:]:
        shared = 0
        for mine, other in zip(first.path[:depth], node.path, strict=False):
            if mine is not other:
                break
            shared += 1
        depth = min(depth, shared)
    return first.source.graph if depth == len(first.path) else first.path[depth].graph


def _level_of_inputs(replacement: Replacement, level: Graph) -> Graph:
    """The innermost graph at or around ``level`` where inputs the match itself does not read can be read too."""
    while level.parent is not None and level.parent.op == "call":
        call, depth = level.parent, _depth(level)
        paths = ((value.producer.path if value.producer is not None else ()) for value in replacement.inputs)
        inside = (len(path) >= depth and path[depth - 1] is call for path in paths)
        if all(near or _visible(value, level) for near, value in zip(inside, replacement.inputs, strict=True)):
            break
        level = call.graph
    return level


def _inline_for(replacement: Replacement, nodes: Sequence[Node], level: Graph, plan: Plan) -> None:
    matched = set(nodes)
    for value in replacement.inputs:
        if not _visible(value, level):
            _inline_down(value, level, plan)
    for value in replacement.outputs:
        depth = _depth(level)
        path = value.producer.path if value.producer is not None else ()
        stays_inside = _visible(value, level) and not any(
            user not in matched and user.path[: depth + 1] == path[: depth + 1] for user in value.users
        )
        if len(path) > depth and not stays_inside:
            _inline_down(value, level, plan)


def _depth(level: Graph) -> int:
    """Number of calls around a graph."""
    depth = 0
    node = level.parent
    while node is not None:
        depth += node.op == "call"
        node = node.graph.parent
    return depth


def _visible(value: Value, level: Graph) -> bool:
    return any(_same_function(alias.graph, level) for _, alias in value.aliases)


def _same_function(graph: Graph, level: Graph) -> bool:
    """Whether values of ``graph`` can be read in ``level``: the same graph, or one around it in its function."""
    current = level
    while current is not graph:
        if current.parent is None or current.parent.op == "call":
            return False
        current = current.parent.graph
    return True


def _inline_down(value: Value, level: Graph, plan: Plan) -> None:
    path = value.producer.path if value.producer is not None else value.aliases[0][0]
    plan.inlined.update(path[_depth(level) :])


def _place(replacement: Replacement, host: Graph, plan: Plan) -> Placed:
    inputs = []
    for i, value in enumerate(replacement.inputs):
        seen = [alias for _, alias in value.aliases if _same_function(plan.host(alias.graph), host)]
        if not seen:
            raise GraphError("NPK-GR02", f"input {i} ({value.aval}) of {replacement.name} cannot be read there")
        inputs.append(seen[0])
    outputs = [[alias for _, alias in value.aliases if plan.host(alias.graph) is host] for value in replacement.outputs]
    anchors = []
    for i, value in enumerate(replacement.outputs):
        if value.producer is None or value.producer.op == "constant":
            raise GraphError("NPK-GR02", f"output {i} of {replacement.name} is an input or a constant")
        makers = [alias.producer for alias in outputs[i] if alias.producer is not None]
        if not makers:
            raise GraphError("NPK-GR02", f"output {i} ({value.aval}) of {replacement.name} is not made there")
        anchors.append(makers[0])
    return Placed(replacement, host, inputs, outputs, anchors)


def _calls_on_cycle(placed: Placed, plan: Plan) -> set[Node]:
    """Calls through which an input depends on an output, though nothing inside them needs both.

    Only a replacement with several outputs can have such calls. Inlined, they come apart.
    """
    if len(placed.outputs) == 1:
        return set()
    outputs = {alias for aliases in placed.outputs for alias in aliases}
    reader: dict[Value, Value | None] = dict.fromkeys(placed.inputs)
    pending = list(placed.inputs)
    while pending:
        value = pending.pop()
        if value in outputs:
            calls = set()
            step: Value | None = value
            while step is not None:
                if step.producer is not None and step.producer.op == "call" and step.producer not in plan.inlined:
                    calls.add(step.producer)
                step = reader[step]
            if calls:
                return calls
        for needed in _needs(value, plan):
            if needed not in reader and plan.host(needed.graph) is placed.host:
                reader[needed] = value
                pending.append(needed)
    return set()


def _needs(value: Value, plan: Plan) -> Sequence[Value]:
    """What a value is computed from, looking into inlined calls and taking others as they are."""
    call = value.graph.parent
    if value.producer is None:
        return [call.operands[value.index]] if call is not None and call in plan.inlined else []
    if value.producer in plan.inlined:
        return [value.producer.regions[0].outputs[value.index]]
    return dependencies(value.producer)
