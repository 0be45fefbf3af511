"""What is tested is the installed package, whole, and not the checkout around the tests."""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import npu_kernels

CHECKOUT = Path(__file__).parents[2]
PACKAGE = Path(str(npu_kernels.__file__)).parent
EDITABLE = PACKAGE == CHECKOUT / "npu_kernels"


@pytest.mark.skipif(EDITABLE, reason="an editable install runs from the checkout on purpose")
def test_the_checkout_does_not_shadow_the_wheel() -> None:
    assert CHECKOUT / "npu_kernels" not in [PACKAGE, *PACKAGE.parents]
    assert (PACKAGE / "codegen").is_dir() and (PACKAGE / "kernels").is_dir()


@pytest.mark.parametrize("name", ["codegen", "kernels", "language", "cli", "_native"])
def test_every_part_imports(name: str) -> None:
    importlib.import_module(f"npu_kernels.{name}")


def test_the_package_carries_its_types() -> None:
    assert (PACKAGE / "py.typed").is_file()


def test_the_command_is_installed() -> None:
    (command,) = importlib.metadata.entry_points(group="console_scripts", name="npu-kernels")
    assert callable(command.load())


def test_importing_the_package_loads_nothing_else() -> None:
    program = "import npu_kernels, sys; print([m for m in sys.modules if m.split('.')[0] in ('jax', 'numpy', 'rich')])"
    result = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_the_facade_lists_what_it_offers() -> None:
    for name in npu_kernels.__all__:
        assert getattr(npu_kernels, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        npu_kernels.nothing  # noqa: B018
