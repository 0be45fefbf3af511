"""The stages of a kernel for one set of shapes, made when they are asked for."""

from __future__ import annotations

import functools

from npu_kernels import codegen, ir, lowering
from npu_kernels.ir import device
from npu_kernels.lowering.arch import arch_of

from .report import Report, report_of


class Lowered:
    """What :meth:`Kernel.lower` returns.

    Attributes:
        ir: the traced kernel; ``print`` shows it.
        arch: the chip's architecture, ``2201`` for Atlas A2 and A3.
    """

    def __init__(self, traced: ir.Kernel, arch: str = "2201") -> None:
        self.ir = traced
        self.arch = arch

    @functools.cached_property
    def program(self) -> device.Program:
        """The kernel in terms of the device: queues, buffers, instructions, cores."""
        return lowering.lower(self.ir, self.arch)

    @functools.cached_property
    def generated(self) -> device.KernelSource:
        """The Ascend C source with what a launch needs."""
        return codegen.generate(self.program)

    @property
    def source(self) -> str:
        """The Ascend C source."""
        return self.generated.text

    def report(self) -> Report:
        """Buffers on chip by memory and bytes, blocks, and how the work is shared out over the cores."""
        return report_of(self.program, arch_of(self.arch).capacity)
