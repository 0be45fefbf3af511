"""What every test runs under: the CPU platform and a seeded hypothesis."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import settings

# Read by jax when it is first imported, which a test module may do at once.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

# The same examples in every run; a machine under load must not fail a test for being slow.
settings.register_profile("project", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("project")


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An artifact cache that goes with the session's temporary folders; compilers and headers are the user's."""
    from npu_kernels.errors import NpuKernelsError
    from npu_kernels.toolchain import find_compiler, precompiled_header
    from npu_kernels.toolchain.cachedir import subdirectory

    # Made now: what is made in one file system cannot be moved to another.
    with suppress(NpuKernelsError):
        for checked in (False, True):
            precompiled_header(find_compiler(), checked=checked)
    folder = tmp_path_factory.mktemp("session-cache")
    folder.chmod(0o700)
    for kept in ("compilers", "headers"):
        (folder / kept).symlink_to(subdirectory(kept))
    return folder


@pytest.fixture(autouse=True)
def _throwaway_kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps kernels that a test writes to a temporary folder out of the user's cache: no other run finds them there.

    All other tests share that cache, where the library's kernels and their own are built already.
    """
    if "tmp_path" in request.fixturenames:
        monkeypatch.setenv("NPU_KERNELS_CACHE_DIR", str(request.getfixturevalue("session_cache")))


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty artifact cache for one test."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("NPU_KERNELS_CACHE_DIR", str(folder))
    yield folder
