"""The device program: what lowering decides and the code generator writes down.

Two sections of statements, one for the vector cores and one for the cube core, over on-chip buffers and global
tensors. Every statement is one line of Ascend C (structured ones: a head and a body) and carries the author's line.
Addresses inside buffers and tensors count elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from .expr import Expr, Name, names
from .ops import Location

#: Bytes of each element type of the device.
ITEMSIZE = {"float": 4, "int32_t": 4, "half": 2, "bfloat16_t": 2, "uint16_t": 2, "uint8_t": 1}
#: The memory behind each queue or buffer position.
MEMORY = {
    "VECIN": "UB",
    "VECOUT": "UB",
    "VECCALC": "UB",
    "A1": "L1",
    "B1": "L1",
    "A2": "L0A",
    "B2": "L0B",
    "CO1": "L0C",
}


@dataclass(eq=False)
class Buffer:
    """An on-chip tensor: storage of one value of the tile program.

    Attributes:
        name: unique C identifier of the local tensor.
        ctype: element type; ``elements`` counts them.
        position: Ascend C position; ``VECCALC`` lives in a TBuf, every other in a queue.
        storage: the queue or TBuf that backs it, set by the memory planner.
    """

    name: str
    ctype: str
    elements: int
    position: str
    location: Location
    storage: Storage | None = None

    @property
    def nbytes(self) -> int:
        return self.elements * ITEMSIZE[self.ctype]

    @property
    def memory(self) -> str:
        return MEMORY[self.position]


@dataclass(eq=False)
class Storage:
    """A TQue (``depth`` buffers of ``nbytes``) or a TBuf (``depth`` 0: one buffer) of the generated class.

    ``tenants`` are the buffers that use it, for the report and the memory table.
    """

    name: str
    position: str
    nbytes: int
    depth: int
    tenants: list[Buffer] = field(default_factory=list)

    @property
    def memory(self) -> str:
        return MEMORY[self.position]

    @property
    def total(self) -> int:
        return self.nbytes * max(self.depth, 1)


@dataclass(eq=False)
class Tensor:
    """A tensor in global memory: a parameter of the kernel or a slot of the workspace.

    Attributes:
        parameter: index of the kernel parameter; the workspace's for slots.
        elements: its size.
        offset: bytes from the parameter's address.
        stride: for workspace slots, bytes between the slots of neighbouring blocks.
    """

    name: str
    ctype: str
    elements: int
    parameter: int
    offset: int = 0
    stride: int = 0


@dataclass(frozen=True)
class Ref:
    """A place in a buffer or tensor, in elements of ``ctype`` (which may reinterpret the buffer's)."""

    base: Buffer | Tensor
    offset: Expr
    ctype: str


@dataclass(frozen=True)
class Enum:
    """A C++ constant printed as it stands, such as ``CMPMODE::EQ``."""

    text: str


@dataclass(frozen=True)
class Struct:
    """A parameter structure in braces; ``types`` are the C++ types of its fields, for the casts of run-time values."""

    fields: tuple[Expr | Enum, ...]
    types: tuple[str, ...]
    name: str = ""


Arg = Ref | Expr | Enum | Struct


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


@dataclass(eq=False)
class Section:
    """The statements of one kind of core and the storage it initialises."""

    kind: str
    statements: list[Stmt]
    storages: list[Storage] = field(default_factory=list)
    events: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class TensorSpec:
    """Shape and dtype name of a kernel parameter."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(eq=False)
class Program:
    """A lowered kernel.

    Attributes:
        kernel_type: ``AIV_ONLY``, ``AIC_ONLY`` or ``MIX_AIC_1_2``.
        units: iterations of the parallel loops, spread over ``blocks`` cores (or groups of one cube and two vector
            cores); block *b* takes the units ``b, b + blocks, …``.
        tiling: names and values of the tiling structure's 64-bit fields.
        workspace_bytes: for all blocks.
        notes: static arguments and dimensions, for the header comment.
    """

    name: str
    kernel_type: str
    inputs: list[TensorSpec]
    outputs: list[TensorSpec]
    tensors: list[Tensor]
    vector: Section | None
    cube: Section | None
    units: int
    blocks: int
    tiling: dict[str, int]
    workspace_bytes: int
    location: Location
    notes: list[str] = field(default_factory=list)

    @property
    def sections(self) -> tuple[Section, ...]:
        return tuple(s for s in (self.cube, self.vector) if s is not None)

    def memory_use(self) -> dict[str, int]:
        """Bytes in use of each on-chip memory, of one core."""
        use: dict[str, int] = {}
        for section in self.sections:
            for storage in section.storages:
                use[storage.memory] = use.get(storage.memory, 0) + storage.total
        return use

    def units_per_block(self) -> tuple[int, int]:
        """Smallest and largest number of units a block works on."""
        return self.units // self.blocks, -(-self.units // self.blocks)


@dataclass(frozen=True)
class KernelSource:
    """Generated Ascend C and everything a launch needs.

    Attributes:
        entry: name of the ``__global__`` function; ``num_args`` its parameters, workspace and tiling included.
        tiling: bytes of the tiling structure.
        line_map: generated line (from 1) to the author's file and line.
    """

    name: str
    text: str
    entry: str
    kernel_type: str
    num_args: int
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    workspace_bytes: int
    tiling: bytes
    blocks: int
    line_map: dict[int, tuple[str, int]]


def walk_statements(statements: list[Stmt]) -> Iterator[Stmt]:
    """Every statement in program order, those inside loops and branches included."""
    for statement in statements:
        yield statement
        for body in statement.bodies:
            yield from walk_statements(body)


def used_names(statements: list[Stmt]) -> set[str]:
    """Texts of all scalar variables the statements read."""
    return {n.text for s in walk_statements(statements) for e in s.exprs() for n in names(e)}
