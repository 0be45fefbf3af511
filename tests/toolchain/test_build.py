"""A kernel is compiled once; what the compiler says against it leads to the author's Python."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import shutil
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npu_kernels import _native, toolchain
from npu_kernels.errors import CacheError, ToolchainError
from npu_kernels.kernels import catalogue
from npu_kernels.toolchain import builder
from npu_kernels.toolchain.flags import compile_flags


def test_a_built_kernel_runs(cache: Path, add_one: Any) -> None:
    artifact = toolchain.build(add_one)
    x = np.arange(11, dtype=np.float32)
    y = np.zeros_like(x)
    assert _native.launch(artifact.hash, "add_one", 3, 0, np.int32(11).tobytes(), [x], [y]) is None
    np.testing.assert_array_equal(y, x + 1)


def test_the_artifact_holds_its_source_its_lines_and_how_it_was_made(cache: Path, add_one: Any) -> None:
    source = dataclasses.replace(add_one, line_map={9: ("/model/kernels.py", 3), 12: ("/model/kernels.py", 4)})
    artifact = toolchain.build(source)
    assert artifact.source.read_text() == add_one.text
    assert (artifact.folder / "lines.tsv").read_text() == "9\t3\t/model/kernels.py\n12\t4\t/model/kernels.py\n"
    record = json.loads((artifact.folder / "meta.json").read_text())
    assert (record["name"], record["checked"]) == ("add_one", False)
    assert record["compiler"] == toolchain.find_compiler().version


def test_a_second_process_finds_the_kernel_without_starting_any_program(cache: Path, add_one: Any, child: Any) -> None:
    artifact = toolchain.build(add_one)
    other = child(cache / "log")
    out, err = other.communicate()
    assert out.strip() == artifact.hash, err
    assert not (cache / "log").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"text": "// another comment\n"},
        {"name": "another_name"},
        {"kernel_type": "MIX_AIC_1_2"},
        {"num_args": 5},
        {"line_map": {1: ("kernels.py", 1)}},
    ],
)
def test_everything_of_the_source_is_part_of_the_key(cache: Path, add_one: Any, change: dict[str, Any]) -> None:
    compiler = toolchain.find_compiler()
    before = toolchain.artifact_key(add_one, compiler, checked=False)
    assert toolchain.artifact_key(dataclasses.replace(add_one, **change), compiler, checked=False) != before


@pytest.mark.parametrize("part", ["headers_hash", "cpu_identity"])
def test_headers_and_cpu_are_part_of_the_key(
    cache: Path, add_one: Any, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = toolchain.find_compiler()
    before = toolchain.artifact_key(add_one, compiler, checked=False)
    monkeypatch.setattr(builder, part, lambda: "something else")
    assert toolchain.artifact_key(add_one, compiler, checked=False) != before


def test_compiler_and_mode_are_part_of_the_key(cache: Path, add_one: Any) -> None:
    compiler = toolchain.find_compiler()
    other = dataclasses.replace(compiler, identity="another compiler")
    keys = {
        toolchain.artifact_key(add_one, compiler, checked=False),
        toolchain.artifact_key(add_one, compiler, checked=True),
        toolchain.artifact_key(add_one, other, checked=False),
    }
    assert len(keys) == 3


def test_a_rejected_kernel_names_the_python_line_and_the_compilers_words(cache: Path, add_one: Any) -> None:
    text = add_one.text.replace("GlobalTensor<float> out;", "GlobalTensor<float> ouch;")
    line = 1 + text.splitlines().index("    out.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y), n);")
    lines = {line - 3: ("/model/kernels.py", 3), line - 1: ("/model/kernels.py", 7), line + 1: ("/model/kernels.py", 9)}
    source = dataclasses.replace(add_one, text=text, line_map=lines)
    with pytest.raises(ToolchainError) as caught:
        toolchain.build(source)
    error = caught.value
    assert error.code == "NPK-TC02"
    assert error.location == "/model/kernels.py:7"
    assert "out" in error.message.splitlines()[0] and "declared" in error.message.splitlines()[0]
    assert f"generated line {line}: out.SetGlobalBuffer" in error.message
    kept = Path(error.message.rpartition(" ")[2])
    assert (kept / "add_one.cpp").read_text() == text
    assert "error" in (kept / "compiler.txt").read_text()


def test_a_rejected_kernel_leaves_nothing_in_the_cache_and_is_tried_again(cache: Path, add_one: Any) -> None:
    source = dataclasses.replace(add_one, text=add_one.text.replace("1.0f", "one"))
    for _ in range(2):
        with pytest.raises(ToolchainError, match="one"):
            toolchain.build(source)
    assert not list((cache / "artifacts").glob("*/*"))
    assert not list((cache / "tmp").iterdir())


def test_a_damaged_library_is_built_again_with_a_warning(cache: Path, add_one: Any) -> None:
    artifact = toolchain.build(add_one)
    good = artifact.library.read_bytes()
    artifact.library.write_bytes(good[: len(good) // 2])
    with pytest.warns(UserWarning, match="NPK-CA03"):
        again = toolchain.build(add_one)
    assert again.hash == artifact.hash
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    assert _native.launch(again.hash, "add_one", 1, 0, np.int32(3).tobytes(), [x], [y]) is None


@pytest.mark.parametrize("suffix", [(".gch", ".pch"), (".o",)])
def test_a_damaged_precompiled_header_or_object_is_reported_and_made_anew(
    suffix: tuple[str, ...], fresh_cache: Path, shared_cache: Path, add_one: Any
) -> None:
    shutil.copytree(shared_cache / "headers", fresh_cache / "headers")
    header = toolchain.precompiled_header(toolchain.find_compiler(), checked=False)
    damaged = [file for file in header.folder.iterdir() if file.suffix in suffix]
    for file in damaged:
        file.write_bytes(b"damaged")
    with pytest.warns(UserWarning, match="NPK-CA03: the precompiled header"):
        toolchain.build(add_one)
    with warnings.catch_warnings(action="error"):
        toolchain.build(dataclasses.replace(add_one, name="another"))
    assert damaged
    assert all(file.read_bytes() != b"damaged" for file in damaged)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_kernels_of_the_library_compile_no_instruction_of_their_own(cache: Path, tmp_path: Path, dtype: str) -> None:
    operation = catalogue()["attention"]
    x, lengths = np.zeros((1, 250, 2, 72), dtype), np.ones(1, np.int32)
    launch = operation.prepare(
        query=x, key=x, value=x, mask=np.ones((1, 1, 250, 250), bool), is_causal=True, query_seq_lengths=lengths,
        key_value_seq_lengths=lengths,
    )  # fmt: skip
    source = launch.kernel.lower(*launch.arrays, **launch.statics).generated
    compiler = toolchain.find_compiler()
    flags = (*compile_flags(compiler, checked=False), *toolchain.precompiled_header(compiler, checked=False).flags)
    (tmp_path / "kernel.cpp").write_text(source.text)
    command = [*compiler.argv, *flags, "-S", "kernel.cpp", "-o", "kernel.s"]
    subprocess.run(command, cwd=tmp_path, check=True)
    functions = re.findall(r"\.type\s+(\w+),\s*[@%]function", (tmp_path / "kernel.s").read_text())
    assert source.entry in functions
    # Names in the namespaces AscendC and npk.
    assert not [name for name in functions if re.match(r"_ZN?K?(7AscendC|3npk)", name)]


def test_a_full_disk_is_an_error_that_says_what_to_do(
    cache: Path, add_one: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(CacheError, match=r"NPK-CA02: .*No space left on device\. Free the disk"):
            toolchain.build(add_one)
    assert not list((cache / "tmp").iterdir())
    assert toolchain.build(add_one).library.exists()


def test_abandoned_temporary_directories_are_swept(cache: Path, add_one: Any) -> None:
    for name, age in (("old", 7200), ("young", 60)):
        folder = cache / "tmp" / name
        folder.mkdir(parents=True)
        os.utime(folder, (time.time() - age,) * 2)
    toolchain.build(add_one)
    assert [folder.name for folder in (cache / "tmp").iterdir()] == ["young"]


def test_an_artifact_that_cannot_be_loaded_says_what_to_delete(cache: Path, add_one: Any) -> None:
    key = "0123456789abcdef" * 4
    folder = cache / "artifacts" / key[:2] / key
    folder.mkdir(parents=True)
    (folder / "kernel.so").write_text("no library")
    _native.add_artifact_root(str(cache / "artifacts"))
    message = _native.load(key, "add_one")
    assert message is not None
    assert message.startswith("NPK-CA03: kernel add_one: ") and str(folder) in message


def test_a_library_that_is_no_kernel_is_refused(cache: Path) -> None:
    key = "fedcba9876543210" * 4
    folder = cache / "artifacts" / key[:2] / key
    folder.mkdir(parents=True)
    compiler = toolchain.find_compiler()
    subprocess.run(
        [*compiler.argv, "-shared", "-fPIC", "-x", "c++", "-", "-o", str(folder / "kernel.so")], input=b"", check=True
    )
    _native.add_artifact_root(str(cache / "artifacts"))
    assert "it is not a kernel library" in (_native.load(key, "add_one") or "")


def test_an_artifact_that_is_missing_says_how_to_build_it() -> None:
    message = _native.load("ab" * 32, "add_one") or ""
    assert message.startswith("NPK-CA01: kernel add_one: ")
    assert "Build it by calling or lowering the kernel" in message


def test_building_imports_no_jax() -> None:
    code = "import sys, npu_kernels.toolchain; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code]).returncode == 0


@pytest.mark.parametrize("program", ["g++", "clang++"])
@pytest.mark.parametrize("checked", [False, True])
def test_every_compiler_of_this_machine_builds_a_kernel(
    program: str, checked: bool, fresh_cache: Path, add_one: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not on this machine")
    monkeypatch.setenv("CXX", program)
    artifact = toolchain.build(add_one, checked=checked)
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    assert _native.launch(artifact.hash, "add_one", 1, 0, np.int32(3).tobytes(), [x], [y]) is None
    np.testing.assert_array_equal(y, x + 1)
