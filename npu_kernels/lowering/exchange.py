"""Vector side of the hand-over with the cube core."""

from __future__ import annotations

from .context import Context
from .partition import Receive, Send


def send(ctx: Context, op: Send) -> None:
    raise ctx.refuse("dot", op)


def receive(ctx: Context, op: Receive) -> None:
    raise ctx.refuse("dot", op)
