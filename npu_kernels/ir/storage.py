"""On-chip buffers, tensors in global memory and references to places in them."""

from __future__ import annotations

from dataclasses import dataclass, field

from .expr import Expr
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
