"""One kernel for many calls: the same body with a leading parallel dimension."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from ..errors import IRError
from .ops import Block, Constant, For, Kernel, Load, Op, Store, Value, walk
from .types import ScalarType, TensorType, index
from .verifier import verify


def batch(kernel: Kernel, axes: Sequence[int | None], size: int) -> Kernel:
    """The kernel that does ``size`` calls of ``kernel`` at once.

    The body runs inside a parallel loop over the calls, and every access to a batched tensor gets the loop's index on
    the batch axis; nothing is copied. What does not depend on the call stays outside the loop. Each parallel loop of
    the body gets a batch loop of its own, with what it needs of the operations before it, so that both are shared out
    over the cores together.

    Args:
        axes: for each input the axis of its calls in the new kernel; ``None`` for an input that all calls share.
        size: number of calls, at least one.

    Returns:
        A verified kernel; every output has the calls on axis 0.
    """
    if size < 1 or len(axes) != len(kernel.inputs):
        raise ValueError(f"{size} calls over {len(axes)} axes of {len(kernel.inputs)} inputs")
    batcher = _Batcher(kernel, axes, size)
    return verify(
        replace(
            kernel,
            inputs=[batcher.scope[v] for v in kernel.inputs],
            outputs=[batcher.scope[v] for v in kernel.outputs],
            body=Block(ops=list(batcher.body())),
        )
    )


class _Batcher:
    """Copies a kernel; ``scope`` has the new value of each old one, ``index`` the call of the loop being written."""

    def __init__(self, kernel: Kernel, axes: Sequence[int | None], size: int) -> None:
        self.kernel = kernel
        self.size = size
        self.axes = {v: axis for v, axis in zip(kernel.inputs, axes, strict=True) if axis is not None}
        self.axes |= dict.fromkeys(kernel.outputs, 0)
        self.scope: dict[Value, Value] = {v: self._tensor(v) for v in (*kernel.inputs, *kernel.outputs)}
        self.index: Value | None = None

    def _tensor(self, old: Value) -> Value:
        shape = old.shape
        if old in self.axes:
            axis = self.axes[old]
            shape = (*shape[:axis], self.size, *shape[axis:])
        return Value(TensorType(shape, old.dtype), old.name)

    def body(self) -> Iterator[Op]:
        start, stop = (
            Constant(value=n, result=Value(ScalarType(index), "c"), location=self.kernel.location)
            for n in (0, self.size)
        )
        yield start
        yield stop
        ops = self.kernel.body.ops
        varying: set[Value] = set()
        for op in ops:
            if _stores(op) or any(v in varying or v in self.axes for v in _reads(op)):
                varying.update(op.defines)
            else:
                yield self._op(op)
        for group in _groups(ops):
            loop = Value(ScalarType(index), "batch")
            outer, self.index, self.scope = self.scope, loop, dict(self.scope)
            body = Block(args=[loop], ops=[self._op(op) for op in _needed(ops, group, varying)])
            self.index, self.scope = None, outer
            yield For(
                kind="parallel",
                start=start.result,
                stop=stop.result,
                step=1,
                inits=(),
                body=body,
                results=(),
                pipelined=False,
                location=self.kernel.location,
            )

    def _op(self, op: Op) -> Op:
        changes: dict[str, Any] = {f.name: self._copied(getattr(op, f.name)) for f in fields(op) if f.name not in _OWN}
        if isinstance(op, Load | Store) and op.tensor in self.axes:
            axis = self.axes[op.tensor]
            assert self.index is not None
            starts, sizes = changes["starts"], op.sizes
            changes["starts"] = (*starts[:axis], self.index, *starts[axis:])
            changes["sizes"] = (*sizes[:axis], None, *sizes[axis:])
        elif any(v in self.axes for v in op.operands):
            raise IRError("NPK-IR01", f"{op.opcode}: no rule for its tensor under vmap", location=str(op.location))
        names = {f.name for f in fields(op)}
        if "result" in names:
            changes["result"] = self._defined(op.defines[0])
        elif "results" in names:
            changes["results"] = tuple(self._defined(v) for v in op.defines)
        return replace(op, **changes)

    def _copied(self, item: Any) -> Any:
        if isinstance(item, Value):
            return self.scope[item]
        if isinstance(item, tuple):
            return tuple(self._copied(part) for part in item)
        if isinstance(item, Block):
            args = [self._defined(v) for v in item.args]
            ops = [self._op(op) for op in item.ops]
            return Block(args, ops, self._copied(item.yields))
        return item

    def _defined(self, old: Value) -> Value:
        self.scope[old] = Value(old.type, old.name, self._copied(old.extents))
        return self.scope[old]


_OWN = ("result", "results", "location")


def _stores(op: Op) -> bool:
    return isinstance(op, Store) or any(isinstance(inner, Store) for block in op.blocks for inner in walk(block))


def _reads(op: Op) -> Iterator[Value]:
    """Values from outside that an operation or the blocks inside it read; the blocks' own values too."""
    yield from op.operands
    for block in op.blocks:
        yield from block.yields
        yield from (e for arg in block.args for e in arg.extents if isinstance(e, Value))
        for inner in block.ops:
            yield from _reads(inner)


def _groups(ops: Iterable[Op]) -> list[list[Op]]:
    """Operations that store, by batch loop: a parallel loop alone, others together. All together when one of them also
    computes what others may read, because a store must not be done twice."""
    storing = [op for op in ops if _stores(op)]
    if any(op.defines for op in storing):
        return [storing]
    groups: list[list[Op]] = []
    alone = True
    for op in storing:
        parallel = isinstance(op, For) and op.kind == "parallel"
        if parallel or alone:
            groups.append([])
        groups[-1].append(op)
        alone = parallel
    return groups


def _needed(ops: Sequence[Op], group: list[Op], varying: set[Value]) -> list[Op]:
    """``group`` and the operations that differ between calls and on which it depends, in order."""
    needed: set[Value] = set()
    kept: list[Op] = []
    for op in reversed(ops):
        if op in group or (any(v in needed and v in varying for v in op.defines) and not _stores(op)):
            kept.append(op)
            needed.update(_reads(op))
    return kept[::-1]
