"""Cast rounds, saturates and keeps special values as documented, for every pair of types of the chip."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from .harness import CPP, Case, Program, TwinFault, bfloat16

rng = np.random.default_rng(21)
F32, F16, I64, I32, I16 = (np.dtype(t) for t in (np.float32, np.float16, np.int64, np.int32, np.int16))
I8, U8 = np.dtype(np.int8), np.dtype(np.uint8)


def float_values() -> np.ndarray:
    """Special values, ties, values around the limits of every target, and ordinary ones."""
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 3.4e38, -3.4e38, 2**31, -(2**31), 2**63, -(2**63)]
    ties = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, -0.49999997, 8388607.5, 127.5, 128, -128.5, 255.5, 256, -1]
    half_edge = [65504, 65519, 65520, 65536, -65520, 6.1e-5, 6.1035156e-05, 5.96e-8, 2.98e-8, 2.99e-8, -8.9e-8]
    short = [32767, 32767.5, 32768, -32768, -32768.5, -32769]
    between = (1 + np.arange(64) * 2.0**-12).tolist() + (-1 - np.arange(64) * 2.0**-9).tolist()
    values = np.array(special + ties + half_edge + short + between, np.float32)
    return np.concatenate(
        [values, rng.normal(0, 300, 200).astype(np.float32), rng.normal(0, 1e-5, 50).astype(np.float32)]
    )


def values_of(dtype: np.dtype) -> np.ndarray:
    with np.errstate(all="ignore"):
        if dtype == F32:
            return float_values()
        if dtype in (F16, bfloat16):
            return float_values().astype(dtype)
    info = np.iinfo(dtype)
    edges = [info.min, info.max, 0, 1]
    if dtype.itemsize > 2:
        near = [2**24 + 1, 2**24 + 3, -(2**24) - 1, -(2**24) - 3, 2**25 + 2, 32767, 32768, -32769]
        edges += near
    if dtype.itemsize > 4:
        edges += [2**31 - 1, 2**31, -(2**31) - 1, 2**62 + 2**38, 2**62 + 2**38 + 1, 2**40 + 1]
    if dtype == I16:
        edges += [2**11 + 1, 2**11 + 3, -(2**11) - 1, 2**12 + 2, 2**12 + 6]
    some = rng.integers(info.min, info.max, 100, dtype=dtype, endpoint=True)
    return np.concatenate([np.array(edges, dtype), some])


def to_integral(x: np.ndarray, mode: str) -> np.ndarray:
    exact = x.astype(np.float64)
    return {
        "RINT": np.rint,
        "FLOOR": np.floor,
        "CEIL": np.ceil,
        "TRUNC": np.trunc,
        "ROUND": lambda v: np.copysign(np.floor(np.abs(v) + 0.5), v),
    }[mode](exact)


def to_float(exact: np.ndarray, dtype: np.dtype, mode: str) -> np.ndarray:
    """Rounds exact values, given in long double, to a float type by looking at both neighbours."""
    with np.errstate(all="ignore"):
        nearest = exact.astype(np.float64).astype(np.float32).astype(dtype) if dtype != F32 else exact.astype(F32)
    bits = nearest.view(np.uint16 if dtype.itemsize == 2 else np.uint32).astype(np.int64)
    sign_bit = 1 << (dtype.itemsize * 8 - 1)
    magnitude_bits = bits & (sign_bit - 1)
    magnitude = np.abs(exact)

    def value(pattern: np.ndarray) -> np.ndarray:
        raw = pattern.astype(np.uint16 if dtype.itemsize == 2 else np.uint32)
        return raw.view(dtype).astype(np.longdouble)

    below = np.where(value(magnitude_bits) > magnitude, magnitude_bits - 1, magnitude_bits)
    exactly = value(below) == magnitude
    negative = np.signbit(exact.astype(np.float64))
    after = value(below + 1)
    if dtype == F16:
        after = np.where(below == 0x7BFF, np.longdouble(2) ** 16, after)
    if dtype == bfloat16:
        after = np.where(below == 0x7F7F, np.longdouble(2) ** 128, after)
    middle = (value(below) + after) / 2
    up = {
        "FLOOR": negative,
        "CEIL": ~negative,
        "TRUNC": np.zeros_like(negative),
        "ROUND": magnitude >= middle,
        "ODD": below % 2 == 0,
        "RINT": (magnitude > middle) | ((magnitude == middle) & (below % 2 == 1)),
    }[mode]
    chosen = np.where(~exactly & up, below + 1, below) | np.where(negative, sign_bit, 0)
    result = chosen.astype(np.uint16 if dtype.itemsize == 2 else np.uint32).view(dtype)
    return np.where(np.isfinite(exact), result, nearest).astype(dtype)


def saturate(integral: np.ndarray, dtype: np.dtype) -> np.ndarray:
    info = np.iinfo(dtype)
    result = np.zeros(integral.shape, dtype)
    inside = (integral >= float(info.min)) & (integral < float(info.max) + (1 if dtype.itemsize < 8 else 0))
    result[inside] = integral[inside].astype(dtype)
    result[integral >= float(info.max)] = info.max
    result[integral < float(info.min)] = info.min
    return result


def expected(x: np.ndarray, dtype: np.dtype, mode: str) -> np.ndarray:
    if mode == "NONE":
        mode = "RINT"
    source = x.dtype
    floating = source in (F32, F16, bfloat16)
    with np.errstate(all="ignore"):
        if dtype == source == F32:
            return to_integral(x, mode).astype(F32)
        if floating and dtype in (I64, I32, I16, I8, U8):
            return saturate(to_integral(x.astype(F32), mode), dtype)
        if not floating and dtype in (I64, I32, I16):
            return np.clip(x, np.iinfo(dtype).min, np.iinfo(dtype).max).astype(dtype)
        return to_float(x.astype(np.longdouble), dtype, mode)


DIRECTED = ("RINT", "FLOOR", "CEIL", "ROUND", "TRUNC")
PAIRS: list[tuple[np.dtype, np.dtype, tuple[str, ...]]] = [
    (F32, F32, DIRECTED),
    (F32, F16, ("NONE", *DIRECTED, "ODD")),
    (F32, bfloat16, DIRECTED),
    (F32, I64, DIRECTED),
    (F32, I32, DIRECTED),
    (F32, I16, DIRECTED),
    (F16, F32, ("NONE",)),
    (F16, I32, DIRECTED),
    (F16, I16, DIRECTED),
    (F16, I8, ("NONE", *DIRECTED)),
    (F16, U8, ("NONE", *DIRECTED)),
    (U8, F16, ("NONE",)),
    (I8, F16, ("NONE",)),
    (I16, F16, ("NONE", *DIRECTED)),
    (I16, F32, ("NONE",)),
    (I32, F32, ("NONE", *DIRECTED)),
    (I32, I64, ("NONE",)),
    (I32, I16, ("NONE",)),
    (I64, I32, ("NONE",)),
    (I64, F32, DIRECTED),
    (bfloat16, F32, ("NONE",)),
    (bfloat16, I32, DIRECTED),
]


def cases() -> list[Case]:
    made = []
    for source, target, modes in PAIRS:
        x = values_of(source)
        for mode in modes:
            name = f"{CPP[source]} to {CPP[target]} {mode}"
            made.append(Case(name, f"Cast(d, a, RoundMode::CAST_{mode}, n);", [x], expected(x, target, mode)))
    x = rng.normal(0, 3, 256).astype(np.float32)
    out = np.zeros(256, np.float16)
    out[np.arange(256) % 64 < 40] = x[np.arange(256) % 64 < 40]
    made.append(Case("by repeats", "Cast(d, a, RoundMode::CAST_RINT, 40, 4, {1, 1, 4, 8});", [x], out))
    numbers = values_of(I32)
    scaled = (numbers.astype(np.float32) * np.float32(0.25)).astype(np.float16)
    made.append(
        Case(
            "int32 to half with a factor",
            "SetDeqScale(half(0.25)); Cast(d, a, RoundMode::CAST_NONE, n);",
            [numbers],
            scaled,
        )
    )
    return made


with np.errstate(over="ignore"):
    PROGRAM = Program("cast_values", cases())
REFUSED = Program(
    "cast_refused",
    [Case("odd", "Cast(d, a, RoundMode::CAST_ODD, n);", [np.ones(8, np.float32)], np.zeros(8, ml_dtypes.bfloat16))],
)


@pytest.mark.parametrize("mode", ["fast", "checked"])
@pytest.mark.parametrize("name", PROGRAM.cases)
def test_cast(name: str, mode: str) -> None:
    PROGRAM.check(name, checked=mode == "checked")


def test_a_mode_that_a_pair_lacks_is_a_fault() -> None:
    with pytest.raises(TwinFault, match="rounding mode 6 is not available") as caught:
        REFUSED.run("odd", checked=True)
    assert caught.value.code == "NPK-RC08"
