"""What single passes do, on small programs."""

from __future__ import annotations

import pytest
from jaxtyping import Float, Int32

import npu_kernels.language as nl
from npu_kernels import ir
from npu_kernels.codegen import generate
from npu_kernels.errors import LanguageError, LoweringError
from npu_kernels.ir import expr as E
from npu_kernels.ir.device import Barrier, Instr, Loop, Program, QueueOp, walk_statements
from npu_kernels.ir.device_printer import print_program
from npu_kernels.lowering import lower
from npu_kernels.lowering.arch import arch_of

F32 = ir.float32


def f32(*shape: int) -> ir.TensorType:
    return ir.TensorType(shape, F32)


def calls(program: Program, kind: str = "vector") -> list[str]:
    section = getattr(program, kind)
    return [s.api for s in walk_statements(section.statements) if isinstance(s, Instr)]


def copy(x: Float[nl.Tensor, "r c"]) -> Float[nl.Tensor, "r c"]:
    out = nl.output(x.shape, x.dtype)
    for r in nl.parallel(x.shape[0], step=8):
        nl.store(out[r : r + 8, :], nl.exp(nl.load(x[r : r + 8, :])))
    return out


def test_a_result_is_computed_straight_into_the_queue_that_stores_it() -> None:
    program = lower(nl.trace(copy, {"x": f32(64, 64)}, {}))
    assert calls(program) == ["DataCopyPad", "Exp", "DataCopyPad"]


def carried(x: Float[nl.Tensor, "r c"]) -> Float[nl.Tensor, "c"]:
    rows, cols = x.shape
    out = nl.output((cols,), x.dtype)
    total = nl.zeros((cols,))
    for r in nl.range(rows):
        total = total + nl.load(x[r, :])
    nl.store(out, total)
    return out


def test_a_carried_tile_is_updated_in_place() -> None:
    program = lower(nl.trace(carried, {"x": f32(64, 64)}, {}))
    assert calls(program) == ["Duplicate", "DataCopyPad", "Add", "DataCopyPad"]
    loop = next(s for s in walk_statements(program.vector.statements) if isinstance(s, Loop))  # type: ignore[union-attr]
    add = next(s for s in loop.body if isinstance(s, Instr) and s.api == "Add")
    assert add.dst.base is add.sources[0].base


def test_parallel_loops_share_out_all_their_iterations() -> None:
    program = lower(nl.trace(copy, {"x": f32(1000, 8)}, {}))
    assert (program.units, program.blocks, program.units_per_block()) == (125, 48, (2, 3))
    assert lower(nl.trace(copy, {"x": f32(9, 8)}, {})).blocks == 2


def grid(x: Float[nl.Tensor, "a b c"]) -> Float[nl.Tensor, "a b c"]:
    out = nl.output(x.shape, x.dtype)
    for i in nl.parallel(x.shape[0]):
        for j in nl.parallel(x.shape[1], step=2):
            nl.store(out[i, j : j + 2, :], nl.load(x[i, j : j + 2, :]))
    return out


def test_nested_parallel_loops_become_one() -> None:
    program = lower(nl.trace(grid, {"x": f32(3, 5, 8)}, {}))
    assert program.units == 9
    assert sum(isinstance(s, Loop) for s in walk_statements(program.vector.statements)) == 1  # type: ignore[union-attr]


def chain(x: Float[nl.Tensor, "c"], y: Float[nl.Tensor, "c"]) -> Float[nl.Tensor, "c"]:
    out = nl.output(x.shape, x.dtype)
    a, b = nl.exp(nl.load(x)), nl.sqrt(nl.load(y))
    nl.store(out, a + b)
    return out


def test_barriers_stand_between_dependent_vector_instructions_only() -> None:
    program = lower(nl.trace(chain, {"x": f32(64), "y": f32(64)}, {}))
    marks = []
    for s in walk_statements(program.vector.statements):  # type: ignore[union-attr]
        if isinstance(s, Barrier):
            marks.append("barrier")
        elif isinstance(s, Instr) and s.pipe == "V":
            marks.append(s.api)
    assert marks == ["Exp", "Sqrt", "barrier", "Add"]


def eleven(x: Float[nl.Tensor, "n c"]) -> Float[nl.Tensor, "c"]:
    out = nl.output((x.shape[1],), x.dtype)
    tiles = [nl.load(x[i, :]) for i in range(11)]
    total = tiles[0]
    for tile in tiles[1:]:
        total = total + tile
    for tile in tiles:
        total = total * tile
    nl.store(out, total)
    return out


def test_more_streams_than_event_ids_go_through_plain_buffers() -> None:
    program = lower(nl.trace(eleven, {"x": f32(11, 64)}, {}))
    loads = [s for s in walk_statements(program.vector.statements) if isinstance(s, QueueOp) and s.action == "alloc"]  # type: ignore[union-attr]
    assert sum(s.buffer.position == "VECIN" for s in loads) == 7
    assert "MTE2_V" in generate(program).text


def attention(
    q: Float[nl.Tensor, "t h"], k: Float[nl.Tensor, "s h"], v: Float[nl.Tensor, "s h"]
) -> Float[nl.Tensor, "t h"]:
    out = nl.output(q.shape, q.dtype)
    for t in nl.parallel(q.shape[0], step=32):
        scores = nl.dot(nl.load(q[t : t + 32, :]), nl.load(k), transpose_b=True)
        weights = nl.exp(scores - nl.max(scores, axis=1, keepdims=True))
        nl.store(out[t : t + 32, :], nl.dot(weights, nl.load(v)) / nl.sum(weights, axis=1, keepdims=True))
    return out


def test_a_mixed_kernel_loads_operands_on_the_core_that_uses_them() -> None:
    program = lower(nl.trace(attention, {"q": f32(64, 16), "k": f32(48, 16), "v": f32(48, 16)}, {}))
    assert program.kernel_type == "MIX_AIC_1_2"
    assert "Mmad" in calls(program, "cube") and "Mmad" not in calls(program)
    text = generate(program).text
    vector = text[text.index("void ProcessVector()") : text.index("TPipe pipe;")]
    assert "qGm" not in vector and "kGm" not in vector and "vGm" not in vector


def test_the_vector_cores_share_the_rows_of_a_product() -> None:
    program = lower(nl.trace(attention, {"q": f32(64, 16), "k": f32(48, 16), "v": f32(48, 16)}, {}))
    exponential = next(s for s in walk_statements(program.vector.statements) if isinstance(s, Instr) and s.api == "Exp")  # type: ignore[union-attr]
    assert E.known(exponential.args[0]) == 16 * 48  # type: ignore[arg-type]


def steered(a: Float[nl.Tensor, "m m"], n: Int32[nl.Tensor, "one"]) -> Float[nl.Tensor, "m m"]:
    out = nl.output(a.shape, a.dtype)
    t = nl.load(a)
    p = t
    if nl.sum(nl.sum(t, axis=1), axis=0) > 0.0:
        p = nl.dot(t, t)
    nl.store(out, p)
    return out


def test_a_product_that_depends_on_tile_data_is_refused_at_its_line() -> None:
    kernel = nl.trace(steered, {"a": f32(16, 16), "n": ir.TensorType((1,), ir.int32)}, {})
    with pytest.raises(LoweringError, match="NPK-LW01") as refusal:
        lower(kernel)
    assert "compute the product unconditionally" in refusal.value.message
    assert refusal.value.location is not None and refusal.value.location.startswith(__file__)


def test_an_unknown_architecture_is_refused() -> None:
    with pytest.raises(LoweringError, match="use one of 2201"):
        arch_of("3510")


def test_expressions_fold_and_know_their_bounds() -> None:
    i = E.Name("i", "int64_t", 0, 9)
    assert E.known(E.add(E.integer(2), E.integer(3))) == 5
    assert E.bounds(E.sub(E.integer(100), E.mul(i, E.integer(8)))) == (28, 100)
    assert E.minimum(E.integer(8), E.sub(E.integer(100), E.mul(i, E.integer(8)))) == E.integer(8)
    assert E.floordiv(i, E.integer(64)) == E.integer(0)
    assert E.mod(E.Name("j", "int64_t"), E.integer(4)).op == "floormod"  # type: ignore[union-attr]
    assert E.compare("<", i, E.integer(10)) == E.Number(True, "bool")
    assert E.compare("!=", i, E.integer(10)) == E.Number(True, "bool")


def test_a_device_program_prints_what_each_core_does() -> None:
    lines = print_program(lower(nl.trace(copy, {"x": f32(64, 64)}, {}))).splitlines()
    assert lines[0] == "program copy AIV_ONLY units 8 blocks 8 {"
    assert "    queue VECIN x2 xQueue: 2048 B in UB for x" in lines
    assert "      V Exp out_tile[0], x[0], 512" in lines
    assert [line.strip() for line in lines if "enqueue" in line] == ["enqueue x", "enqueue out_tile"]


def long_rows(x: Float[nl.Tensor, "r c"]) -> Float[nl.Tensor, "r"]:
    out = nl.output((x.shape[0],), x.dtype)
    nl.store(out, nl.load(x[:, 1]))
    return out


def test_a_copy_of_more_rows_than_the_chip_encodes_is_refused() -> None:
    assert lower(nl.trace(long_rows, {"x": f32(4000, 2)}, {})).blocks == 1
    with pytest.raises(LoweringError, match="NPK-AL01: DataCopyPad would need 5,000") as refusal:
        lower(nl.trace(long_rows, {"x": f32(5000, 2)}, {}))
    assert refusal.value.location is not None and refusal.value.location.startswith(__file__)


def read_back(x: Float[nl.Tensor, "c"]) -> Float[nl.Tensor, "c"]:
    out = nl.output(x.shape, x.dtype)
    nl.store(out, nl.load(x))
    nl.store(out, nl.load(out) + 1.0)
    return out


def test_reading_an_output_back_is_refused() -> None:
    with pytest.raises((LoweringError, LanguageError), match="NPK-L"):
        lower(nl.trace(read_back, {"x": f32(64)}, {}))


def one_ragged_operand(x: Float[nl.Tensor, "r m"], y: Float[nl.Tensor, "k n"]) -> Float[nl.Tensor, "i m n"]:
    out = nl.output((3, x.shape[1], y.shape[1]), nl.float32)
    for r in nl.parallel(x.shape[0], step=16):
        nl.store(out[r // 16, :, :], nl.dot(nl.load(x[r : r + 16, :]).T, nl.load(y)))
    return out


def test_a_turned_float32_operand_that_ends_before_the_other_is_refused() -> None:
    with pytest.raises(LoweringError, match=r"NPK-LW01.*slice both operands by the same loop") as refusal:
        lower(nl.trace(one_ragged_operand, {"x": f32(33, 64), "y": f32(16, 8)}, {}))
    assert refusal.value.location is not None and refusal.value.location.startswith(__file__)


def test_operands_of_narrower_dtypes_may_end_apart() -> None:
    half = ir.TensorType((33, 64), ir.float16), ir.TensorType((16, 8), ir.float16)
    program = lower(nl.trace(one_ragged_operand, dict(zip(("x", "y"), half, strict=True)), {}))
    assert "Mmad" in calls(program, "cube")
