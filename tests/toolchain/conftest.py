"""A hand-written kernel, and a cache that has the precompiled header already."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from npu_kernels import toolchain

KERNELS = Path(__file__).resolve().parents[1] / "data" / "kernels"


@dataclass(frozen=True)
class HandWritten:
    """A kernel's text with what `toolchain.Source` asks for."""

    text: str
    name: str = "add_one"
    entry: str = "add_one"
    kernel_type: str = "AIV_ONLY"
    num_args: int = 4
    line_map: dict[int, tuple[str, int]] = field(default_factory=dict)


@pytest.fixture
def add_one() -> HandWritten:
    return HandWritten((KERNELS / "add_one.cpp").read_text())


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for the session, holding the header of the fast mode: making it takes seconds."""
    folder = tmp_path_factory.mktemp("shared-cache")
    folder.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NPU_KERNELS_CACHE_DIR", str(folder))
        toolchain.precompiled_header(toolchain.find_compiler(), checked=False)
    return folder


@pytest.fixture
def cache(fresh_cache: Path, shared_cache: Path) -> Path:
    """An empty cache but for the precompiled header."""
    (fresh_cache / "headers").symlink_to(shared_cache / "headers")
    return fresh_cache


#: Builds the kernel at argv[1] in a process of its own and prints its hash; appends to the file argv[2] each time
#: that it starts a compiler.
CHILD = """
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from npu_kernels import toolchain
from npu_kernels.toolchain import builder, compiler, precompiled

@dataclass
class Source:
    text: str
    name: str = "add_one"
    entry: str = "add_one"
    kernel_type: str = "AIV_ONLY"
    num_args: int = 4
    line_map: dict = field(default_factory=dict)

# A parent that ignores interrupts, as a shell's background jobs do, would hand that on.
signal.signal(signal.SIGINT, signal.default_int_handler)
real = builder.run_compiler

def counted(argv, **options):
    with open(sys.argv[2], "a") as log:
        log.write(("kernel" if "-shared" in argv else "other") + "\\n")
    return real(argv, **options)

real_many = precompiled.run_compilers

def counted_many(commands, **options):
    with open(sys.argv[2], "a") as log:
        log.write("other\\n" * len(commands))
    return real_many(commands, **options)

builder.run_compiler = compiler.run_compiler = counted
precompiled.run_compilers = counted_many
print(toolchain.build(Source(Path(sys.argv[1]).read_text())).hash)
"""


def start_child(log: Path, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", CHILD, str(KERNELS / "add_one.cpp"), str(log)],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def child() -> object:
    return start_child
