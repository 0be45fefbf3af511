"""Takes generated source apart: an operator folder keeps the kernel's class and brings its own entry and tiling."""

from __future__ import annotations

import re
from dataclasses import dataclass

from npu_kernels.errors import CommandError
from npu_kernels.ir.device import KernelSource

_CLASS = re.compile(r"^class (\w+) \{$", re.MULTILINE)
_BODY = re.compile(r"^class \w+ \{$.*?^\};$", re.MULTILINE | re.DOTALL)
_SOURCE = re.compile(r"^ *const __gm__ \w+Tiling\* source = .*;\n", re.MULTILINE)
_FIELDS = re.compile(r"(^ *)(?:tiling\.\w+ = source->\w+;\s+)+", re.MULTILINE)


@dataclass(frozen=True)
class KernelClass:
    """A generated kernel class whose ``Init`` takes the operator's tiling structure in place of its address."""

    name: str
    text: str


def split_source(source: KernelSource, tiling_struct: str) -> KernelClass:
    """The class of a generated kernel.

    The operator compiler may fold tiling data into the binary, so the class must get the structure that
    ``GET_TILING_DATA_WITH_STRUCT`` makes, and not read the address itself.

    Raises:
        CommandError: NPK-EX10, when the source is not laid out as the generator lays it out.
    """
    found, body = _CLASS.search(source.text), _BODY.search(source.text)
    if found is None or body is None:
        raise _unknown(source)
    name, text = found[1], body[0]
    text, loads = _SOURCE.subn("", text)
    text, parameters = re.subn(r"GM_ADDR tilingAddress\)", f"const {tiling_struct}& tilingData)", text)
    text, fields = _FIELDS.subn(r"\1tiling = tilingData;\n\1", text)
    if not loads == parameters == fields == 1:
        raise _unknown(source)
    return KernelClass(name, re.sub(rf"\b{name}Tiling\b", tiling_struct, text))


def _unknown(source: KernelSource) -> CommandError:
    return CommandError(
        "NPK-EX10", f"the generated source of {source.name} has no class whose tiling can be handed over."
    )
