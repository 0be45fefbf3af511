"""Find every instance of every pattern in an expanded graph, and what nearly was one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from npu_kernels.graph.core import Graph, Node, Value
from npu_kernels.graph.replacement import Replacement
from npu_kernels.substitution.bindings import Mismatch
from npu_kernels.substitution.fold import Folder
from npu_kernels.substitution.guards import check
from npu_kernels.substitution.heads import Dot, Product
from npu_kernels.substitution.match import Match
from npu_kernels.substitution.matcher import Matcher
from npu_kernels.substitution.pattern import Declined, Example, Pattern, Reason
from npu_kernels.substitution.peel import is_float
from npu_kernels.substitution.policy import Policy
from npu_kernels.substitution.report import NearMiss, Replaced, Report
from npu_kernels.substitution.view import View

#: Nodes that can be the root of an example whose result is of this form.
_ROOTS = {
    Dot: frozenset({"dot_general"}),
    Product: frozenset({"multiply", "divide", "dot_general"}),
}
_UNKNOWN = "unknown location"


@dataclass
class _Search:
    """State of one search of one graph."""

    covered: set[Node] = field(default_factory=set)
    replacements: list[Replacement] = field(default_factory=list)
    replaced: list[tuple[int, Replaced]] = field(default_factory=list)
    missed: list[tuple[int, NearMiss]] = field(default_factory=list)


@dataclass(frozen=True)
class Found:
    """Result of a search: rewrites to make, and the report."""

    replacements: Sequence[Replacement]
    report: Report


def search(graph: Graph, patterns: Sequence[Pattern], policy: Policy) -> Found:
    """Match all patterns in an expanded graph and the graphs of its loops and branches."""
    folder = Folder()
    replacements: list[Replacement] = []
    replaced: list[Replaced] = []
    missed: list[NearMiss] = []
    for inner in graph.graphs():
        state = _Search()
        for pattern in patterns:
            _search_pattern(inner, pattern, policy, View(folder), state)
        replacements += state.replacements
        replaced += [entry for _, entry in sorted(state.replaced, key=lambda pair: pair[0])]
        missed += [miss for _, miss in sorted(state.missed, key=lambda pair: pair[0])]
    return Found(replacements, Report(replaced, missed, policy.name, [pattern.name for pattern in patterns]))


def _search_pattern(graph: Graph, pattern: Pattern, policy: Policy, view: View, state: _Search) -> None:
    declined: dict[Node, Reason] = {}
    order = {node: position for position, node in enumerate(graph.nodes)}
    for node in reversed(graph.nodes):
        if node in state.covered or len(node.results) != 1 or not is_float(node.results[0].dtype):
            continue
        match = _match(node, pattern, view)
        if match is None:
            continue
        try:
            used = check(match, policy)
            call = pattern.build(match)
            replacement = call.replacement(pattern.name)
        except Declined as reason:
            for inner in match.core:
                declined.setdefault(inner, reason.reason)
            continue
        state.covered |= match.core
        if call.output.producer is not None:
            state.covered.add(call.output.producer)
        state.replacements.append(replacement)
        why = ", ".join(sorted(permission.value for permission in used)) or "exact"
        entry = Replaced(pattern.name, where(node), why, tuple(call.shapes))
        state.replaced.append((order[node], entry))
    for node in graph.nodes:
        if node in state.covered or not pattern.anchor(view, node):
            continue
        found = declined.get(node) or pattern.explain(view, node)
        if found is not None:
            shapes = (str(node.results[0].aval),)
            miss = NearMiss(pattern.name, where(node), found.code, found.sentence, shapes)
            state.missed.append((order[node], miss))


def _match(node: Node, pattern: Pattern, view: View) -> Match | None:
    """The first example that matches at a node and matches again when traced for it."""
    root = view.whole(node.results[0])
    for example in pattern.examples:
        if not _possible(example, node):
            continue
        traced = example.prototype
        bindings = Matcher(traced.view, traced.variables, traced.parameters, view).match(traced.root, root)
        if bindings is None:
            continue
        match = Match(pattern, example, view, root, bindings)
        try:
            verified = match.verified()
        except Declined:
            # Axes that fit no axis of the example: the guards report it.
            return match
        if verified is not None:
            return verified
    return None


def mismatch(example: Example, view: View, value: Value) -> Mismatch | None:
    """Where matching an example at a value stops; for explanations."""
    traced = example.prototype
    matcher = Matcher(traced.view, traced.variables, traced.parameters, view)
    matcher.match(traced.root, view.whole(value))
    return matcher.mismatch


def _possible(example: Example, node: Node) -> bool:
    wanted = _ROOTS.get(type(example.prototype.form))
    return wanted is None or node.op in wanted


def where(node: Node) -> str:
    """The user's own source line, or the function a module without locations has the node in."""
    if node.location is not None:
        return node.location
    if node.path:
        return f"in {node.path[-1].attrs.get('name', _UNKNOWN)}"
    return f"in {node.graph.name}"
