"""Matrix multiplication through L1, L0 and the fixpipe equals a product in float64."""

from __future__ import annotations

import numpy as np
import pytest

from .harness import CPP, Kernel, Source, TwinFault, bfloat16

rng = np.random.default_rng(23)

# C[m, n] = A[m, k] * B, where B is [k, n] or, transposed, [n, k]; A may be given as [k, m].
_TEXT = """
#include "kernel_operator.h"
using namespace AscendC;
using T = {type};
using R = {result};
constexpr uint32_t C0 = 32 / sizeof(T);
struct Tiling {{ uint32_t m, n, k, transposed, relu, twice; }};
constexpr uint32_t up(uint32_t value, uint32_t unit) {{ return (value + unit - 1) / unit * unit; }}

// The rows x columns matrix, NZ in L1, as fractals for the cube unit, k pieces outermost (B) or innermost (A).
void load(LocalTensor<T> to, LocalTensor<T> from, uint32_t rows, uint32_t k, bool k_inner)
{{
    const uint32_t r1 = up(rows, 16) / 16, k1 = up(k, C0) / C0;
    for (uint32_t i = 0; i < (k_inner ? r1 : k1); ++i) {{
        LoadData2DParams params;
        params.repeatTimes = k_inner ? k1 : r1;
        params.startIndex = k_inner ? i : i * r1;
        params.srcStride = k_inner ? r1 : 1;
        LoadData(to[i * params.repeatTimes * 16 * C0], from, params);
    }}
}}

extern "C" __global__ __aicore__ void kernel(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR c, GM_ADDR tiling)
{{
    GET_TILING_DATA_WITH_STRUCT(Tiling, t, tiling);
    TPipe pipe;
    TQue<TPosition::A1, 1> a1;
    TQue<TPosition::B1, 1> b1;
    TQue<TPosition::A2, 1> a2;
    TQue<TPosition::B2, 1> b2;
    TQue<TPosition::CO1, 1> co1;
    pipe.InitBuffer(a1, 1, 64 * 1024);
    pipe.InitBuffer(b1, 1, 64 * 1024);
    pipe.InitBuffer(a2, 1, 64 * 1024);
    pipe.InitBuffer(b2, 1, 64 * 1024);
    pipe.InitBuffer(co1, 1, 128 * 1024);
    GlobalTensor<T> ga, gb;
    GlobalTensor<R> gc;
    ga.SetGlobalBuffer(reinterpret_cast<T*>(a), t.m * t.k);
    gb.SetGlobalBuffer(reinterpret_cast<T*>(b), t.k * t.n);
    gc.SetGlobalBuffer(reinterpret_cast<R*>(c), t.m * t.n);
    Nd2NzParams nz;
    nz.ndNum = 1;
    nz.dstNzNStride = 1;
    nz.nValue = t.m;
    nz.dValue = nz.srcDValue = t.k;
    nz.dstNzC0Stride = up(t.m, 16);
    LocalTensor<T> left = a1.AllocTensor<T>(), right = b1.AllocTensor<T>();
    DataCopy(left, ga, nz);
    if (t.transposed) {{
        nz.nValue = t.n;
        nz.dstNzC0Stride = up(t.n, 16);
        DataCopy(right, gb, nz);
    }} else {{
        // One fractal row of 16 values of k after the other, so that two fractals of a 32-bit type are neighbours.
        for (uint32_t k = 0; k < t.k; k += 16) {{
            nz.nValue = t.k - k < 16 ? t.k - k : 16;
            nz.dValue = nz.srcDValue = t.n;
            nz.dstNzC0Stride = 16;
            DataCopy(right[k * up(t.n, 16)], gb[k * t.n], nz);
        }}
    }}
    a1.EnQue(left);
    b1.EnQue(right);
    left = a1.DeQue<T>();
    right = b1.DeQue<T>();
    LocalTensor<T> la = a2.AllocTensor<T>(), lb = b2.AllocTensor<T>();
    load(la, left, t.m, t.k, true);
    if (t.transposed) {{
        load(lb, right, t.n, t.k, false);
    }} else {{
        const uint32_t n1 = up(t.n, 16) / 16;
        for (uint32_t k = 0; k < t.k; k += 16) {{
            LoadData2dTransposeParams params;
            params.repeatTimes = n1;
            params.srcStride = 1;
            params.dstGap = 0;
            params.dstFracGap = n1 - 1;
            params.startIndex = k / 16 * n1;
            LoadDataWithTranspose(lb[k * up(t.n, 16)], right, params);
        }}
    }}
    a1.FreeTensor(left);
    b1.FreeTensor(right);
    a2.EnQue(la);
    b2.EnQue(lb);
    la = a2.DeQue<T>();
    lb = b2.DeQue<T>();
    LocalTensor<float> sum = co1.AllocTensor<float>();
    MmadParams mm;
    mm.m = t.m;
    mm.n = t.n;
    mm.k = t.k;
    Mmad(sum, la, lb, mm);
    if (t.twice) {{
        mm.cmatrixInitVal = false;
        PipeBarrier<PIPE_M>();
        Mmad(sum, la, lb, mm);
    }}
    a2.FreeTensor(la);
    b2.FreeTensor(lb);
    co1.EnQue(sum);
    sum = co1.DeQue<float>();
    FixpipeParamsV220 fix;
    fix.nSize = t.n;
    fix.mSize = t.m;
    fix.srcStride = up(t.m, 16);
    fix.dstStride = t.n;
    fix.reluEn = t.relu;
    fix.quantPre = {quant};
    Fixpipe<R, float, CFG_ROW_MAJOR>(gc, sum, fix);
    co1.FreeTensor(sum);
}}
"""

TYPES = {"float": np.dtype(np.float32), "half": np.dtype(np.float16), "bfloat16_t": bfloat16}
QUANT = {"float": "NoQuant", "half": "F322F16", "bfloat16_t": "F322BF16"}
_kernels: dict[tuple[str, str, bool], Kernel] = {}


def multiply(
    a: np.ndarray,
    b: np.ndarray,
    *,
    transposed: bool,
    result: str = "float",
    checked: bool = True,
    relu: bool = False,
    twice: bool = False,
) -> np.ndarray:
    key = (CPP[a.dtype], result, checked)
    if key not in _kernels:
        text = _TEXT.format(type=key[0], result=result, quant=QUANT[result])
        _kernels[key] = Kernel(Source("matrix_product", text, "kernel", 5, "AIC_ONLY"), checked=checked)
    m, k = a.shape
    n = b.shape[0] if transposed else b.shape[1]
    c = np.zeros((m, n), TYPES[result])
    tiling = np.array([m, n, k, transposed, relu, twice], np.uint32)
    _kernels[key].launch(a, b, np.zeros(64, np.float32), c, tiling)
    return c


def tolerance(a: np.ndarray, b: np.ndarray, k: int) -> np.ndarray:
    """A float sum of k products is off by at most k units of the sum of magnitudes."""
    return k * 2.0**-24 * (np.abs(a) @ np.abs(b)) + 1e-30


@pytest.mark.parametrize("kind", ["float", "half", "bfloat16_t"])
@pytest.mark.parametrize("transposed", [False, True], ids=["k_by_n", "n_by_k"])
@pytest.mark.parametrize("shape", [(16, 16, 16), (64, 96, 128), (37, 53, 29), (1, 16, 8), (128, 128, 64), (5, 100, 64)])
@pytest.mark.parametrize("mode", ["fast", "checked"])
def test_product(kind: str, transposed: bool, shape: tuple[int, int, int], mode: str) -> None:
    m, n, k = shape
    if m * k * TYPES[kind].itemsize > 32768:
        pytest.skip("does not fit the test's buffers")
    a = rng.normal(0, 1, (m, k)).astype(TYPES[kind])
    b = rng.normal(0, 1, (n, k) if transposed else (k, n)).astype(TYPES[kind])
    c = multiply(a, b, transposed=transposed, checked=mode == "checked")
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    wide_b = wide_b.T if transposed else wide_b
    assert (np.abs(c - wide_a @ wide_b) <= tolerance(wide_a, wide_b, k)).all()


@pytest.mark.parametrize("result", ["half", "bfloat16_t"])
def test_fixpipe_rounds_once_and_clips(result: str) -> None:
    a = rng.normal(0, 1, (32, 32)).astype(np.float16)
    b = rng.normal(0, 1, (32, 48)).astype(np.float16)
    exact = multiply(a, b, transposed=False)
    got = multiply(a, b, transposed=False, result=result, relu=True)
    np.testing.assert_array_equal(got, np.maximum(exact, 0).astype(TYPES[result]))


def test_accumulation_adds_to_what_is_there() -> None:
    a = rng.integers(-8, 8, (20, 40)).astype(np.float16)
    b = rng.integers(-8, 8, (40, 33)).astype(np.float16)
    np.testing.assert_array_equal(
        multiply(a, b, transposed=False, twice=True), 2 * (a.astype(np.float32) @ b.astype(np.float32))
    )


def test_special_values_reach_only_their_rows() -> None:
    a = np.ones((18, 16), np.float32)
    a[3, 5] = np.nan
    a[17, 0] = np.inf
    c = multiply(a, np.ones((16, 16), np.float32), transposed=False)
    assert np.isnan(c[3]).all()
    assert np.isposinf(c[17]).all()
    np.testing.assert_array_equal(np.delete(c, [3, 17], axis=0), 16.0)


def test_a_float_product_is_not_fused() -> None:
    # With a fused multiply-add the small part of the product would survive the subtraction.
    one = np.float32(1) + np.float32(2.0**-12)
    a = np.array([[1, one] + [0] * 14], np.float32)
    b = np.zeros((16, 16), np.float32)
    b[0], b[1] = -(one * one), one
    np.testing.assert_array_equal(multiply(a, b, transposed=False, checked=False), 0.0)


def test_a_vector_core_has_no_cube_unit() -> None:
    text = _TEXT.format(type="half", result="float", quant="NoQuant")
    kernel = Kernel(Source("wrong_core", text, "kernel", 5, "AIV_ONLY"), checked=True)
    arrays = [
        np.zeros((16, 16), np.float16),
        np.zeros((16, 16), np.float16),
        np.zeros(64, np.float32),
        np.zeros((16, 16), np.float32),
    ]
    with pytest.raises(TwinFault) as caught:
        kernel.launch(*arrays, np.array([16, 16, 16, 0, 0, 0], np.uint32))
    assert caught.value.code == "NPK-RC08"
