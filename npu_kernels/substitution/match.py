"""A match: which values of the program the example's arguments are, and which axes they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from npu_kernels.graph.core import Node, Value, cut, escaping
from npu_kernels.substitution.axes import LAYOUT, Axes, Axis, Ref, extent, resolve
from npu_kernels.substitution.bindings import Bindings
from npu_kernels.substitution.heads import Condition, Select
from npu_kernels.substitution.matcher import Matcher
from npu_kernels.substitution.pattern import RESULT, Declined, Example, Pattern, retrace
from npu_kernels.substitution.peel import SIGNIFICANT_BITS, is_float
from npu_kernels.substitution.view import View

Signature = frozenset[str]


@dataclass(frozen=True, eq=False)
class Match:
    """An instance of a pattern in a program.

    Attributes:
        pattern, example: what matched.
        view: of the program.
        root: the value the example's result is, read at its axes.
        bindings: what the example's names are in the program.
    """

    pattern: Pattern
    example: Example
    view: View
    root: Ref
    bindings: Bindings

    def variable(self, name: str) -> Ref:
        """The value a float argument is bound to, read at the match's axes."""
        return self.bindings.variables[name][1]

    def conditions(self, name: str) -> tuple[Condition, ...]:
        """The conjunction a boolean argument is bound to; empty when it is always true."""
        return self.bindings.conditions.get(name, ())

    @property
    def parameters(self) -> Mapping[str, float]:
        return self.bindings.parameters

    @property
    def selections(self) -> tuple[Select, ...]:
        """Masked values on the way."""
        return tuple(self.bindings.selections)

    @cached_property
    def roles(self) -> Mapping[Signature, Axes]:
        """Axes of the program by which of the example's arrays have them.

        Raises:
            Declined: ``dims`` for an axis that fits no axis of the example.
        """
        reads = {name: set(self.variable(name).axes) for name in self.example.arrays}
        reads[RESULT] = set(self.root.axes)
        roles: dict[Signature, Axes] = {self.example.signature(axis): () for axis in self.example.axis_names}
        for axis in self._ordered_axes():
            own = frozenset(name for name, axes in reads.items() if axis in axes)
            if own not in roles:
                raise Declined(
                    "dims",
                    f"an axis of size {axis.size} is shared by {', '.join(sorted(own))} and by nothing else, which "
                    f"does not happen in {self.pattern.name}",
                )
            roles[own] = (*roles[own], axis)
        self._check_bound(roles)
        return roles

    def _check_bound(self, roles: Mapping[Signature, Axes]) -> None:
        """Axes that are summed over have to be the example's, and no value may be read along a diagonal."""
        for name in self.example.arrays:
            index, ref = self.bindings.variables[name]
            flat = [axis for dim in ref.resolved for axis in dim]
            if len(set(flat)) != len(flat):
                raise Declined("dims", f"{name} is read along a diagonal")
            for axis_name, dim in zip(self.example.arguments[name].axes, index, strict=True):
                wanted = {a for p in dim for a in resolve(self.bindings.axes.get(p, ()))}
                if not wanted <= set(roles[self.example.signature(axis_name)]):
                    raise Declined("dims", f"{name} does not have the axis that is reduced")

    def _ordered_axes(self) -> list[Axis]:
        """All axes, those of the first argument first, each in the order of the value's dimensions."""
        ordered = [axis for name in self.example.arrays for axis in self.variable(name).axes]
        return list(dict.fromkeys([*ordered, *self.root.axes]))

    def role(self, *names: str) -> Axes:
        """Axes that exactly these arrays of the example share; ``result`` is the result."""
        return self.roles.get(frozenset(names), ())

    def reduced(self, name: str) -> Axes:
        """The axes of an argument that the example sums over elsewhere, in the order of the value's dimensions."""
        index, ref = self.bindings.variables[name]
        bound = {a for dim in index for p in dim for a in resolve(self.bindings.axes.get(p, ()))}
        return tuple(axis for axis in ref.axes if axis in bound)

    # -- what is cut ---------------------------------------------------------------------------------------------

    @property
    def inputs(self) -> tuple[Value, ...]:
        """Values the replacement reads."""
        found = [self.variable(name).value for name in self.example.arrays]
        found += [c.ref.value for conds in self.bindings.conditions.values() for c in conds]
        return tuple(dict.fromkeys(found))

    @cached_property
    def interior(self) -> tuple[Node, ...]:
        """Nodes between inputs and root."""
        return tuple(cut(self.inputs, [self.root.value]))

    @cached_property
    def core(self) -> frozenset[Node]:
        """Interior nodes that compute what the pattern is about: none that only prepares an input."""
        matched = {shared.ref.value.producer for shared in self.bindings.nodes.values()}
        core: set[Node] = {node for node in self.interior if node in matched and node.operands}
        for node in self.interior:
            if any(operand.producer in core for operand in node.operands):
                core.add(node)
        return frozenset(node for node in core if not _only_constants(self.view, node))

    @property
    def escapes(self) -> list[Value]:
        """Core values that something outside the match reads."""
        inside = set(self.interior)
        return [v for v in escaping(inside) if v is not self.root.value and v.producer in self.core]

    @property
    def narrowed(self) -> bool:
        """Whether the program rounds an intermediate below float32."""
        computed = (v for node in self.interior if _rounds(self.view, node) for v in node.results)
        floats = [v.dtype for v in computed if is_float(v.dtype) and v is not self.root.value]
        return any(SIGNIFICANT_BITS[dtype] < SIGNIFICANT_BITS["float32"] for dtype in floats)

    # -- re-trace ------------------------------------------------------------------------------------------------

    def verified(self) -> Match | None:
        """The match found again by the example traced with this match's sizes and constants, or ``None``."""
        sizes = {name: extent(axes) for name, axes in self.example_axes.items()}
        traced = retrace(self.example, sizes, self.parameters)
        again = Matcher(traced.view, traced.variables, {}, self.view).match(traced.root, self.root)
        if again is None or not self._agrees(again):
            return None
        if any(axis.size != extent(resolve(axes)) for axis, axes in again.axes.items()):
            return None
        return replace(self, bindings=replace(again, parameters=dict(self.parameters)))

    @cached_property
    def example_axes(self) -> Mapping[str, Axes]:
        """Axes of the program by the example's axis name.

        Several axes of one role, batch and heads for instance, cannot be told apart: the first of the example's axes
        of that role that is not summed over stands for all of them.
        """
        found: dict[str, Axes] = {}
        for name in self.example.arrays:
            index, _ = self.bindings.variables[name]
            for axis_name, dim in zip(self.example.arguments[name].axes, index, strict=True):
                axes = tuple(a for p in dim for a in resolve(self.bindings.axes.get(p, ())))
                if axes:
                    found[axis_name] = axes
        taken = {axis for axes in found.values() for axis in axes}
        for axis_name in self.example.axis_names:
            if axis_name not in found:
                role = self.roles[self.example.signature(axis_name)]
                found[axis_name] = tuple(axis for axis in role if axis not in taken)
                taken.update(found[axis_name])
        return found

    def _agrees(self, other: Bindings) -> bool:
        mine = {name: ref.value for name, (_, ref) in self.bindings.variables.items()}
        return mine == {name: ref.value for name, (_, ref) in other.variables.items()}


def _rounds(view: View, node: Node) -> bool:
    """Whether a node rounds its results to their dtype: it computes them, or casts from a wider one."""
    if not node.operands or node.op in LAYOUT or node.op == "select" or _only_constants(view, node):
        return False
    if node.op != "convert":
        return True
    source, target = node.operands[0].dtype, node.result.dtype
    return is_float(source) and is_float(target) and SIGNIFICANT_BITS[source] > SIGNIFICANT_BITS[target]


def _only_constants(view: View, node: Node) -> bool:
    return all(view.folder.splat(result) is not None for result in node.results)
