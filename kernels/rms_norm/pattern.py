"""How models spell RMSNorm, and when the kernel may take its place."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from npu_kernels.graph.core import Node
from npu_kernels.substitution.axes import Ref
from npu_kernels.substitution.call import Call, Operand, result_value
from npu_kernels.substitution.heads import Head, Op, Product, Reduce, Sum, describe
from npu_kernels.substitution.match import Match
from npu_kernels.substitution.pattern import Declined, Example, Pattern, Reason, array
from npu_kernels.substitution.registry import register
from npu_kernels.substitution.view import View

from .api import rms_norm


def _weighted(x: jax.Array, weight: jax.Array, *, eps: float) -> jax.Array:
    return _plain(x, eps=eps) * weight


def _plain(x: jax.Array, *, eps: float) -> jax.Array:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps)


_EXAMPLES = (
    Example(_weighted, {"x": array("r d"), "weight": array("d")}, ("r", "d"), ("eps",)),
    Example(_plain, {"x": array("r d")}, ("r", "d"), ("eps",)),
)


def make_pattern(implementation: Callable[..., Any]) -> Pattern:
    """The pattern with a given implementation, which has the arguments of :func:`npu_kernels.kernels.rms_norm`."""

    def build(match: Match) -> Call:
        return _build(match, implementation)

    return Pattern("rms_norm", _EXAMPLES, build, _is_root_mean_square, _explain, guards=(_not_centred, _has_eps))


def _build(match: Match, implementation: Callable[..., Any]) -> Call:
    x = match.variable("x")
    weighted = "weight" in match.example.arguments
    arrays = ("x", "weight", "result") if weighted else ("x", "result")
    # Without a weight all axes are shared by x and the result: the reduced ones tell themselves apart.
    features = match.reduced("x")
    rows = tuple(axis for axis in match.root.axes if axis not in features)
    if weighted and set(match.role(*arrays)) != set(features):
        raise Declined("dims", "the weight does not have exactly the axes the mean is taken over")
    output = result_value(match.root.value)
    eps, dtype = match.parameters["eps"], output.dtype
    operands = [Operand(x, (rows, features))]
    shapes = [f"x {x.value.aval}", f"result {output.aval}"]
    if weighted:
        weight = match.variable("weight")
        operands.append(Operand(weight, (features,)))
        shapes.insert(1, f"weight {weight.value.aval}")

    def call(*operands: Any) -> Any:
        return implementation(*operands, eps=eps, dtype=dtype)

    return Call(call, operands, (rows, features), match.root, output, shapes)


def _not_centred(match: Match) -> None:
    x = match.view.head(match.variable("x"))
    if isinstance(x.core, Sum) and _removes_mean(match.view, x.core):
        raise Declined("mean-removed", "the mean is subtracted first: this is a LayerNorm, which has no kernel yet")


def _has_eps(match: Match) -> None:
    if not 0 < match.parameters["eps"] < math.inf:
        raise Declined("eps", f"eps is {match.parameters['eps']:.9g}; the kernel needs a positive, finite one")


def _removes_mean(view: View, core: Sum) -> bool:
    """Whether a sum is a value less its own mean."""
    for sign, term in core.terms:
        head = view.head(term)
        if sign == -1 and isinstance(head.core, Reduce) and head.core.kind in ("mean", "sum"):
            body = view.peeler.peel(head.core.body)
            return any(view.peeler.peel(other).value is body.value for _, other in core.terms if other is not term)
    return False


def _squared(view: View, ref: Ref) -> tuple[Head, Ref] | None:
    """The reduction in ``reduce(x²)`` and its ``x``."""
    head = view.head(ref)
    if not isinstance(head.core, Reduce) or head.core.kind not in ("mean", "sum"):
        return None
    body = view.head(head.core.body).core
    if isinstance(body, Product) and [(f.exponent, f.root) for f in body.factors] == [(2, False)]:
        return head, body.factors[0].ref
    return None


def _root_argument(view: View, node: Node) -> Ref | None:
    """What a node takes the root of, when that is a sum of squares, perhaps with a number added or as its bound."""
    if node.op == "power" and view.folder.scalar(node.operands[1]) not in (0.5, -0.5):
        return None
    if node.op not in ("sqrt", "rsqrt", "power"):
        return None
    argument = view.peeler.operand(node, 0, view.whole(node.results[0]))
    return argument if _mean_square(view, argument) is not None else None


def _mean_square(view: View, argument: Ref) -> tuple[Head, Ref] | None:
    """:func:`_squared` of the part of a root's argument that is no single number."""
    core = view.head(argument).core
    parts = [argument]
    if isinstance(core, Sum):
        parts = [term for sign, term in core.terms if sign == 1 or term.axes]
    elif isinstance(core, Op) and core.name == "maximum":
        parts = list(core.args)
    parts = [part for part in parts if part.axes] or parts
    return _squared(view, parts[0]) if len(parts) == 1 else None


def _is_root_mean_square(view: View, node: Node) -> bool:
    return _root_argument(view, node) is not None


def _explain(view: View, node: Node) -> Reason | None:
    argument = _root_argument(view, node)
    assert argument is not None
    core = view.head(argument).core
    if not isinstance(core, Sum) or len(core.terms) > 1:
        return Reason("eps", "no constant is added to the mean of squares under the root")
    squared = _mean_square(view, argument)
    assert squared is not None
    head, x = squared
    assert isinstance(head.core, Reduce)
    inner = view.head(x).core
    if isinstance(inner, Sum) and _removes_mean(view, inner):
        return Reason("mean-removed", "the mean is subtracted first: this is a LayerNorm, which has no kernel yet")
    if head.core.kind != "mean":
        return Reason("structure", "the squares are summed and not divided by their number")
    made = describe(view.head(x))
    return Reason(
        "structure", f"the root of the mean square of {made} is not used to divide that same value by along that axis"
    )


PATTERN = register(make_pattern(rms_norm))
