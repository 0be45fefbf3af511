"""Conditions every match has to meet before it is replaced, each with its reason code."""

from __future__ import annotations

from npu_kernels.graph.core import enclosing
from npu_kernels.substitution.match import Match
from npu_kernels.substitution.pattern import Declined
from npu_kernels.substitution.peel import is_float
from npu_kernels.substitution.policy import Permission, Policy


def check(match: Match, policy: Policy) -> frozenset[Permission]:
    """Check all guards.

    Returns:
        The permissions the replacement uses.

    Raises:
        Declined: with the first reason found.
    """
    _region(match)
    _axes(match)
    _dtypes(match)
    _escape(match)
    for guard in match.pattern.guards:
        guard(match)
    used = set(match.pattern.needs)
    if match.narrowed:
        used.add(Permission.WIDER)
    missing = policy.missing(used)
    if missing:
        names = " and ".join(f"`{permission.value}`" for permission in sorted(missing))
        raise Declined("numerics", f"needs the permission {names}, which the policy `{policy.name}` does not grant")
    return frozenset(used)


def _region(match: Match) -> None:
    graph = match.root.value.graph
    if enclosing(graph, "custom_vjp") is not None:
        raise Declined(
            "inside-custom-vjp",
            "it lies inside a user's custom_vjp, whose forward and backward pass would no longer belong together",
        )
    if enclosing(graph, "shard_map") is not None:
        raise Declined("inside-shard-map", "it lies inside a shard_map, where kernels cannot be called yet")


def _axes(match: Match) -> None:
    """Looking at the roles declines axes that fit none."""
    _ = match.roles


def _dtypes(match: Match) -> None:
    found = {match.variable(name).value.dtype for name in match.example.arrays} | {match.root.value.dtype}
    found |= {v.dtype for node in match.core for v in node.results if is_float(v.dtype)}
    wrong = sorted(found - match.pattern.dtypes)
    if wrong:
        raise Declined(
            "dtype", f"it computes in {', '.join(wrong)}; the kernel takes {', '.join(sorted(match.pattern.dtypes))}"
        )


def _escape(match: Match) -> None:
    escaped = match.escapes
    if escaped:
        value = escaped[0]
        made = value.producer.op if value.producer is not None else "input"
        raise Declined(
            "escape",
            f"an inner value ({value.aval}, made by `{made}`) is used outside the pattern, so it has to be computed "
            "anyway",
        )
