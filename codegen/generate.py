"""Writes a device program down as one Ascend C file."""

from __future__ import annotations

import re
import struct
from pathlib import PurePath

import jinja2

from npu_kernels.ir.device import KernelSource, Program, Section, Tensor

from .statements import Writer

_METHODS = {"AIV": "ProcessVector", "AIC": "ProcessCube"}
_GUARDS = {"AIV": "ASCEND_IS_AIV", "AIC": "ASCEND_IS_AIC"}
_BODY = re.compile(r"^@@BODY (\w+)@@$")


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("npu_kernels.codegen"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
        autoescape=False,
    )


_ENVIRONMENT = _environment()


def generate(program: Program) -> KernelSource:
    """The generated source with its launch data; ``text`` holds one statement per line."""
    parameters = [s.name for s in (*program.inputs, *program.outputs)]
    skeleton = _ENVIRONMENT.get_template("kernel.cpp.j2").render(_values(program, parameters))
    lines: list[str] = []
    line_map: dict[int, tuple[str, int]] = {}
    bodies = {_METHODS[s.kind]: s for s in program.sections}
    for line in skeleton.splitlines():
        match = _BODY.match(line)
        if match is None:
            lines.append(line)
            continue
        writer = Writer(_ENVIRONMENT)
        writer.section(bodies[match[1]].statements, 2)
        for written, where in zip(writer.lines, writer.locations, strict=True):
            lines.append(written)
            if where is not None:
                line_map[len(lines)] = where
    return KernelSource(
        name=program.name,
        text="\n".join(lines) + "\n",
        entry=_entry(program),
        kernel_type=program.kernel_type,
        num_args=len(parameters) + 2,
        inputs=tuple(program.inputs),
        outputs=tuple(program.outputs),
        workspace_bytes=program.workspace_bytes,
        tiling=struct.pack(f"<{len(program.tiling)}q", *program.tiling.values()),
        blocks=program.blocks,
        line_map=line_map,
    )


def _entry(program: Program) -> str:
    """The C function's name: the kernel's own may be one of Ascend C or of the C library, such as ``exp``."""
    return f"{program.name}_kernel"


def _addresses(parameters: list[str]) -> list[str]:
    own = ("workspaceAddress", "tilingAddress")
    written = (f"{p}Address" for p in parameters)
    return [*(f"{a}_" if a in own else a for a in written), *own]


def _values(program: Program, parameters: list[str]) -> dict[str, object]:
    mixed = len(program.sections) > 1
    addresses = _addresses(parameters)
    return {
        "name": program.name,
        "entry": _entry(program),
        "class_name": "".join(part.capitalize() for part in program.name.split("_")) + "Kernel",
        "origin": f"{PurePath(program.location.file).name}:{program.location.line}",
        "notes": program.notes,
        "tiling": list(program.tiling),
        "mixed": mixed,
        "indent": "    " if mixed else "",
        "init_parameters": ", ".join(f"GM_ADDR {a}" for a in addresses),
        "parameters": ", ".join(f"GM_ADDR {a}" for a in addresses),
        "arguments": ", ".join(addresses),
        "kernel_type": program.kernel_type,
        "tensors": [_tensor(t, addresses) for t in program.tensors],
        "sections": [_section(s) for s in program.sections],
    }


def _tensor(tensor: Tensor, addresses: list[str]) -> dict[str, object]:
    address = addresses[tensor.parameter]
    if tensor.stride:
        address = f"{address} + blockIdx * {tensor.stride} + {tensor.offset}"
    return {
        "name": tensor.name,
        "ctype": tensor.ctype,
        "elements": tensor.elements,
        "address": f"reinterpret_cast<__gm__ {tensor.ctype}*>({address})",
    }


def _section(section: Section) -> dict[str, object]:
    return {
        "method": _METHODS[section.kind],
        "guard": _GUARDS[section.kind],
        "storages": section.storages,
        "events": section.events,
    }
