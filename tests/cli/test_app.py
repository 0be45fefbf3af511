"""The commands, as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import pytest
from typer.testing import CliRunner

from npu_kernels.cli.app import app
from npu_kernels.cli.user_code import user_code
from npu_kernels.errors import CommandError, NpuKernelsError

CORPUS = Path(__file__).parents[1] / "data" / "corpus"
KERNEL = """
import npu_kernels.language as nl
from jaxtyping import Float
from npu_kernels import npu_kernel


@npu_kernel
def scaled(x: Float[nl.Tensor, "rows dim"], *, factor: float) -> Float[nl.Tensor, "rows dim"]:
    rows, dim = x.shape
    out = nl.output(x.shape, x.dtype)
    for r in nl.parallel(rows, step=4):
        nl.store(out[r:r + 4, :], nl.load(x[r:r + 4, :]) * factor)
    return out


def plain(x):
    return x
"""

MODEL = """
import jax
import jax.numpy as jnp


def norm(x, weight):
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * weight
"""


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: str) -> NpuKernelsError:
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, NpuKernelsError), result.output
    return result.exception


@pytest.fixture
def kernel_file(tmp_path: Path) -> str:
    file = tmp_path / "own_kernels.py"
    file.write_text(KERNEL)
    return str(file)


@pytest.fixture
def model_file(tmp_path: Path) -> str:
    file = tmp_path / "own_model.py"
    file.write_text(MODEL)
    return str(file)


def test_without_a_command_the_commands_are_listed() -> None:
    output = CliRunner().invoke(app, []).output
    for command in ("doctor", "list", "show", "explain", "export"):
        assert command in output


def test_list_names_every_kernel_with_shapes() -> None:
    output = run("list")
    assert "attention" in output and "rms_norm" in output
    assert "SmolLM2-135M" in output


@pytest.mark.parametrize("kernel", ["rms_norm", "attention"])
def test_show_prints_ascend_c(kernel: str) -> None:
    assert "__global__ __aicore__ void" in run("show", kernel)


def test_show_prints_the_ir() -> None:
    assert "37" in run("show", "rms_norm", "--shape", "x=37x192", "--shape", "weight=192", "--view", "ir")


def test_show_prints_the_report() -> None:
    assert "UB" in run("show", "rms_norm", "--shape", "x=37x192", "--shape", "weight=192", "--view", "report")


def test_a_library_kernel_needs_all_its_tensors() -> None:
    assert refused("show", "rms_norm", "--shape", "weight=192").code == "NPK-CL01"


def test_shapes_that_do_not_fit_together_are_the_kernels_own_error() -> None:
    assert refused("show", "rms_norm", "--shape", "x=37x192", "--shape", "weight=191").code == "NPK-NM01"


def test_show_takes_a_kernel_from_a_file(kernel_file: str) -> None:
    source = run("show", f"{kernel_file}:scaled", "--shape", "x=37x192:float16", "--set", "factor=0.5")
    assert "scaled" in source and "half" in source


def test_show_refuses_what_is_no_kernel(kernel_file: str) -> None:
    assert "is of type function, not a kernel" in refused("show", f"{kernel_file}:plain").message


@pytest.mark.parametrize(
    "name", ["nothing", "no_such_module:kernel", "nowhere.py:kernel", "json:kernel", ":", "json:", "..:x"]
)
def test_a_kernel_that_is_not_there_is_named(name: str) -> None:
    error = refused("show", name)
    assert isinstance(error, CommandError)
    assert error.code == "NPK-CL01"


def test_a_setting_without_a_value_is_refused(kernel_file: str) -> None:
    assert "NAME=VALUE" in refused("show", f"{kernel_file}:scaled", "--set", "factor").message


def test_a_setting_the_kernel_does_not_have_is_refused(kernel_file: str) -> None:
    assert "there are factor" in refused("show", f"{kernel_file}:scaled", "--set", "eps=1").message
    assert "there are eps, dtype" in refused("show", "rms_norm", "--set", "factor=1").message


@pytest.mark.parametrize("command", ["show", "explain"])
def test_a_setting_that_is_missing_is_named(command: str, kernel_file: str) -> None:
    error = refused(command, f"{kernel_file}:scaled", "--shape", "x=37x192")
    assert error.code == "NPK-CL01" and "add --set factor=VALUE" in error.message


def test_a_setting_that_cannot_be_used_is_one_sentence() -> None:
    error = refused("show", "rms_norm", "--set", "eps=abc")
    assert error.code == "NPK-CL01" and "could not convert string to float: 'abc'" in error.message


def test_an_error_about_the_call_names_no_line_of_the_command(kernel_file: str) -> None:
    error = refused("show", f"{kernel_file}:scaled", "--shape", "x=3x4x5", "--set", "factor=1.0")
    assert error.code == "NPK-SH01" and error.location is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import nowhere_to_be_found\n", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("def f(x:\n", "SyntaxError: '(' was never closed"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(3)\n", "SystemExit: 3"),
    ],
)
@pytest.mark.parametrize("command", ["show", "explain"])
def test_a_module_that_fails_is_one_sentence_at_its_line(command: str, text: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "failing.py"
    file.write_text(text)
    error = refused(command, f"{file}:f")
    assert error.code == "NPK-CL01" and error.message == f"'{file}' cannot be imported: {reason}"
    assert error.location == f"{file}:1"


def test_a_function_that_fails_is_one_sentence_at_its_line(model_file: str) -> None:
    error = refused("explain", f"{model_file}:norm", "--shape", "2x5x64", "--shape", "63")
    assert error.code == "NPK-CL01" and "cannot be traced with 2x5x64, 63: ValueError" in error.message
    assert error.location == f"{model_file}:7"


def test_a_fault_of_this_package_is_not_taken_for_the_users() -> None:
    def fails() -> None:
        raise ZeroDivisionError("ours")

    ours = FunctionType(fails.__code__, {**globals(), "__name__": "npu_kernels.substitution.engine"})
    with pytest.raises(ZeroDivisionError, match="ours"), user_code("nothing"):
        ours()


def test_modules_of_the_working_directory_are_found(kernel_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(kernel_file).parent)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert "scaled" in run("show", "own_kernels:scaled", "--shape", "x=37x192", "--set", "factor=0.5")


def test_explain_reads_stablehlo() -> None:
    answer = json.loads(run("explain", str(CORPUS / "hand_rmsnorm_f32.fwd.mlir"), "--json"))
    assert [entry["pattern"] for entry in answer["replaced"]] == ["rms_norm"]
    assert {"pattern", "location", "reason"} <= set(answer["replaced"][0])
    assert answer["near_misses"] == []


def test_explain_reads_a_function(model_file: str) -> None:
    answer = json.loads(run("explain", f"{model_file}:norm", "--shape", "x=2x5x64", "--shape", "weight=64", "--json"))
    (entry,) = answer["replaced"]
    assert entry["pattern"] == "rms_norm"
    assert entry["location"].endswith("own_model.py:7")


def test_explain_prints_a_table(model_file: str) -> None:
    output = run("explain", f"{model_file}:norm", "--shape", "x=2x5x64", "--shape", "weight=64")
    assert "rms_norm" in output and "replaced" in output


def test_explain_refuses_a_file_that_is_not_stablehlo(tmp_path: Path) -> None:
    file = tmp_path / "nonsense.mlir"
    file.write_text("nonsense")
    assert refused("explain", str(file)).code == "NPK-GR01"


@pytest.mark.parametrize("name", ["nowhere.mlir", "."])
def test_explain_refuses_a_file_that_is_not_there(name: str) -> None:
    assert "module:function" in refused("explain", name).message


def test_explain_of_python_asks_which_function(model_file: str) -> None:
    assert f"{model_file}:function" in refused("explain", model_file).message


@pytest.mark.parametrize("option", [("--shape", "x=2x64"), ("--set", "eps=1")])
def test_a_stablehlo_file_has_its_own_shapes(option: tuple[str, str]) -> None:
    assert "has its shapes" in refused("explain", str(CORPUS / "hand_rmsnorm_f32.fwd.mlir"), *option).message


def test_export_writes_an_operator_folder(tmp_path: Path) -> None:
    run("export", "rms_norm", str(tmp_path / "operators"))
    written = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert any("op_kernel" in name for name in written)
    assert any("op_host" in name for name in written)


def test_export_refuses_two_dtypes(tmp_path: Path) -> None:
    shapes = ("--shape", "x=3x4:float16", "--shape", "weight=4")
    assert "float16 and float32" in refused("export", "rms_norm", str(tmp_path), *shapes).message


def test_export_takes_a_licence_and_writes_over(tmp_path: Path) -> None:
    (tmp_path / "licence.txt").write_text("Mine")
    shapes = ("--shape", "x=3x4", "--shape", "weight=4")
    run("export", "rms_norm", str(tmp_path), *shapes)
    assert "--overwrite" in refused("export", "rms_norm", str(tmp_path), *shapes).message
    run("export", "rms_norm", str(tmp_path), *shapes, "--overwrite", "--licence", str(tmp_path / "licence.txt"))
    assert (tmp_path / "npk_rms_norm" / "op_kernel" / "npk_rms_norm.cpp").read_text().startswith("/*\n * Mine\n */")
    assert refused("export", "rms_norm", str(tmp_path), "--licence", str(tmp_path / "none")).code == "NPK-CL01"


def test_export_refuses_a_kernel_it_cannot_write(tmp_path: Path) -> None:
    assert refused("export", "attention", str(tmp_path)).code == "NPK-EX10"


def test_an_error_is_one_coded_sentence_and_no_traceback() -> None:
    program = "from npu_kernels.cli import main; main()"
    result = subprocess.run([sys.executable, "-P", "-c", program, "show", "nothing"], capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("NPK-CL01: there is no kernel 'nothing'")
    assert "Traceback" not in result.stderr
