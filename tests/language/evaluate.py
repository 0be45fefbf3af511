"""Executes tile IR on NumPy, operation by operation, extents as the IR has them.

It judges the tracer without any lowering: what a kernel traces to must compute what its body computes eagerly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npu_kernels import ir

Array = np.ndarray[Any, Any]

_UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "tanh": np.tanh,
    "abs": np.abs,
    "not": np.logical_not,
}
_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}
_COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_ROUND: dict[str, Callable[[Array], Array]] = {
    "rint": np.rint,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": lambda x: np.trunc(x + np.copysign(0.5, x)),
}


def evaluate(kernel: ir.Kernel, arrays: dict[str, Array]) -> tuple[Array, ...]:
    """The outputs of a kernel, NaN or the smallest integer where nothing was stored.

    Tiles are full capacity; what lies beyond an extent is poisoned after each operation, so that a use of it shows.
    """
    run = _Run()
    for value in kernel.inputs:
        run.values[value] = arrays[value.name]
    for value in kernel.outputs:
        run.values[value] = np.full(value.shape, _poison(value.dtype), value.dtype.numpy)
    with np.errstate(all="ignore"):
        run.block(kernel.body)
    return tuple(run.values[value] for value in kernel.outputs)


def _poison(dtype: ir.DType) -> Any:
    return np.nan if dtype.is_float else True if dtype == ir.bool_ else np.iinfo(dtype.numpy).min


class _Run:
    def __init__(self) -> None:
        self.values: dict[ir.Value, Array] = {}

    def get(self, value: ir.Value) -> Array:
        return self.values[value]

    def extents(self, value: ir.Value) -> tuple[int, ...]:
        return tuple(e if isinstance(e, int) else int(self.get(e)) for e in value.extents)

    def valid(self, value: ir.Value) -> Array:
        return self.get(value)[tuple(slice(0, e) for e in self.extents(value))]

    def set(self, value: ir.Value, data: Any) -> None:
        """Stores a result at its capacity, poisoned beyond its extents."""
        held = np.asarray(data)
        if value.is_tile:
            extents = self.extents(value)
            full = np.full(value.shape, _poison(value.dtype), value.dtype.numpy)
            part = tuple(slice(0, e) for e in extents)
            full[part] = np.broadcast_to(held, value.shape)[part].astype(value.dtype.numpy)
            held = full
        self.values[value] = held.astype(value.dtype.numpy)

    def wide(self, value: ir.Value) -> Array:
        data = self.get(value)
        return data.astype(np.float32) if value.dtype in (ir.float16, ir.bfloat16) else data

    def block(self, block: ir.Block) -> None:
        for op in block.ops:
            self.op(op)

    def op(self, op: ir.Op) -> None:
        match op:
            case ir.Constant():
                self.set(op.result, np.array(op.value))
            case ir.Unary():
                data = self.wide(op.operand)
                # As accurate as the interpreter's: evaluated in float64 where the result is not exact.
                exact = op.kind in ("neg", "abs", "not", "sqrt")
                self.set(op.result, _UNARY[op.kind](data if exact else data.astype(np.float64)).astype(data.dtype))
            case ir.Binary():
                self.set(op.result, _BINARY[op.kind](self.wide(op.lhs), self.wide(op.rhs)))
            case ir.Compare():
                self.set(op.result, _COMPARE[op.predicate](self.wide(op.lhs), self.wide(op.rhs)))
            case ir.Select():
                self.set(op.result, np.where(self.get(op.condition), self.get(op.on_true), self.get(op.on_false)))
            case ir.Cast():
                self.cast(op)
            case ir.Full():
                self.set(op.result, self.get(op.value))
            case ir.Arange():
                self.set(op.result, np.arange(op.result.shape[0]) + self.get(op.start))
            case ir.Reshape():
                self.set(op.result, self.get(op.operand).reshape(op.result.shape))
            case ir.Broadcast() | ir.Narrow():
                self.set(op.result, self.get(op.operand))
            case ir.Reduce():
                data = getattr(np, op.kind)(self.valid(op.operand), axis=op.axis, keepdims=op.keepdims)
                self.set(op.result, self.padded(data, op.result))
            case ir.Dot():
                self.dot(op)
            case ir.Load():
                part = self.get(op.tensor)[self.place(op.starts, op.sizes, self.extents(op.result))]
                self.set(op.result, self.padded(part, op.result))
            case ir.Store():
                extents = tuple(e if isinstance(e, int) else int(self.get(e)) for e in op.extents)
                part = tuple(slice(0, e) for e in extents)
                self.get(op.tensor)[self.place(op.starts, op.sizes, extents)] = self.get(op.value)[part]
            case ir.For():
                self.loop(op)
            case ir.If():
                taken = op.then if self.get(op.condition) else op.orelse
                self.block(taken)
                for result, value in zip(op.results, taken.yields, strict=True):
                    self.set(result, self.get(value))
            case _:
                raise TypeError(type(op).__name__)

    def padded(self, data: Array, value: ir.Value) -> Array:
        if not value.is_tile:
            return data
        full = np.zeros(value.shape, data.dtype)
        full[tuple(slice(0, n) for n in data.shape)] = data
        return full

    def cast(self, op: ir.Cast) -> None:
        data, target = self.get(op.operand), op.result.dtype
        if target == ir.bool_:
            self.set(op.result, data != 0)
        elif op.operand.dtype.is_float and not target.is_float:
            whole = np.nan_to_num(
                _ROUND[op.rounding](data.astype(np.float64)), nan=0.0, posinf=2.0**31, neginf=-(2.0**31)
            )
            self.set(op.result, np.clip(whole, -(2.0**31), 2.0**31 - 1))
        elif target.is_float and op.rounding != "rint":
            self.set(op.result, _directed(data.astype(np.float64), target, op.rounding))
        else:
            self.set(op.result, data)

    def dot(self, op: ir.Dot) -> None:
        # Summed in float64 and rounded once, so that the order of a BLAS does not matter.
        a, b = self.valid(op.a).astype(np.float64), self.valid(op.b).astype(np.float64)
        a, b = (a.T if op.transpose_a else a), (b.T if op.transpose_b else b)
        common = min(a.shape[1], b.shape[0])
        product = self.padded((a[:, :common] @ b[:common]).astype(np.float32), op.result)
        self.set(op.result, product + (0 if op.accumulator is None else self.get(op.accumulator)))

    def place(
        self, starts: tuple[ir.Value, ...], sizes: tuple[int | None, ...], extents: tuple[int, ...]
    ) -> tuple[int | slice, ...]:
        kept = iter(extents)
        items: list[int | slice] = []
        for start, size in zip(starts, sizes, strict=True):
            first = int(self.get(start))
            assert first >= 0
            items.append(first if size is None else slice(first, first + next(kept)))
        return tuple(items)

    def loop(self, op: ir.For) -> None:
        state = [self.get(v) for v in op.inits]
        for at in range(int(self.get(op.start)), int(self.get(op.stop)), op.step):
            self.values[op.body.args[0]] = np.array(at)
            for arg, data in zip(op.body.args[1:], state, strict=True):
                self.set(arg, data)
            self.block(op.body)
            state = [self.get(v) for v in op.body.yields]
        for result, data in zip(op.results, state, strict=True):
            self.set(result, data)


def _directed(exact: Array, target: ir.DType, rounding: str) -> Array:
    """Rounding towards a side, by a search among the neighbours of the nearest value."""
    near = exact.astype(np.float32).astype(target.numpy)
    steps = [near, *(np.nextafter(near, np.array(side, target.numpy)) for side in (-np.inf, np.inf))]
    values = np.stack([s.astype(np.float64) for s in steps])
    below = np.max(np.where(values <= exact, values, -np.inf), axis=0)
    above = np.min(np.where(values >= exact, values, np.inf), axis=0)
    match rounding:
        case "floor":
            picked = below
        case "ceil":
            picked = above
        case "trunc":
            picked = np.where(exact < 0, above, below)
        case _:
            away = np.where(exact < 0, below, above)
            gap = (exact - below) - (above - exact)
            picked = np.where(gap == 0, away, np.where(gap < 0, below, above))
    return np.where(np.isnan(exact), np.nan, picked)
