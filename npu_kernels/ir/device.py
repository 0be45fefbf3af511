"""The device program: what lowering decides and the code generator writes down.

Two sections of statements, one for the vector cores and one for the cube core, over on-chip buffers and global
tensors. Every statement carries the author's line. Addresses inside buffers and tensors count elements.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .ops import Location
from .statements import (
    Assign,
    Barrier,
    Branch,
    CopyScalar,
    CrossFlag,
    Declare,
    Event,
    Instr,
    Let,
    Loop,
    QueueOp,
    ReadScalar,
    Stmt,
    used_names,
    walk_statements,
)
from .storage import ITEMSIZE, MEMORY, Arg, Buffer, Enum, Ref, Storage, Struct, Tensor

__all__ = [
    "ITEMSIZE",
    "MEMORY",
    "Arg",
    "Assign",
    "Barrier",
    "Branch",
    "Buffer",
    "CopyScalar",
    "CrossFlag",
    "Declare",
    "Enum",
    "Event",
    "Instr",
    "KernelSource",
    "Let",
    "Loop",
    "Program",
    "QueueOp",
    "ReadScalar",
    "Ref",
    "Section",
    "Stmt",
    "Storage",
    "Struct",
    "Tensor",
    "TensorSpec",
    "used_names",
    "walk_statements",
]


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
