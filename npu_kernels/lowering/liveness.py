"""Where each buffer of a section lives: positions in program order and the stretch between first and last use."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.device import Buffer, Declare, Instr, Loop, QueueOp, Stmt


@dataclass(eq=False)
class Life:
    """One buffer's life inside its home list, the statement list that declares it.

    Attributes:
        home: that list; ``first`` and ``last`` are indices in it (of statements that use it, perhaps further inside).
        start, end: positions of those statements in program order.
        opened, closed: the same with the statements that allocate, pass on and free a queue buffer.
        loop_depth: loops around the home list.
    """

    buffer: Buffer
    home: list[Stmt]
    declared: int
    loop_depth: int
    first: int = -1
    last: int = -1
    start: int = -1
    end: int = -1
    opened: int = -1
    closed: int = -1


def touched(statement: Stmt) -> set[Buffer]:
    """Every buffer a statement and those inside it read or write, queue operations aside."""
    found = {*statement.reads(), *statement.writes()}
    for body in statement.bodies:
        for inner in body:
            found |= touched(inner)
    return found


def group_of(statement: Stmt) -> int:
    """The group of an instruction, or of a loop that holds nothing else; 0 for none."""
    if isinstance(statement, Instr):
        return statement.group
    if isinstance(statement, Loop) and statement.independent:
        groups = {group_of(s) for s in statement.body}
        return groups.pop() if len(groups) == 1 else 0
    return 0


def instructions(statement: Stmt) -> list[Instr]:
    found = [statement] if isinstance(statement, Instr) else []
    for body in statement.bodies:
        for inner in body:
            found.extend(instructions(inner))
    return found


class Liveness:
    """Positions and lives of all buffers of a statement list."""

    def __init__(self, statements: list[Stmt]) -> None:
        self.lives: dict[Buffer, Life] = {}
        self.span: dict[Stmt, tuple[int, int]] = {}
        self.at: dict[int, list[Stmt]] = {}
        self._position = 0
        self._last_group = 0
        self._number(statements, 0)
        self._use(statements)

    def _number(self, statements: list[Stmt], depth: int) -> None:
        for i, statement in enumerate(statements):
            group = group_of(statement)
            if not (group and group == self._last_group):
                self._position += 1
            self._last_group = group
            start = self._position
            self.at.setdefault(start, []).append(statement)
            if isinstance(statement, Declare) or (isinstance(statement, QueueOp) and statement.action == "alloc"):
                buffer = statement.buffer
                self.lives[buffer] = Life(buffer, statements, i, depth)
            if not group:
                for body in statement.bodies:
                    self._number(body, depth + isinstance(statement, Loop))
                if statement.bodies:
                    self._position += 1
            elif statement.bodies:
                for body in statement.bodies:
                    self._mark(body, start)
            self.span[statement] = (start, self._position)

    def _mark(self, statements: list[Stmt], position: int) -> None:
        for statement in statements:
            self.span[statement] = (position, position)
            for body in statement.bodies:
                self._mark(body, position)

    def _use(self, statements: list[Stmt]) -> None:
        by_home: dict[int, list[Life]] = {}
        for life in self.lives.values():
            by_home.setdefault(id(life.home), []).append(life)
        self._walk(statements, by_home)

    def _walk(self, statements: list[Stmt], by_home: dict[int, list[Life]]) -> None:
        mine = {life.buffer: life for life in by_home.get(id(statements), ())}
        for i, statement in enumerate(statements):
            if isinstance(statement, Declare | QueueOp) and statement.buffer in mine:
                life = mine[statement.buffer]
                position = self.span[statement][0]
                life.opened = position if life.opened < 0 else life.opened
                life.closed = position
            elif mine:
                for buffer in touched(statement):
                    if buffer not in mine:
                        continue
                    life = mine[buffer]
                    if life.first < 0:
                        life.first, life.start = i, self.span[statement][0]
                    life.last, life.end = i, self.span[statement][1]
                    life.closed = max(life.closed, life.end)
            for body in statement.bodies:
                self._walk(body, by_home)
