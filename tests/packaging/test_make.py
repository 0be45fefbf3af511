"""The Makefile explains itself, and CI finds a second interpreter or says that there is none."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE)


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-C", str(ROOT), *arguments], capture_output=True, text=True)


def test_help_lists_every_target() -> None:
    output = make("help", f"PYTHON={sys.executable}").stdout
    assert [target for target in TARGETS if f"make {target} " not in output] == []


def test_every_target_is_phony() -> None:
    phony = re.search(r"^\.PHONY: (.*?)$(?<!\\)", MAKEFILE.replace("\\\n", " "), re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == set(TARGETS)


@pytest.mark.parametrize(("python", "text"), [("no-such-python", "does not run"), ("/bin/false", "does not run")])
def test_an_interpreter_that_does_not_run_is_named(python: str, text: str) -> None:
    result = make("help", f"PYTHON={python}")
    assert result.returncode != 0
    assert python in result.stderr and text in result.stderr


def test_an_interpreter_that_is_too_old_is_refused(tmp_path: Path) -> None:
    old = tmp_path / "python"
    old.write_text("#!/bin/sh\necho 310\n")
    old.chmod(0o755)
    result = make("help", f"PYTHON={old}")
    assert result.returncode != 0
    assert "3.11 or newer" in result.stderr


def test_the_second_interpreter_has_another_version() -> None:
    result = subprocess.run([ROOT / ".ci/second-python", sys.executable], capture_output=True, text=True, check=True)
    for python in result.stdout.split():
        program = "import sys; print(*sys.version_info[:2])"
        version = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout.split()
        assert version in (["3", "12"], ["3", "13"])
        assert version != [str(part) for part in sys.version_info[:2]]


def test_a_machine_without_a_second_interpreter_gives_none(tmp_path: Path) -> None:
    only = tmp_path / "python3"
    only.symlink_to(sys.executable)
    for tool in ("grep", "sort", "sh"):
        (tmp_path / tool).symlink_to(f"/bin/{tool}" if Path(f"/bin/{tool}").exists() else f"/usr/bin/{tool}")
    script = [ROOT / ".ci/second-python", sys.executable]
    result = subprocess.run(script, capture_output=True, text=True, check=True, env={"PATH": str(tmp_path)})
    assert result.stdout == ""
