"""What representative kernels trace to."""

from __future__ import annotations

from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from jaxtyping import Float

import npu_kernels.language as nl
from npu_kernels import ir

from .evaluate import evaluate
from .kernels import BF16, BOOL, F16, F32, I32, ops, tensor, text, trace


def scale_rows(x: Float[nl.Tensor, "rows dim"], *, factor: float) -> Float[nl.Tensor, "rows dim"]:
    out = nl.output(x.shape, x.dtype)
    for r in nl.parallel(x.shape[0], step=8):
        t = nl.load(x[r : r + 8, :])
        nl.store(out[r : r + 8, :], t * factor)
    return out


def test_a_row_loop_whose_step_divides_the_rows_has_no_extents() -> None:
    assert text(scale_rows, tensor((16, 4)), factor=2.0) == dedent("""\
        parallel %r = %c0 to %c16 step 8 {
          %t = load %x[%r:+8, %c0:+4] : tile<8x4xf32>
          %mul = mul %t, %c : tile<8x4xf32>
          store %out[%r:+8, %c0:+4] <- %mul extents [8, 4]
        }""")


def test_a_ragged_last_tile_has_the_smaller_extent() -> None:
    assert text(scale_rows, tensor((13, 4)), factor=2.0) == dedent("""\
        parallel %r = %c0 to %c13 step 8 {
          %r_left = sub %c13, %r : index
          %r_valid = minimum %c8, %r_left : index
          %t = load %x[%r:+8, %c0:+4] : tile<8x4xf32> extents [%r_valid, 4]
          %mul = mul %t, %c : tile<8x4xf32> extents [%r_valid, 4]
          store %out[%r:+8, %c0:+4] <- %mul extents [%r_valid, 4]
        }""")


def test_a_dimension_smaller_than_the_step_is_a_known_extent() -> None:
    assert "tile<8x4xf32> extents [3, 4]" in text(scale_rows, tensor((3, 4)), factor=2.0)


def test_a_loop_that_never_runs_leaves_nothing_and_an_empty_output_needs_no_store() -> None:
    assert text(scale_rows, tensor((0, 4)), factor=2.0) == ""


def test_the_kernel_records_its_name_line_statics_and_dims() -> None:
    kernel = nl.trace(scale_rows, {"x": tensor((3, 4))}, {"factor": 2.0}, {"rows": 3, "dim": 4})
    assert (kernel.name, kernel.statics, kernel.dims) == ("scale_rows", {"factor": 2.0}, {"rows": 3, "dim": 4})
    assert (kernel.location.file, kernel.location.line) == (__file__, scale_rows.__code__.co_firstlineno)


def test_every_operation_carries_its_own_line() -> None:
    first = scale_rows.__code__.co_firstlineno
    kernel = trace(scale_rows, tensor((16, 4)), factor=2.0)
    lines = {type(op).__name__: op.location.line - first for op in ir.walk(kernel.body)}
    assert lines == {"Constant": 0, "For": 2, "Load": 3, "Binary": 4, "Store": 4}


def test_values_and_outputs_take_the_names_they_are_assigned_to() -> None:
    def kernel(x: nl.Tensor) -> tuple[nl.Tensor, nl.Tensor]:
        largest, smallest = nl.output((4,), F32), nl.output((4,), F32)
        tile = nl.load(x)
        top, bottom = nl.max(tile, axis=0), nl.min(tile, axis=0)
        top += 1.0
        nl.store(largest, top)
        nl.store(smallest, bottom)
        return largest, smallest

    made = ir.print_kernel(trace(kernel, tensor((8, 4))))
    assert made.startswith("kernel kernel(%x: tensor<8x4xf32>) -> (%largest: tensor<4xf32>, %smallest: tensor<4xf32>)")
    assert "%bottom = reduce min %tile axis 0" in made
    assert "%top_2 = add %top," in made


def test_outputs_of_one_name_are_told_apart() -> None:
    def kernel(x: nl.Tensor) -> Any:
        source, made = x, []
        for factor in (2.0, 3.0):
            out = nl.output((4,), F32)
            nl.store(out, nl.load(source) * factor)
            made.append(out)
        x = nl.output((4,), F32)
        nl.store(x, 0.0)
        große = nl.output((4,), F32)
        nl.store(große, 1.0)
        return (*made, x, große)

    assert [value.name for value in trace(kernel, tensor((4,))).outputs] == ["out", "out_2", "x_2", "gro_e"]


def test_outputs_come_in_the_order_of_the_return() -> None:
    def kernel(x: nl.Tensor) -> tuple[nl.Tensor, nl.Tensor]:
        first = nl.output((2,), F32)
        second = nl.output((3,), F32)
        nl.store(first, 1.0)
        nl.store(second, 2.0)
        return second, first

    assert [v.name for v in trace(kernel, tensor((1,))).outputs] == ["second", "first"]


def test_half_width_floats_are_reduced_in_float32() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((8, 1), x.dtype)
        nl.store(out, nl.sum(nl.load(x), axis=-1, keepdims=True))
        return out

    for dtype in (F16, BF16):
        (reduce,) = ops(trace(kernel, tensor((8, 4), dtype)), ir.Reduce)
        assert reduce.operand.dtype == F32 and reduce.result.shape == (8, 1)
    assert len(ops(trace(kernel, tensor((8, 4))), ir.Cast)) == 0


def test_reducing_both_axes_gives_a_scalar() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((1,), F32)
        nl.store(out, nl.max(nl.load(x)))
        return out

    reduces = ops(trace(kernel, tensor((8, 4))), ir.Reduce)
    assert [op.result.shape for op in reduces] == [(8,), ()]


def test_transposed_operands_become_flags_of_dot() -> None:
    def kernel(a: nl.Tensor, b: nl.Tensor) -> nl.Tensor:
        out = nl.output((4, 6), F32)
        acc = nl.zeros((4, 6))
        left, right = nl.load(a), nl.load(b)
        acc = nl.dot(left.T, right.T, acc)
        acc = nl.dot(left, right, acc, transpose_a=True, transpose_b=True)
        nl.store(out, nl.dot(left.T.T, right, acc, transpose_a=True, transpose_b=True))
        return out

    dots = ops(trace(kernel, tensor((5, 4), BF16), tensor((6, 5), BF16)), ir.Dot)
    assert [(d.transpose_a, d.transpose_b, d.accumulator is not None) for d in dots] == [(True, True, True)] * 3


def test_a_dot_takes_the_extents_of_its_operands_and_accumulator() -> None:
    def kernel(a: nl.Tensor, b: nl.Tensor, c: nl.Tensor) -> nl.Tensor:
        out = nl.output((13, 6), F32)
        for r in nl.parallel(13, step=8):
            acc = nl.load(c[r : r + 8, :])
            full = nl.zeros((8, 5))
            nl.store(out[r : r + 8, :], nl.dot(full, nl.load(b), acc))
        return out

    (dot,) = ops(kernel := trace(kernel, tensor((13, 5)), tensor((5, 6)), tensor((13, 6))), ir.Dot)
    assert dot.result.extents == (8, 6)
    assert "narrow %dot : tile<8x6xf32> extents [%r_valid, 6]" in ir.print_kernel(kernel)


def test_index_and_scalar_axes_are_dropped_and_negative_ones_count_from_the_end() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((4,), F32)
        nl.store(out, nl.load(x[-1, 2, -4:]) + nl.load(x[0, 0, 0]))
        return out

    made = text(kernel, tensor((2, 3, 9)))
    assert "load %x[%c1, %c2, %c5:+4] : tile<4xf32>" in made
    assert "load %x[%c0, %c0, %c0] : f32" in made


def test_an_ellipsis_stands_for_the_axes_between() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((3, 5), F32)
        nl.store(out[...], nl.load(x[0, ..., :]))
        return out

    assert "load %x[%c0, %c0:+3, %c0:+5]" in text(kernel, tensor((2, 3, 5)))


def test_python_numbers_take_the_dtype_of_the_tile() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output(x.shape, x.dtype)
        nl.store(out, 2 * nl.load(x) + np.float64(1))
        return out

    for dtype in (F32, F16, BF16):
        kernel_ir = trace(kernel, tensor((4,), dtype))
        assert {op.result.dtype for op in ops(kernel_ir, ir.Binary)} == {dtype}
        assert {op.value for op in ops(kernel_ir, ir.Constant) if op.result.dtype == dtype} == {1.0, 2.0}


def test_an_index_meets_a_tile_as_a_scalar_of_its_dtype() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((8, 4), F32)
        for r in nl.parallel(8, step=4):
            at = nl.arange(4) + r
            nl.store(out[r : r + 4, :], nl.load(x[r : r + 4, :]) * at.astype(F32)[:, None] + r)
        return out

    casts = [(op.operand.dtype.name, op.result.dtype) for op in ops(trace(kernel, tensor((8, 4))), ir.Cast)]
    assert casts == [("index", I32), ("int32", F32), ("index", F32)]


def test_an_index_becomes_int32_where_it_becomes_a_tile() -> None:
    def kernel(x: nl.Tensor) -> Any:
        chosen, spread, axes, filled = (nl.output(s, I32) for s in ((4,), (4,), (1, 1), (4,)))
        for r in nl.range(5, 6):
            nl.store(chosen, nl.where(nl.load(x) > 0.0, r + 1, r * 2))
            nl.store(spread, nl.broadcast_to(r, (4,)))
            nl.store(axes, r[None, None] + 1)
            nl.store(filled, nl.full((4,), nl.where(r > 3, r, 0), I32))
        return chosen, spread, axes, filled

    array = np.array([1, -1, 2, np.nan], np.float32)
    expected = [[6, 10, 6, 10], [5] * 4, [[6]], [5] * 4]
    for results in (
        nl.interpret(kernel, {"x": array}, {}),
        evaluate(trace(kernel, tensor((4,))), {"x": array}),
    ):
        assert [r.tolist() for r in results] == expected


def test_masks_compare_combine_and_select() -> None:
    def kernel(x: nl.Tensor, mask: nl.Tensor) -> nl.Tensor:
        out = nl.output((4,), F32)
        t, m = nl.load(x), nl.load(mask)
        keep = (t > 0) & ~m | (t == -1.0) ^ (m != True)  # noqa: E712
        nl.store(out, nl.where(keep, t, -np.inf))
        return out

    kernel_ir = trace(kernel, tensor((4,)), tensor((4,), BOOL))
    assert [op.kind for op in ops(kernel_ir, ir.Binary)] == ["and", "xor", "xor", "or"]
    (select,) = ops(kernel_ir, ir.Select)
    assert select.result.dtype == F32


def test_where_of_two_numbers_is_float32_or_int32() -> None:
    def kernel(x: nl.Tensor) -> tuple[nl.Tensor, nl.Tensor]:
        out, whole = nl.output((4,), F32), nl.output((4,), I32)
        keep = nl.load(x) > 0
        nl.store(out, nl.where(keep, 0.0, -1))
        nl.store(whole, nl.where(keep, 0, -1))
        return out, whole

    assert [op.result.dtype for op in ops(trace(kernel, tensor((4,))), ir.Select)] == [F32, I32]


def test_rounding_of_a_cast_defaults_to_truncation_towards_integers() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((4,), I32)
        t = nl.load(x)
        nl.store(out, t.astype(I32) + t.astype(I32, rounding="floor") + t.astype(F16).astype(I32, rounding="round"))
        return out

    casts = [op.rounding for op in ops(trace(kernel, tensor((4,))), ir.Cast)]
    assert casts == ["trunc", "floor", "rint", "round"]


def test_a_store_spreads_numbers_and_smaller_tiles() -> None:
    def kernel(x: nl.Tensor) -> tuple[nl.Tensor, nl.Tensor]:
        zero, spread = nl.output((4, 6), x.dtype), nl.output((4, 6), x.dtype)
        nl.store(zero, 0)
        nl.store(spread, nl.load(x))
        return zero, spread

    kernel_ir = trace(kernel, tensor((6,), F16))
    assert len(ops(kernel_ir, ir.Full)) == len(ops(kernel_ir, ir.Broadcast)) == 1


def test_what_no_store_needs_is_not_in_the_kernel() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((4,), F32)
        unused = nl.exp(nl.load(x))
        for _ in nl.range(3):
            unused = unused + 1.0
        nl.store(out, 0.0)
        return out

    assert text(kernel, tensor((4,))).splitlines() == [
        "%full = full %c : tile<4xf32>",
        "store %out[%c0:+4] <- %full extents [4]",
    ]


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "rsqrt", "reciprocal", "tanh", "abs"])
def test_functions_of_numbers_are_numbers(name: str) -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((1,), F32)
        value = getattr(nl, name)(2.0)
        assert isinstance(value, float)
        nl.store(out, value)
        return out

    expected = {"rsqrt": 2.0**-0.5, "reciprocal": 0.5}.get(name) or getattr(np, name)(2.0)
    (full,) = ops(kernel_ir := trace(kernel, tensor((1,))), ir.Full)
    (value,) = [op.value for op in ops(kernel_ir, ir.Constant) if op.result is full.value]
    assert value == pytest.approx(expected)


def test_dimensions_behave_as_integers() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        rows, columns = x.shape
        assert isinstance(rows, nl.Dim) and rows == 6 and rows // 4 == 1 and columns % 3 == 2 and rows < 7
        assert rows.origin == "x.shape[0]"
        out = nl.output((rows * 2, columns), F32)
        nl.store(out, 0.0)
        return out

    assert trace(kernel, tensor((6, 5))).outputs[0].shape == (12, 5)
