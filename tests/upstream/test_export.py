"""The operator folder: complete, consistent with the kernel, and its own unit test runs on the twin."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from npu_kernels import toolchain
from npu_kernels.errors import CommandError
from npu_kernels.upstream import export

_SHAPES = [((6, 48), (48,)), ((5, 33), (33,)), ((2, 8200), (8200,))]
_HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("operators")
    export("rms_norm", _SHAPES, root)
    return root / "npk_rms_norm"


def _run_unit_test(folder: Path) -> subprocess.CompletedProcess[str]:
    """Builds the folder's unit test against the twin, with a small stand-in for GoogleTest, and runs it."""
    include = toolchain.include_directory()
    library = include.parent / "lib"
    program = folder / "unit_test"
    test = folder / "tests" / "ut" / "op_kernel" / "test_npk_rms_norm.cpp"
    command = [
        *toolchain.find_compiler().argv,
        *("-std=c++17", "-O1", "-ffp-contract=off", "-DASCENDC_CPU_DEBUG=1", "-DDTYPE_X=float"),
        *("-I", str(include), "-I", str(_HERE), str(test), str(_HERE / "main.cpp"), "-o", str(program)),
        *("-L", str(library), f"-Wl,-rpath,{library}", "-lnpu_kernels_runtime", "-lpthread"),
    ]
    built = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stderr
    return subprocess.run([str(program)], capture_output=True, text=True, timeout=120)


def test_has_every_file_of_the_standard_layout(folder: Path) -> None:
    files = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    assert files >= {
        "CMakeLists.txt",
        "README.md",
        "examples/test_aclnn_npk_rms_norm.cpp",
        "op_host/CMakeLists.txt",
        "op_host/npk_rms_norm_def.cpp",
        "op_host/npk_rms_norm_infershape.cpp",
        "op_host/npk_rms_norm_tiling.cpp",
        "op_kernel/npk_rms_norm.cpp",
        "op_kernel/npk_rms_norm.h",
        "op_kernel/npk_rms_norm_tiling_data.h",
        "op_kernel/npk_rms_norm_tiling_key.h",
        "tests/CMakeLists.txt",
        "tests/ut/CMakeLists.txt",
        "tests/ut/op_host/CMakeLists.txt",
        "tests/ut/op_host/test_npk_rms_norm_infershape.cpp",
        "tests/ut/op_host/test_npk_rms_norm_tiling.cpp",
        "tests/ut/op_kernel/CMakeLists.txt",
        "tests/ut/op_kernel/test_npk_rms_norm.cpp",
    }


def test_every_folder_with_tests_is_reached_from_the_top(folder: Path) -> None:
    """The top file enters each subfolder that has a CMakeLists.txt; the ones below name theirs."""
    assert "foreach(ENTRY ${ENTRIES})" in (folder / "CMakeLists.txt").read_text()
    for below in (folder / "tests").rglob("*.cpp"):
        for child in [below.parent, *below.parent.parents]:
            if child == folder / "tests":
                break
            assert f"add_subdirectory({child.name})" in (child.parent / "CMakeLists.txt").read_text()
            assert (child / "CMakeLists.txt").is_file()


def test_the_tiling_function_answers_on_the_host(folder: Path, tmp_path: Path) -> None:
    """Keys, blocks and workspace by element type and shapes; leading dimensions are gathered, other shapes refused."""
    program = tmp_path / "tiling"
    tiling = folder / "op_host" / "npk_rms_norm_tiling.cpp"
    command = [
        *toolchain.find_compiler().argv,
        *("-std=c++17", f'-DTILING="{tiling}"', "-I", str(_HERE / "host"), "-I", str(toolchain.include_directory())),
        *(str(_HERE / "host" / "tiling.cpp"), "-o", str(program)),
    ]
    built = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert built.returncode == 0, built.stderr
    asked = {
        "0 6x48 48": "0 ",  # float32, float16, bfloat16 of the first shapes
        "1 6x48 48": "1 ",
        "2 6x48 48": "2 ",
        "0 5x33 33": "3 ",
        "2 2x8200 8200": "8 ",
        "0 2x3x48 48": "0 ",
        "0 1x1x6x48 1x48": "0 ",
        "0 48x6 48": "refused",
        "0 7x48 48": "refused",
        "0 6x48 47": "refused",
        "0 288 48": "refused",
        "0 6x48": "refused",
    }
    ran = subprocess.run([str(program)], input="\n".join(asked), capture_output=True, text=True, timeout=60, check=True)
    answers = ran.stdout.splitlines()
    for question, answer, expected in zip(asked, answers, asked.values(), strict=True):
        assert answer.startswith(expected), question
    assert {answer.split()[-1] for answer in answers if answer != "refused"} == {str(16 * 2**20)}


def test_its_unit_test_passes_on_the_twin(folder: Path) -> None:
    result = _run_unit_test(folder)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("OK") == 3 * len(_SHAPES)


def test_its_unit_test_finds_a_wrong_kernel(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "npk_rms_norm"
    shutil.copytree(folder, broken, ignore=shutil.ignore_patterns("unit_test"))
    header = broken / "op_kernel" / "npk_rms_norm.h"
    text, found = re.subn(r"1\.0e-05f", "1.5e-01f", header.read_text())
    assert found == 3 * len(_SHAPES), "eps stands once in each specialisation"
    header.write_text(text)
    result = _run_unit_test(broken)
    assert result.returncode == 1
    assert "differs from" in result.stdout


def test_tiling_has_one_entry_for_each_shape_and_dtype(folder: Path) -> None:
    tiling = (folder / "op_host" / "npk_rms_norm_tiling.cpp").read_text()
    for first, second in _SHAPES:
        entry = f"{{ {{ {', '.join(map(str, first))} }}, {{ {second[0]} }} }},"
        assert tiling.count(entry) == 3
    for dtype in ("ge::DT_FLOAT,", "ge::DT_FLOAT16,", "ge::DT_BF16,"):
        assert tiling.count(f"{{ {dtype}") == len(_SHAPES)


def test_tiling_keys_number_the_specialisations(folder: Path) -> None:
    keys = ", ".join(map(str, range(9)))
    assert keys in (folder / "op_kernel" / "npk_rms_norm_tiling_key.h").read_text()
    kernel = (folder / "op_kernel" / "npk_rms_norm.cpp").read_text()
    assert kernel.count("if constexpr (schMode == ") == 9


def test_readme_says_what_was_not_run(folder: Path) -> None:
    readme = (folder / "README.md").read_text()
    assert "| Vendor's compiler, simulator, device | not run |" in readme
    assert "5 × 33" in readme and r"\sqrt" in readme


def test_files_do_not_depend_on_the_machine_or_the_run(folder: Path, tmp_path: Path) -> None:
    again = export("rms_norm", _SHAPES, tmp_path)
    for file in again:
        text = file.read_text()
        assert text == (folder / file.relative_to(tmp_path / "npk_rms_norm")).read_text()
        assert str(tmp_path) not in text


def test_the_first_example_is_taken_without_shapes(tmp_path: Path) -> None:
    export("rms_norm", [], tmp_path, dtypes=("float32",))
    assert "| 0 | 1 × 64 × 576 |" not in (tmp_path / "npk_rms_norm" / "README.md").read_text()
    assert "| 0 | 64 × 576 | 576 | float32 |" in (tmp_path / "npk_rms_norm" / "README.md").read_text()


def test_a_kernel_without_operator_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="NPK-EX10: attention cannot be exported"):
        export("attention", [], tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_there_is_left_alone(folder: Path) -> None:
    readme = folder / "README.md"
    before = readme.read_text()
    with pytest.raises(CommandError, match=r"NPK-EX10: .*npk_rms_norm is there already"):
        export("rms_norm", [], folder.parent)
    assert readme.read_text() == before


def test_a_folder_that_is_there_may_be_written_over(tmp_path: Path) -> None:
    export("rms_norm", [], tmp_path, dtypes=("float32",))
    export("rms_norm", [((5, 33), (33,))], tmp_path, dtypes=("float32",), overwrite=True)
    assert "5 × 33" in (tmp_path / "npk_rms_norm" / "README.md").read_text()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(CommandError, match=r"NPK-EX10: .* cannot be written: Not a directory"):
        export("rms_norm", [], file, dtypes=("float32",))


def test_a_licence_stands_first_in_every_source(tmp_path: Path) -> None:
    files = export("rms_norm", [], tmp_path, dtypes=("float32",), licence="Copyright the authors\n\nTerms\n")
    for file in files:
        text = file.read_text()
        if file.suffix == ".txt":
            assert text.startswith("# Copyright the authors\n#\n# Terms\n\n")
        elif file.suffix != ".md":
            assert text.startswith("/*\n * Copyright the authors\n *\n * Terms\n */\n\n")
    assert "OAT.xml" not in (tmp_path / "npk_rms_norm" / "README.md").read_text()
    assert _run_unit_test(tmp_path / "npk_rms_norm").returncode == 0


def test_an_unknown_kernel_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"NPK-CL01: there is no kernel 'norm': take one of attention, rms_norm"):
        export("norm", [], tmp_path)


def test_an_unknown_dtype_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="NPK-EX10: rms_norm cannot be exported for int32"):
        export("rms_norm", [], tmp_path, dtypes=("int32",))


@pytest.mark.parametrize("shapes", [[(6, 48)], [(0, 48), (48,)], [(6, 48), (48,), (48,)]])
def test_shapes_that_are_not_the_operators_are_refused(shapes: list[tuple[int, ...]], tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"NPK-EX10: rms_norm cannot be exported .* one for each of x, weight, none"):
        export("rms_norm", [shapes], tmp_path)
