"""How models spell attention, and when the kernel may take its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np

from npu_kernels.graph.core import Aval
from npu_kernels.substitution.axes import Axes, Axis, extent, resolve
from npu_kernels.substitution.call import Call, Operand, result_value, widest
from npu_kernels.substitution.heads import Condition
from npu_kernels.substitution.match import Match
from npu_kernels.substitution.pattern import Declined, Pattern
from npu_kernels.substitution.registry import register

from .api import attention
from .near_misses import explain, is_softmax
from .spellings import EXAMPLES

#: A select's fill at least this far down hides a key: the exponential of the difference to any score is zero.
_HIDING = -1e9


def make_pattern(implementation: Callable[..., Any]) -> Pattern:
    """The pattern with a given implementation, which has the arguments of :func:`npu_kernels.kernels.attention`."""

    def build(match: Match) -> Call:
        return _build(match, implementation)

    return Pattern("attention", EXAMPLES, build, is_softmax, explain, guards=(_finite_scale, _fill))


def _finite_scale(match: Match) -> None:
    if not math.isfinite(match.parameters["scale"]):
        raise Declined("scale", f"the scores are multiplied by {match.parameters['scale']}")


def _fill(match: Match) -> None:
    for selection in match.selections:
        dtype = selection.whole.value.dtype
        lowest = float(ml_dtypes.finfo(dtype).min)
        if not (selection.fill <= _HIDING or selection.fill == lowest):
            raise Declined(
                "mask-fill",
                f"masked scores are {selection.fill:.9g} in {dtype}, which does not hide a key from every score; use "
                f"-inf, jnp.finfo({dtype}).min or a number below {_HIDING:g}",
            )


@dataclass(frozen=True)
class _Layout:
    """Axes of the kernel's dimensions: batch, queries, key heads, queries per key head, keys, depth, width."""

    batch: Axes
    queries: Axes
    heads: Axes
    group: Axes
    keys: Axes
    depth: Axes
    width: Axes

    @property
    def all_heads(self) -> Axes:
        return (*self.heads, *self.group)


def _build(match: Match, implementation: Callable[..., Any]) -> Call:
    causal, kept = _split_masks(match, match.conditions("mask"))
    layout = _layout(match, match.conditions("mask"), kept)
    query, key, value = (match.variable(name) for name in ("query", "key", "value"))
    output = result_value(match.root.value)
    dtype = widest([query.value.dtype, key.value.dtype, value.value.dtype, _weights_dtype(match), output.dtype])
    operands = [
        Operand(query, (layout.batch, layout.queries, layout.all_heads, layout.depth), dtype),
        Operand(key, (layout.batch, layout.keys, layout.heads, layout.depth), dtype),
        Operand(value, (layout.batch, layout.keys, layout.heads, layout.width), dtype),
    ]
    scores = (layout.batch, layout.all_heads, layout.queries, layout.keys)
    operands += [Operand(c.ref, scores, sparse=True, condition=c) for c in kept]
    scale = match.parameters["scale"]
    fill = match.parameters.get("fill")
    additive = any(selection.additive for selection in match.selections)
    masked = causal or bool(kept)

    def call(q: Any, k: Any, v: Any, *masks: Any) -> Any:
        combined = None
        for one in masks:
            combined = one if combined is None else jnp.logical_and(combined, one)
        options = {"mask_value": fill} if masked else {}
        out = implementation(q, k, v, mask=combined, scale=scale, is_causal=causal, **options)
        return _spread_nans(out, k) if additive else out

    names = ("query", "key", "value")
    shapes = [f"{name} {Aval(op.shape, dtype)}" for name, op in zip(names, operands, strict=False)]
    if causal:
        shapes.append("causal")
    shapes += [f"mask {Aval(op.shape, 'bool')}" for op in operands[3:]]
    result = (layout.batch, layout.queries, layout.all_heads, layout.width)
    return Call(call, operands, result, match.root, output, shapes)


def _spread_nans(out: Any, key: Any) -> Any:
    """With an additive mask a NaN in a hidden key reaches every row of its head: NaN plus the fill is NaN."""
    spoiled = jnp.repeat(jnp.isnan(key).any(axis=(1, 3)), out.shape[2] // key.shape[2], axis=1)
    return jnp.where(spoiled[:, None, :, None], jnp.nan, out)


def _weights_dtype(match: Match) -> str:
    """Dtype in which softmax's weights meet the values."""
    node = match.root.value.producer
    assert node is not None
    if node.op == "dot_general":
        return widest([operand.dtype for operand in node.operands])
    return match.root.value.dtype


def _split_masks(match: Match, conditions: Sequence[Condition]) -> tuple[bool, list[Condition]]:
    """Whether the conditions hold a causal mask, and the other ones."""
    rows, keys = match.role("query", "result"), match.role("key", "value")
    causal, kept = False, []
    for condition in conditions:
        if _is_causal(match, condition, rows, keys):
            causal = True
        else:
            kept.append(condition)
    return causal, kept


def _is_causal(match: Match, condition: Condition, rows: Axes, keys: Axes) -> bool:
    constant = match.view.folder.array(condition.ref.value)
    if constant is None:
        return False
    own = [axis for dim in condition.ref.resolved for axis in dim]
    queries = [axis for axis in own if axis in resolve(rows)]
    columns = [axis for axis in own if axis in resolve(keys)]
    if len(queries) + len(columns) != len(own) or len(queries) != 1 or set(columns) != set(resolve(keys)):
        return False
    if any(axis.size != 1 and axis not in queries for axis in resolve(rows) if axis.size == queries[0].size):
        # Another axis of this length could be the sequence as well; a mask over it must stay a mask.
        return False
    order = [own.index(axis) for axis in (*queries, *columns)]
    table = constant.reshape([axis.size for axis in own]).transpose(order).reshape(queries[0].size, extent(columns))
    wanted = np.tri(queries[0].size, extent(columns), dtype=bool)
    return bool((condition.holds(table) == wanted).all())


def _layout(match: Match, conditions: Sequence[Condition], kept: Sequence[Condition]) -> _Layout:
    shared = resolve(match.role("query", "key", "value", "result"))
    rows = resolve(match.role("query", "result"))
    keys = resolve(match.role("key", "value"))
    depth = resolve(match.role("query", "key"))
    width = resolve(match.role("value", "result"))
    if extent(depth) != extent(width):
        raise Declined("dims", f"keys have size {extent(depth)} and values {extent(width)}; the kernel needs one size")
    if not keys or not depth:
        raise Declined("dims", "there is one key only, or heads have one element")
    masked_rows = {axis for condition in conditions for axis in condition.ref.axes}
    masked = {axis for condition in kept for axis in condition.ref.axes}
    if not masked <= {*shared, *rows, *keys}:
        raise Declined("dims", "the mask has an axis the scores do not have")
    queries = tuple(axis for axis in rows if axis in masked_rows) or _longest(rows)
    group = tuple(axis for axis in rows if axis not in queries)
    batch = tuple(axis for axis in shared if axis in masked)
    heads = tuple(axis for axis in shared if axis not in masked)
    if not batch and len(heads) > 1:
        batch, heads = heads[:-1], heads[-1:]
    return _Layout(batch, queries, heads, group, keys, depth, width)


def _longest(rows: Axes) -> Axes:
    best: Axis | None = max(rows, key=lambda axis: axis.size, default=None)
    return (best,) if best is not None else ()


PATTERN = register(make_pattern(attention))
