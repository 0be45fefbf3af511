"""What a substitution may change about numbers: a set of permissions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Permission(StrEnum):
    """One thing a replacement may do that the written program does not.

    ``REORDER``: add and multiply in another order or association; a softmax may be computed online.
    ``WIDER``: keep an intermediate in more precision than written.
    ``NARROWER``: keep an intermediate in less precision than written.
    """

    REORDER = "reorder sums"
    WIDER = "wider"
    NARROWER = "narrower intermediates"


@dataclass(frozen=True)
class Policy:
    """A numerics policy.

    Attributes:
        name: as shown in reports.
        permissions: what is granted.
    """

    name: str
    permissions: frozenset[Permission]

    @classmethod
    def of(cls, *permissions: Permission | str) -> Policy:
        """A policy of one's own: ``Policy.of("reorder sums", "wider")``."""
        granted = frozenset(Permission(p) for p in permissions)
        return cls(" + ".join(sorted(granted)) or "exact", granted)

    def missing(self, needed: Iterable[Permission]) -> frozenset[Permission]:
        """Permissions that are needed and not granted."""
        return frozenset(needed) - self.permissions


#: Another order and more precision: results differ by rounding, never towards less precision than written.
DEFAULT = Policy("default", frozenset({Permission.REORDER, Permission.WIDER}))
#: Nothing may change; no flash attention then.
EXACT = Policy("exact", frozenset())
#: All permissions.
FAST = Policy("fast", frozenset(Permission))

_NAMED = {policy.name: policy for policy in (DEFAULT, EXACT, FAST)}


def as_policy(policy: Policy | str) -> Policy:
    """A policy from its name ``default``, ``exact`` or ``fast``.

    Raises:
        ValueError: for another name.
    """
    if isinstance(policy, Policy):
        return policy
    if policy not in _NAMED:
        raise ValueError(f"unknown numerics policy {policy!r}; there are {', '.join(sorted(_NAMED))}")
    return _NAMED[policy]
