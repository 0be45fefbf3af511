"""What all kernels have in common, compiled once per compiler, flags and headers: kernels then build fast.

Two things: the precompiled form of `kernel_operator.h`, and objects with the instructions that generated kernels use
(`npk/instances.h`), which kernels are linked with.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from npu_kernels.errors import ToolchainError

from .cachedir import subdirectory, writing
from .compiler import HostCompiler
from .cpu import cpu_identity
from .files import publish_directory, temporary_directory
from .flags import compile_flags
from .headers import headers_hash, include_directory
from .process import run_compilers

_HEADER = "kernel_operator.h"
_INSTANCES = f'#include "{_HEADER}"\n#include "npk/instances.h"\n'
#: NPK_INSTANCE_PARTS of `npk/instances.h`.
_PARTS = 2


@dataclass(frozen=True)
class PrecompiledHeader:
    """A header and the instructions it declares, in the cache.

    Attributes:
        folder: where they lie.
        flags: make a compilation start from the header.
        link_flags: stand behind the source, and add the instructions to the library.
    """

    folder: Path
    flags: tuple[str, ...]
    link_flags: tuple[str, ...]

    def is_at_fault(self, output: str) -> bool:
        """Whether a compiler that failed with ``output`` could not use what lies here: damaged, or not mappable."""
        objects = rf"{re.escape(str(self.folder))}/\w+\.o\b"
        return re.search(rf"\bPCH\b|invalid-pch|precompiled file|AST file|{objects}", output) is not None

    def discard(self) -> None:
        """Removes it, so that the next build makes it anew."""
        shutil.rmtree(self.folder, ignore_errors=True)


def plain_header_flags() -> tuple[str, ...]:
    """Flags for a compilation that reads the headers as text and compiles what it uses itself."""
    return (f"-I{include_directory()}",)


def precompiled_header(compiler: HostCompiler, *, checked: bool) -> PrecompiledHeader:
    """The precompiled header and instructions for a compiler and mode, built when they are missing.

    Raises:
        ToolchainError: NPK-TC02 when the compiler rejects the header, NPK-TC03 when it cannot be run.
        CacheError: NPK-CA02, when the cache cannot be written.
    """
    flags = compile_flags(compiler, checked=checked)
    parts = (compiler.identity, *flags, cpu_identity(), str(include_directory()), headers_hash())
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    folder = subdirectory("headers") / key[:2] / key
    if not folder.is_dir():
        with writing(), FileLock(subdirectory("locks") / f"header-{key[:2]}.lock"):
            if not folder.is_dir():
                _make(compiler, flags, folder)
    if compiler.family == "clang":
        use: tuple[str, ...] = ("-include-pch", str(folder / f"{_HEADER}.pch"))
    else:
        # GCC takes NAME.gch for the first inclusion of NAME; kernels include it again and find NAME beside it.
        use = ("-Werror=invalid-pch", f"-I{folder}", "-include", _HEADER)
    objects = (str(folder / _part(number)) for number in range(_PARTS))
    return PrecompiledHeader(
        folder,
        ("-DNPK_TWIN_PREBUILT=1", *use, *plain_header_flags()),
        ("-x", "none", *objects, "-Wl,--gc-sections"),
    )


def _part(number: int) -> str:
    return f"instances{number}.o"


def _make(compiler: HostCompiler, flags: tuple[str, ...], folder: Path) -> None:
    with temporary_directory(subdirectory("tmp")) as temporary:
        commands = [_header_command(compiler, flags, temporary)]
        commands += [_instances_command(compiler, flags, temporary, number) for number in range(_PARTS)]
        for result in run_compilers(commands, cwd=temporary, env={"TMPDIR": str(temporary)}):
            if result.returncode != 0:
                raise ToolchainError(
                    "NPK-TC02",
                    f"{compiler.version} rejects the twin's own headers. Try another compiler through CXX (GCC 9 or "
                    f"Clang 10 at least). It says:\n{result.stderr.strip()[:4000]}",
                )
        publish_directory(temporary, folder)


def _header_command(compiler: HostCompiler, flags: tuple[str, ...], temporary: Path) -> list[str]:
    header = include_directory() / _HEADER
    if compiler.family == "clang":
        # The headers' hash is in the key; their times change whenever the package is installed again.
        flags = (*flags, "-Xclang", "-fno-pch-timestamp")
        output = f"{_HEADER}.pch"
    else:
        (temporary / _HEADER).write_text(f'#include "{header}"\n')
        header = temporary / _HEADER
        output = f"{_HEADER}.gch"
    mode = (*plain_header_flags(), "-DNPK_TWIN_PREBUILT=1", "-x", "c++-header")
    return [*compiler.argv, *flags, *mode, str(header), "-o", output]


def _instances_command(compiler: HostCompiler, flags: tuple[str, ...], temporary: Path, number: int) -> list[str]:
    source = temporary / f"instances{number}.cpp"
    source.write_text(f"#define NPK_INSTANCE_PART {number}\n{_INSTANCES}")
    # A kernel takes only the instructions it uses into its library.
    mode = (*plain_header_flags(), "-DNPK_TWIN_PREBUILT=2", "-ffunction-sections", "-c")
    return [*compiler.argv, *flags, *mode, source.name, "-o", _part(number)]
