"""Finds the host's C++ compiler and says what it is, without starting it more often than once."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shlex
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from npu_kernels import knobs
from npu_kernels.errors import ToolchainError

from .cachedir import subdirectory, writing
from .files import write_atomically
from .process import run_compiler

#: Looked up on PATH in this order when CXX is not set.
CANDIDATES = ("c++", "g++", "clang++")

_INSTALL = (
    "Install one: `apt install g++` on Debian or Ubuntu, `dnf install gcc-c++` on Fedora, RHEL or openEuler, "
    "`apk add g++` on Alpine; or set CXX to the compiler's path."
)


@dataclass(frozen=True)
class HostCompiler:
    """A C++ compiler of this machine.

    Attributes:
        argv: the program's path and the arguments that CXX gives it.
        family: whose command line it understands.
        version: the first line it prints for ``--version``.
        identity: changes when the compiler or its arguments do.
    """

    argv: tuple[str, ...]
    family: Literal["gcc", "clang"]
    version: str
    identity: str


def find_compiler() -> HostCompiler:
    """The compiler that ``CXX`` names, else the first of :data:`CANDIDATES` on the path.

    Raises:
        ToolchainError: NPK-TC01 when there is none, NPK-TC03 when it is neither GCC nor Clang or does not run.
        CacheError: NPK-CA02, when the cache directory is not safe to use or cannot be written.
    """
    argv = _command()
    stamp = _stamp(argv)
    return _identified(argv, stamp, subdirectory("compilers") / f"{stamp}.json")


def _command() -> tuple[str, ...]:
    setting = knobs.CXX.get()
    if setting is not None:
        try:
            words = shlex.split(setting)
        except ValueError as error:
            raise ToolchainError("NPK-TC01", f"CXX={setting!r} cannot be read: {error}.") from None
        program = shutil.which(words[0]) if words else None
        if program is None:
            missing = words[0] if words else ""
            raise ToolchainError(
                "NPK-TC01",
                f"CXX={setting!r} names no program that can be run: there is no {missing!r}; quote a path with spaces. "
                f"{_INSTALL}",
            )
        return (program, *words[1:])
    for name in CANDIDATES:
        if (program := shutil.which(name)) is not None:
            return (program,)
    raise ToolchainError(
        "NPK-TC01", f"kernels need a C++ compiler, and there is none: looked for {', '.join(CANDIDATES)}. {_INSTALL}"
    )


def _stamp(argv: tuple[str, ...]) -> str:
    """Changes when one of the programs in ``argv`` does: behind a wrapper such as ccache stands another one."""
    parts = [*argv]
    for word in argv:
        program = None if word.startswith("-") else shutil.which(word)
        if program is not None:
            real = os.path.realpath(program)
            status = os.stat(real)
            parts.append(f"{real}:{status.st_mtime_ns}:{status.st_size}")
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.cache
def _identified(argv: tuple[str, ...], stamp: str, record: Path) -> HostCompiler:
    known = _read(record)
    if known is None:
        known = _ask(argv, stamp)
        with writing():
            write_atomically(record, json.dumps(asdict(known)))
    return known


def _read(record: Path) -> HostCompiler | None:
    try:
        fields = json.loads(record.read_text())
        return HostCompiler(tuple(fields["argv"]), fields["family"], fields["version"], fields["identity"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _ask(argv: tuple[str, ...], stamp: str) -> HostCompiler:
    answer = run_compiler([*argv, "--version"])
    name = shlex.join(argv)
    if answer.returncode != 0:
        raise ToolchainError("NPK-TC03", f"`{name} --version` fails:\n{answer.stderr.strip()[-2000:]}")
    family: Literal["gcc", "clang"]
    if "clang" in answer.stdout:
        family = "clang"
    elif "Free Software Foundation" in answer.stdout:
        family = "gcc"
    else:
        raise ToolchainError(
            "NPK-TC03", f"{name} is neither GCC nor Clang: it says {answer.stdout.splitlines()[:1]}. {_INSTALL}"
        )
    target = run_compiler([*argv, "-dumpmachine"]).stdout.strip()
    version = answer.stdout.splitlines()[0].strip()
    return HostCompiler(argv, family, version, f"{stamp}\0{version}\0{target}")
