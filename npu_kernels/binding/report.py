"""What a lowered kernel uses of the chip, for people and for programs."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console, Group
from rich.table import Table

from npu_kernels.ir import device


@dataclass(frozen=True)
class BufferUse:
    """A queue or buffer on chip.

    Attributes:
        bytes: of all of its ``copies``; two copies let a transfer run beside the computation.
        holds: the values of the kernel that live in it, in turn.
    """

    memory: str
    name: str
    bytes: int
    copies: int
    holds: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """What a kernel uses.

    Attributes:
        kernel: its name.
        kernel_type: ``AIV_ONLY``, ``AIC_ONLY`` or a mix.
        blocks: how many blocks are launched.
        buffers: on-chip buffers of one core of each kind.
        capacity: bytes of each memory that a kernel may use.
        units: iterations of the parallel loops together.
        units_per_block: the smallest and the largest share of a block.
        workspace_bytes: global memory lent to the kernel.
    """

    kernel: str
    kernel_type: str
    blocks: int
    buffers: tuple[BufferUse, ...]
    capacity: dict[str, int]
    units: int
    units_per_block: tuple[int, int]
    workspace_bytes: int

    def used(self) -> dict[str, int]:
        """Bytes in use in each memory that holds a buffer."""
        totals: dict[str, int] = {}
        for buffer in self.buffers:
            totals[buffer.memory] = totals.get(buffer.memory, 0) + buffer.bytes
        return totals

    def as_dict(self) -> dict[str, Any]:
        """The report in terms of JSON."""
        return {**asdict(self), "used": self.used()}

    def __str__(self) -> str:
        console = Console(width=100, no_color=True, file=io.StringIO())
        with console.capture() as text:
            console.print(self)
        return text.get()

    def __rich__(self) -> Group:
        table = Table(title=f"{self.kernel}: on-chip memory of one core", title_justify="left")
        table.add_column("memory")
        table.add_column("buffer")
        table.add_column("bytes", justify="right")
        table.add_column("copies", justify="right")
        table.add_column("holds")
        for memory, used in sorted(self.used().items()):
            for buffer in self.buffers:
                if buffer.memory == memory:
                    holds = ", ".join(buffer.holds)
                    table.add_row(memory, buffer.name, f"{buffer.bytes:,}", str(buffer.copies), holds)
            share = f"{100 * used / self.capacity[memory]:.1f} % of {self.capacity[memory]:,}"
            table.add_row(memory, "together", f"{used:,}", "", share, style="bold", end_section=True)
        low, high = self.units_per_block
        facts = Table(show_header=False, box=None)
        facts.add_row("kernel type", self.kernel_type)
        facts.add_row("blocks", str(self.blocks))
        share = str(low) if low == high else f"{low} or {high}"
        facts.add_row("iterations", f"{self.units} shared out, {share} per block")
        facts.add_row("workspace", f"{self.workspace_bytes:,} bytes of global memory")
        return Group(table, facts)


def report_of(program: device.Program, capacity: Mapping[str, int]) -> Report:
    """Gathers the report of a lowered kernel for a chip with memories of these sizes."""
    buffers = tuple(
        BufferUse(s.memory, s.name, s.total, max(s.depth, 1), tuple(b.name for b in s.tenants))
        for section in program.sections
        for s in section.storages
    )
    return Report(
        kernel=program.name,
        kernel_type=program.kernel_type,
        blocks=program.blocks,
        buffers=buffers,
        capacity={memory: capacity[memory] for memory in program.memory_use()},
        units=program.units,
        units_per_block=program.units_per_block(),
        workspace_bytes=program.workspace_bytes,
    )
