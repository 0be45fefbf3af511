"""Derivative rules of many calls at once: ``jax.vmap`` of the rules of one call.

What all calls share stays one array: a shared operand that is kept as a residual is not copied for each call, and its
cotangent is the sum over the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

#: A list with an array for each operand or result; None stands for a zero that nobody made, and for the tangent or
#: cotangent of an integer or boolean.
Arrays = Sequence[Any]
Axes = Sequence[int | None]
Forward = Callable[[Arrays], tuple[Arrays, Any]]
Pullback = Callable[[Any, Arrays], Arrays]
Pushforward = Callable[[Arrays, Arrays], tuple[Arrays, Arrays]]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Residuals:
    """Residuals of many calls.

    Attributes:
        leaves: of the residuals of one call, each with a batch axis or shared.
        axes: where that axis is; None for a shared leaf.
        tree: how the leaves of one call hang together.
    """

    leaves: list[Any]
    axes: tuple[int | None, ...] = field(metadata={"static": True})
    tree: Any = field(metadata={"static": True})


def forward(one: Forward, in_axes: Axes, axis_size: int, out_axes: int) -> Forward:
    """``forward`` of :class:`rules.Rules` for many calls; its residuals are :class:`Residuals`."""

    def many(operands: Arrays) -> tuple[Arrays, Residuals]:
        tree: Any = None
        slots: list[int | None] = []

        def body(*rows: Any) -> tuple[Arrays, Arrays]:
            nonlocal tree, slots
            results, residuals = one(rows)
            leaves, tree = jax.tree.flatten(residuals)
            slots = [position(leaf, rows) for leaf in leaves]
            return list(results), [leaf for leaf, slot in zip(leaves, slots, strict=True) if slot is None]

        mapped = jax.vmap(body, in_axes=tuple(in_axes), out_axes=(out_axes, 0), axis_size=axis_size)
        results, made = mapped(*operands)
        rest = iter(made)
        leaves = [next(rest) if slot is None else operands[slot] for slot in slots]
        axes = tuple(0 if slot is None else in_axes[slot] for slot in slots)
        return results, Residuals(leaves, axes, tree)

    return many


def pullback(one: Pullback, in_axes: Axes, axis_size: int, out_axes: int, *, keeps_operands: bool) -> Pullback:
    """``pullback`` of :class:`rules.Rules` for many calls.

    Args:
        keeps_operands: whether the residuals are the list of operands, not what :func:`forward` makes.
    """

    def many(residuals: Any, cotangents: Arrays) -> Arrays:
        if keeps_operands:
            leaves, tree = jax.tree.flatten(list(residuals))
            residuals = Residuals(leaves, tuple(in_axes), tree)

        def body(leaves: list[Any], given: Arrays) -> Arrays:
            return one(jax.tree.unflatten(residuals.tree, leaves), given)

        given_axes = [out_axes] * len(cotangents)
        return pulled_back(body, residuals.leaves, residuals.axes, cotangents, given_axes, in_axes, axis_size)

    return many


def pulled_back(
    body: Callable[[list[Any], Arrays], Arrays],
    leaves: Arrays,
    leaf_axes: Axes,
    cotangents: Arrays,
    cotangent_axes: Axes,
    in_axes: Axes,
    axis_size: int,
) -> Arrays:
    """``body(leaves, cotangents)`` for many calls; a cotangent gets its operand's batch axis, or is summed."""
    made: list[int] = []

    def rows(leaves: list[Any], given: list[Any]) -> Arrays:
        nonlocal made
        found = body(leaves, given)
        made = [i for i, cotangent in enumerate(found) if cotangent is not None]
        return [found[i] for i in made]

    mapped = jax.vmap(rows, in_axes=(list(leaf_axes), list(cotangent_axes)), axis_size=axis_size)
    results: list[Any] = [None] * len(in_axes)
    stacked = mapped(list(leaves), list(cotangents))
    for i, value in zip(made, stacked, strict=True):
        axis = in_axes[i]
        results[i] = jnp.sum(value, axis=0) if axis is None else jnp.moveaxis(value, 0, axis)
    return results


def pushforward(one: Pushforward, in_axes: Axes, axis_size: int, out_axes: int) -> Pushforward:
    """``pushforward`` of :class:`rules.Rules` for many calls."""

    def many(operands: Arrays, tangents: Arrays) -> tuple[Arrays, Arrays]:
        mapped = jax.vmap(one, in_axes=(list(in_axes), list(in_axes)), out_axes=out_axes, axis_size=axis_size)
        results, made = mapped(list(operands), list(tangents))
        return results, made

    return many


def position(leaf: Any, operands: Arrays) -> int | None:
    """Which operand a residual is, when it is one."""
    return next((i for i, operand in enumerate(operands) if operand is leaf), None)
