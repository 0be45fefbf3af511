"""Places what orders instructions: barriers inside the vector pipe, and the release of queue buffers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..ir.device import Barrier, Branch, Buffer, Instr, Loop, QueueOp, Stmt, Storage
from .liveness import Liveness, group_of, instructions


def release(statements: list[Stmt], liveness: Liveness) -> list[Stmt]:
    """Frees each queue buffer after its last use."""
    frees: dict[int, dict[int, list[Buffer]]] = {}
    for life in liveness.lives.values():
        if life.buffer.position != "VECCALC":
            last = max(life.last, _last_queue_op(life.home, life.buffer))
            frees.setdefault(id(life.home), {}).setdefault(last, []).append(life.buffer)

    def rewrite(block: list[Stmt]) -> list[Stmt]:
        mine = frees.get(id(block), {})
        result: list[Stmt] = []
        for i, statement in enumerate(block):
            result.append(_with_bodies(statement, rewrite))
            for buffer in mine.get(i, ()):
                result.append(QueueOp(action="free", buffer=buffer, location=statement.location))
        return result

    return rewrite(statements)


def _last_queue_op(block: list[Stmt], buffer: Buffer) -> int:
    return max(i for i, s in enumerate(block) if isinstance(s, QueueOp) and s.buffer is buffer)


def _with_bodies(statement: Stmt, rewrite: Callable[[list[Stmt]], list[Stmt]]) -> Stmt:
    if isinstance(statement, Loop):
        return replace(statement, body=rewrite(statement.body))
    if isinstance(statement, Branch):
        return replace(statement, then=rewrite(statement.then), orelse=rewrite(statement.orelse))
    return statement


class _Hazards:
    """Accesses of the vector pipe since its last barrier: storage to (group, wrote)."""

    def __init__(self) -> None:
        self.reads: dict[object, set[int]] = {}
        self.writes: dict[object, set[int]] = {}

    def copy(self) -> _Hazards:
        other = _Hazards()
        other.reads = {k: set(v) for k, v in self.reads.items()}
        other.writes = {k: set(v) for k, v in self.writes.items()}
        return other

    def merge(self, other: _Hazards) -> None:
        for mine, theirs in ((self.reads, other.reads), (self.writes, other.writes)):
            for key, groups in theirs.items():
                mine.setdefault(key, set()).update(groups)

    def clear(self) -> None:
        self.reads.clear()
        self.writes.clear()

    def conflicts(self, instrs: list[Instr], group: int) -> bool:
        for instr in instrs:
            for key in _keys(instr.reads()):
                if self._other(self.writes, key, group):
                    return True
            for key in _keys(instr.writes()):
                if self._other(self.writes, key, group) or self._other(self.reads, key, group):
                    return True
        return False

    @staticmethod
    def _other(table: dict[object, set[int]], key: object, group: int) -> bool:
        groups = table.get(key)
        return bool(groups) and (group == 0 or groups != {group})

    def add(self, instrs: list[Instr], group: int) -> None:
        for instr in instrs:
            for key in _keys(instr.reads()):
                self.reads.setdefault(key, set()).add(group)
            for key in _keys(instr.writes()):
                self.writes.setdefault(key, set()).add(group)


def _keys(buffers: tuple[Buffer, ...]) -> list[object]:
    """What buffers share memory by: a TBuf as a whole, a queue buffer by itself."""
    return [b.storage if _is_tbuf(b.storage) else b for b in buffers]


def _is_tbuf(storage: Storage | None) -> bool:
    return storage is not None and storage.depth == 0


def barriers(statements: list[Stmt]) -> list[Stmt]:
    """Puts ``PipeBarrier<PIPE_V>`` before each vector instruction that depends on one still in the pipe."""
    result, _ = _barriers(statements, _Hazards())
    return result


def _barriers(statements: list[Stmt], state: _Hazards) -> tuple[list[Stmt], _Hazards]:
    result: list[Stmt] = []
    for statement in statements:
        group = group_of(statement)
        if isinstance(statement, Instr) or group:
            found = [i for i in instructions(statement) if i.pipe == "V"]
            if found and state.conflicts(found, group):
                result.append(Barrier(pipe="V", location=statement.location))
                state.clear()
            state.add(found, group)
            result.append(statement)
        elif isinstance(statement, Loop):
            # The first instructions of an iteration follow those before the loop and those of the iteration before.
            entry = state.copy()
            for instr in instructions(statement):
                if instr.pipe == "V":
                    entry.add([instr], 0)
            body, after = _barriers(statement.body, entry)
            result.append(replace(statement, body=body))
            state.merge(after)
        elif isinstance(statement, Branch):
            then, after_then = _barriers(statement.then, state.copy())
            orelse, after_else = _barriers(statement.orelse, state.copy())
            result.append(replace(statement, then=then, orelse=orelse))
            state = after_then
            state.merge(after_else)
        else:
            result.append(statement)
    return result, state
