"""Random programs: what a kernel traces to computes what its body computes eagerly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import npu_kernels.language as nl

from .evaluate import evaluate
from .programs import Program, draw, same, shrink


def outcome(program: Program, folder: Path) -> str:
    kernel = program.load(folder)
    arrays = program.arrays()
    expected = nl.interpret(kernel, arrays, {})
    got = evaluate(nl.trace(kernel, program.types(), {}), arrays)
    wrong = [n for n, (a, b) in enumerate(zip(got, expected, strict=True)) if not same(a, b)]
    return f"output {wrong[0]} differs" if wrong else ""


@pytest.mark.parametrize("first", range(0, 600, 50))
def test_traced_programs_compute_what_eager_ones_do(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + 50):
        program = draw(seed)
        if outcome(program, tmp_path):
            small = shrink(program, lambda p: bool(outcome(p, tmp_path)))
            pytest.fail(f"seed {seed}: {outcome(small, tmp_path)}\n{small.source}")


def test_programs_are_the_same_for_one_seed() -> None:
    assert draw(7) == draw(7)
    assert draw(7).source != draw(8).source
    first, second = draw(7).arrays(), draw(7).arrays()
    assert all(np.array_equal(first[name], second[name], equal_nan=True) for name in first)
