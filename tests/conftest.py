"""What every test runs under: the CPU platform and a seeded hypothesis."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# Read by jax when it is first imported, which a test module may do at once.
os.environ.setdefault("JAX_PLATFORMS", "cpu")

# The same examples in every run; a machine under load must not fail a test for being slow.
settings.register_profile("project", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("project")


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty artifact cache for one test; without it tests share the user's, where kernels are built already."""
    folder = tmp_path / "cache"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("NPU_KERNELS_CACHE_DIR", str(folder))
    yield folder
