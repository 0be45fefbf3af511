"""Loading from the cache runs code, so nobody else may be able to write to it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from npu_kernels.errors import CacheError
from npu_kernels.toolchain import cache_directory


def _use(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_KERNELS_CACHE_DIR", str(path))


def test_the_directory_is_made_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _use(tmp_path / "deep" / "cache", monkeypatch)
    old = os.umask(0)
    try:
        made = cache_directory()
    finally:
        os.umask(old)
    assert stat.S_IMODE(made.stat().st_mode) == 0o700


def test_without_a_setting_it_lies_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NPU_KERNELS_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory() == tmp_path / "xdg" / "npu-kernels"


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_directory_that_others_can_write_to_is_refused(
    mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    _use(folder, monkeypatch)
    with pytest.raises(CacheError, match=r"NPK-CA02.*chmod 700"):
        cache_directory()


def test_a_directory_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    _use(folder, monkeypatch)
    with pytest.raises(CacheError, match=rf"NPK-CA02.*belongs to user {me}"):
        cache_directory()


def test_a_directory_that_others_can_replace_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_folder = tmp_path / "open"
    open_folder.mkdir()
    (open_folder / "cache").mkdir(mode=0o700)
    open_folder.chmod(0o777)
    _use(open_folder / "cache", monkeypatch)
    with pytest.raises(CacheError, match=r"NPK-CA02.*replace"):
        cache_directory()


def test_a_sticky_parent_protects_what_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sticky = tmp_path / "sticky"
    sticky.mkdir()
    sticky.chmod(0o1777)
    _use(sticky / "cache", monkeypatch)
    assert cache_directory() == sticky / "cache"


def test_a_symbolic_link_is_judged_by_what_it_points_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "target"
    target.mkdir()
    target.chmod(0o777)
    (tmp_path / "link").symlink_to(target)
    _use(tmp_path / "link", monkeypatch)
    with pytest.raises(CacheError, match="NPK-CA02"):
        cache_directory()


def test_a_path_that_cannot_be_a_directory_is_an_error_that_says_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    _use(tmp_path / "file" / "cache", monkeypatch)
    with pytest.raises(CacheError, match=r"NPK-CA02.*Set NPU_KERNELS_CACHE_DIR"):
        cache_directory()
