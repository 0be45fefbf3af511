"""A batched kernel computes what the kernel does for each call, whatever the body and the batch axes are."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npu_kernels.language as nl
from npu_kernels import ir

from .evaluate import evaluate
from .kernels import tensor, trace
from .programs import draw, same

Array = np.ndarray[Any, Any]
PROGRAMS, GROUP = 160, 40


def batched_arrays(arrays: dict[str, Array], axes: list[int | None], size: int) -> dict[str, Array]:
    """As many calls of each array: the array itself, then rolled."""
    made = {}
    for (name, array), axis in zip(arrays.items(), axes, strict=True):
        flat = array.reshape(-1)
        made[name] = (
            array
            if axis is None
            else np.stack([np.roll(flat, call).reshape(array.shape) for call in range(size)], axis)
        )
    return made


def one_call(arrays: dict[str, Array], axes: list[int | None], call: int) -> dict[str, Array]:
    taken = zip(arrays.items(), axes, strict=True)
    return {name: array if axis is None else np.take(array, call, axis) for (name, array), axis in taken}


def check(kernel: ir.Kernel, arrays: dict[str, Array], axes: list[int | None], size: int, what: str) -> None:
    stacked = batched_arrays(arrays, axes, size)
    results = evaluate(ir.batch(kernel, axes, size), stacked)
    for call in range(size):
        expected = evaluate(kernel, one_call(stacked, axes, call))
        for got, wanted in zip(results, expected, strict=True):
            assert same(got[call], wanted), f"{what}, call {call}, axes {axes}\n{kernel}"


@pytest.mark.parametrize("first", range(0, PROGRAMS, GROUP))
def test_random_programs(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + GROUP):
        program, dice = draw(seed), random.Random(seed)
        kernel = nl.trace(program.load(tmp_path), program.types(), {})
        axes = [dice.choice([None, *range(len(v.shape) + 1)]) for v in kernel.inputs]
        if all(axis is None for axis in axes):
            axes[0] = 0
        check(kernel, program.arrays(), axes, dice.choice([1, 2, 3]), f"seed {seed}")


@pytest.mark.parametrize("first", range(0, PROGRAMS // 4, GROUP))
def test_a_batch_of_a_batch(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + GROUP):
        program, dice = draw(seed), random.Random(-seed)
        kernel = nl.trace(program.load(tmp_path), program.types(), {})
        inner: list[int | None] = [dice.choice([None, *range(len(v.shape) + 1)]) for v in kernel.inputs]
        once = ir.batch(kernel, inner, 2)
        outer: list[int | None] = [dice.choice([None, *range(len(v.shape) + 1)]) for v in once.inputs]
        check(once, batched_arrays(program.arrays(), inner, 2), outer, 3, f"seed {seed}")


def scaled(x: nl.Tensor, weight: nl.Tensor, factor: nl.Tensor) -> Any:
    rows = x.shape[0]
    out, low = nl.output(x.shape, nl.float32), nl.output((rows,), nl.float32)
    scale = nl.load(weight) * 2.0
    one = nl.load(factor[...])
    for r in nl.parallel(rows, step=2):
        nl.store(out[r : r + 2, :], nl.load(x[r : r + 2, :]) * scale * one)
    for r in nl.parallel(rows):
        nl.store(low[r], nl.min(nl.load(x[r, :])))
    return out, low


def test_what_calls_share_stays_outside_and_each_parallel_loop_is_batched_alone() -> None:
    kernel = trace(scaled, tensor((6, 8)), tensor((8,)), tensor(()))
    text = str(ir.batch(kernel, [0, None, None], 3))
    head, first, second = text.split("parallel %batch")
    assert "load %weight" in head and "load %factor" in head and "load %x" not in head
    assert "load %x[%batch, %r:+2, %c" in first and "store %out[%batch, " in first and "%low" not in first
    assert "store %low[%batch_2, " in second and "%out" not in second
    # Directly inside, so that lowering deals out both loops together.
    assert first.split("{\n")[1].lstrip().startswith("parallel %r")


def test_what_differs_between_calls_is_computed_in_the_batch_loop() -> None:
    kernel = trace(scaled, tensor((6, 8)), tensor((8,)), tensor(()))
    head, first, second = str(ir.batch(kernel, [None, 1, 0], 3)).split("parallel %batch")
    assert "load" not in head
    assert "load %weight[%c" in first and ", %batch] : tile<8xf32>" in first
    assert "load %factor[%batch] : f32" in first
    assert "weight" not in second and "factor" not in second, "the second loop needs neither"


def test_a_loop_that_stores_and_carries_keeps_everything_in_one_batch_loop() -> None:
    def body(x: nl.Tensor) -> Any:
        rows, dim = x.shape
        out, total = nl.output(x.shape, nl.float32), nl.output((rows, dim), nl.float32)
        acc = nl.zeros((1, dim))
        for r in nl.range(rows):
            acc = acc + nl.load(x[r : r + 1, :])
            nl.store(out[r : r + 1, :], acc)
        for r in nl.parallel(rows):
            nl.store(total[r : r + 1, :], acc)
        return out, total

    kernel = trace(body, tensor((3, 8)))
    assert str(ir.batch(kernel, [0], 2)).count("parallel %batch") == 1
    arrays = {"x": np.arange(24, dtype=np.float32).reshape(3, 8)}
    check(kernel, arrays, [0], 2, "carried")


def test_the_kernel_itself_is_left_alone() -> None:
    kernel = trace(scaled, tensor((6, 8)), tensor((8,)), tensor(()))
    before = str(kernel)
    ir.batch(kernel, [1, 0, 0], 2)
    assert str(kernel) == before


@pytest.mark.parametrize(("axes", "size"), [([0, 0], 2), ([0, 0, 0], 0)])
def test_a_wrong_number_of_axes_or_calls(axes: list[int | None], size: int) -> None:
    with pytest.raises(ValueError):
        ir.batch(trace(scaled, tensor((6, 8)), tensor((8,)), tensor(())), axes, size)
