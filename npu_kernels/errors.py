"""Every error class and code of the project.

One class per family, one stable code per fault. A message says what happened, with the numbers, and what to do;
``docs/errors/<CODE>.md`` shows the wrong and the right code. Faults inside a compiled XLA call reach the user as
``jax.errors.JaxRuntimeError`` whose first line is XLA's class of the status and the code
(``INTERNAL: NPK-RC01: …``); their structured form is :func:`last_fault`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

#: Every code with its one-line meaning. The classes below refuse a code that is not listed here.
CODES: Mapping[str, str] = MappingProxyType(
    {
        # language: what a kernel body may say
        "NPK-LA01": "unsupported Python in a kernel body",
        "NPK-LA02": "a traced value used outside the loop or branch that made it",
        "NPK-LA03": "a traced value used where Python needs a known value",
        "NPK-LA04": "tile shapes do not broadcast",
        "NPK-LA05": "dtype the operation or unit lacks",
        "NPK-LA06": "a slice that may reach outside its tensor",
        "NPK-LA07": "a loop-carried name changes its shape or dtype",
        "NPK-LA08": "an output is never or wrongly stored",
        "NPK-LA09": "an argument of a language function is out of its range",
        # calls: the contract of a kernel's signature
        "NPK-SH01": "shape does not match the annotation",
        "NPK-SH02": "one named dimension has two sizes",
        "NPK-DT01": "dtype does not match the annotation",
        "NPK-SG01": "a kernel signature that cannot be understood",
        "NPK-SG02": "a call that does not fit the kernel's signature",
        "NPK-TR01": "a transformation the kernel has no rule for",
        "NPK-TR02": "a derivative rule returned something of the wrong kind",
        "NPK-PL01": "a platform the kernel cannot run on",
        "NPK-PL02": "none of the implementations asked for can run",
        # IR and lowering
        "NPK-IR01": "the kernel IR is malformed",
        "NPK-UB01": "on-chip memory over budget",
        "NPK-LW01": "a tile program this version cannot lower",
        "NPK-AL01": "an alignment or size limit of an instruction",
        # toolchain and cache
        "NPK-TC01": "no host C++ compiler",
        "NPK-TC02": "the compiler rejected a kernel",
        "NPK-TC03": "the compiler could not be run",
        "NPK-CA01": "a kernel's artifact is missing",
        "NPK-CA02": "the cache directory is not safe to use",
        "NPK-CA03": "an artifact in the cache is damaged",
        # faults while a kernel runs
        "NPK-RC01": "access outside a tensor or buffer",
        "NPK-RC02": "read of memory that was never written",
        "NPK-RC03": "use of a buffer before its data arrived",
        "NPK-RC04": "misaligned address or illegal size",
        "NPK-RC05": "on-chip memory exhausted",
        "NPK-RC06": "queue or buffer used out of turn",
        "NPK-RC07": "event or flag without partner",
        "NPK-RC08": "an operand or dtype the instruction does not take",
        "NPK-RC09": "deadlock: every core waits",
        "NPK-RC10": "stack overflow in a core",
        "NPK-RC11": "the kernel could not be launched",
        # graph and substitution
        "NPK-GR01": "a program that cannot be read",
        "NPK-GR02": "a graph that cannot be written back",
        "NPK-SB01": "require() found another number of substitutions",
        "NPK-SB02": "a pattern that cannot be registered",
        # library kernels
        "NPK-AT01": "attention option that is not supported yet",
        "NPK-AT02": "attention operands that do not fit together",
        "NPK-NM01": "norm operands that do not fit together",
        # command line and export
        "NPK-CL01": "a command-line argument that cannot be understood",
        "NPK-EX10": "a kernel that cannot be exported as an operator folder",
        # settings
        "NPK-KN01": "an environment variable has a value that cannot be used",
    }
)


class NpuKernelsError(Exception):
    """Base of every error of the project.

    Args:
        code: a key of :data:`CODES`.
        message: what happened, with the numbers, and what to do.
        location: the user's own ``file:line``, when known.
    """

    def __init__(self, code: str, message: str, *, location: str | None = None) -> None:
        if code not in CODES:
            raise KeyError(f"unknown error code {code}")
        self.code = code
        self.message = message
        self.location = location
        super().__init__(f"{code}: {message}" + (f"\n  at {location}" if location else ""))


class LanguageError(NpuKernelsError):
    """The kernel body says something the language does not have."""


class SignatureError(NpuKernelsError, TypeError):
    """A call does not fit the kernel's annotations."""


class TransformError(NpuKernelsError, NotImplementedError):
    """A JAX transformation or platform the kernel has no rule for."""


class IRError(NpuKernelsError):
    """An IR value breaks a rule of the verifier: a fault of the compiler, not of the user."""


class LoweringError(NpuKernelsError):
    """A correct tile program that does not fit the hardware, or not this version."""


class ToolchainError(NpuKernelsError):
    """The host compiler is missing or refused a kernel."""


class CacheError(NpuKernelsError):
    """An artifact or the cache directory cannot be used."""


class KernelFault(NpuKernelsError):
    """A fault found while a kernel ran, raised by eager checked calls and direct launches."""


class GraphError(NpuKernelsError):
    """A program cannot be read into a graph or written back."""


class SubstitutionError(NpuKernelsError):
    """A pattern or a requirement on substitutions does not hold."""


class OperandError(NpuKernelsError, ValueError):
    """Operands of a library kernel do not fit together, or ask for what it does not do yet."""


class CommandError(NpuKernelsError):
    """A command of ``npu-kernels`` cannot be carried out as asked."""


class KnobError(NpuKernelsError, ValueError):
    """An environment variable has a value that cannot be used."""


@dataclass(frozen=True)
class Fault:
    """What the runtime knows of one fault.

    Attributes:
        code: stable code, ``NPK-RC…``.
        message: the full sentence.
        kernel: entry name of the kernel.
        core: for example ``AIV 3`` or ``AIC 0``.
        launch_id: number of the launch, unique in the process.
        source_line: line of the generated source, 0 when unknown.
        python_location: ``file:line`` of the kernel's Python source, empty when unknown.
        details: rule name, address range, sizes; keys depend on the code.
    """

    code: str
    message: str
    kernel: str
    core: str
    launch_id: int
    source_line: int = 0
    python_location: str = ""
    details: Mapping[str, str] = field(default_factory=dict)


_fault_source: Callable[[int | None], Fault | None] | None = None


def set_fault_source(source: Callable[[int | None], Fault | None]) -> None:
    """Installed by the binding, which knows the native runtime; errors stays the lowest layer."""
    global _fault_source
    _fault_source = source


def last_fault(launch_id: int | None = None) -> Fault | None:
    """The newest fault of any thread, or that of one launch; ``None`` when there was none."""
    return _fault_source(launch_id) if _fault_source is not None else None
