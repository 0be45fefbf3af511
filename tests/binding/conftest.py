"""Kernels given as text, called through the same primitive and custom call as traced ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import jax
import numpy as np
import pytest

from npu_kernels.binding import reset_launches
from npu_kernels.binding.primitive import KernelCall

KERNELS = Path(__file__).resolve().parents[1] / "data" / "kernels"


@dataclass(frozen=True)
class HandWritten:
    """A kernel's text with what `binding.primitive.KernelSource` asks for."""

    text: str
    name: str
    entry: str
    blocks: int
    tiling: bytes
    workspace_bytes: int = 0
    kernel_type: str = "AIV_ONLY"
    num_args: int = 4
    line_map: dict[int, tuple[str, int]] = field(default_factory=dict)


AddOne = Callable[..., KernelCall]


@pytest.fixture
def add_one() -> AddOne:
    """Makes `y = x + 1` for float32 vectors of a size; ``claims`` is the size that the kernel is told."""

    def make(size: int, *, claims: int | None = None, blocks: int = 2, name: str = "add_one") -> KernelCall:
        text = (KERNELS / "add_one.cpp").read_text()
        load = 1 + text.splitlines().index("        out.SetValue(i, in.GetValue(i) + 1.0f);")
        source = HandWritten(
            text=text,
            name=name,
            entry="add_one",
            blocks=blocks,
            tiling=np.int32(size if claims is None else claims).tobytes(),
            line_map={1: ("/model/kernels.py", 1), load: ("/model/kernels.py", 7)},
        )
        return KernelCall(name, [jax.ShapeDtypeStruct((size,), np.float32)], source)

    return make


@pytest.fixture
def through_workspace() -> Callable[[int], KernelCall]:
    """Makes `y = x + 1` for float32 vectors of a size, which keeps its input in the workspace in between."""

    def make(size: int) -> KernelCall:
        source = HandWritten(
            text=(KERNELS / "through_workspace.cpp").read_text(),
            name="through_workspace",
            entry="through_workspace",
            blocks=1,
            tiling=np.int32(size).tobytes(),
            workspace_bytes=4 * size,
        )
        return KernelCall("through_workspace", [jax.ShapeDtypeStruct((size,), np.float32)], source)

    return make


@pytest.fixture(autouse=True)
def _count_from_zero() -> Iterator[None]:
    reset_launches()
    yield
