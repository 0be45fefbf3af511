"""Generated source passes the type check of CANN's own headers: names, signatures, and dtypes each instruction takes.

Opt-in (``make test-cann-headers``): the headers are not part of this repository and not needed for anything else.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import jax
import pytest

from npu_kernels import knobs, toolchain
from npu_kernels.binding import Lowered
from npu_kernels.kernels import Example, Launch, Operation, catalogue
from npu_kernels.upstream import export

from . import kernels as K

TOOLKIT = knobs.CANN_HEADERS.get()
pytestmark = pytest.mark.skipif(
    TOOLKIT is None, reason="NPU_KERNELS_CANN_HEADERS does not name the folder of a CANN 8.1 toolkit"
)
FLOATS = ("float32", "float16", "bfloat16")
#: Architecture 2201, as CANN's CPU debugging compiles for it. -w: the headers themselves have warnings.
FLAGS = (
    *("-std=c++17", "-fsyntax-only", "-w", "-D__CCE_AICORE__=220", "-D__DAV_C220__", "-D__CCE_KT_TEST__=1"),
    *("-DASCENDC_CPU_DEBUG=1", "-DASCENDC_DEBUG=1"),
)
BASIC = ("", "interface", "impl")
HIGH_LEVEL = ("", "lib", "kernel_tiling")
#: What the operator compiler puts before an operator's kernel.
PRELUDE = """
#include "kernel_operator.h"
#define REGISTER_TILING_DEFAULT(type)
#define GET_TILING_DATA_WITH_STRUCT(type, name, address) \\
    type name; \\
    for (uint32_t i = 0; i < sizeof(type); ++i) \\
        reinterpret_cast<uint8_t*>(&name)[i] = reinterpret_cast<__gm__ uint8_t*>(address)[i]
"""
#: 8.1 has the template arguments elsewhere than the versions that an exported folder is laid out for.
FORWARDED = "ascendc/host_api/tiling/template_argument.h"


@pytest.fixture(scope="module")
def toolkit() -> Path:
    """The folder of the toolkit for one platform."""
    (root,) = sorted(Path(str(TOOLKIT)).rglob("ascendc/include/basic_api"))[:1]
    return root.parents[2]


@pytest.fixture
def errors(toolkit: Path, tmp_path: Path) -> Callable[[str | Path], list[str]]:
    """A source's errors under the headers a kernel is compiled against."""
    (debug,) = sorted(Path(str(TOOLKIT)).rglob("tikicpulib/lib/include"))[:1]
    api = toolkit / "ascendc" / "include"
    forward = tmp_path / "include" / FORWARDED
    forward.parent.mkdir(parents=True)
    forward.write_text('#include "tiling/template_argument.h"\n')
    folders = [
        tmp_path / "include",
        debug,
        *(api / "basic_api" / folder for folder in BASIC),
        *(api / "highlevel_api" / folder for folder in HIGH_LEVEL),
        toolkit / "include",
        toolkit / "include" / "external",
    ]

    def check(source: str | Path) -> list[str]:
        if isinstance(source, str):
            (tmp_path / "source.cpp").write_text(source)
            source = tmp_path / "source.cpp"
        include = [argument for folder in folders for argument in ("-I", str(folder))]
        command = [*toolchain.find_compiler().argv, *FLAGS, *include, str(source)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=300)
        found = [line for line in result.stderr.splitlines() if "error:" in line]
        assert bool(result.returncode) == bool(found), result.stderr
        return found

    return check


def _specs(dtype: str, *shapes: tuple[int, ...]) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(shape, jax.numpy.dtype(dtype)) for shape in shapes]


def _lowered(operation: Operation, example: Example) -> Lowered:
    launches: list[Launch] = []
    arrays = {name: jax.ShapeDtypeStruct(shape, example.dtype) for name, shape in example.shapes.items()}
    jax.eval_shape(lambda given: launches.append(operation.prepare(**given, **example.keywords)), arrays)
    (launch,) = launches
    return launch.kernel.lower(*(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in launch.arrays), **launch.statics)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("cols", [1, 33, 64])
def test_elementwise(dtype: str, cols: int, errors: Callable[[str], list[str]]) -> None:
    specs = _specs(dtype, (9, cols), (9, cols), (cols,), (9, 1))
    assert errors(K.elementwise.lower(*specs, step=4).source) == []


@pytest.mark.parametrize("dtype", FLOATS)
def test_reductions(dtype: str, errors: Callable[[str], list[str]]) -> None:
    assert errors(K.reductions.lower(*_specs(dtype, (9, 72)), step=4, width=40).source) == []


@pytest.mark.parametrize("dtype", FLOATS)
def test_products(dtype: str, errors: Callable[[str], list[str]]) -> None:
    specs = _specs(dtype, (33, 20), (20, 17), (20, 33), (17, 20))
    assert errors(K.products.lower(*specs, step=32, depth=64).source) == []


@pytest.mark.parametrize("dtype", FLOATS)
def test_strided(dtype: str, errors: Callable[[str], list[str]]) -> None:
    assert errors(K.strided.lower(*_specs(dtype, (5, 3, 7))).source) == []


def test_integers(errors: Callable[[str], list[str]]) -> None:
    specs = [*_specs("int32", (5, 33), (5, 33)), *_specs("bool", (5, 33), (33,))]
    assert errors(K.integers.lower(*specs, step=2).source) == []


def test_casts(errors: Callable[[str], list[str]]) -> None:
    assert errors(K.casts.lower(*_specs("float32", (4, 16))).source) == []


def test_control(errors: Callable[[str], list[str]]) -> None:
    specs = [*_specs("float32", (7, 37)), *_specs("int32", (7,))]
    assert errors(K.control.lower(*specs).source) == []


def test_scalars(errors: Callable[[str], list[str]]) -> None:
    specs = [*_specs("float32", (8,), ()), *_specs("float16", (1,)), *_specs("bool", (8,))]
    assert errors(K.scalars.lower(*specs).source) == []


def test_a_product_whose_rows_are_mixed(errors: Callable[[str], list[str]]) -> None:
    assert errors(K.product_mixing_rows.lower(*_specs("float32", (20, 12), (12, 40))).source) == []


@pytest.mark.parametrize(
    ("name", "number"), [(name, i) for name, op in catalogue().items() for i in range(len(op.examples))]
)
def test_library_kernels(name: str, number: int, errors: Callable[[str], list[str]]) -> None:
    operation = catalogue()[name]
    assert errors(_lowered(operation, operation.examples[number]).source) == []


def test_an_exported_operator(tmp_path: Path, errors: Callable[[str | Path], list[str]]) -> None:
    export("rms_norm", [((5, 33), (33,)), ((2, 8200), (8200,))], tmp_path)
    folder = tmp_path / "npk_rms_norm"
    for part in ("def", "infershape", "tiling"):
        assert errors(folder / "op_host" / f"npk_rms_norm_{part}.cpp") == []
    modes = "".join(
        f"template void npk_rms_norm<{mode}>(GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR, GM_ADDR);\n" for mode in range(6)
    )
    assert errors(f'{PRELUDE}\n#include "{folder}/op_kernel/npk_rms_norm.cpp"\n{modes}') == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Muls(", "Mulls("),
        ("PipeBarrier<PIPE_V>();", "PipeBarrier<PIPE_V>(1, 2);"),
        ("LocalTensor<float>", "LocalTensor<bfloat16_t>"),
    ],
)
def test_wrong_source_is_found(right: str, wrong: str, errors: Callable[[str], list[str]]) -> None:
    source = K.elementwise.lower(*_specs("float32", (9, 64), (9, 64), (64,), (9, 1)), step=4).source
    assert right in source
    assert errors(source.replace(right, wrong)) != []
