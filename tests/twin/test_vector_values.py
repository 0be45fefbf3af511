"""Element-wise instructions give what their documentation says, for ordinary and for special values."""

from __future__ import annotations

import numpy as np
import pytest

from .harness import Case, Program

# One unit in the last place of a float result; a function that is computed in float and rounded to half or
# bfloat16 once is within half a unit of those plus the float error.
ULP32 = 2.0**-23
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 3.4e38, -3.4e38, 1.17549435e-38, 1.0, -1.0]
rng = np.random.default_rng(20)


def floats(count: int, scale: float = 3.0, special: bool = True) -> np.ndarray:
    values = rng.normal(0, scale, count).astype(np.float32)
    if special:
        values[: len(SPECIAL)] = np.array(SPECIAL, np.float32)
        values[len(SPECIAL) : 2 * len(SPECIAL)] = values[: len(SPECIAL)][::-1]
    return values


def integers(count: int, dtype: type) -> np.ndarray:
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
    values[:3] = [info.min, info.max, 0]
    return values


def halves(count: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        values = floats(count).astype(np.float16)
    values[30:34] = np.array([6e-8, -6e-5, 65504, -65504], np.float16)
    return values


def quiet(function, *args):
    with np.errstate(all="ignore"):
        return function(*args)


def in_float(function, *args: np.ndarray) -> np.ndarray:
    """`function` in float32 on half operands, rounded once to half."""
    with np.errstate(all="ignore"):
        return function(*(arg.astype(np.float32) for arg in args)).astype(np.float16)


def f32(function, x: np.ndarray) -> np.ndarray:
    """`function` in float64, rounded to float32."""
    with np.errstate(all="ignore"):
        return function(x.astype(np.float64)).astype(np.float32)


N = 203  # not a multiple of a block, of a repeat or of a vector register
x, y = floats(N), rng.permutation(floats(N)).astype(np.float32)
hx, hy = halves(N), rng.permutation(halves(N))
ix, iy = integers(N, np.int32), rng.permutation(integers(N, np.int32))
sx, sy = integers(N, np.int16), rng.permutation(integers(N, np.int16))
positive = np.abs(floats(N))
CASES: list[Case] = []


def case(name: str, statements: str, inputs: list[np.ndarray], expected: np.ndarray, **options: object) -> None:
    CASES.append(Case(name, statements, inputs, expected, **options))  # type: ignore[arg-type]


for name, function in (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply)):
    case(f"{name} float", f"{name}(d, a, b, n);", [x, y], quiet(function, x, y))
    case(f"{name} half", f"{name}(d, a, b, n);", [hx, hy], in_float(function, hx, hy))
    case(f"{name} int32 wraps", f"{name}(d, a, b, n);", [ix, iy], quiet(function, ix, iy))
    case(f"{name} int16 wraps", f"{name}(d, a, b, n);", [sx, sy], quiet(function, sx, sy))
case("Div float", "Div(d, a, b, n);", [x, y], quiet(np.divide, x, y))
case("Div half", "Div(d, a, b, n);", [hx, hy], in_float(np.divide, hx, hy))
# The sign of a zero result is not specified when both zeros meet, hence no zeros here.
mx, my = np.where(x == 0, np.float32(2), x), np.where(y == 0, np.float32(3), y)
case("Max float keeps NaN", "Max(d, a, b, n);", [mx, my], np.maximum(mx, my))
case("Min float keeps NaN", "Min(d, a, b, n);", [mx, my], np.minimum(mx, my))
case("Max int32", "Max(d, a, b, n);", [ix, iy], np.maximum(ix, iy))
case("Min int16", "Min(d, a, b, n);", [sx, sy], np.minimum(sx, sy))
case("And", "And(d, a, b, n);", [sx, sy], sx & sy)
case("Or", "Or(d, a, b, n);", [sx, sy], sx | sy)
case("Not", "Not(d, a, n);", [sx], ~sx)
case("MulAddDst", "MulAddDst(d, a, b, n);", [x, y], quiet(lambda: x * y + y), initial=y)
case(
    "MulAddDst float from halves",
    "MulAddDst(d, a, b, n);",
    [hx, hy],
    quiet(lambda: hx.astype(np.float32) * hy.astype(np.float32) + x),
    initial=x,
)
case("Axpy", "Axpy(d, a, 0.7f, n);", [x], quiet(lambda: x * np.float32(0.7) + y), initial=y)
case(
    "Axpy float from half",
    "Axpy(d, a, half(0.5f), n);",
    [hx],
    quiet(lambda: hx.astype(np.float32) * np.float32(0.5) + x),
    initial=x,
)
case(
    "whole tensor operators",
    "d.SetSize(n); d = a + b; PipeBarrier<PIPE_V>(); d = d * b;",
    [x, y],
    quiet(lambda: (x + y) * y),
)

case("Adds float", "Adds(d, a, 1.5f, n);", [x], quiet(lambda: x + np.float32(1.5)))
case("Adds half", "Adds(d, a, half(1.5), n);", [hx], in_float(lambda v: v + np.float32(1.5), hx))
case("Adds int32 wraps", "Adds(d, a, 7, n);", [ix], quiet(lambda: ix + np.int32(7)))
case("Muls float", "Muls(d, a, -2.5f, n);", [x], quiet(lambda: x * np.float32(-2.5)))
case("Muls int32 wraps", "Muls(d, a, 3, n);", [ix], quiet(lambda: ix * np.int32(3)))
case("Maxs float", "Maxs(d, a, 0.5f, n);", [x], np.maximum(x, np.float32(0.5)))
case("Mins float", "Mins(d, a, 0.5f, n);", [x], np.minimum(x, np.float32(0.5)))
case("Maxs int16", "Maxs(d, a, int16_t(5), n);", [sx], np.maximum(sx, np.int16(5)))
case("ShiftLeft int32", "ShiftLeft(d, a, 3, n);", [ix], ix << 3)
case("ShiftRight keeps the sign", "ShiftRight(d, a, 3, n);", [ix], ix >> 3)
case("ShiftRight unsigned", "ShiftRight(d, a, 3u, n);", [ix.view(np.uint32)], ix.view(np.uint32) >> np.uint32(3))
case("LeakyRelu", "LeakyRelu(d, a, 0.1f, n);", [x], quiet(lambda: np.where(x > 0, x, x * np.float32(0.1))))

case("Abs float", "Abs(d, a, n);", [x], np.abs(x))
case("Abs half", "Abs(d, a, n);", [hx], np.abs(hx))
case("Relu float keeps NaN", "Relu(d, a, n);", [mx], np.maximum(mx, np.float32(0)))
case("Relu int32", "Relu(d, a, n);", [ix], np.maximum(ix, 0))
case("Sqrt float", "Sqrt(d, a, n);", [x], quiet(np.sqrt, x))
case("Rsqrt float", "Rsqrt(d, a, n);", [x], f32(lambda v: 1 / np.sqrt(v), x), rtol=2 * ULP32)
case("Reciprocal float", "Reciprocal(d, a, n);", [x], quiet(lambda: np.float32(1) / x))
case("Exp half", "Exp(d, a, n);", [hx], in_float(lambda v: f32(np.exp, v), hx), rtol=2.0**-10, atol=6e-8)
case("Ln half", "Ln(d, a, n);", [hx], in_float(lambda v: f32(np.log, v), hx), rtol=2.0**-10)
wide = np.concatenate([floats(N), rng.uniform(-110, 95, 4000).astype(np.float32)])
# Half a unit of the smallest denormal besides the relative error.
case("Exp float", "Exp(d, a, n);", [wide], f32(np.exp, wide), rtol=ULP32, atol=1.5e-45)
logs = np.concatenate([floats(N), np.exp2(rng.uniform(-149, 128, 4000)).astype(np.float32)])
logs = np.concatenate([logs, (1 + rng.normal(0, 1e-3, 1000)).astype(np.float32)])
case("Ln float", "Ln(d, a, n);", [logs], f32(np.log, logs), rtol=ULP32)
case("Tanh float", "Tanh(d, a, n);", [wide], f32(np.tanh, wide), rtol=2 * ULP32)

# Mask and repeat forms.
m, k = floats(512), rng.permutation(floats(512))
old = np.arange(512, dtype=np.float32)


def masked(selected: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.where(selected, m + k, old)


column = np.arange(512) % 64
case(
    "Add, first 50 of each repeat", "Add(d, a, b, 50, 8, {1, 1, 1, 8, 8, 8});", [m, k], masked(column < 50), initial=old
)
case(
    "Add, mask bits",
    "uint64_t mask[2] = {0x8000000000ff00f5ull, 0}; Add(d, a, b, mask, 8, {1, 1, 1, 8, 8, 8});",
    [m, k],
    masked(np.array([bool(0x8000000000FF00F5 >> int(i) & 1) for i in column])),
    initial=old,
)
case("Add, zero repeats do nothing", "Add(d, a, b, 64, 0, {1, 1, 1, 8, 8, 8});", [m, k], old, initial=old)
case("Add, zero elements do nothing", "Add(d, a, b, 0);", [m, k], old, initial=old)
case(
    "Mul, one block for a whole row",
    "Mul(d, a, b, 64, 4, {1, 1, 0, 8, 8, 1});",
    [m[:256], k[:32]],
    quiet(lambda: m[:256] * np.repeat(k[:32].reshape(4, 1, 8), 8, axis=1).reshape(-1)),
)
case(
    "Adds, blocks two apart",
    "Adds(d, a, 1.0f, 64, 2, {2, 1, 16, 8});",
    [m[:128]],
    quiet(
        lambda: np.where(
            (np.arange(256) // 8) % 2 == 0, np.repeat(m[:128].reshape(16, 1, 8), 2, axis=1).reshape(-1) + 1, old[:256]
        ).astype(np.float32)
    ),
    initial=old[:256],
)
case(
    "counter mode",
    "SetMaskCount(); SetVectorMask<float, MaskMode::COUNTER>(0, 150);"
    "Add<float, false>(d, a, b, MASK_PLACEHOLDER, 1, {1, 1, 1, 8, 8, 8}); SetMaskNorm(); ResetMask();",
    [m, k],
    masked(np.arange(512) < 150),
    initial=old,
)
case(
    "mask registers",
    "SetVectorMask<float>(0, 0x0f); Adds<float, false>(d, a, 1.0f, MASK_PLACEHOLDER, 8, {1, 1, 8, 8}); ResetMask();",
    [m],
    quiet(lambda: np.where(column < 4, m + 1, old).astype(np.float32)),
    initial=old,
)

# Compare and select.
cx, cy = floats(256), rng.permutation(floats(256))
cx[100:130] = cy[100:130]
hcx, hcy = halves(256), rng.permutation(halves(256))
compares = {
    "LT": np.less,
    "GT": np.greater,
    "EQ": np.equal,
    "LE": np.less_equal,
    "GE": np.greater_equal,
    "NE": np.not_equal,
}
for mode, function in compares.items():
    bits = np.packbits(function(cx, cy), bitorder="little")
    case(f"Compare {mode}", f"Compare(d, a, b, CMPMODE::{mode}, n);", [cx, cy], bits)
    bits = np.packbits(function(cx, np.float32(0.25)), bitorder="little")
    case(f"CompareScalar {mode}", f"CompareScalar(d, a, 0.25f, CMPMODE::{mode}, n);", [cx], bits)
case("Compare half", "Compare(d, a, b, CMPMODE::LT, n);", [hcx, hcy], np.packbits(hcx < hcy, bitorder="little"))
ones = np.packbits(ix[:192] == 0, bitorder="little")
case("Compares int32", "Compares(d, a, 0, CMPMODE::EQ, n);", [ix[:192]], ones)
case(
    "Compare by repeats",
    "Compare(d, a, b, CMPMODE::GT, 64, 4, {1, 1, 1, 8, 8, 8});",
    [cx, cy],
    np.packbits(cx > cy, bitorder="little"),
)
choice = rng.random(256) < 0.5
choice_bits = np.packbits(choice, bitorder="little")
case(
    "Select of two tensors",
    "Select(d, c, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, n);",
    [cx, cy, choice_bits],
    np.where(choice, cx, cy),
)
case(
    "Select of tensor and scalar",
    "Select(d, c, a, -7.5f, SELMODE::VSEL_TENSOR_SCALAR_MODE, n);",
    [cx, cy, choice_bits],
    np.where(choice, cx, np.float32(-7.5)),
)
case(
    "Select with one mask for all repeats",
    "Select(d, c, a, b, SELMODE::VSEL_CMPMASK_SPR, n);",
    [cx, cy, choice_bits],
    np.where(np.tile(choice[:64], 4), cx, cy),
)
case(
    "Select by repeats",
    "Select(d, c, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, 40, 4, {1, 1, 1, 8, 8, 8});",
    [cx, cy, choice_bits],
    np.where(np.arange(256) % 64 < 40, np.where(choice, cx, cy), old[:256]).astype(np.float32),
    initial=old[:256],
)
case(
    "Select half, odd count",
    "Select(d, c, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, 77);",
    [hcx, hcy, choice_bits],
    np.where(choice, hcx, hcy)[:77],
)

PROGRAM = Program("vector_values", CASES)


@pytest.mark.parametrize("mode", ["fast", "checked"])
@pytest.mark.parametrize("name", PROGRAM.cases)
def test_instruction_gives_its_documented_value(name: str, mode: str) -> None:
    PROGRAM.check(name, checked=mode == "checked")
