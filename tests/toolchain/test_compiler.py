"""The host compiler is found, or its absence explained."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import pytest

from npu_kernels import toolchain
from npu_kernels.errors import CacheError, ToolchainError

REAL = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++") or ""


def _program(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def _own_cache(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)


def test_without_cxx_the_first_candidate_on_the_path_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "clang++").symlink_to(REAL)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert toolchain.find_compiler().argv == (str(tmp_path / "bin" / "clang++"),)


def test_no_compiler_is_an_error_that_says_which_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolchainError, match=r"NPK-TC01.*apt install g\+\+"):
        toolchain.find_compiler()


def test_arguments_in_cxx_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", f"{REAL} -DANSWER=42")
    assert toolchain.find_compiler().argv == (REAL, "-DANSWER=42")


@pytest.mark.parametrize("setting", ["no-such-compiler", "/no/such/c++ -O1", "   ", "'unbalanced"])
def test_cxx_that_names_nothing_is_an_error_even_when_others_are_there(
    setting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", setting)
    with pytest.raises(ToolchainError, match="NPK-TC01"):
        toolchain.find_compiler()


def test_a_program_that_is_no_known_compiler_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(_program(tmp_path / "toy", "echo toy compiler 1.0")))
    with pytest.raises(ToolchainError, match=r"NPK-TC03.*toy compiler 1\.0"):
        toolchain.find_compiler()


def test_a_compiler_that_fails_is_reported_with_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(_program(tmp_path / "broken", "echo licence expired >&2; exit 3")))
    with pytest.raises(ToolchainError, match=r"(?s)NPK-TC03.*licence expired"):
        toolchain.find_compiler()


def test_a_compiler_killed_by_a_signal_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", str(_program(tmp_path / "killed", "kill -9 $$")))
    with pytest.raises(ToolchainError, match=r"NPK-TC03.*SIGKILL"):
        toolchain.find_compiler()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ld: final link failed: No space left on device", "NPK-CA02.*No space left"),
        ("g++: fatal error: Killed signal terminated program cc1plus", "NPK-TC03.*Killed"),
        ("g++: internal compiler error: File size limit exceeded signal terminated program cc1plus", "NPK-CA02"),
    ],
)
def test_a_compiler_that_ran_out_of_room_or_memory_does_not_blame_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, expected: str, add_one: Any
) -> None:
    answers = f'case "$*" in *--version*|*-dumpmachine*) exec {REAL} "$@";; esac'
    monkeypatch.setenv("CXX", str(_program(tmp_path / "c++", f"{answers}\necho '{words}' >&2; exit 1")))
    with pytest.raises((ToolchainError, CacheError), match=expected):
        toolchain.build(add_one)


def test_a_disk_that_is_full_before_the_compiler_is_known_is_an_error_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: Any, **_options: Any) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setenv("CXX", str(_program(tmp_path / "c++", f'exec {REAL} "$@"')))
    monkeypatch.setattr(tempfile, "mkstemp", full)
    with pytest.raises(CacheError, match=r"NPK-CA02.*No space left on device"):
        toolchain.find_compiler()


def test_identity_changes_with_the_program_and_with_its_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = _program(tmp_path / "wrapper", f'exec {REAL} "$@"')
    identities = set()
    for setting in (str(wrapper), f"{wrapper} -DX", f"{wrapper} -DY"):
        monkeypatch.setenv("CXX", setting)
        identities.add(toolchain.find_compiler().identity)
    _program(wrapper, f'# another release\nexec {REAL} "$@"')
    monkeypatch.setenv("CXX", str(wrapper))
    identities.add(toolchain.find_compiler().identity)
    assert len(identities) == 4
