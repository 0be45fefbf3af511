"""Kernels of the selected cases, built side by side: one by one, the tests would mostly wait for a compiler."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from npu_kernels.errors import NpuKernelsError
from npu_kernels.toolchain.builder import build


def _sources(session: pytest.Session) -> Iterator[tuple[Any, bool]]:
    """Source and mode of every kernel that a conformance test of the session runs compiled."""
    from .test_conformance import arguments_of

    for item in session.items:
        named = item.callspec.params if hasattr(item, "callspec") else {}
        if not named.keys() >= {"op", "case", "dtype", "mode"} or named["mode"] == "interpret":
            continue
        case = named["case"]
        launch = named["op"].prepare(**arguments_of(case, named["dtype"]), **case.keywords)
        yield launch.kernel.lower(*launch.arrays, **launch.statics).generated, named["mode"] == "checked"


def _build(source: Any, checked: bool) -> None:
    with suppress(NpuKernelsError):  # the test of the case reports it
        build(source, checked=checked)


@pytest.fixture(scope="session", autouse=True)
def built(request: pytest.FixtureRequest) -> None:
    with suppress(NpuKernelsError), ThreadPoolExecutor(os.cpu_count()) as pool:
        seen = set()
        for source, checked in _sources(request.session):
            # A kernel makes one source for equal arguments.
            if (id(source), checked) not in seen:
                seen.add((id(source), checked))
                pool.submit(_build, source, checked)
