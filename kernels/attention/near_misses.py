"""Why something that looks like attention is not replaced."""

from __future__ import annotations

from collections.abc import Iterator

from npu_kernels.graph.core import Node, Value
from npu_kernels.substitution.axes import Ref
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
        "broadcast_in_dim", "reshape", "transpose", "copy", "optimization_barrier", "exponential",
    }
)  # fmt: skip


def is_softmax(view: View, node: Node) -> bool:
    """Whether a node is the exponential of a value less its maximum."""
    if node.op != "exponential":
        return False
    core = view.head(Ref(node.operands[0], view.whole(node.results[0]).index)).core
    if not isinstance(core, Sum) or core.constant != 0 or len(core.terms) != 2:
        return False
    (first, _), (second, maximum) = core.terms
    head = view.head(maximum).core
    return (first, second) == (1, -1) and isinstance(head, Reduce) and head.kind == "max" and bool(head.bound)


def explain(view: View, node: Node) -> Reason | None:
    """Why the softmax at ``node`` was not replaced; ``None`` when it does not lie between two products."""
    core = view.head(Ref(node.operands[0], view.whole(node.results[0]).index)).core
    assert isinstance(core, Sum)
    scores = core.terms[0][1]
    if _product_before(scores.value) is None:
        return None
    paths = [path for path in _products_after(node) if _weights(view, node, path[-2]) is not None]
    if not paths:
        return None
    return _scores_reason(view, scores) or _weights_reason(view, node, paths)


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
        if node.op in _PASSED:
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
            elif user.op in _PASSED or user.op == "dot_general":
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
    if any(_modifies(view, node, step) for path in paths for step in path[1:-1]):
        return Reason(
            "dropout",
            "the softmax's weights are multiplied by or replaced with something else before the second product "
            "(dropout); the kernel has no dropout",
        )
    products = [path[-1].results[0] for path in paths]
    stops = [m for root in products for example in EXAMPLES if (m := mismatch(example, view, root)) is not None]
    if not stops:
        return Reason("structure", "it does not match any example")
    best = max(stops, key=lambda m: m.progress)
    detail = f": {best.detail}" if best.detail else ""
    return Reason("structure", f"expected {best.expected}, found {describe(best.found)}{detail}")


def _weights(view: View, node: Node, step: Node) -> tuple[int, bool] | None:
    """Whether a value is the weights of the softmax of ``node``.

    Returns:
        The number of further factors, and whether some weights are replaced by a constant; ``None`` when it is not.
        An exponential that is not divided by its sum counts only where nothing else multiplies it.
    """
    head = view.head(view.whole(step.results[0]))
    selected = isinstance(head.core, Select)
    if isinstance(head.core, Select):
        head = view.head(head.core.body)
    if not isinstance(head.core, Product):
        return (0, selected) if head.ref.value is node.results[0] else None
    factors = head.core.factors
    weights = [f for f in factors if f.exponent == 1 and view.peeler.peel(f.ref).value is node.results[0]]
    totals = [f for f in factors if f.exponent == -1 and isinstance(view.head(f.ref).core, Reduce)]
    return (len(factors) - 2, selected) if weights and totals else None


def _modifies(view: View, node: Node, step: Node) -> bool:
    """Whether a value is softmax's weights with further factors, or with some of them replaced."""
    found = _weights(view, node, step)
    return found is not None and found != (0, False)
