"""Turns a compiler's complaint about generated text into one about the author's Python."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from npu_kernels.errors import ToolchainError

from .compiler import HostCompiler

#: From lines of a generated source to the Python file and line that made them.
LineMap = Mapping[int, tuple[str, int]]


def python_location(line_map: LineMap, generated: int) -> str | None:
    """``file:line`` of the closest mapped line at or before ``generated``."""
    before = [line for line in line_map if line <= generated]
    if not before:
        return None
    file, line = line_map[max(before)]
    return f"{file}:{line}"


def rejection(
    compiler: HostCompiler, name: str, file: str, text: str, line_map: LineMap, output: str, kept: Path
) -> ToolchainError:
    """The error NPK-TC02 for a kernel whose compilation ended with ``output``.

    Args:
        file: the name under which the compiler saw ``text``.
        kept: where the text and the whole output were left for the user.
    """
    complaint = re.search(r"error: (.*)", output)
    # An error deep in a template is reported there first; the kernel's own line stands in the notes around it.
    own = re.search(rf"(?:^|[\s/]){re.escape(file)}:(\d+)", output, re.MULTILINE)
    said = complaint.group(1) if complaint else output.strip()[:500]
    lines = [f"{shlex.join(compiler.argv)} rejects the kernel {name}: {said}"]
    location = None
    if own is not None:
        number = int(own.group(1))
        source = text.splitlines()
        location = python_location(line_map, number)
        quoted = source[number - 1].strip() if 0 < number <= len(source) else ""
        lines.append(f"  generated line {number}: {quoted}")
    lines.append(f"  the text and all of the compiler's messages are in {kept}")
    return ToolchainError("NPK-TC02", "\n".join(lines), location=location)
