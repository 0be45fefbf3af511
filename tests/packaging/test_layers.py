"""The import contracts hold a planted violation up: each is broken by one line, and said to be."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import npu_kernels

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
INSTALLED = Path(str(npu_kernels.__file__)).parent
pytestmark = pytest.mark.skipif(
    PROJECT.parent / "npu_kernels" == INSTALLED, reason="an editable install answers imports before any copy can"
)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    package = tmp_path / "npu_kernels"
    shutil.copytree(INSTALLED, package, ignore=shutil.ignore_patterns("__pycache__", "*.so", "include"))
    return package


def lint(package: Path, contract: str) -> subprocess.CompletedProcess[str]:
    program = "from importlinter.cli import lint_imports_command as c; c()"
    return subprocess.run(
        [sys.executable, "-P", "-c", program, str(PROJECT), "--no-cache", "--no-logo", "--contract", contract],
        cwd=package.parent,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("contract", ["layers", "facade"])
def test_the_installed_package_keeps_the_contracts(copy: Path, contract: str) -> None:
    result = lint(copy, contract)
    assert result.returncode == 0, result.stdout + result.stderr


def test_an_import_upward_breaks_the_layers(copy: Path) -> None:
    with (copy / "ir" / "types.py").open("a") as module:
        module.write("\nimport npu_kernels.toolchain\n")
    result = lint(copy, "layers")
    assert result.returncode == 1
    assert "npu_kernels.ir.types" in result.stdout and "npu_kernels.toolchain" in result.stdout


def test_siblings_that_must_not_know_each_other_break_the_layers(copy: Path) -> None:
    with (copy / "graph" / "core.py").open("a") as module:
        module.write("\nimport npu_kernels.language\n")
    assert lint(copy, "layers").returncode == 1


def test_a_module_without_a_layer_breaks_the_layers(copy: Path) -> None:
    (copy / "elsewhere.py").write_text("")
    result = lint(copy, "layers")
    assert result.returncode == 1
    assert "elsewhere" in result.stdout


@pytest.mark.parametrize("statement", ["import npu_kernels", "from npu_kernels import npu_kernel"])
def test_a_kernel_that_imports_the_facade_breaks_its_contract(copy: Path, statement: str) -> None:
    kernel = copy / "kernels" / "planted.py"
    kernel.write_text(f"{statement}\n")
    result = lint(copy, "facade")
    assert result.returncode == 1
    assert "npu_kernels.kernels.planted" in result.stdout


def test_where_the_contract_looks_away_only_modules_are_imported() -> None:
    with PROJECT.open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    ignored = [line for contract in contracts for line in contract.get("ignore_imports", ())]
    assert ignored
    for line in ignored:
        importer = line.partition(" -> ")[0].removeprefix("npu_kernels.").replace(".", "/")
        tree = ast.parse((INSTALLED / f"{importer}.py").read_text())
        imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == "npu_kernels"]
        names = [alias.name for node in imports for alias in node.names]
        assert "_native" in names
        assert [name for name in names if not _is_module(name)] == []


def _is_module(name: str) -> bool:
    return (INSTALLED / name).is_dir() or any(INSTALLED.glob(f"{name}.*"))
