"""Public models as StableHLO: what is replaced, what is not and why, and that rewritten modules compute the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from npu_kernels import jax_compat
from npu_kernels.binding import launches
from npu_kernels.binding.registration import reset_launches
from npu_kernels.substitution import Pattern, Report, explain, substitute_module

CORPUS = Path(__file__).resolve().parents[1] / "data" / "corpus"
EXPECTED = json.loads((CORPUS / "expected.json").read_text())["files"]
PATTERNS = ("attention", "rms_norm")
FORWARD = sorted(name for name in EXPECTED if name.endswith(".fwd.mlir"))
GRADIENT = sorted(name for name in EXPECTED if name.endswith(".grad.mlir"))
WITH_INSTANCES = [name for name in FORWARD if any(EXPECTED[name][pattern] for pattern in PATTERNS)]

#: Forward instances that are near misses, with the reason.
DECLINED = {
    "gemma2.fwd.mlir": ("soft-cap", 2),
    "hf_distilbert.fwd.mlir": ("mask-not-boolean", 2),
    "jaxnn_sdpa_gqa_mask_bias.fwd.mlir": ("bias", 1),
    "linen_mhdpa_dropout.fwd.mlir": ("dropout", 1),
}

Array = np.ndarray[Any, Any]
Runner = Callable[[Sequence[Array]], list[Array]]


@cache
def report_of(name: str) -> Report:
    return explain(CORPUS / name)


@pytest.mark.parametrize("name", FORWARD)
def test_every_instance_is_replaced_or_a_near_miss(name: str) -> None:
    report = report_of(name)
    reason, missed = DECLINED.get(name, ("", 0))
    found = {pattern: report.count(pattern) for pattern in PATTERNS}
    found["attention"] += missed
    assert found == {pattern: EXPECTED[name][pattern] for pattern in PATTERNS}
    misses = [miss.reason for miss in report.near_misses if miss.pattern == "attention"]
    assert misses == [reason] * missed


def test_at_least_four_fifths_are_replaced() -> None:
    reports = [report_of(name) for name in WITH_INSTANCES]
    for pattern in PATTERNS:
        total = sum(EXPECTED[name][pattern] for name in FORWARD)
        assert sum(report.count(pattern) for report in reports) >= 0.8 * total


@pytest.mark.parametrize("name", GRADIENT)
def test_attention_of_a_backward_pass_is_never_replaced(name: str) -> None:
    """Its weights are read again by the gradient: every instance is a near miss."""
    report = report_of(name)
    assert report.count("attention") == 0
    assert report.count("rms_norm") <= EXPECTED[name]["rms_norm"]
    misses = [m for m in report.near_misses if m.pattern == "attention"]
    assert len(misses) == EXPECTED[name]["attention"]


# -- running both ------------------------------------------------------------------------------------------------------

#: Largest error relative to the largest output. float32 programs differ by the order of sums; with scores a hundred
#: apart and more, that is magnified by the softmax's slope.
TOLERANCE = 2e-4
#: A 16-bit program is compared with itself in float32: it may lose twice what it lost before and this, relative to
#: the largest output (five units in bfloat16's last place): rounding differs, and a softmax magnifies it.
SIXTEEN_BITS = 2e-2

SCENARIOS = ("random", "masked rows", "scores apart", "small", "large", "nan row")
_DTYPES = {
    "f32": np.float32,
    "bf16": ml_dtypes.bfloat16,
    "i1": np.bool_,
    "i32": np.int32,
    "ui32": np.uint32,
}


@dataclass(frozen=True)
class Spec:
    """An argument of a module: its shape, dtype and what it is for."""

    shape: tuple[int, ...]
    dtype: str
    role: str


def roles(name: str, text: str) -> list[Spec]:
    """Arguments of ``main``; roles follow from shape and dtype, as the models of the corpus have them."""
    (line,) = (line for line in text.splitlines() if "func.func public @main" in line)
    types = re.findall(r"%arg\d+: tensor<([^>]*)>", line.split(") ->")[0])
    specs, tables = [], 0
    for type_ in types:
        *sizes, dtype = type_.split("x")
        shape = tuple(map(int, sizes))
        floating = dtype in ("f32", "bf16")
        if dtype == "i1" or (floating and len(shape) == 4 and shape[1:3] == (1, shape[-1])):
            role = "mask"
        elif floating and ((len(shape) >= 3 and shape[0] == 2 and shape[1] in (3, 128)) or shape == (100, 64)):
            role = "activation"
        elif floating:
            role = "activation" if name.startswith("eqx_mha.") and len(specs) == 4 else "weight"
        elif len(shape) == 1:
            role = "key" if dtype == "ui32" else "length"
        else:
            role = "tokens" if tables == 0 else ("positions" if name.startswith("tunix") else "mask")
            tables += 1
        specs.append(Spec(shape, dtype, role))
    return specs


def draw(spec: Spec, scenario: str, rng: np.random.Generator) -> Array:
    """Values of one argument."""
    shape = spec.shape
    value: Array
    match spec.role:
        case "activation":
            factor = {"small": 1e-4, "large": 1e4, "scores apart": 6.0}.get(scenario, 1.0)
            value = rng.standard_normal(shape) * factor
            if scenario == "nan row":
                value[(*(0,) * (len(shape) > 2), min(3, shape[1] - 1) if len(shape) > 2 else 3)] = np.nan
        case "weight" if len(shape) == 1:
            value = 1 + 0.1 * rng.standard_normal(shape)
        case "weight":
            value = rng.standard_normal(shape) / np.sqrt(shape[0]) * (3 if scenario == "scores apart" else 1)
        case "mask" if len(shape) == 2 and spec.dtype == "i32":
            value = np.ones(shape)
            value[0, shape[1] // 2 :] = 0
            value[1] *= scenario != "masked rows"
        case "mask":
            value = rng.random(shape) < 0.7
            if scenario == "masked rows":
                value[..., 3, :] = False
        case "length":
            value = np.asarray([100, 0 if scenario == "masked rows" else 17])
        case "positions":
            value = np.broadcast_to(np.arange(shape[1]), shape)
        case _:
            value = rng.integers(0, 60, shape)
    return np.asarray(value).astype(_DTYPES[spec.dtype])


def in_float32(text: str) -> str:
    """A 16-bit module with every value in float32: what its rounding is measured against."""
    text = re.sub(r", algorithm = <[^>]*>", "", text).replace("0xFF80>", "0xFF800000>")
    return text.replace("bf16", "f32")


def original(name: str) -> tuple[Runner, Runner | None]:
    text = (CORPUS / name).read_text()
    wide = jax_compat.compile_module(jax_compat.parse_module(in_float32(text))) if "bf16" in text else None
    return jax_compat.compile_module(jax_compat.parse_module(text)), wide


def agree(got: Array, wanted: Array, exact: Array | None, scenario: str) -> None:
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    x, y = got.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(x), np.isnan(y), err_msg=scenario)
    finite = np.isfinite(y)
    assert scenario == "nan row" or finite.all()
    if exact is None:
        error = np.abs(x - y)[finite].max(initial=0) / max(np.abs(y[finite]).max(initial=0), 1e-30)
        assert error <= TOLERANCE, f"{scenario}: {error:.2e}"
        return
    z = exact.astype(np.float64)
    largest = max(np.abs(z[finite]).max(initial=0), 1e-30)
    ours, theirs = (float(np.abs(a - z)[finite].max(initial=0) / largest) for a in (x, y))
    assert ours <= 2 * theirs + SIXTEEN_BITS, f"{scenario}: {ours:.2e} against {theirs:.2e}"


REPLACED = [n for n in WITH_INSTANCES if DECLINED.get(n, ("", 0))[1] < sum(EXPECTED[n][p] for p in PATTERNS)]


@pytest.mark.parametrize("name", REPLACED)
def test_a_module_with_library_kernels_computes_the_same(name: str) -> None:
    text = (CORPUS / name).read_text()
    module, report = substitute_module(text)
    run = jax_compat.compile_module(module)
    before, wide = original(name)
    for scenario in SCENARIOS:
        rng = np.random.default_rng(11)
        arguments = [draw(spec, scenario, rng) for spec in roles(name, text)]
        exact: list[Array] | None = None
        if wide is not None:
            exact = wide([a.astype(np.float32) if a.dtype == ml_dtypes.bfloat16 else a for a in arguments])
        reset_launches()
        results = run(arguments)
        assert sum(launches().values()) == len(report.replaced), "every replaced pattern is one that ran"
        for i, (got, wanted) in enumerate(zip(results, before(arguments), strict=True)):
            agree(got, wanted, None if exact is None else exact[i], scenario)


def test_a_rewritten_module_is_text_that_can_be_read_again(patterns: tuple[Pattern, ...]) -> None:
    module, report = substitute_module(CORPUS / "hf_llama.fwd.mlir", patterns=patterns)
    assert report.counts == {"attention": 2, "rms_norm": 5}
    _, again = substitute_module(str(module), patterns=())
    assert not again.replaced
