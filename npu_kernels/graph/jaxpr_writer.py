"""Write a graph back as a closed jaxpr, with replacements.

Equations that are not touched are the very objects that were read: names, source locations, shardings and effects stay.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import jax

from npu_kernels import jax_compat
from npu_kernels.errors import GraphError
from npu_kernels.graph.core import Graph, Node, Value
from npu_kernels.graph.jaxpr_reader import aval_of, region_jaxprs
from npu_kernels.graph.jaxpr_sharing import Shared
from npu_kernels.graph.placement import Placed, Plan, make_plan
from npu_kernels.graph.replacement import Replacement


def rewrite_jaxpr(flat: Graph, replacements: Sequence[Replacement]) -> Any:
    """A new closed jaxpr in which each replacement is one ``jit`` equation named after it.

    Args:
        flat: ``expand(read_jaxpr(closed))``.
        replacements: of values of ``flat`` or of its regions; they must not overlap.

    Returns:
        A closed jaxpr with the inputs and outputs of the one that was read.

    Raises:
        GraphError: ``NPK-GR02`` when a replacement cannot be placed: it lies inside a ``custom_vjp`` or a
            ``shard_map``, depends on its own result, or its function returns another shape or dtype.
    """
    if not replacements:
        return flat.origin
    plan = make_plan(flat, replacements)
    return _Body(plan, plan.root, Shared()).write()


def write_jaxpr(graph: Graph) -> Any:
    """The closed jaxpr of a graph as :func:`read_jaxpr` gives it, every equation written anew."""
    return _Body(Plan(graph, changed=set(graph.graphs())), graph, Shared()).write()


def write_inlined(graph: Graph) -> Any:
    """Like :func:`write_jaxpr`, with the body of every transparent call in its place."""
    calls = {node for node in graph.walk() if node.op == "call"}
    return _Body(Plan(graph, inlined=calls, changed=set(graph.graphs())), graph, Shared()).write()


class _Body:
    """One jaxpr being written.

    Attributes:
        plan: where replacements go.
        graph: the graph that is written.
        shared: bodies written so far, for all of one rewrite.
        equations: ``(position, equation)``; a replacement has the position of what it replaces.
        redirected: what to read instead of a value that a replacement provides.
        atoms: what to read instead of a value of an inlined call.
        roots: outputs of equations that nothing read in the first place; they stay.
        effects: effects the replacements add.
        positions: place of a node's equation in the order things had.
    """

    def __init__(self, plan: Plan, graph: Graph, shared: Shared) -> None:
        self.plan = plan
        self.graph = graph
        self.shared = shared
        self.equations: list[tuple[int, Any]] = []
        self.redirected: dict[Value, Any] = {}
        self.atoms: dict[Value, Any] = {}
        self.roots: set[Any] = set()
        self.effects: set[Any] = set()
        self.positions: dict[Node, int] = {}

    def write(self) -> Any:
        placed = self.plan.placed.get(self.graph, [])
        calls = [_Call(each, self.shared) for each in placed]
        for call in calls:
            self.redirect(call)
        unread = _unread(self.graph)
        for node in self.graph.nodes:
            self.node(node, inlined=False)
            if node in unread and node.origin is not None:
                self.roots.update(node.origin.outvars)
        for call in calls:
            self.insert(call)
        outvars = [self.atom(value) for value in self.graph.outputs]
        inner = jax_compat.open_jaxpr(self.graph.origin)
        return jax_compat.replace_in_jaxpr(
            self.graph.origin,
            eqns=_live(_ordered(self.equations), outvars, self.roots),
            outvars=outvars,
            effects=inner.effects | self.effects,
            debug_info=inner.debug_info,
        )

    def atom(self, value: Value) -> Any:
        target = self.redirected.get(value)
        if isinstance(target, Value):
            return self.atom(target)
        return self.atoms.get(value, value.origin) if target is None else target

    def emit(self, node: Node, eqn: Any) -> None:
        self.positions[node] = len(self.positions)
        self.equations.append((self.positions[node], eqn))

    def node(self, node: Node, *, inlined: bool) -> None:
        eqn = node.origin
        if node.op == "constant":
            if inlined:
                self.atoms[node.result] = _constant_atom(node)
            return
        if node in self.plan.inlined:
            self.inline(node)
            return
        variables = (operand for operand in node.operands if not jax_compat.is_literal(operand.origin))
        read = {operand.origin: self.atom(operand) for operand in variables}
        changes: dict[str, Any] = {}
        invars = [atom if jax_compat.is_literal(atom) else read[atom] for atom in eqn.invars]
        if any(new is not old for new, old in zip(invars, eqn.invars, strict=True)):
            changes["invars"] = invars
        if inlined:
            changes["outvars"] = [self.fresh(result) for result in node.results]
        if any(region in self.plan.changed for region in node.regions):
            changes["params"], added = self.regions(node)
            changes["effects"] = eqn.effects | added
            self.effects |= added
        self.emit(node, eqn.replace(**changes) if changes else eqn)

    def inline(self, node: Node) -> None:
        (callee,) = node.regions
        for formal, actual in zip(callee.inputs, node.operands, strict=True):
            self.atoms[formal] = self.atom(actual)
        for inner in callee.nodes:
            self.node(inner, inlined=True)
        for result, output in zip(node.results, callee.outputs, strict=True):
            self.atoms[result] = self.atom(output)
        self.positions[node] = len(self.positions)

    def fresh(self, result: Value) -> Any:
        if jax_compat.is_dropped(result.origin):
            return result.origin
        self.atoms[result] = jax_compat.new_variable(result.origin.aval)
        return self.atoms[result]

    def regions(self, node: Node) -> tuple[dict[str, Any], set[Any]]:
        """Parameters of an equation with its changed bodies written anew, and the effects that adds."""
        params = dict(node.origin.params)
        added: set[Any] = set()
        branches = []
        for (key, jaxpr), region in zip(region_jaxprs(node.origin), node.regions, strict=True):
            if region in self.plan.changed:
                body = _Body(self.plan, region, self.shared)
                jaxpr = self.shared.get(body.write(), origin=jaxpr)
                added |= body.effects
            if key == "branches":
                branches.append(jaxpr)
            else:
                params[key] = jaxpr
        if branches:
            params["branches"] = tuple(branches)
        return params, added

    def redirect(self, call: _Call) -> None:
        for aliases, target in zip(call.placed.outputs, call.results, strict=True):
            self.redirected.update(dict.fromkeys(aliases, target))

    def insert(self, call: _Call) -> None:
        """Add the replacement's equations where the last of its outputs was made."""
        position = max(self.positions[anchor] for anchor in call.placed.anchors)
        anchor = next(node for node in call.placed.anchors if self.positions[node] == position)
        arguments = dict(zip(call.parameters, map(self.atom, call.placed.inputs), strict=True))
        for eqn in call.equations:
            invars = [v if jax_compat.is_literal(v) else arguments.get(v, v) for v in eqn.invars]
            self.equations.append((position, eqn.replace(invars=invars, source_info=anchor.origin.source_info)))
        self.effects |= call.effects


class _Call:
    """The traced function of a replacement, its variables new.

    Attributes:
        parameters: variables of the equations that stand for the inputs.
        results: for each output a variable, a literal, or the input that is passed through.
    """

    def __init__(self, placed: Placed, shared: Shared) -> None:
        self.placed = placed
        replacement = placed.replacement

        def function(*arguments: Any) -> tuple[Any, ...]:
            return tuple(replacement.function(*arguments))

        function.__name__ = function.__qualname__ = replacement.name
        avals = [
            jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=getattr(aval, "weak_type", False))
            for aval in (value.origin.aval for value in placed.inputs)
        ]
        closed = jax_compat.single_call_jaxpr(function, avals)
        inner = jax_compat.open_jaxpr(closed)
        self.parameters = inner.invars
        self.equations = [
            eqn.replace(params={**eqn.params, "jaxpr": shared.get(eqn.params["jaxpr"])}) for eqn in inner.eqns
        ]
        self.effects: set[Any] = set(inner.effects)
        inputs = dict(zip(inner.invars, placed.inputs, strict=True))
        self.results = [atom if jax_compat.is_literal(atom) else inputs.get(atom, atom) for atom in inner.outvars]
        self._check(closed)

    def _check(self, closed: Any) -> None:
        replacement = self.placed.replacement
        if jax_compat.jaxpr_consts(closed):
            raise GraphError("NPK-GR02", f"{replacement.name} closes over values; pass them as inputs")
        returned = [aval_of(aval) for aval in closed.out_avals]
        wanted = [value.aval for value in replacement.outputs]
        if returned != wanted:
            raise GraphError(
                "NPK-GR02",
                f"{replacement.name} returns {', '.join(map(str, returned))}, "
                f"the program needs {', '.join(map(str, wanted))}",
            )


def _constant_atom(node: Node) -> Any:
    """A constant of an inlined function as a literal, since its new place has no variable for it."""
    origin = node.result.origin
    if jax_compat.is_literal(origin):
        return origin
    return jax_compat.make_literal(_const_of(node.graph, origin), origin.aval)


def _const_of(graph: Graph, variable: Any) -> Any:
    names = jax_compat.open_jaxpr(graph.origin).constvars
    values = jax_compat.jaxpr_consts(graph.origin)
    return next(value for name, value in zip(names, values, strict=True) if name is variable)


def _unread(graph: Graph) -> set[Node]:
    """Nodes whose results lead to no output of the graph and to no effect."""
    live = {value.producer for value in graph.outputs}
    for node in reversed(graph.nodes):
        if node in live or (node.op != "constant" and node.origin.effects):
            live.add(node)
            live.update(operand.producer for operand in node.operands)
    return {node for node in graph.nodes if node not in live}


def _live(equations: list[Any], outvars: Sequence[Any], roots: set[Any]) -> list[Any]:
    """Equations that lead to an output, a root or an effect."""
    needed = {atom for atom in outvars if not jax_compat.is_literal(atom)} | roots
    kept = []
    for eqn in reversed(equations):
        if eqn.effects or any(variable in needed for variable in eqn.outvars):
            needed.update(atom for atom in eqn.invars if not jax_compat.is_literal(atom))
            kept.append(eqn)
    return kept[::-1]


def _ordered(equations: list[tuple[int, Any]]) -> list[Any]:
    """Sort by position, but every equation after those it reads and effects in the order they had.

    A replacement with several outputs may have to wait for an input that is made after its first output was.
    """
    by_position = [eqn for _, eqn in sorted(equations, key=lambda item: item[0])]
    makers = {variable: i for i, eqn in enumerate(by_position) for variable in eqn.outvars}
    waiting: list[set[int]] = []
    last_effect: int | None = None
    for i, eqn in enumerate(by_position):
        before = {makers[v] for v in eqn.invars if not jax_compat.is_literal(v) and v in makers}
        if eqn.effects:
            before |= set() if last_effect is None else {last_effect}
            last_effect = i
        waiting.append(before)
    readers: dict[int, list[int]] = {}
    for i, before in enumerate(waiting):
        for maker in before:
            readers.setdefault(maker, []).append(i)
    ready = [i for i, before in enumerate(waiting) if not before]
    heapq.heapify(ready)
    done: list[Any] = []
    while ready:
        i = heapq.heappop(ready)
        done.append(by_position[i])
        for reader in readers.get(i, ()):
            waiting[reader].discard(i)
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    if len(done) != len(by_position):
        raise GraphError("NPK-GR02", "a replacement depends on its own result: an input is computed from an output")
    return done
