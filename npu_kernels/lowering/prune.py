"""Drops scalar variables and vector results that nothing reads."""

from __future__ import annotations

from dataclasses import fields, replace

from ..ir.device import Buffer, Declare, Instr, Let, Loop, ReadScalar, Stmt, used_names, walk_statements


def prune(statements: list[Stmt]) -> list[Stmt]:
    """The statements without dead ones; loops and branches left empty go too."""
    while True:
        names = used_names(statements)
        read: set[Buffer] = set()
        for statement in walk_statements(statements):
            own = statement.writes() if isinstance(statement, Instr) and statement.accumulates else ()
            read |= {b for b in statement.reads() if b not in own}
            if not isinstance(statement, Declare) and hasattr(statement, "buffer"):
                read.add(statement.buffer)
        kept = _sweep(statements, names, read)
        if _count(kept) == _count(statements):
            return kept
        statements = kept


def _count(statements: list[Stmt]) -> int:
    return sum(1 for _ in walk_statements(statements))


def _dead(statement: Stmt, names: set[str], read: set[Buffer]) -> bool:
    if isinstance(statement, Let | ReadScalar):
        return statement.name.text not in names
    if isinstance(statement, Instr) and isinstance(statement.dst.base, Buffer):
        return statement.dst.base.position == "VECCALC" and statement.dst.base not in read
    return bool(statement.bodies) and not any(statement.bodies)


def _sweep(statements: list[Stmt], names: set[str], read: set[Buffer]) -> list[Stmt]:
    result: list[Stmt] = []
    for statement in statements:
        if statement.bodies:
            bodies = {
                f.name: _sweep(value, names, read)
                for f in fields(statement)
                if isinstance(value := getattr(statement, f.name), list)
            }
            statement = replace(statement, **bodies)  # type: ignore[arg-type]
        if isinstance(statement, Loop) and not statement.body:
            continue
        if not _dead(statement, names, read):
            result.append(statement)
    used = {b for s in result for b in _used(s)}
    return [s for s in result if not (isinstance(s, Declare) and s.buffer not in used)]


def _used(statement: Stmt) -> set[Buffer]:
    found = {*statement.reads(), *statement.writes()}
    for body in statement.bodies:
        for inner in body:
            found |= _used(inner)
    return found
