"""Many processes share one cache, and any of them may die at any time."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from npu_kernels import toolchain


def _results(children: list[Any]) -> list[str]:
    results = []
    for process in children:
        out, err = process.communicate()
        assert process.returncode == 0, err
        results.append(out.strip())
    return results


def test_processes_that_want_the_same_kernel_at_once_compile_it_once(cache: Path, child: Any) -> None:
    log = cache / "log"
    hashes = _results([child(log) for _ in range(6)])
    assert len(set(hashes)) == 1
    assert log.read_text().splitlines().count("kernel") == 1


def test_a_process_killed_at_any_time_leaves_a_cache_that_works(cache: Path, child: Any, add_one: Any) -> None:
    rng = random.Random(20261130)
    for _ in range(6):
        victim = child(cache / "log")
        # From before the import to after the build, which takes about as long on an idle machine.
        time.sleep(rng.uniform(0.05, 1.5))
        victim.kill()
        victim.communicate()
        for artifact in (cache / "artifacts").glob("*/*"):
            assert toolchain.artifacts.find(artifact.name) is not None, "a part of an artifact is visible"
    assert toolchain.build(add_one).library.exists()


def _slow_compiler(folder: Path) -> Path:
    """A compiler that answers questions at once and compiles kernels for ever, in a process below it."""
    real = shutil.which("c++") or shutil.which("g++")
    script = folder / "slow-c++"
    script.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *-shared*) sleep 600 & echo $! > {folder}/sleeper; wait;; *) exec {real} "$@";; esac\n'
    )
    script.chmod(0o755)
    return script


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes through /proc")
def test_an_interrupt_ends_the_compiler_and_removes_its_files(cache: Path, child: Any, tmp_path: Path) -> None:
    process = child(cache / "log", CXX=str(_slow_compiler(tmp_path)))
    sleeper = tmp_path / "sleeper"
    while not (sleeper.exists() and sleeper.read_text().strip()):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    pid = int(sleeper.read_text())
    deadline = time.monotonic() + 30
    while _alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(pid)
    assert not list((cache / "tmp").iterdir())
