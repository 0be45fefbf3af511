"""Compile small Ascend C kernels and run them on the twin, without XLA in between.

One `Program` holds many cases, each a few Ascend C statements beside the NumPy expression of what they mean; the
cases are branches of one kernel, so that a module of tests costs one compilation in each mode.
"""

from __future__ import annotations

import ctypes
import functools
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import ml_dtypes
import numpy as np

from npu_kernels.toolchain import build, find_compiler, include_directory

bfloat16 = np.dtype(ml_dtypes.bfloat16)
CPP = {
    np.dtype(np.float32): "float",
    np.dtype(np.float16): "half",
    bfloat16: "bfloat16_t",
    np.dtype(np.int64): "int64_t",
    np.dtype(np.int32): "int32_t",
    np.dtype(np.uint32): "uint32_t",
    np.dtype(np.int16): "int16_t",
    np.dtype(np.uint16): "uint16_t",
    np.dtype(np.int8): "int8_t",
    np.dtype(np.uint8): "uint8_t",
}


@dataclass(frozen=True)
class Source:
    """What `toolchain.build` asks for."""

    name: str
    text: str
    entry: str
    num_args: int
    kernel_type: str = "AIV_ONLY"
    line_map: dict[int, tuple[str, int]] = field(default_factory=dict)


@dataclass
class TwinFault(Exception):
    """A launch that did not end well."""

    code: str
    rule: str
    core: str
    api: str
    memory: str
    message: str
    line: int

    def __str__(self) -> str:
        return f"{self.code} {self.core} line {self.line}: {self.message}"


@functools.cache
def driver() -> ctypes.CDLL:
    """The launcher, linked against the installed runtime."""
    package = include_directory().parent
    folder = Path(tempfile.mkdtemp(prefix="npk-twin-driver-"))
    library = folder / "driver.so"
    command = [*find_compiler().argv, "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{include_directory()}"]
    command += [str(Path(__file__).with_name("driver.cpp")), "-o", str(library), f"-L{package / 'lib'}"]
    command += ["-lnpu_kernels_runtime", f"-Wl,-rpath,{package / 'lib'}", "-ldl"]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.driver_load.restype = ctypes.c_void_p
    loaded.driver_load.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint32]
    loaded.driver_launch.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_uint32,
        ctypes.c_char_p,
        ctypes.c_uint32,
        ctypes.c_void_p,
    ]
    loaded.driver_float_controls.restype = ctypes.c_uint64
    return loaded


class Kernel:
    """A compiled kernel."""

    def __init__(self, source: Source, *, checked: bool) -> None:
        error = ctypes.create_string_buffer(1000)
        library = build(source, checked=checked).library
        self._kernel = driver().driver_load(str(library).encode(), error, len(error))
        assert self._kernel, error.value.decode()

    def launch(self, *args: np.ndarray, blocks: int = 1) -> None:
        """Run on these arrays, which the kernel may change; raises `TwinFault`."""
        pointers = (ctypes.c_void_p * len(args))(*(arg.ctypes.data for arg in args))
        sizes = (ctypes.c_uint64 * len(args))(*(arg.nbytes for arg in args))
        report = ctypes.create_string_buffer(8192)
        line = ctypes.c_uint32()
        status = driver().driver_launch(
            self._kernel, pointers, sizes, len(args), blocks, report, len(report), ctypes.byref(line)
        )
        if status != 0:
            code, rule, core, api, memory, message = report.raw.decode().split("\0")[:6]
            raise TwinFault(code, rule, core, api, memory, message, line.value)


@dataclass(frozen=True)
class Case:
    """Statements on the tensors `a`, `b`, `c` (inputs) and `d` (output), and their meaning.

    `n` is the number of elements of the first input unless the case gives another value for it.
    """

    name: str
    statements: str
    inputs: Sequence[np.ndarray]
    expected: np.ndarray
    rtol: float = 0.0
    atol: float = 0.0
    n: int | None = None
    initial: np.ndarray | None = None

    def __str__(self) -> str:
        return self.name


_PROLOGUE = """
#include "kernel_operator.h"
using namespace AscendC;

namespace {{
struct Tiling {{
    int32_t which, n, count[4];
}};

constexpr uint32_t kBytes = 40 * 1024;

template <class T>
LocalTensor<T> fetch(TBuf<TPosition::VECCALC>& buffer, GM_ADDR from, int32_t count)
{{
    LocalTensor<T> tensor = buffer.Get<T>();
    GlobalTensor<T> source;
    source.SetGlobalBuffer(reinterpret_cast<T*>(from), count);
    if (count != 0) {{
        DataCopyPad(tensor, source, {{1, static_cast<uint32_t>(count * sizeof(T)), 0, 0, 0}}, {{false, 0, 0, T(0)}});
    }}
    return tensor;
}}
}} // namespace

extern "C" __global__ __aicore__ void cases(GM_ADDR in0, GM_ADDR in1, GM_ADDR in2, GM_ADDR out, GM_ADDR tiling)
{{
    GET_TILING_DATA_WITH_STRUCT(Tiling, data, tiling);
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffers[4], spare;
    for (auto& buffer : buffers) {{
        pipe.InitBuffer(buffer, kBytes);
    }}
    pipe.InitBuffer(spare, 8 * 1024);
    [[maybe_unused]] const int32_t n = data.n;
    switch (data.which) {{
{branches}
    }}
}}
"""

_BRANCH = """    case {number}: {{
        [[maybe_unused]] LocalTensor<{types[0]}> a = fetch<{types[0]}>(buffers[0], in0, data.count[0]);
        [[maybe_unused]] LocalTensor<{types[1]}> b = fetch<{types[1]}>(buffers[1], in1, data.count[1]);
        [[maybe_unused]] LocalTensor<{types[2]}> c = fetch<{types[2]}>(buffers[2], in2, data.count[2]);
        [[maybe_unused]] LocalTensor<{types[3]}> d = fetch<{types[3]}>(buffers[3], out, data.count[3]);
        [[maybe_unused]] LocalTensor<{types[3]}> t = spare.Get<{types[3]}>();
        PipeBarrier<PIPE_ALL>();
        {statements}
        PipeBarrier<PIPE_ALL>();
        GlobalTensor<{types[3]}> target;
        target.SetGlobalBuffer(reinterpret_cast<{types[3]}*>(out), data.count[3]);
        DataCopyPad(target, d, {{1, static_cast<uint32_t>(data.count[3] * sizeof({types[3]})), 0, 0, 0}});
        break;
    }}"""


class Program:
    """Vector cases in one kernel."""

    def __init__(self, name: str, cases: Sequence[Case]) -> None:
        self.name = name
        self.cases = {case.name: case for case in cases}
        assert len(self.cases) == len(cases), "names of cases must differ"
        self._kernels: dict[bool, Kernel] = {}

    def _text(self) -> str:
        branches = []
        for number, case in enumerate(self.cases.values()):
            types = [CPP[array.dtype] for array in case.inputs]
            types += ["float"] * (3 - len(types)) + [CPP[case.expected.dtype]]
            branches.append(_BRANCH.format(number=number, types=types, statements=case.statements))
        return _PROLOGUE.format(branches="\n".join(branches))

    def _kernel(self, *, checked: bool) -> Kernel:
        if checked not in self._kernels:
            self._kernels[checked] = Kernel(Source(self.name, self._text(), "cases", 5), checked=checked)
        return self._kernels[checked]

    def run(self, name: str, *, checked: bool) -> np.ndarray:
        """The output of a case."""
        case = self.cases[name]
        nothing = np.zeros(8, np.float32)
        inputs = [np.ascontiguousarray(array) for array in case.inputs]
        out = np.zeros_like(case.expected) if case.initial is None else case.initial.copy()
        count = [array.size for array in inputs] + [0] * (3 - len(inputs)) + [out.size]
        n = case.n if case.n is not None else count[0]
        tiling = np.array([list(self.cases).index(name), n, *count], np.int32)
        padded = inputs + [nothing] * (3 - len(inputs))
        self._kernel(checked=checked).launch(*padded, out, tiling)
        return out

    def check(self, name: str, *, checked: bool) -> None:
        """Assert that a case gives what it means: bit for bit, or within the case's tolerance."""
        case = self.cases[name]
        assert_same(self.run(name, checked=checked), case.expected, rtol=case.rtol, atol=case.atol)


def assert_same(actual: np.ndarray, expected: np.ndarray, *, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Equal within the tolerance; NaN where NaN is expected, infinities and signs of zero as expected."""
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    wide, reference = actual.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_allclose(wide, reference, rtol=rtol, atol=atol, equal_nan=True)
    zero = (reference == 0) & (wide == 0)
    np.testing.assert_array_equal(np.signbit(wide[zero]), np.signbit(reference[zero]))


def launch_once(
    text: str, *args: np.ndarray, blocks: int = 1, kernel_type: str = "AIV_ONLY", checked: bool = False
) -> None:
    """Compile a whole source whose kernel is called `kernel`, and run it."""
    Kernel(Source("kernel", text, "kernel", len(args), kernel_type), checked=checked).launch(*args, blocks=blocks)
