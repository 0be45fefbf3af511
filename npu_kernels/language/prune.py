"""Removes what nothing needs: operations without a reader, carried values without a use."""

from __future__ import annotations

from .. import ir


def prune(kernel: ir.Kernel) -> ir.Kernel:
    """``kernel`` with only those operations that a store depends on."""
    needed: set[ir.Value] = set()
    before = -1
    while len(needed) != before:
        before = len(needed)
        _mark(kernel.body, needed)
    _sweep(kernel.body, needed)
    return kernel


def _stores(op: ir.Op) -> bool:
    return isinstance(op, ir.Store) or any(_stores(inner) for block in op.blocks for inner in block.ops)


def _live(op: ir.Op, needed: set[ir.Value]) -> bool:
    return _stores(op) or any(v in needed for v in op.defines)


def _mark(block: ir.Block, needed: set[ir.Value]) -> None:
    for op in reversed(block.ops):
        if not _live(op, needed):
            continue
        if isinstance(op, ir.For):
            needed.update((op.start, op.stop))
            for init, arg, last, result in zip(op.inits, op.body.args[1:], op.body.yields, op.results, strict=True):
                if arg in needed or result in needed:
                    needed.update((init, arg, last, result), _extents(result))
            _mark(op.body, needed)
        elif isinstance(op, ir.If):
            needed.add(op.condition)
            for one, other, result in zip(op.then.yields, op.orelse.yields, op.results, strict=True):
                if result in needed:
                    needed.update((one, other), _extents(result))
            _mark(op.then, needed)
            _mark(op.orelse, needed)
        else:
            needed.update(op.operands)


def _extents(value: ir.Value) -> list[ir.Value]:
    return [e for e in value.extents if isinstance(e, ir.Value)]


def _sweep(block: ir.Block, needed: set[ir.Value]) -> None:
    block.ops = [op for op in block.ops if _live(op, needed)]
    for op in block.ops:
        if isinstance(op, ir.For):
            kept = [result in needed for result in op.results]
            op.inits, op.body.yields, op.results = (_keep(v, kept) for v in (op.inits, op.body.yields, op.results))
            op.body.args = [op.body.args[0], *_keep(tuple(op.body.args[1:]), kept)]
        elif isinstance(op, ir.If):
            kept = [result in needed for result in op.results]
            op.then.yields, op.orelse.yields = _keep(op.then.yields, kept), _keep(op.orelse.yields, kept)
            op.results = _keep(op.results, kept)
        for inner in op.blocks:
            _sweep(inner, needed)


def _keep(values: tuple[ir.Value, ...], kept: list[bool]) -> tuple[ir.Value, ...]:
    return tuple(v for v, keep in zip(values, kept, strict=True) if keep)
