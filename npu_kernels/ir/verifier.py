"""Rules every tile kernel obeys; a breach is a fault of whoever built the IR."""

from __future__ import annotations

from ..errors import IRError
from .ops import (
    BINARY,
    PREDICATES,
    REDUCTIONS,
    ROUNDINGS,
    UNARY,
    Arange,
    Binary,
    Block,
    Broadcast,
    Cast,
    Compare,
    Constant,
    Dot,
    For,
    Full,
    If,
    Kernel,
    Load,
    Narrow,
    Op,
    Reduce,
    Reshape,
    Select,
    Store,
    Unary,
    Value,
)
from .types import ScalarType, TensorType, TileType, bfloat16, bool_, float16, float32, index, int32


def verify(kernel: Kernel) -> Kernel:
    """Returns ``kernel`` when it is well formed.

    Raises:
        IRError: NPK-IR01, with the operation, its line and the rule.
    """
    visible = set(kernel.inputs) | set(kernel.outputs)
    for tensor in visible:
        if not isinstance(tensor.type, TensorType):
            raise IRError("NPK-IR01", f"{kernel.name}: parameter {tensor.name} is not a tensor")
    _block(kernel.body, visible, parallel_ok=True)
    return kernel


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """NumPy's broadcast of capacities, or ``None`` when they do not fit."""
    rank = max((len(s) for s in shapes), default=0)
    result: list[int] = []
    for axis in range(1, rank + 1):
        sizes = {s[-axis] for s in shapes if len(s) >= axis} - {1}
        if len(sizes) > 1:
            return None
        result.append(sizes.pop() if sizes else 1)
    return tuple(reversed(result))


def _require(condition: bool, op: Op, rule: str) -> None:
    if not condition:
        raise IRError("NPK-IR01", f"{op.opcode}: {rule}", location=str(op.location))


def _block(block: Block, outer: set[Value], *, parallel_ok: bool) -> None:
    visible = outer | set(block.args)
    for op in block.ops:
        for operand in op.operands:
            _require(operand in visible, op, f"reads %{operand.name}, which is not defined here")
        _op(op, visible, parallel_ok)
        for value in op.defines:
            _require(value not in visible, op, f"defines %{value.name} a second time")
            _extents(op, value)
            visible.add(value)


def _extents(op: Op, value: Value) -> None:
    if not isinstance(value.type, TileType):
        _require(value.extents == (), op, "only tiles have extents")
        return
    _require(len(value.shape) in (1, 2), op, f"a tile has rank 1 or 2, not {len(value.shape)}")
    _require(value.dtype != index, op, "a tile cannot hold index values")
    _require(len(value.extents) == len(value.shape), op, "one extent per axis")
    for extent, size in zip(value.extents, value.shape, strict=True):
        if isinstance(extent, int):
            _require(0 <= extent <= size, op, f"extent {extent} exceeds the capacity {size}")
        else:
            _require(extent.type == ScalarType(index), op, "an extent is an index scalar")


def _elementwise(op: Op, result: Value, *operands: Value) -> None:
    _require(not any(v.is_tensor for v in operands), op, "a tensor is read by load only")
    shape = broadcast_shapes(*(v.shape for v in operands))
    _require(shape is not None, op, f"operands {[v.shape for v in operands]} do not broadcast")
    _require(result.shape == shape, op, f"result is {result.shape}, operands broadcast to {shape}")


def _slice(op: Load | Store, kept: tuple[int, ...]) -> None:
    _require(isinstance(op.tensor.type, TensorType), op, "slices a tensor")
    rank = len(op.tensor.shape)
    _require(len(op.starts) == len(op.sizes) == rank, op, "one start and one size per tensor axis")
    _require(all(s.type == ScalarType(index) for s in op.starts), op, "starts are index scalars")
    _require(kept == tuple(n for n in op.sizes if n is not None), op, "tile shape differs from the slice")


def _op(op: Op, visible: set[Value], parallel_ok: bool) -> None:
    match op:
        case Constant():
            _require(op.result.is_scalar, op, "a constant is a scalar")
        case Unary():
            _require(op.kind in UNARY, op, f"unknown {op.kind}")
            _elementwise(op, op.result, op.operand)
            _require(op.result.dtype == op.operand.dtype, op, "dtype changes")
            allowed = {"not": ("b",), "neg": ("f", "i", "x"), "abs": ("f", "i", "x")}.get(op.kind, ("f",))
            _require(op.operand.dtype.kind in allowed, op, f"{op.kind} of {op.operand.dtype}")
        case Binary():
            _require(op.kind in BINARY, op, f"unknown {op.kind}")
            _elementwise(op, op.result, op.lhs, op.rhs)
            _require(op.lhs.dtype == op.rhs.dtype == op.result.dtype, op, "operands differ in dtype")
            logical = op.kind in ("and", "or", "xor")
            _require((op.result.dtype == bool_) == logical, op, f"{op.kind} of {op.result.dtype}")
            if op.kind in ("floordiv", "mod"):
                _require(op.result.is_scalar, op, f"{op.kind} is for scalars")
                _require(op.result.dtype in (index, int32), op, f"{op.kind} of {op.result.dtype}")
        case Compare():
            _require(op.predicate in PREDICATES, op, f"unknown {op.predicate}")
            _elementwise(op, op.result, op.lhs, op.rhs)
            _require(op.lhs.dtype == op.rhs.dtype and op.result.dtype == bool_, op, "dtypes")
        case Select():
            _elementwise(op, op.result, op.condition, op.on_true, op.on_false)
            _require(op.condition.dtype == bool_, op, "condition is not bool")
            _require(op.on_true.dtype == op.on_false.dtype == op.result.dtype, op, "branches differ in dtype")
        case Cast():
            _require(op.rounding in ROUNDINGS, op, f"unknown rounding {op.rounding}")
            _elementwise(op, op.result, op.operand)
        case Full():
            _require(op.value.is_scalar and op.value.dtype == op.result.dtype, op, "value is not its scalar")
        case Arange():
            _require(op.start.is_scalar and op.start.dtype in (int32, index), op, "start is no integer scalar")
            _require(
                op.result.dtype == int32 and len(op.result.shape) == 1,
                op,
                "result is not a rank-1 int32 tile",
            )
        case Reshape():
            squeezed = [tuple(n for n in v.shape if n != 1) for v in (op.operand, op.result)]
            _require(squeezed[0] == squeezed[1], op, f"{op.operand.shape} to {op.result.shape}")
            _require(op.operand.dtype == op.result.dtype, op, "dtype changes")
        case Broadcast():
            _require(broadcast_shapes(op.operand.shape, op.result.shape) == op.result.shape, op, "does not fit")
            _require(op.operand.dtype == op.result.dtype, op, "dtype changes")
        case Narrow():
            _require(op.operand.type == op.result.type, op, "type changes")
        case Reduce():
            _require(op.kind in REDUCTIONS, op, f"unknown {op.kind}")
            shape = op.operand.shape
            _require(op.operand.is_tile and 0 <= op.axis < len(shape), op, f"axis {op.axis} of {shape}")
            kept = (*shape[: op.axis], *((1,) if op.keepdims else ()), *shape[op.axis + 1 :])
            _require(op.result.shape == kept, op, f"result is {op.result.shape}, expected {kept}")
            _require(op.operand.dtype.is_float and op.result.dtype == op.operand.dtype, op, "floats only")
        case Dot():
            _require(len(op.a.shape) == len(op.b.shape) == 2, op, "operands have rank 2")
            m, k = reversed(op.a.shape) if op.transpose_a else op.a.shape
            k2, n = reversed(op.b.shape) if op.transpose_b else op.b.shape
            _require(k == k2, op, f"contracts {k} with {k2}")
            _require(op.a.dtype == op.b.dtype and op.a.dtype in (float32, float16, bfloat16), op, "dtypes")
            _require(op.result.type == TileType((m, n), float32), op, f"result is {op.result.type}")
            if op.accumulator is not None:
                _require(op.accumulator.type == op.result.type, op, "accumulator differs from the result")
        case Load():
            _require(op.result.dtype == op.tensor.dtype, op, "dtype changes")
            _slice(op, op.result.shape)
        case Store():
            _require(op.value.dtype == op.tensor.dtype, op, "dtype changes")
            _slice(op, op.value.shape)
            _require(len(op.extents) == len(op.value.shape), op, "one extent per kept axis")
        case For():
            _for(op, visible, parallel_ok)
        case If():
            _require(op.condition.type == ScalarType(bool_), op, "condition is not a bool scalar")
            for block in op.blocks:
                _block(block, visible, parallel_ok=False)
                _yields(op, block, op.results, visible)
        case _:
            raise IRError("NPK-IR01", f"unknown operation {type(op).__name__}")


def _for(op: For, visible: set[Value], parallel_ok: bool) -> None:
    _require(op.step > 0, op, f"step {op.step} is not positive")
    _require(all(v.type == ScalarType(index) for v in (op.start, op.stop)), op, "bounds are index scalars")
    _require(len(op.body.args) == 1 + len(op.inits), op, "one body argument per carried value")
    if op.kind == "parallel":
        _require(parallel_ok, op, "a parallel loop stands at the top or directly inside another one")
        _require(not op.inits, op, "a parallel loop carries nothing")
    for init, arg in zip(op.inits, op.body.args[1:], strict=True):
        _require(init.type == arg.type, op, f"carries {init.type} as {arg.type}")
    _block(op.body, visible, parallel_ok=parallel_ok and op.kind == "parallel")
    _yields(op, op.body, op.results, visible)


def _yields(op: Op, block: Block, results: tuple[Value, ...], visible: set[Value]) -> None:
    inner = visible | set(block.args) | {v for o in block.ops for v in o.defines}
    _require(len(block.yields) == len(results), op, f"yields {len(block.yields)} values for {len(results)} results")
    for value, result in zip(block.yields, results, strict=True):
        _require(value in inner, op, f"yields %{value.name}, which is not defined there")
        _require(value.type == result.type, op, f"yields {value.type} for {result.type}")
