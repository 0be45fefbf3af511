"""Every buffer gets memory of its own for as long as it lives, and what does not fit is refused with a table."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from jaxtyping import Float

import npu_kernels.language as nl
from npu_kernels import ir
from npu_kernels.errors import LoweringError
from npu_kernels.ir.device import (
    Declare,
    Instr,
    Program,
    QueueOp,
    Section,
    Stmt,
    walk_statements,
)
from npu_kernels.lowering import lower
from npu_kernels.lowering.arch import A2
from npu_kernels.lowering.layout import Layout, kind_of
from npu_kernels.lowering.liveness import Liveness

from . import kernels as K


def traced(kernel: Any, *shapes: tuple[tuple[int, ...], ir.DType], **statics: object) -> ir.Kernel:
    """The tile IR of a decorated kernel."""
    import jax

    specs = [jax.ShapeDtypeStruct(shape, dtype.numpy) for shape, dtype in shapes]
    made: ir.Kernel = kernel.lower(*specs, **statics).ir
    return made


F32, F16 = ir.float32, ir.float16
CASES = {
    "elementwise": lambda: traced(K.elementwise, ((5, 33), F32), ((5, 33), F32), ((33,), F32), ((5, 1), F32), step=2),
    "halves": lambda: traced(K.elementwise, ((9, 72), F16), ((9, 72), F16), ((72,), F16), ((9, 1), F16), step=4),
    "reductions": lambda: traced(K.reductions, ((9, 72), F32), step=4, width=40),
    "control": lambda: traced(K.control, ((7, 37), F32), ((7,), ir.int32)),
    "products": lambda: traced(
        K.products, ((40, 72), F32), ((72, 24), F32), ((72, 40), F32), ((24, 72), F32), step=16, depth=32
    ),
}


@pytest.fixture(scope="module", params=sorted(CASES))
def program(request: pytest.FixtureRequest) -> Program:
    return lower(CASES[request.param]())


def test_buffers_that_share_memory_never_live_at_once(program: Program) -> None:
    for section in program.sections:
        liveness = Liveness(section.statements)
        for storage in section.storages:
            lives = sorted((liveness.lives[b] for b in storage.tenants), key=lambda life: life.start)
            for before, after in itertools.pairwise(lives):
                shared = before.end == after.start and storage.depth == 0
                assert before.end < after.start or shared, f"{before.buffer.name} and {after.buffer.name}"


def test_a_buffer_taken_over_in_one_instruction_is_read_in_place(program: Program) -> None:
    for section in program.sections:
        liveness = Liveness(section.statements)
        for storage in section.storages:
            lives = sorted((liveness.lives[b] for b in storage.tenants), key=lambda life: life.start)
            for before, after in itertools.pairwise(lives):
                if before.end < after.start:
                    continue
                for statement in liveness.at[after.start]:
                    if isinstance(statement, Instr):
                        taken = [i for i, s in enumerate(statement.sources) if s.base is before.buffer]
                        assert taken and set(taken) <= set(statement.inplace)


def test_storage_is_large_enough_and_memories_hold_it(program: Program) -> None:
    for section in program.sections:
        for storage in section.storages:
            assert all(b.nbytes <= storage.nbytes and b.memory == storage.memory for b in storage.tenants)
    for memory, used in program.memory_use().items():
        assert used <= A2.capacity[memory]


@pytest.mark.parametrize(
    ("positions", "events"),
    [
        (("VECIN",), {"MTE2_V", "V_MTE2"}),
        (("VECOUT",), {"V_MTE3", "MTE3_V"}),
        (("A1", "B1"), {"MTE2_MTE1", "MTE1_MTE2"}),
        (("A2", "B2"), {"MTE1_M", "M_MTE1"}),
        (("CO1",), {"M_FIX", "FIX_M"}),
    ],
)
def test_event_ids_of_queues_and_of_explicit_events_stay_within_the_chips(
    program: Program, positions: tuple[str, ...], events: set[str]
) -> None:
    for section in program.sections:
        queues = sum(s.depth for s in section.storages if s.position in positions)
        assert queues + bool(events & set(section.events)) <= A2.queue_events


def test_queue_buffers_are_allocated_passed_on_and_freed_in_turn(program: Program) -> None:
    for section in program.sections:
        state: dict[Any, str] = {}
        order = {"alloc": "free", "enqueue": "alloc", "dequeue": "enqueue", "free": "dequeue"}
        for statement in walk_statements(section.statements):
            if isinstance(statement, QueueOp):
                assert state.get(statement.buffer, "free") == order[statement.action]
                state[statement.buffer] = statement.action
        assert set(state.values()) <= {"free"}


def test_everything_used_is_declared_before(program: Program) -> None:
    for section in program.sections:
        _declared(section, section.statements, set())


def _declared(section: Section, statements: list[Stmt], outer: set[Any]) -> None:
    known = set(outer)
    for statement in statements:
        if isinstance(statement, Declare) or (isinstance(statement, QueueOp) and statement.action == "alloc"):
            known.add(statement.buffer)
        assert {*statement.reads(), *statement.writes()} <= known
        for body in statement.bodies:
            _declared(section, body, known)


def greedy(x: Float[nl.Tensor, "r c"], *, step: int) -> Float[nl.Tensor, "r c"]:
    rows, _cols = x.shape
    out = nl.output(x.shape, x.dtype)
    for r in nl.parallel(rows, step=step):
        a = nl.load(x[r : r + step, :])
        b = nl.exp(a)
        nl.store(out[r : r + step, :], a / b + nl.sqrt(b))  # all alive at once
    return out


def test_tiles_over_budget_are_refused_with_the_table_of_buffers() -> None:
    kernel = nl.trace(greedy, {"x": ir.TensorType((64, 4096), F32)}, {"step": 32})
    with pytest.raises(LoweringError) as refusal:
        lower(kernel)
    assert refusal.value.code == "NPK-UB01"
    lines = refusal.value.message.splitlines()
    assert lines[0].startswith("UB: greedy needs ") and "of 188,160 B" in lines[0] and "fewer rows" in lines[0]
    assert any("524,288 B  a " in line for line in lines[1:])
    assert all(f"{__file__}:" in line for line in lines[1:])
    assert refusal.value.location is not None and refusal.value.location.startswith(__file__)


def test_double_buffers_are_given_up_before_a_kernel_is_refused() -> None:
    small = lower(nl.trace(greedy, {"x": ir.TensorType((64, 1024), F32)}, {"step": 4}))
    large = lower(nl.trace(greedy, {"x": ir.TensorType((64, 1024), F32)}, {"step": 11}))
    assert {s.depth for s in small.vector.storages if s.depth} == {2}  # type: ignore[union-attr]
    assert {s.depth for s in large.vector.storages if s.depth} == {1}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("shape", "granule", "layout"),
    [
        ((1,), 8, (1, 1, 64, 64)),
        ((100,), 8, (1, 100, 128, 128)),
        ((5, 33), 8, (5, 33, 40, 256)),
        ((5, 33), 32, (5, 33, 64, 320)),
        ((7, 1), 16, (1, 7, 64, 64)),
        ((8, 64), 8, (8, 64, 64, 512)),
    ],
)
def test_layouts_pad_rows_to_blocks_and_tiles_to_compares(
    shape: tuple[int, ...], granule: int, layout: tuple[int, ...]
) -> None:
    made = Layout.of(shape, granule)
    assert (made.rows, made.cols, made.pitch, made.size) == layout


def test_operands_span_a_result_as_a_whole_a_row_a_column_or_one() -> None:
    spans = {s: kind_of(s, (4, 8)) for s in ((4, 8), (1, 8), (8,), (4, 1), (1, 1), (1,))}
    assert spans == {(4, 8): "full", (1, 8): "row", (8,): "row", (4, 1): "column", (1, 1): "one", (1,): "one"}
