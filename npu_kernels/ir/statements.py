"""Statements of the device IR: each is one line of Ascend C, structured ones a head and a body."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from .expr import Expr, Name, names
from .ops import Location
from .storage import Arg, Buffer, Enum, Ref, Struct


@dataclass(eq=False, kw_only=True)
class Stmt:
    """Base of all statements."""

    shape: ClassVar[str] = ""
    location: Location

    @property
    def bodies(self) -> tuple[list[Stmt], ...]:
        return ()

    def reads(self) -> tuple[Buffer, ...]:
        """Buffers whose data it reads."""
        return ()

    def writes(self) -> tuple[Buffer, ...]:
        """Buffers whose data it writes."""
        return ()

    def exprs(self) -> tuple[Expr, ...]:
        """Scalar expressions it evaluates."""
        return ()


def _exprs(args: tuple[Arg, ...]) -> Iterator[Expr]:
    for arg in args:
        if isinstance(arg, Ref):
            yield arg.offset
        elif isinstance(arg, Struct):
            yield from (f for f in arg.fields if not isinstance(f, Enum))
        elif not isinstance(arg, Enum):
            yield arg


@dataclass(eq=False, kw_only=True)
class Instr(Stmt):
    """One Ascend C call ``api<templates>(dst, sources…, args…)`` on ``pipe``.

    Attributes:
        inplace: indices of the sources whose very memory ``dst`` may be (same elements in the same order).
        partial: ``dst`` keeps the elements it does not write, so earlier writes stay alive.
        accumulates: ``dst`` is also an input.
        group: instructions of one group touch disjoint parts and need no barrier between them.
    """

    shape: ClassVar[str] = "call"
    api: str
    dst: Ref
    sources: tuple[Ref, ...] = ()
    args: tuple[Arg, ...] = ()
    templates: tuple[str, ...] = ()
    pipe: str = "V"
    inplace: tuple[int, ...] = ()
    partial: bool = False
    accumulates: bool = False
    group: int = 0

    def reads(self) -> tuple[Buffer, ...]:
        found = [s.base for s in self.sources if isinstance(s.base, Buffer)]
        if self.accumulates and isinstance(self.dst.base, Buffer):
            found.append(self.dst.base)
        return tuple(found)

    def writes(self) -> tuple[Buffer, ...]:
        return (self.dst.base,) if isinstance(self.dst.base, Buffer) else ()

    def exprs(self) -> tuple[Expr, ...]:
        return tuple(_exprs((self.dst, *self.sources, *self.args)))


@dataclass(eq=False, kw_only=True)
class Let(Stmt):
    """Declares a scalar variable."""

    shape: ClassVar[str] = "let"
    name: Name
    value: Expr

    def exprs(self) -> tuple[Expr, ...]:
        return (self.value,)


@dataclass(eq=False, kw_only=True)
class Assign(Stmt):
    """Gives a declared scalar variable a new value."""

    shape: ClassVar[str] = "assign"
    name: Name
    value: Expr

    def exprs(self) -> tuple[Expr, ...]:
        return (self.value,)


@dataclass(eq=False, kw_only=True)
class ReadScalar(Stmt):
    """Declares a scalar variable with the element at ``source`` (a buffer, or a tensor in global memory)."""

    shape: ClassVar[str] = "read_scalar"
    name: Name
    source: Ref

    def reads(self) -> tuple[Buffer, ...]:
        return (self.source.base,) if isinstance(self.source.base, Buffer) else ()

    def exprs(self) -> tuple[Expr, ...]:
        return (self.source.offset,)


@dataclass(eq=False, kw_only=True)
class CopyScalar(Stmt):
    """The scalar unit moves one element from ``source`` to ``dst``."""

    shape: ClassVar[str] = "copy_scalar"
    dst: Ref
    source: Ref

    def reads(self) -> tuple[Buffer, ...]:
        return tuple(r.base for r in (self.source, self.dst) if isinstance(r.base, Buffer))

    def writes(self) -> tuple[Buffer, ...]:
        return (self.dst.base,) if isinstance(self.dst.base, Buffer) else ()

    def exprs(self) -> tuple[Expr, ...]:
        return (self.dst.offset, self.source.offset)


@dataclass(eq=False, kw_only=True)
class Loop(Stmt):
    """``for (var = start; var < stop; var += step)``; ``independent`` iterations touch disjoint data."""

    shape: ClassVar[str] = "loop"
    var: Name
    start: Expr
    stop: Expr
    step: Expr
    body: list[Stmt]
    independent: bool = False

    @property
    def bodies(self) -> tuple[list[Stmt], ...]:
        return (self.body,)

    def exprs(self) -> tuple[Expr, ...]:
        return (self.start, self.stop, self.step)


@dataclass(eq=False, kw_only=True)
class Branch(Stmt):
    """``if (condition) then else orelse``."""

    shape: ClassVar[str] = "branch"
    condition: Expr
    then: list[Stmt]
    orelse: list[Stmt] = field(default_factory=list)

    @property
    def bodies(self) -> tuple[list[Stmt], ...]:
        return (self.then, self.orelse)

    def exprs(self) -> tuple[Expr, ...]:
        return (self.condition,)


@dataclass(eq=False, kw_only=True)
class Declare(Stmt):
    """Views a TBuf as the local tensor of a buffer."""

    shape: ClassVar[str] = "declare"
    buffer: Buffer


@dataclass(eq=False, kw_only=True)
class QueueOp(Stmt):
    """``alloc``, ``enqueue``, ``dequeue`` or ``free`` of a buffer in its queue."""

    shape: ClassVar[str] = "queue"
    action: str
    buffer: Buffer


@dataclass(eq=False, kw_only=True)
class Barrier(Stmt):
    """Instructions of ``pipe`` before it end before those after it start."""

    shape: ClassVar[str] = "barrier"
    pipe: str


@dataclass(eq=False, kw_only=True)
class Event(Stmt):
    """``set`` or ``wait`` of a hard event: the second pipe of ``event`` waits for the first."""

    shape: ClassVar[str] = "event"
    action: str
    event: str


@dataclass(eq=False, kw_only=True)
class CrossFlag(Stmt):
    """``set`` or ``wait`` of a flag between the cube core and its vector cores: set once ``pipe`` has done what it was
    given, or waited for before ``pipe`` goes on."""

    shape: ClassVar[str] = "cross_flag"
    action: str
    flag: int
    pipe: str


def walk_statements(statements: list[Stmt]) -> Iterator[Stmt]:
    """Every statement in program order, those inside loops and branches included."""
    for statement in statements:
        yield statement
        for body in statement.bodies:
            yield from walk_statements(body)


def used_names(statements: list[Stmt]) -> set[str]:
    """Texts of all scalar variables the statements read."""
    return {n.text for s in walk_statements(statements) for e in s.exprs() for n in names(e)}
