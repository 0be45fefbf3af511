"""The tile IR: what the builder infers, what the printer says, what the verifier refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from npu_kernels import ir
from npu_kernels.errors import IRError

HERE = ir.Location("kernel.py", 7, "body")


def tensor(name: str, *shape: int, dtype: ir.DType = ir.float32) -> ir.Value:
    return ir.Value(ir.TensorType(shape, dtype), name)


class Fixture:
    """A kernel with inputs x [20, 64], w [64] and an output of x's shape, open for building."""

    def __init__(self) -> None:
        self.b = ir.Builder(HERE)
        self.x, self.w, self.out = tensor("x", 20, 64), tensor("w", 64), tensor("out", 20, 64)
        self.zero = self.b.constant(0, ir.index)

    def rows(self, start: ir.Value, n: int = 8, extent: int | ir.Value = 8) -> ir.Value:
        return self.b.load(self.x, (start, self.zero), (n, 64), (extent, 64))

    def kernel(self) -> ir.Kernel:
        return ir.Kernel("k", [self.x, self.w], [self.out], self.b.block, HERE)


@pytest.fixture
def f() -> Fixture:
    return Fixture()


def test_dtype_of_maps_numpy_dtypes_and_nothing_else() -> None:
    import ml_dtypes
    import numpy as np

    assert ir.dtype_of(np.dtype(np.float32)) is ir.float32
    assert ir.dtype_of(np.dtype(ml_dtypes.bfloat16)) is ir.bfloat16
    assert ir.dtype_of(np.dtype(np.float64)) is None
    assert all(d.numpy.itemsize == d.itemsize for d in ir.DTYPES)


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([(8, 64), (64,)], (8, 64)),
        ([(8, 1), (1, 64)], (8, 64)),
        ([(8, 64), ()], (8, 64)),
        ([(), ()], ()),
        ([(8, 64), (8, 32)], None),
        ([(8,), (8, 64)], None),
    ],
)
def test_capacities_broadcast_as_numpy_shapes_do(shapes: list[tuple[int, ...]], expected: object) -> None:
    assert ir.broadcast_shapes(*shapes) == expected


def test_elementwise_takes_the_smaller_extent(f: Fixture) -> None:
    extent = f.b.binary("minimum", f.b.constant(8, ir.index), f.b.constant(4, ir.index))
    ragged, whole = f.rows(f.zero, extent=extent), f.b.full((8, 64), f.b.constant(1.0, ir.float32))
    assert f.b.binary("add", whole, ragged).extents == (extent, 64)
    assert f.b.binary("add", f.rows(f.zero, extent=3), f.rows(f.zero, extent=5)).extents == (3, 64)
    ir.verify(f.kernel())


def test_two_traced_extents_join_in_their_minimum(f: Fixture) -> None:
    first, second = (f.b.binary("minimum", f.b.constant(8, ir.index), f.zero) for _ in range(2))
    joined = f.b.binary("mul", f.rows(f.zero, extent=first), f.rows(f.zero, extent=second)).extents[0]
    assert isinstance(joined, ir.Value)
    made_by = next(op for op in f.b.block.ops if joined in op.defines)
    assert isinstance(made_by, ir.Binary) and (made_by.kind, made_by.lhs, made_by.rhs) == ("minimum", first, second)


def test_a_broadcast_axis_brings_no_extent(f: Fixture) -> None:
    column = f.b.reduce("sum", f.rows(f.zero, extent=5), 1, keepdims=True)
    assert (column.shape, column.extents) == ((8, 1), (5, 1))
    row = f.b.load(f.w, (f.zero,), (64,), (64,))
    assert f.b.binary("mul", column, row).extents == (5, 64)


def test_reduce_drops_or_keeps_the_axis(f: Fixture) -> None:
    t = f.rows(f.zero, extent=5)
    assert f.b.reduce("max", t, 0, keepdims=False).type == ir.TileType((64,), ir.float32)
    flat = f.b.reduce("sum", t, 1, keepdims=False)
    assert (flat.shape, flat.extents) == ((8,), (5,))
    assert f.b.reduce("sum", flat, 0, keepdims=False).type == ir.ScalarType(ir.float32)
    ir.verify(f.kernel())


def test_reshape_moves_extents_with_their_axis(f: Fixture) -> None:
    flat = f.b.reduce("sum", f.rows(f.zero, extent=5), 1, keepdims=False)
    assert f.b.reshape(flat, (8, 1)).extents == (5, 1)
    assert f.b.reshape(flat, (1, 8)).extents == (1, 5)


def test_dot_takes_rows_of_a_and_columns_of_b(f: Fixture) -> None:
    q, k = f.rows(f.zero, extent=5), f.rows(f.zero, n=16, extent=11)
    s = f.b.dot(q, k, None, transpose_a=False, transpose_b=True)
    assert (s.shape, s.extents, s.dtype) == ((8, 16), (5, 11), ir.float32)
    ir.verify(f.kernel())


def test_printer_names_values_after_python_and_shows_ragged_extents(f: Fixture) -> None:
    body = ir.Block([ir.Value(ir.ScalarType(ir.index), "r")])
    with f.b.into(body):
        left = f.b.binary("sub", f.b.constant(20, ir.index, "rows"), body.args[0])
        extent = f.b.binary("minimum", f.b.constant(8, ir.index), left)
        f.b.store(f.out, f.rows(body.args[0], extent=extent), (body.args[0], f.zero), (8, 64), (extent, 64))
    f.b.for_("parallel", f.zero, f.b.constant(20, ir.index, "rows"), 8, (), body, ())
    text = ir.print_kernel(ir.verify(f.kernel()), locations=True)
    assert text.splitlines() == [
        "kernel k(%x: tensor<20x64xf32>, %w: tensor<64xf32>) -> (%out: tensor<20x64xf32>) {",
        "  %c = constant 0 : index  // kernel.py:7",
        "  %rows = constant 20 : index  // kernel.py:7",
        "  parallel %r = %c to %rows step 8 {  // kernel.py:7",
        "    %rows_2 = constant 20 : index  // kernel.py:7",
        "    %sub = sub %rows_2, %r : index  // kernel.py:7",
        "    %c_2 = constant 8 : index  // kernel.py:7",
        "    %minimum = minimum %c_2, %sub : index  // kernel.py:7",
        "    %x_2 = load %x[%r:+8, %c:+64] : tile<8x64xf32> extents [%minimum, 64]  // kernel.py:7",
        "    store %out[%r:+8, %c:+64] <- %x_2 extents [%minimum, 64]  // kernel.py:7",
        "  }",
        "}",
    ]


def _undefined_operand(f: Fixture) -> None:
    stray = ir.Value(ir.ScalarType(ir.float32), "stray")
    f.b.binary("add", stray, stray)


def _value_of_a_loop_used_outside(f: Fixture) -> None:
    body = ir.Block([ir.Value(ir.ScalarType(ir.index), "r")])
    with f.b.into(body):
        inside = f.b.binary("add", body.args[0], f.zero)
    f.b.for_("range", f.zero, f.b.constant(4, ir.index), 1, (), body, ())
    f.b.binary("add", inside, f.zero)


def _mixed_dtypes(f: Fixture) -> None:
    f.b.binary("add", f.zero, f.b.constant(1.0, ir.float32))


def _exp_of_an_integer(f: Fixture) -> None:
    f.b.unary("exp", f.b.constant(1, ir.int32))


def _logical_and_of_floats(f: Fixture) -> None:
    one = f.b.constant(1.0, ir.float32)
    f.b.binary("and", one, one)


def _store_of_another_dtype(f: Fixture) -> None:
    tile = f.b.cast(f.rows(f.zero), ir.float16, "rint")
    f.b.store(f.out, tile, (f.zero, f.zero), (8, 64), (8, 64))


def _reduction_of_integers(f: Fixture) -> None:
    f.b.reduce("sum", f.b.arange(f.zero, 8), 0, keepdims=False)


def _extent_beyond_the_capacity(f: Fixture) -> None:
    f.rows(f.zero, extent=9)


def _parallel_loop_inside_a_sequential_one(f: Fixture) -> None:
    outer = ir.Block([ir.Value(ir.ScalarType(ir.index), "i")])
    inner = ir.Block([ir.Value(ir.ScalarType(ir.index), "j")])
    four = f.b.constant(4, ir.index)
    with f.b.into(outer):
        f.b.for_("parallel", f.zero, four, 1, (), inner, ())
    f.b.for_("range", f.zero, four, 1, (), outer, ())


def _yield_of_another_type(f: Fixture) -> None:
    init = f.b.constant(0.0, ir.float32)
    carried = ir.Value(ir.ScalarType(ir.float32), "acc")
    body = ir.Block([ir.Value(ir.ScalarType(ir.index), "i"), carried], yields=(f.zero,))
    f.b.for_("range", f.zero, f.zero, 1, (init,), body, (ir.Value(ir.ScalarType(ir.float32), "acc"),))


def _dot_of_different_depths(f: Fixture) -> None:
    f.b.dot(f.rows(f.zero), f.rows(f.zero), None, transpose_a=False, transpose_b=False)


@pytest.mark.parametrize(
    ("build", "rule"),
    [
        (_undefined_operand, "not defined here"),
        (_value_of_a_loop_used_outside, "not defined here"),
        (_mixed_dtypes, "operands differ in dtype"),
        (_exp_of_an_integer, "exp of int32"),
        (_logical_and_of_floats, "and of float32"),
        (_store_of_another_dtype, "dtype changes"),
        (_reduction_of_integers, "floats only"),
        (_extent_beyond_the_capacity, "extent 9 exceeds the capacity 8"),
        (_parallel_loop_inside_a_sequential_one, "directly inside another"),
        (_yield_of_another_type, "yields index for f32"),
        (_dot_of_different_depths, "contracts 64 with 8"),
    ],
)
def test_verifier_refuses(f: Fixture, build: Callable[[Fixture], None], rule: str) -> None:
    build(f)
    with pytest.raises(IRError, match=rule) as caught:
        ir.verify(f.kernel())
    assert caught.value.code == "NPK-IR01"
    assert caught.value.location == "kernel.py:7"
