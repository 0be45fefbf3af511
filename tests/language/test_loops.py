"""Loops and branches over traced values: what they carry, and what their slices may reach."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

import npu_kernels.language as nl
from npu_kernels import ir

from .kernels import F32, I32, ops, tensor, text, trace


def test_names_assigned_before_and_inside_are_carried() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((4,), F32)
        acc = nl.zeros(4)
        for r in nl.range(10):
            acc = acc + nl.load(x[r, :])
        nl.store(out, acc)
        return out

    assert text(kernel, tensor((10, 4))) == dedent("""\
        %acc = full %c : tile<4xf32>
        %acc_3 = range %r = %c0 to %c10 step 1 carry (%acc_2 = %acc) {
          %x_2 = load %x[%r, %c0:+4] : tile<4xf32>
          %acc_4 = add %acc_2, %x_2 : tile<4xf32>
          yield %acc_4
        }
        store %out[%c0:+4] <- %acc_3 extents [4]""")


def test_augmented_assignment_carries_too() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((4,), F32)
        acc = nl.zeros(4)
        for r in nl.range(10):
            acc += nl.load(x[r, :])
        nl.store(out, acc)
        return out

    (loop,) = ops(trace(kernel, tensor((10, 4))), ir.For)
    assert [r.name for r in loop.results] == ["acc"]


def test_nested_loops_carry_through_both() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((4,), F32)
        total = nl.zeros(4)
        for a in nl.range(3):
            part = nl.zeros(4)
            for b in nl.range(5):
                part = part + nl.load(x[a, b, :])
            total = total + part
        nl.store(out, total)
        return out

    outer, inner = ops(trace(kernel, tensor((3, 5, 4))), ir.For)
    assert (len(outer.results), len(inner.results)) == (1, 1)
    assert outer.body.yields[0].name == "total"


def test_only_what_is_used_afterwards_or_in_the_next_iteration_is_carried() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((3, 4), F32)
        t = nl.load(x[0, :])
        nl.store(out[0, :], t)
        for r in nl.range(1, 3):
            t = nl.load(x[r, :])
            nl.store(out[r, :], t)
        return out

    (loop,) = ops(trace(kernel, tensor((3, 4))), ir.For)
    assert loop.results == ()


def test_a_name_that_is_never_read_before_it_is_assigned_may_change_its_shape() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((3, 4), F32)
        t = nl.load(x)
        for r in nl.range(3):
            t = nl.load(x[r, :])
            nl.store(out[r, :], t)
        return out

    (loop,) = ops(trace(kernel, tensor((3, 4))), ir.For)
    assert loop.results == ()


def test_a_python_number_that_a_loop_changes_becomes_a_carried_scalar() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((1,), F32)
        largest, count, width = -np.inf, 0, 4
        for r in nl.range(10):
            largest = nl.maximum(largest, nl.max(nl.load(x[r, 0:width])))
            count = count + 1
        nl.store(out, largest + count)
        return out

    (loop,) = ops(trace(kernel, tensor((10, 4))), ir.For)
    assert {r.name: r.type for r in loop.results} == {
        "largest": ir.ScalarType(F32),
        "count": ir.ScalarType(ir.index),
    }


def test_a_python_number_that_stays_equal_stays_a_python_number() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((8, 4), F32)
        step = 2
        nan = float("nan")
        for r in nl.range(0, 8, step=2):
            step = 1 + 1
            nan = float("nan")
            nl.store(out[r : r + step, :], nl.load(x[r : r + step, :]) * nan)
        return out

    (loop,) = ops(trace(kernel, tensor((8, 4))), ir.For)
    assert loop.results == ()


def test_a_carried_tile_takes_the_ragged_extent_of_the_loop_around_it() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((13, 4), F32)
        for r in nl.parallel(13, step=8):
            acc = nl.zeros((8, 4))
            for k in nl.range(3):
                acc = acc + nl.load(x[k, r : r + 8, :])
            nl.store(out[r : r + 8, :], acc)
        return out

    made = text(kernel, tensor((3, 13, 4)))
    assert "%acc_2 = narrow %acc : tile<8x4xf32> extents [%r_valid, 4]" in made
    assert made.count("minimum") == 1


def test_a_carried_tile_that_is_reset_keeps_its_smaller_extent() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((13, 4), F32)
        for r in nl.parallel(13, step=8):
            acc = nl.load(x[0, r : r + 8, :])
            for k in nl.range(3):
                nl.store(out[r : r + 8, :], acc)
                acc = nl.zeros((8, 4)) + k
        return out

    (_, loop) = ops(trace(kernel, tensor((3, 13, 4))), ir.For)
    assert loop.body.yields[0].extents == loop.body.args[1].extents


def test_extents_of_two_axes_join_to_the_smaller_one() -> None:
    def kernel(x: nl.Tensor, y: nl.Tensor) -> nl.Tensor:
        out = nl.output((13, 4), F32)
        for r in nl.parallel(11, step=8):
            acc = nl.zeros((8, 4))
            for _ in nl.range(3):
                acc = acc + nl.load(x[r : r + 8, :]) * nl.load(y[r : r + 8, :]) + nl.load(x[r : r + 8, :])
            nl.store(out[r : r + 8, :], acc)
        return out

    made = text(kernel, tensor((13, 4)), tensor((11, 4)))
    assert "%valid = minimum %r_valid, %r_valid_2 : index" in made
    assert made.count("minimum") == 3


def test_a_branch_yields_what_its_sides_assign() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((8, 4), F32)
        for r in nl.parallel(8):
            t = nl.load(x[r, :])
            if r % 2 == 0:
                t = t * 2.0
                scale = 1.0
            else:
                scale = nl.sum(t)
            nl.store(out[r, :], t * scale)
        return out

    assert text(kernel, tensor((8, 4))) == dedent("""\
        parallel %r = %c0 to %c8 step 1 {
          %t = load %x[%r, %c0:+4] : tile<4xf32>
          %mod = mod %r, %c2 : index
          %eq = compare eq %mod, %c0 : i1
          %t_2, %scale = if %eq {
            %t_3 = mul %t, %c : tile<4xf32>
            yield %t_3, %c_2
          } else {
            %scale_2 = reduce sum %t axis 0 : f32
            yield %t, %scale_2
          }
          %mul = mul %t_2, %scale : tile<4xf32>
          store %out[%r, %c0:+4] <- %mul extents [4]
        }""")


def test_a_chain_of_elif_and_conditional_expressions_branch() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((8, 4), F32)
        for r in nl.parallel(8):
            t = nl.load(x[r, :])
            if r < 2:
                t = -t
            elif r < 4:
                t = nl.abs(t)
            nl.store(out[r, :], nl.exp(t) if r == 7 else t)
        return out

    first, second, third = ops(trace(kernel, tensor((8, 4))), ir.If)
    assert second in first.orelse.ops
    assert [type(op) for op in third.then.ops] == [ir.Unary] and third.orelse.ops == []


def test_python_conditions_are_decided_while_tracing() -> None:
    def kernel(x: nl.Tensor, *, square: bool) -> nl.Tensor:
        out = nl.output((4,), F32)
        t = nl.load(x)
        if square and t.shape[0] == 4:
            t = t * t
        nl.store(out, t if not square else t + 1.0)
        return out

    assert len(ops(trace(kernel, tensor((4,)), square=True), ir.Binary)) == 2
    assert len(ops(trace(kernel, tensor((4,)), square=False), ir.Binary)) == 0


def test_static_range_is_unrolled() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((4,), F32)
        acc = nl.zeros(4)
        last = -1
        for r in nl.static_range(2, 10, 3):
            if r == 8:
                break
            acc = acc + nl.load(x[r, :])
            last = r
        assert (last, r) == (5, 8)
        nl.store(out, acc)
        return out

    kernel_ir = trace(kernel, tensor((10, 4)))
    assert ops(kernel_ir, ir.For) == [] and len(ops(kernel_ir, ir.Load)) == 2


def test_helpers_with_loops_are_functions_of_the_language() -> None:
    @nl.function
    def total(x: nl.Tensor, *, start: int = 0) -> nl.Tile:
        acc = nl.zeros(x.shape[1])
        for r in nl.range(start, x.shape[0]):
            if r != 3:
                acc = acc + nl.load(x[r, :])
        return acc

    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((4,), F32)
        nl.store(out, total(x) + total(x, start=2))
        return out

    kernel_ir = trace(kernel, tensor((10, 4)))
    assert len(ops(kernel_ir, ir.For)) == 2
    (result,) = nl.interpret(kernel, {"x": np.ones((10, 4), np.float32)}, {})
    assert result.tolist() == [16.0] * 4


def test_bounds_may_be_traced_and_loops_empty() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((16, 4), F32)
        for r in nl.parallel(16, step=4):
            acc = nl.zeros((1, 4))
            for k in nl.range(r, nl.minimum(r + 4, 14), step=2):
                acc = acc + nl.sum(nl.load(x[k : k + 2, :]), axis=0, keepdims=True)
            for _ in nl.range(5, 5):
                acc = acc * 0.0
            nl.store(out[r : r + 4, :], acc)
        return out

    made = text(kernel, tensor((14, 4)))
    assert made.count(" = range") == 1
    assert "minimum %c2" not in made


#: The start of a slice of a loop variable, the axis, the loop's stop and step, the slice's size.
SLICES = {
    "the last whole step": (lambda r: r, 16, 16, 8, 8),
    "an offset that stays inside": (lambda r: r + 4, 20, 16, 8, 8),
    "a factor": (lambda r: 2 * r, 20, 9, 1, 4),
    "a reversed walk": (lambda r: 15 - r, 16, 16, 1, 1),
    "a quotient": (lambda r: r // 3, 4, 12, 1, 1),
    "a remainder": (lambda r: r % 5 * 2, 10, 100, 1, 2),
    "a remainder of known steps": (lambda r: r % 8, 8, 64, 8, 8),
    "a clipped start": (lambda r: nl.clip(r - 3, 0, 5), 6, 100, 1, 1),
    "a minimum": (lambda r: nl.minimum(r, 7), 8, 100, 1, 1),
    "a distance from the end": (lambda r: nl.maximum(9 - r, 0), 10, 100, 1, 1),
    "a part of a longer axis": (lambda r: r, 104, 100, 8, 8),
}


@pytest.mark.parametrize("case", SLICES)
def test_slices_that_are_provably_inside(case: str) -> None:
    make, dim, stop, step, size = SLICES[case]

    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((1,), F32)
        for r in nl.range(stop, step=step):
            start = make(r)
            nl.store(out, nl.sum(nl.load(x[start : start + size])))
        return out

    (load,) = ops(trace(kernel, tensor((dim,))), ir.Load)
    assert load.result.extents == (size,)


def test_a_loaded_integer_indexes_once_it_is_clipped() -> None:
    def kernel(x: nl.Tensor, at: nl.Tensor) -> nl.Tensor:
        out = nl.output((3, 4), F32)
        for r in nl.parallel(3):
            row = nl.clip(nl.load(at[r]), 0, x.shape[0] - 1)
            nl.store(out[r, :], nl.load(x[row, :]))
        return out

    kernel_ir = trace(kernel, tensor((9, 4)), tensor((3,), I32))
    assert len(ops(kernel_ir, ir.Load)) == 2
    x = np.arange(36, dtype=np.float32).reshape(9, 4)
    (result,) = nl.interpret(kernel, {"x": x, "at": np.array([100, -3, 4], np.int32)}, {})
    assert result[:, 0].tolist() == [32.0, 0.0, 16.0]


def test_scalars_come_from_and_go_to_tensors_without_axes() -> None:
    def kernel(x: nl.Tensor, factor: nl.Tensor) -> nl.Tensor:
        out = nl.output((), F32)
        nl.store(out, nl.sum(nl.load(x)) * nl.load(factor))
        return out

    (store,) = ops(trace(kernel, tensor((4,)), tensor(())), ir.Store)
    assert store.value.is_scalar and store.extents == ()
    arrays = {"x": np.arange(4, dtype=np.float32), "factor": np.array(2, np.float32)}
    (result,) = nl.interpret(kernel, arrays, {})
    assert result.shape == () and result == 12


def test_a_flag_of_the_first_iteration_becomes_a_carried_bool() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((4,), F32)
        first, acc = True, nl.zeros(4)
        for r in nl.range(3):
            t = nl.load(x[r, :])
            acc = t if first else nl.maximum(acc, t)
            first = False
        nl.store(out, acc)
        return out

    (loop,) = ops(trace(kernel, tensor((3, 4))), ir.For)
    assert sorted(r.type.dtype.name for r in loop.results) == ["bool", "float32"]


def test_pipelining_is_a_property_of_the_loop() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((8, 4), F32)
        for r in nl.range(4):
            nl.store(out[r, :], nl.load(x[r, :]))
        for r in nl.range(4, 8, pipelined=False):
            nl.store(out[r, :], nl.load(x[r, :]))
        return out

    assert [loop.pipelined for loop in ops(trace(kernel, tensor((8, 4))), ir.For)] == [True, False]
