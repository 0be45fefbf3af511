"""Moves streams through plain buffers where the queues of a core would need more event ids than there are."""

from __future__ import annotations

from dataclasses import replace

from ..ir.device import Branch, Buffer, Declare, Event, Loop, QueueOp, Stmt
from ..ir.ops import Location
from .liveness import Liveness


def demote(statements: list[Stmt], liveness: Liveness, buffers: set[Buffer]) -> list[Stmt]:
    """The statements with queue operations of ``buffers`` replaced by events; the buffers become temporaries."""
    ends = {(id(life.home), life.last): b for b, life in liveness.lives.items() if b in buffers}
    incoming = {b: b.position == "VECIN" for b in buffers}

    def rewrite(block: list[Stmt]) -> list[Stmt]:
        result: list[Stmt] = []
        for i, statement in enumerate(block):
            if isinstance(statement, QueueOp) and statement.buffer in buffers:
                result.extend(_events(statement, incoming[statement.buffer]))
            elif isinstance(statement, Loop):
                result.append(replace(statement, body=rewrite(statement.body)))
            elif isinstance(statement, Branch):
                result.append(replace(statement, then=rewrite(statement.then), orelse=rewrite(statement.orelse)))
            else:
                result.append(statement)
            last = ends.get((id(block), i))
            if last is not None and not incoming[last]:
                result.extend(_pair("MTE3_V", statement.location))
        return result

    rewritten = rewrite(statements)
    for buffer in buffers:
        buffer.position = "VECCALC"
    return rewritten


def _events(op: QueueOp, incoming: bool) -> list[Stmt]:
    match op.action:
        case "alloc":
            ahead = _pair("V_MTE2", op.location) if incoming else []
            return [Declare(buffer=op.buffer, location=op.location), *ahead]
        case "enqueue":
            return _pair("MTE2_V" if incoming else "V_MTE3", op.location)
        case _:
            return []


def _pair(event: str, location: Location) -> list[Stmt]:
    return [Event(action=a, event=event, location=location) for a in ("set", "wait")]
