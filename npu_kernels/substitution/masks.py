"""Masks: booleans brought to a conjunction of conditions, and additive masks that are booleans in disguise."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from npu_kernels.graph.core import Node
from npu_kernels.substitution.axes import Ref
from npu_kernels.substitution.fold import COMPARE
from npu_kernels.substitution.heads import Condition
from npu_kernels.substitution.peel import Peeler, is_float

#: An additive fill this large swallows any score it meets (one unit in the last place of 1e30 in float32 is 7.6e22).
SWALLOWING = 1e30


@dataclass(frozen=True)
class TwoValued:
    """A value that is one number where the conditions hold and another elsewhere."""

    conditions: tuple[Condition, ...]
    if_true: float
    if_false: float


def conditions(peeler: Peeler, ref: Ref, negated: bool = False) -> tuple[Condition, ...]:
    """A boolean as a conjunction: ``and``, nested selects and comparisons of converted booleans are taken apart."""
    ref = peeler.peel(ref)
    constant = peeler.folder.splat(ref.value)
    if constant is not None and bool(constant) != negated:
        return ()
    node = ref.value.producer
    if node is None or constant is not None:
        return (Condition(ref, negated),)
    if node.op == "not":
        return conditions(peeler, Ref(node.operands[0], ref.index), not negated)
    if node.op == "and" and not negated and ref.value.dtype == "bool":
        found = [c for i in range(2) for c in conditions(peeler, peeler.operand(node, i, ref))]
        return tuple(found)
    if node.op == "select":
        pred, on_true, on_false = (peeler.operand(node, i, ref) for i in range(3))
        if peeler.folder.scalar(on_false.value) == 0 and not negated:
            return conditions(peeler, pred) + conditions(peeler, on_true)
        if peeler.folder.scalar(on_true.value) == 0 and peeler.folder.scalar(on_false.value) == 1:
            return conditions(peeler, pred, not negated)
    if node.op == "compare":
        taken = _comparison(peeler, node, ref)
        if taken is not None:
            return conditions(peeler, taken.ref, taken.negated != negated)
    return (Condition(ref, negated),)


def _comparison(peeler: Peeler, node: Node, ref: Ref) -> Condition | None:
    """The boolean that a comparison of a converted boolean with zero or one stands for."""
    converted = peeler.peel(peeler.operand(node, 0, ref))
    against = peeler.folder.scalar(node.operands[1])
    source = converted.value.producer
    if against is None or source is None or source.op != "convert" or source.operands[0].dtype != "bool":
        return None
    boolean = Ref(source.operands[0], converted.index)
    holds = COMPARE[node.attrs["direction"]]
    outcome = tuple(bool(holds(np.asarray(bit), np.asarray(against))) for bit in (0, 1))
    if outcome == (False, True):
        return Condition(boolean)
    if outcome == (True, False):
        return Condition(boolean, True)
    return None


def two_valued(peeler: Peeler, ref: Ref) -> TwoValued | None:
    """A number that depends on a boolean only: selects of constants, converted booleans, sums and products of these
    with constants, and a constant array of two numbers."""
    return _computed(peeler, ref) or _tabulated(peeler, ref)


def _tabulated(peeler: Peeler, ref: Ref) -> TwoValued | None:
    ref = peeler.peel(ref)
    table = peeler.folder.array(ref.value) if is_float(ref.value.dtype) else None
    if table is None:
        return None
    low, high = table.min(), table.max()
    if not (low < high and bool(((table == low) | (table == high)).all())):
        return None
    return TwoValued((Condition(ref, equals=float(high)),), float(high), float(low))


def _computed(peeler: Peeler, ref: Ref) -> TwoValued | None:
    ref = peeler.peel(ref)
    node = ref.value.producer
    if node is None:
        return None
    scalar = peeler.folder.scalar
    if node.op == "select":
        on_true, on_false = scalar(node.operands[1]), scalar(node.operands[2])
        if on_true is not None and on_false is not None:
            return TwoValued(conditions(peeler, peeler.operand(node, 0, ref)), on_true, on_false)
        return None
    if node.op == "convert" and node.operands[0].dtype == "bool":
        return TwoValued(conditions(peeler, Ref(node.operands[0], ref.index)), 1.0, 0.0)
    if node.op == "convert":
        return two_valued(peeler, Ref(node.operands[0], ref.index))
    if node.op == "negate":
        inner = two_valued(peeler, Ref(node.operands[0], ref.index))
        return TwoValued(inner.conditions, -inner.if_true, -inner.if_false) if inner else None
    if node.op not in ("add", "subtract", "multiply"):
        return None
    left, right = node.operands
    a, b = scalar(left), scalar(right)
    if (a is None) == (b is None):
        return None
    inner = two_valued(peeler, peeler.operand(node, 1 if b is None else 0, ref))
    if inner is None:
        return None

    def value(x: float) -> float:
        lhs, rhs = (a, x) if a is not None else (x, b)
        assert lhs is not None and rhs is not None
        return {"add": lhs + rhs, "subtract": lhs - rhs, "multiply": lhs * rhs}[node.op]

    return TwoValued(inner.conditions, value(inner.if_true), value(inner.if_false))


def additive(peeler: Peeler, ref: Ref, *, swallowing: bool = True) -> tuple[tuple[Condition, ...], float] | None:
    """An addend that is zero where its conditions hold and a large negative number elsewhere.

    Args:
        peeler: of the program the ref belongs to.
        ref: the addend, its sign taken into account by the caller.
        swallowing: accept only fills that erase what they are added to, so that the sum is a selection.
    """
    found = two_valued(peeler, ref)
    if found is None:
        return None
    kept, fill, conds = found.if_true, found.if_false, found.conditions
    if fill == 0 and kept < 0 and len(conds) == 1:
        kept, fill = fill, kept
        conds = (replace(conds[0], negated=not conds[0].negated),)
    if kept != 0 or fill >= 0 or (swallowing and fill > -SWALLOWING):
        return None
    return conds, fill
