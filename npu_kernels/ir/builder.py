"""Builds tile IR: one method per operation, which works out the result's type and extents."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from .ops import (
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
    Load,
    Location,
    Narrow,
    Op,
    Reduce,
    Reshape,
    Select,
    Store,
    Unary,
    Value,
)
from .types import DType, ScalarType, TileType, Type, bool_, float32, index, int32
from .verifier import broadcast_shapes


class Builder:
    """Appends operations to the current block.

    ``location`` is set by the caller before each operation; results are named by assigning ``Value.name``.
    Operands are assumed legal: the language checks them and reports at the author's line, the verifier is the backstop.
    """

    def __init__(self, location: Location) -> None:
        self.location = location
        self.block = Block()

    @contextmanager
    def into(self, block: Block) -> Iterator[Block]:
        """Operations inside the ``with`` go to ``block``."""
        outer, self.block = self.block, block
        try:
            yield block
        finally:
            self.block = outer

    def _add(self, op: Op) -> None:
        self.block.ops.append(op)

    def constant(self, value: bool | int | float, dtype: DType, name: str = "c") -> Value:
        result = Value(ScalarType(dtype), name)
        self._add(Constant(value=value, result=result, location=self.location))
        return result

    def unary(self, kind: str, operand: Value) -> Value:
        result = self._like(operand.dtype, kind, operand)
        self._add(Unary(kind=kind, operand=operand, result=result, location=self.location))
        return result

    def binary(self, kind: str, lhs: Value, rhs: Value) -> Value:
        result = self._like(lhs.dtype, kind, lhs, rhs)
        self._add(Binary(kind=kind, lhs=lhs, rhs=rhs, result=result, location=self.location))
        return result

    def compare(self, predicate: str, lhs: Value, rhs: Value) -> Value:
        result = self._like(bool_, predicate, lhs, rhs)
        self._add(Compare(predicate=predicate, lhs=lhs, rhs=rhs, result=result, location=self.location))
        return result

    def select(self, condition: Value, on_true: Value, on_false: Value) -> Value:
        result = self._like(on_true.dtype, "select", condition, on_true, on_false)
        self._add(
            Select(condition=condition, on_true=on_true, on_false=on_false, result=result, location=self.location)
        )
        return result

    def cast(self, operand: Value, dtype: DType, rounding: str) -> Value:
        result = self._like(dtype, operand.name or "cast", operand)
        self._add(Cast(operand=operand, rounding=rounding, result=result, location=self.location))
        return result

    def full(self, shape: tuple[int, ...], value: Value) -> Value:
        result = Value(TileType(shape, value.dtype), "full", shape)
        self._add(Full(value=value, result=result, location=self.location))
        return result

    def arange(self, start: Value, size: int) -> Value:
        result = Value(TileType((size,), int32), "arange", (size,))
        self._add(Arange(start=start, result=result, location=self.location))
        return result

    def reshape(self, operand: Value, shape: tuple[int, ...]) -> Value:
        """``shape`` has the operand's axes with ones added or dropped."""
        kept = [e for e, n in zip(operand.extents, operand.shape, strict=True) if n != 1]
        extents = tuple(kept.pop(0) if n != 1 else 1 for n in shape)
        result = Value(TileType(shape, operand.dtype), operand.name, extents)
        self._add(Reshape(operand=operand, result=result, location=self.location))
        return result

    def broadcast(self, operand: Value, shape: tuple[int, ...]) -> Value:
        padded = ((1,) * (len(shape) - len(operand.shape)) + operand.shape) if operand.shape else (1,) * len(shape)
        held = (1,) * (len(shape) - len(operand.extents)) + operand.extents
        extents = tuple(e if p == n else n for e, p, n in zip(held, padded, shape, strict=True))
        result = Value(TileType(shape, operand.dtype), operand.name, extents)
        self._add(Broadcast(operand=operand, result=result, location=self.location))
        return result

    def narrow(self, operand: Value, extents: tuple[int | Value, ...]) -> Value:
        result = Value(operand.type, operand.name, extents)
        self._add(Narrow(operand=operand, result=result, location=self.location))
        return result

    def reduce(self, kind: str, operand: Value, axis: int, keepdims: bool) -> Value:
        shape, held = operand.shape, operand.extents
        mid = (1,) if keepdims else ()
        new_shape = (*shape[:axis], *mid, *shape[axis + 1 :])
        new_type: Type = TileType(new_shape, operand.dtype) if new_shape else ScalarType(operand.dtype)
        result = Value(new_type, kind, (*held[:axis], *mid, *held[axis + 1 :]) if new_shape else ())
        self._add(
            Reduce(
                kind=kind,
                operand=operand,
                axis=axis,
                keepdims=keepdims,
                result=result,
                location=self.location,
            )
        )
        return result

    def dot(self, a: Value, b: Value, accumulator: Value | None, transpose_a: bool, transpose_b: bool) -> Value:
        m_axis, n_axis = (1 if transpose_a else 0), (0 if transpose_b else 1)
        shape = (a.shape[m_axis], b.shape[n_axis])
        result = Value(TileType(shape, float32), "dot", (a.extents[m_axis], b.extents[n_axis]))
        self._add(
            Dot(
                a=a,
                b=b,
                accumulator=accumulator,
                transpose_a=transpose_a,
                transpose_b=transpose_b,
                result=result,
                location=self.location,
            )
        )
        return result

    def load(
        self,
        tensor: Value,
        starts: tuple[Value, ...],
        sizes: tuple[int | None, ...],
        extents: tuple[int | Value, ...],
    ) -> Value:
        shape = tuple(n for n in sizes if n is not None)
        kind: Type = TileType(shape, tensor.dtype) if shape else ScalarType(tensor.dtype)
        result = Value(kind, tensor.name, extents if shape else ())
        self._add(Load(tensor=tensor, starts=starts, sizes=sizes, result=result, location=self.location))
        return result

    def store(
        self,
        tensor: Value,
        value: Value,
        starts: tuple[Value, ...],
        sizes: tuple[int | None, ...],
        extents: tuple[int | Value, ...],
    ) -> None:
        self._add(
            Store(
                tensor=tensor,
                value=value,
                starts=starts,
                sizes=sizes,
                extents=extents,
                location=self.location,
            )
        )

    def for_(
        self,
        kind: Literal["parallel", "range"],
        start: Value,
        stop: Value,
        step: int,
        inits: tuple[Value, ...],
        body: Block,
        results: tuple[Value, ...],
        *,
        pipelined: bool = True,
    ) -> For:
        op = For(
            kind=kind,
            start=start,
            stop=stop,
            step=step,
            inits=inits,
            body=body,
            results=results,
            pipelined=pipelined,
            location=self.location,
        )
        self._add(op)
        return op

    def if_(self, condition: Value, then: Block, orelse: Block, results: tuple[Value, ...]) -> If:
        op = If(condition=condition, then=then, orelse=orelse, results=results, location=self.location)
        self._add(op)
        return op

    def _like(self, dtype: DType, name: str, *operands: Value) -> Value:
        shape = broadcast_shapes(*(v.shape for v in operands))
        if shape is None:
            raise ValueError(f"operands {[v.shape for v in operands]} do not broadcast")
        if not shape:
            return Value(ScalarType(dtype), name)
        extents = tuple(self._joined(operands, axis, len(shape), size) for axis, size in enumerate(shape))
        return Value(TileType(shape, dtype), name, extents)

    def _joined(self, operands: tuple[Value, ...], axis: int, rank: int, size: int) -> int | Value:
        """The smaller extent of the operands that span this axis."""
        known = size
        traced: list[Value] = []
        for v in operands:
            own = axis - (rank - len(v.shape))
            if own < 0 or v.shape[own] != size:
                continue
            extent = v.extents[own]
            if isinstance(extent, int):
                known = min(known, extent)
            elif extent not in traced:
                traced.append(extent)
        if not traced:
            return known
        joined = traced[0]
        for other in traced[1:]:
            joined = self.binary("minimum", joined, other)
        if known < size:
            joined = self.binary("minimum", joined, self.constant(known, index))
        return joined
