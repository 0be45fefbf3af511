"""What lowering knows of a chip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..errors import LoweringError


@dataclass(frozen=True)
class Arch:
    """Sizes and limits of one architecture, in bytes unless said otherwise.

    Attributes:
        capacity: usable bytes of each on-chip memory.
        vector_cores, cube_cores: cores of the largest common part.
        max_repeat: repeats of one vector instruction.
        max_stride: repeat stride of a vector instruction, in 32-byte blocks.
        queue_events: event ids of one pair of pipes; queues and explicit events share them.
        max_buffers: buffers one kernel may initialise on a core.
    """

    name: str
    capacity: Mapping[str, int]
    vector_cores: int
    cube_cores: int
    max_repeat: int = 255
    max_stride: int = 255
    max_copy_rows: int = 4095
    max_copy_bytes: int = 2_097_151
    max_mmad: int = 4095
    queue_events: int = 8
    max_buffers: int = 64
    cross_flags: int = 16


#: Atlas A2 and A3 (910B, 910C). UB: 192 KB less the 256 B and 8 KB that the compiler reserves by default.
A2 = Arch(
    "2201",
    MappingProxyType(
        {
            "UB": 192 * 1024 - 256 - 8 * 1024,
            "L1": 512 * 1024 - 256,
            "L0A": 64 * 1024,
            "L0B": 64 * 1024,
            "L0C": 128 * 1024,
        }
    ),
    vector_cores=48,
    cube_cores=24,
)
ARCHS: Mapping[str, Arch] = MappingProxyType({A2.name: A2})


def arch_of(name: str) -> Arch:
    """The architecture called ``name``.

    Raises:
        LoweringError: NPK-LW01, for one that lowering does not know.
    """
    if name not in ARCHS:
        raise LoweringError("NPK-LW01", f"architecture {name} is not supported; use one of {', '.join(ARCHS)}")
    return ARCHS[name]
