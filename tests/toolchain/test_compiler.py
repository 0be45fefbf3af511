"""The host compiler is found, or its absence explained."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from npu_kernels import toolchain
from npu_kernels.errors import ToolchainError

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
