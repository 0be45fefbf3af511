"""The commands, as a user types them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from npu_kernels.cli.app import app
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
    assert "is a function, not a kernel" in refused("show", f"{kernel_file}:plain").message


@pytest.mark.parametrize("name", ["nothing", "no_such_module:kernel", "nowhere.py:kernel", "json:kernel"])
def test_a_kernel_that_is_not_there_is_named(name: str) -> None:
    error = refused("show", name)
    assert isinstance(error, CommandError)
    assert error.code == "NPK-CL01"


def test_a_setting_without_a_value_is_refused(kernel_file: str) -> None:
    assert "NAME=VALUE" in refused("show", f"{kernel_file}:scaled", "--set", "factor").message


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


def test_explain_refuses_a_file_that_is_not_there() -> None:
    assert refused("explain", "nowhere.mlir").code == "NPK-CL01"


def test_export_writes_an_operator_folder(tmp_path: Path) -> None:
    run("export", "rms_norm", str(tmp_path / "operators"))
    written = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert any("op_kernel" in name for name in written)
    assert any("op_host" in name for name in written)


def test_export_refuses_a_kernel_it_cannot_write(tmp_path: Path) -> None:
    assert refused("export", "attention", str(tmp_path)).code == "NPK-EX10"


def test_an_error_is_one_coded_sentence_and_no_traceback() -> None:
    program = "from npu_kernels.cli import main; main()"
    result = subprocess.run([sys.executable, "-P", "-c", program, "show", "nothing"], capture_output=True, text=True)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith("NPK-CL01: there is no kernel 'nothing'")
    assert "Traceback" not in result.stderr
