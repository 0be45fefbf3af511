"""Lowers a tile program to the statements of the vector cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ir import (
    Arange,
    Binary,
    Broadcast,
    Cast,
    Compare,
    Constant,
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
)
from ..ir.expr import Apply, Expr, Name, Number, integer
from ..ir.expr import compare as compare_exprs
from . import control, elementwise, forms, loads, masks, reductions, stores
from .context import Context
from .exchange import VectorExchange
from .partition import Receive, Send
from .scalars import scalar_op

_TILE_OPS: dict[type[Op], Callable[[Context, Any], None]] = {
    Unary: elementwise.unary,
    Binary: elementwise.binary,
    Compare: masks.compare,
    Select: elementwise.select,
    Cast: elementwise.cast,
    Full: elementwise.full,
    Arange: elementwise.arange,
    Broadcast: elementwise.broadcast,
    Reduce: reductions.reduce,
    Load: loads.load,
}


class VectorLowering:
    """Walks the kernel once; ``units`` collects the sizes of its parallel nests.

    ``shared`` are the stores of tiles that both vector cores of a group hold whole: ``first`` says which core writes.
    """

    def __init__(
        self,
        ctx: Context,
        exchange: VectorExchange | None = None,
        shared: frozenset[Op] = frozenset(),
        first: Expr | None = None,
    ) -> None:
        self.ctx = ctx
        self.exchange = exchange
        self.shared = shared
        self.first = Number(True, "bool") if first is None else first
        self.units: list[Expr] = []
        self._inside = 0

    def kernel(self, kernel: Kernel) -> None:
        self.ops(self.ctx, kernel.body.ops)

    def ops(self, ctx: Context, ops: list[Op]) -> None:
        for op in ops:
            ctx.location = op.location
            self.op(ctx, op)

    def op(self, ctx: Context, op: Op) -> None:
        if isinstance(op, For):
            keep = (True,) * len(op.results)
            if op.kind == "parallel" and not self._inside:
                self._inside += 1
                self.units.append(control.parallel(ctx, op, self.ops))
                self._inside -= 1
            else:
                control.for_range(ctx, op, self.ops, keep)
        elif isinstance(op, If):
            control.branch(ctx, op, self.ops, (True,) * len(op.results))
        elif isinstance(op, Store):
            stores.store(ctx, op, self._guard(op))
        elif isinstance(op, Send) and self.exchange is not None:
            self.exchange.send(ctx, op)
        elif isinstance(op, Receive) and self.exchange is not None:
            self.exchange.receive(ctx, op)
        elif isinstance(op, Reshape | Narrow):
            self._view(ctx, op)
        elif isinstance(op, Constant) or self._is_scalar(op):
            scalar_op(ctx, op)
        elif type(op) in _TILE_OPS:
            _TILE_OPS[type(op)](ctx, op)
        else:
            raise ctx.refuse(f"{op.opcode} has no lowering on the vector cores", op)

    def _guard(self, op: Store) -> Expr:
        """Who stores. Outside parallel loops every block runs the same statements and the first one stores."""
        mine = self.first if op in self.shared else Number(True, "bool")
        if self._inside:
            return mine
        block = compare_exprs("==", Name("blockIdx", "int64_t", 0, None), integer(0))
        return block if isinstance(mine, Number) else Apply("&&", (block, mine), "bool")

    @staticmethod
    def _is_scalar(op: Op) -> bool:
        return isinstance(op, Binary | Unary | Compare | Select | Cast) and op.result.is_scalar

    @staticmethod
    def _view(ctx: Context, op: Reshape | Narrow) -> None:
        source = ctx.tile(op.operand)
        tile = ctx.tile(op.result)
        forms.share(ctx, tile, source)
        tile.low, tile.high = source.low, source.high
