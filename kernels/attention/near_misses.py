"""Why something that looks like attention is not replaced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

from npu_kernels.graph.core import Node, Value
from npu_kernels.substitution.axes import Axes, Ref
from npu_kernels.substitution.engine import mismatch
from npu_kernels.substitution.heads import Dot, Head, Op, Product, Reduce, Select, Sum, describe
from npu_kernels.substitution.masks import additive, two_valued
from npu_kernels.substitution.pattern import Reason
from npu_kernels.substitution.view import View

from .spellings import EXAMPLES

#: Casts, layout, scale, cap, mask and bias between two products: no model has more.
_STEPS = 40
_PASSED = frozenset(
    {
        "add", "subtract", "multiply", "divide", "negate", "select", "tanh", "maximum", "minimum", "convert",
        "broadcast_in_dim", "reshape", "transpose", "copy", "exponential",
    }
)  # fmt: skip


def is_softmax(view: View, node: Node) -> bool:
    """Whether a node is an exponential that is summed, or one of a value less its maximum."""
    if node.op != "exponential":
        return False
    summed = any(user.op == "reduce" and user.attrs["kind"] == "sum" for user in node.results[0].users)
    return summed or _lowered(view, view.peeler.operand(node, 0, view.whole(node.results[0]))) is not None


def explain(view: View, node: Node) -> Reason | None:
    """Why the softmax at ``node`` was not replaced; ``None`` when it does not lie between two products."""
    argument = view.peeler.operand(node, 0, view.whole(node.results[0]))
    lowered = _lowered(view, argument)
    scores = lowered.scores if lowered is not None else argument
    if _product_before(scores.value) is None:
        return None
    weights = [(path, found) for path in _products_after(node) if (found := _weights(view, node, _seen(path)[-1]))]
    paths = [path for path, found in weights if lowered is not None or found.divided]
    if not paths:
        return None
    if lowered is None:
        return Reason("structure", "the maximum of the scores is not subtracted before the exponential")
    if not lowered.keys:
        return Reason("dims", "there is one key only")
    return _scores_reason(view, scores) or _weights_reason(view, node, paths)


def _seen(path: list[Node]) -> list[Node]:
    """The part of a path, its product left out, that the view looks through."""
    return list(takewhile(lambda node: not _is_closed(node), path[:-1]))


def _is_closed(node: Node) -> bool:
    """Whether a node may give its operand back, but nothing is known of it: a sharding constraint, a barrier."""
    if node.op not in ("opaque", "optimization_barrier") or len(node.operands) != 1 or len(node.results) != 1:
        return False
    return node.operands[0].aval == node.results[0].aval


@dataclass(frozen=True)
class _Lowered:
    """``scores - max(scores, axis=keys)``."""

    scores: Ref
    keys: Axes


def _lowered(view: View, argument: Ref) -> _Lowered | None:
    core = view.head(argument).core
    if not isinstance(core, Sum) or core.constant != 0 or len(core.terms) != 2:
        return None
    (first, scores), (second, maximum) = core.terms
    head = view.head(maximum).core
    if (first, second) == (1, -1) and isinstance(head, Reduce) and head.kind == "max":
        return _Lowered(scores, head.bound)
    return None


def _product_before(value: Value) -> Node | None:
    pending = [value]
    seen: set[Node] = set()
    while pending and len(seen) < _STEPS:
        node = pending.pop(0).producer
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.op == "dot_general" and node.attrs["lhs_contracting"]:
            return node
        if node.op in _PASSED or _is_closed(node):
            pending.extend(node.operands)
    return None


def _products_after(node: Node) -> Iterator[list[Node]]:
    """Paths from an exponential to the products its softmax may go into, the shortest first."""
    pending: list[list[Node]] = [[node]]
    seen = {node}
    while pending and len(seen) < _STEPS:
        path = pending.pop(0)
        for user in path[-1].results[0].users:
            if user in seen or len(user.results) != 1:
                continue
            seen.add(user)
            if user.op == "dot_general" and user.attrs["lhs_contracting"]:
                yield [*path, user]
            elif user.op in _PASSED or user.op == "dot_general" or _is_closed(user):
                pending.append([*path, user])


def _levels(view: View, scores: Ref) -> Iterator[Head]:
    """Heads from the softmax's argument down to the product of query and key."""
    ref = scores
    for _ in range(_STEPS):
        head = view.head(ref)
        yield head
        match head.core:
            case Select(_, body):
                ref = body
            case Sum(_, terms):
                inner = [term for _, term in terms if _product_before(term.value) is not None]
                if not inner:
                    return
                ref = min(inner, key=lambda term: 0 if isinstance(view.head(term).core, Dot) else 1)
            case Op(_, args) if args:
                ref = args[0]
            case Product(factors):
                inner = [f.ref for f in factors if _product_before(f.ref.value) is not None]
                if not inner:
                    return
                ref = inner[0]
            case _:
                return


def _scores_reason(view: View, scores: Ref) -> Reason | None:
    for head in _levels(view, scores):
        match head.core:
            case Op("tanh"):
                return Reason("soft-cap", "scores pass a tanh soft cap, which the kernel does not have yet (NPK-AT01)")
            case Sum(_, terms):
                return _sum_reason(view, terms)
            case Product():
                return Reason("scale", f"scores are {describe(head)}; the kernel takes a constant scale only")
    return None


def _sum_reason(view: View, terms: tuple[tuple[int, Ref], ...]) -> Reason:
    others = [(sign, term) for sign, term in terms if _product_before(term.value) is None]
    for sign, term in others:
        found = additive(view.peeler, term, swallowing=False)
        if sign == 1 and found is not None:
            return Reason(
                "mask-fill",
                f"an additive mask of {found[1]:.9g} does not erase the scores it is added to, so a row without any "
                "key would not become uniform; use jnp.finfo(dtype).min or jnp.where",
            )
        if two_valued(view.peeler, term) is None and _is_affine_mask(view, term):
            return Reason(
                "mask-not-boolean",
                "the additive mask is computed from numbers that are not known to be zero or one; compare them first "
                "(mask > 0) and use jnp.where",
            )
    return Reason("bias", "a bias is added to the scores, which the kernel does not support yet (NPK-AT01)")


def _is_affine_mask(view: View, term: Ref) -> bool:
    """Whether a value is a large constant times something: an additive mask by its looks."""
    head = view.head(term)
    return abs(head.coefficient) >= 1e3


def _weights_reason(view: View, node: Node, paths: list[list[Node]]) -> Reason:
    if any(_modifies(view, node, step) for path in paths for step in _seen(path)[1:]):
        return Reason(
            "dropout",
            "the softmax's weights are multiplied by or replaced with something else before the second product "
            "(dropout); the kernel has no dropout",
        )
    closed = next((step for path in paths for step in path if _is_closed(step)), None)
    if closed is not None:
        name = closed.attrs.get("name", closed.op)
        return Reason("structure", f"a `{name}` stands between the softmax and the second product")
    products = [path[-1].results[0] for path in paths]
    stops = [m for root in products for example in EXAMPLES if (m := mismatch(example, view, root)) is not None]
    if not stops:
        return Reason("structure", "it does not match any example")
    best = max(stops, key=lambda m: m.progress)
    detail = f": {best.detail}" if best.detail else ""
    return Reason("structure", f"expected {best.expected}, found {describe(best.found)}{detail}")


@dataclass(frozen=True)
class _Weights:
    """A value that is the weights of a softmax.

    Attributes:
        modified: whether it has further factors, or some of the weights are replaced by a constant.
        divided: whether it is divided by its sum; the division may come after the second product.
    """

    modified: bool
    divided: bool


def _weights(view: View, node: Node, step: Node) -> _Weights | None:
    """Whether a value is the weights of the softmax of ``node``.

    An exponential that is not divided by its sum counts only where nothing else multiplies it.
    """
    head = view.head(view.whole(step.results[0]))
    selected = isinstance(head.core, Select)
    while isinstance(head.core, Select):
        head = view.head(head.core.body)
    if not isinstance(head.core, Product):
        return _Weights(selected, False) if head.ref.value is node.results[0] else None
    factors = head.core.factors
    weights = [f for f in factors if f.exponent == 1 and view.peeler.peel(f.ref).value is node.results[0]]
    totals = [f for f in factors if f.exponent == -1 and _is_total(view, f.ref)]
    return _Weights(selected or len(factors) != 2, True) if weights and totals else None


def _is_total(view: View, ref: Ref) -> bool:
    """Whether a value is a sum over an axis, perhaps with a constant added."""
    core = view.head(ref).core
    if isinstance(core, Sum) and len(core.terms) == 1:
        core = view.head(core.terms[0][1]).core
    return isinstance(core, Reduce)


def _modifies(view: View, node: Node, step: Node) -> bool:
    found = _weights(view, node, step)
    return found is not None and found.modified
