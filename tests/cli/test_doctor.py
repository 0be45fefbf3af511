"""`npu-kernels doctor`: each line is ok or says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from npu_kernels.cli.doctor import Finding, examine


def findings() -> dict[str, Finding]:
    return {finding.subject: finding for finding in examine()}


def test_everything_is_looked_at() -> None:
    assert list(findings()) == ["Python", "JAX", "runtime", "C++ compiler", "CANN", "devices", "cache", "settings"]


def test_a_machine_that_runs_the_tests_is_healthy(fresh_cache: Path) -> None:
    assert [finding for finding in findings().values() if finding.state == "bad"] == []


def test_a_missing_compiler_is_explained(monkeypatch: pytest.MonkeyPatch, fresh_cache: Path) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    finding = findings()["C++ compiler"]
    assert finding.state == "bad"
    assert "NPK-TC01" in finding.text and "apt install g++" in finding.text


def test_a_cache_others_can_write_to_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("NPU_KERNELS_CACHE_DIR", str(folder))
    finding = findings()["cache"]
    assert finding.state == "bad"
    assert "NPK-CA02" in finding.text and "chmod 700" in finding.text


def test_a_wrong_cann_path_is_explained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "nowhere"))
    assert findings()["CANN"].state == "bad"
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    assert findings()["CANN"] == Finding("CANN", "ok", str(tmp_path))
    monkeypatch.delenv("ASCEND_HOME_PATH")
    assert findings()["CANN"].state == "absent"


def test_a_setting_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_KERNELS_THREADS", "many")
    finding = findings()["settings"]
    assert finding.state == "bad"
    assert "NPU_KERNELS_THREADS" in finding.text


def test_settings_that_are_made_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_KERNELS_THREADS", "3")
    assert "NPU_KERNELS_THREADS=3" in findings()["settings"].text
