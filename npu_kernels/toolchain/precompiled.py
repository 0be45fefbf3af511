"""The precompiled form of `kernel_operator.h`, made once per compiler, flags and headers: kernels then build fast."""

from __future__ import annotations

import hashlib
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from npu_kernels.errors import ToolchainError

from .cachedir import subdirectory
from .compiler import HostCompiler
from .cpu import cpu_identity
from .files import publish_directory, temporary_directory
from .flags import compile_flags
from .headers import headers_hash, include_directory
from .process import run_compiler

_HEADER = "kernel_operator.h"


@dataclass(frozen=True)
class PrecompiledHeader:
    """A header in the cache.

    Attributes:
        folder: where it lies.
        flags: make a compilation start from it.
    """

    folder: Path
    flags: tuple[str, ...]

    def is_at_fault(self, output: str) -> bool:
        """Whether a compiler that failed with ``output`` could not use the header: damaged, or not mappable here."""
        return re.search(r"\bPCH\b|invalid-pch|precompiled file|AST file", output) is not None

    def discard(self) -> None:
        """Removes it, so that the next build makes it anew."""
        shutil.rmtree(self.folder, ignore_errors=True)


def plain_header_flags() -> tuple[str, ...]:
    """Flags for a compilation that reads the headers as text."""
    return (f"-I{include_directory()}",)


def precompiled_header(compiler: HostCompiler, *, checked: bool) -> PrecompiledHeader:
    """The precompiled header for a compiler and mode, built when it is missing.

    Raises:
        ToolchainError: NPK-TC02 when the compiler rejects the header, NPK-TC03 when it cannot be run.
    """
    flags = compile_flags(compiler, checked=checked)
    parts = (compiler.identity, *flags, cpu_identity(), str(include_directory()), headers_hash())
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    folder = subdirectory("headers") / key[:2] / key
    if not folder.is_dir():
        with FileLock(subdirectory("locks") / f"header-{key[:2]}.lock"):
            if not folder.is_dir():
                _make(compiler, flags, folder)
    if compiler.family == "clang":
        use: tuple[str, ...] = ("-include-pch", str(folder / f"{_HEADER}.pch"))
    else:
        # GCC takes NAME.gch for the first inclusion of NAME; kernels include it again and find NAME beside it.
        use = ("-Werror=invalid-pch", f"-I{folder}", "-include", _HEADER)
    return PrecompiledHeader(folder, (*use, *plain_header_flags()))


def _make(compiler: HostCompiler, flags: tuple[str, ...], folder: Path) -> None:
    with temporary_directory(subdirectory("tmp")) as temporary:
        header = include_directory() / _HEADER
        if compiler.family == "clang":
            # The headers' hash is in the key; their times change whenever the package is installed again.
            flags = (*flags, "-Xclang", "-fno-pch-timestamp")
            output = temporary / f"{_HEADER}.pch"
        else:
            (temporary / _HEADER).write_text(f'#include "{header}"\n')
            header = temporary / _HEADER
            output = temporary / f"{_HEADER}.gch"
        result = run_compiler(
            [*compiler.argv, *flags, *plain_header_flags(), "-x", "c++-header", str(header), "-o", str(output)],
            env={"TMPDIR": str(temporary)},
        )
        if result.returncode != 0:
            raise ToolchainError(
                "NPK-TC02",
                f"{compiler.version} rejects the twin's own headers. Try another compiler through CXX (GCC 9 or "
                f"Clang 10 at least). It says:\n{result.stderr.strip()[:4000]}",
            )
        publish_directory(temporary, folder)
