"""Removes copies between buffers by letting one buffer serve as both.

Values never change in the tile program, so lowering copies: a result into the queue that stores it, a first value
into the storage of a loop, a loop's next value into the same. Each copy goes where the lives of the two allow it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

from ..ir.device import Buffer, Declare, Instr, QueueOp, Ref, Stmt, walk_statements
from .liveness import Liveness, touched


def coalesce(statements: list[Stmt]) -> list[Stmt]:
    """The statements with every removable copy removed."""
    current = statements
    while True:
        merged = _one(current)
        if merged is None:
            return current
        current = merged


def _is_copy(statement: Stmt) -> bool:
    return (
        isinstance(statement, Instr)
        and statement.api == "DataCopy"
        and statement.pipe == "V"
        and isinstance(statement.dst.base, Buffer)
        and isinstance(statement.sources[0].base, Buffer)
        and not statement.partial
    )


def _lists(statements: list[Stmt]) -> list[list[Stmt]]:
    found = [statements]
    for statement in statements:
        for body in statement.bodies:
            found.extend(_lists(body))
    return found


def _one(statements: list[Stmt]) -> list[Stmt] | None:
    live = Liveness(statements)
    for block in _lists(statements):
        for index, statement in enumerate(block):
            if not _is_copy(statement):
                continue
            assert isinstance(statement, Instr)
            source, target = statement.sources[0].base, statement.dst.base
            assert isinstance(source, Buffer) and isinstance(target, Buffer)
            life = live.lives.get(source)
            if source.position != "VECCALC" or life is None or life.home is not block:
                continue
            if source.nbytes > target.nbytes or life.last > index:
                continue
            home = live.lives[target]
            if home.home is block and home.first == index and _soon(block, life.first, index, target):
                return _merge(statements, statement, source, target, moved=True)
            if home.home is not block and _free_until(block, life.first, index, source, target):
                return _merge(statements, statement, source, target, moved=False)
    return None


def _soon(block: list[Stmt], first: int, copy: int, target: Buffer) -> bool:
    """No other tile leaves meanwhile: a result stored much later would hold a buffer of the outgoing queue."""
    if target.position == "VECCALC":
        return True
    between = (s for s in block[first:copy] if isinstance(s, QueueOp))
    return all(s.buffer is target or s.buffer.position != target.position for s in between)


def _free_until(block: list[Stmt], first: int, copy: int, source: Buffer, target: Buffer) -> bool:
    """Nothing touches ``target`` between the first write of ``source`` and the copy."""
    for i in range(first + 1, copy):
        if target in touched(block[i]):
            return False
    statement = block[first]
    if target not in touched(statement):
        return True
    if not isinstance(statement, Instr) or statement.group or target in statement.writes():
        return False
    return all(i in statement.inplace for i, ref in enumerate(statement.sources) if ref.base is target)


def _merge(statements: list[Stmt], copy: Stmt, source: Buffer, target: Buffer, *, moved: bool) -> list[Stmt]:
    """``source`` becomes ``target``; with ``moved`` the declaration of ``target`` takes the place of ``source``'s."""
    declaration = next(
        s
        for s in walk_statements(statements)
        if (isinstance(s, Declare) or (isinstance(s, QueueOp) and s.action == "alloc")) and s.buffer is target
    )

    def rewrite(block: list[Stmt]) -> list[Stmt]:
        result: list[Stmt] = []
        for statement in block:
            if statement is copy or (moved and statement is declaration):
                continue
            if isinstance(statement, Declare) and statement.buffer is source:
                if moved:
                    result.append(declaration)
                continue
            result.append(_renamed(statement, source, target, rewrite))
        return result

    return rewrite(statements)


def _renamed(statement: Stmt, source: Buffer, target: Buffer, rewrite: Callable[[list[Stmt]], list[Stmt]]) -> Stmt:
    changes: dict[str, object] = {}
    for f in fields(statement):
        value = getattr(statement, f.name)
        if isinstance(value, Ref) and value.base is source:
            changes[f.name] = replace(value, base=target)
        elif isinstance(value, tuple) and any(isinstance(v, Ref) and v.base is source for v in value):
            changes[f.name] = tuple(
                replace(v, base=target) if isinstance(v, Ref) and v.base is source else v for v in value
            )
        elif isinstance(value, list):
            changes[f.name] = rewrite(value)
    return replace(statement, **changes) if changes else statement  # type: ignore[arg-type]
