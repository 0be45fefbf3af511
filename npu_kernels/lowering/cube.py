"""Lowers the cube side of a tile program: operands to L1, products through L0, results to the workspace."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import Dot, For, If, Kernel, Load, Op, Value, float32, walk
from ..ir.device import ITEMSIZE, Barrier, Buffer, QueueOp, Ref, Struct, Tensor
from ..ir.expr import Expr, Number, add, integer, known, minimum, mul, sub
from . import control
from .context import TILE_CTYPE, Context
from .exchange import Ring, acquire, await_, give_back, publish
from .layout import round_up_int
from .loads import load_scalar
from .moves import slice_of
from .partition import Channel, Parts
from .products import Operand, multiply
from .scalars import scalar_op

_ND2NZ = ("uint16_t",) * 8


@dataclass(frozen=True)
class _Source:
    """Rows in global memory that an operand is read from."""

    tensor: Tensor
    offset: Expr
    row_stride: int


class CubeLowering:
    """Walks the kernel once, keeping what products need; ``units`` collects the sizes of its parallel nests."""

    def __init__(self, ctx: Context, parts: Parts, rings: dict[Channel, Ring]) -> None:
        self.ctx = ctx
        self.parts = parts
        self.rings = rings
        self.units: list[Expr] = []
        self._inside = 0
        self._origin: dict[Value, Value] = {}
        self._sources: dict[Value, _Source] = {}
        self._uses = _layouts(parts)

    def kernel(self, kernel: Kernel) -> None:
        self.ops(self.ctx, kernel.body.ops)

    def ops(self, ctx: Context, ops: list[Op]) -> None:
        for op in ops:
            ctx.location = op.location
            self.op(ctx, op)
            for value in op.defines:
                if value in self.parts.sends:
                    self._receive(ctx, value)

    def op(self, ctx: Context, op: Op) -> None:
        if isinstance(op, For):
            self._loop(ctx, op)
        elif isinstance(op, If):
            if op in self.parts.kept:
                keep = tuple(r in self.parts.needed for r in op.results)
                control.branch(ctx, op, self.ops, keep)
        elif isinstance(op, Dot):
            self._dot(ctx, op)
        elif op in self.parts.loads:
            assert isinstance(op, Load)
            self._load(ctx, op)
        elif isinstance(op, Load) and op.result in self.parts.needed:
            load_scalar(ctx, op)
        elif op.defines and (op.defines[0] in self.parts.needed or op.opcode == "constant"):
            scalar_op(ctx, op)
        elif op.opcode == "narrow" and op.defines:
            self._origin[op.defines[0]] = op.operands[0]

    def _loop(self, ctx: Context, op: For) -> None:
        if op not in self.parts.kept:
            return
        keep = tuple(
            r in self.parts.needed or a in self.parts.needed for r, a in zip(op.results, op.body.args[1:], strict=True)
        )
        if op.kind == "parallel" and not self._inside:
            self._inside += 1
            self.units.append(control.parallel(ctx, op, self.ops))
            self._inside -= 1
            return

        def body(inner: Context, ops: list[Op]) -> None:
            for arg in op.body.args:
                if arg in self.parts.sends:
                    self._receive(inner, arg)
            self.ops(inner, ops)

        control.for_range(ctx, op, body, keep)

    # operands

    def _load(self, ctx: Context, op: Load) -> None:
        extents = tuple(ctx.extent(e) for e in op.result.extents)
        tensor = ctx.tensors[op.tensor]
        part = slice_of(ctx, op.tensor, op.starts, op.sizes, extents)
        kept = [i for i, n in enumerate(op.sizes) if n is not None]
        stride = 1
        for size in op.tensor.shape[kept[0] + 1 :]:
            stride *= size
        source = _Source(tensor, ctx.let("base", part.offset), stride)
        for layout in self._uses.get(op.result, ()):
            self._to_l1(ctx, op.result, source, layout)

    def _receive(self, ctx: Context, value: Value) -> None:
        ring = self.rings[self.parts.sends[value]]
        await_(ctx, ring, "MTE2")
        source = _Source(ring.tensor, ring.slot(), ring.channel.shape[1])
        for layout in self._uses[value]:
            self._to_l1(ctx, value, source, layout)
        give_back(ctx, ring, "MTE2")

    def _to_l1(self, ctx: Context, value: Value, source: _Source, use: tuple[str, str]) -> None:
        """Copies an operand to L1 as fractals, in bands of 16 rows or in columns of fractals."""
        position, order = use
        ctype = TILE_CTYPE[value.dtype]
        c0 = 32 // ITEMSIZE[ctype]
        rows, cols = round_up_int(value.shape[0], 16), round_up_int(value.shape[1], 16)
        buffer = ctx.buffer(value.name or "operand", ctype, rows * cols, position)
        ctx.emit(QueueOp(action="alloc", buffer=buffer, location=ctx.location))
        if source.row_stride > 65535:
            raise ctx.refuse(
                f"rows {source.row_stride} elements apart are too far for the cube core's loads (65535); "
                "transpose the tensor or use smaller dimensions"
            )
        rows_ext, cols_ext = (ctx.extent(e) for e in value.extents)
        dst = Ref(buffer, integer(0), ctype)
        if known(rows_ext) != rows or known(cols_ext) != cols:
            blocks = rows * cols // c0
            fields = (integer(1), integer(blocks), integer(0), Number(0.0, ctype))
            ctx.instr(
                "InitConstValue",
                dst,
                (),
                Struct(fields, ("uint16_t", "uint16_t", "uint16_t", ctype), f"InitConstValueParams<{ctype}>"),
                pipe="MTE2",
            )
            ctx.emit(Barrier(pipe="MTE2", location=ctx.location))

        def copy(place: Expr, start: Expr, count: Expr, c0_stride: int) -> None:
            fields = (1, count, cols_ext, 0, source.row_stride, c0_stride, 1, 0)
            struct = Struct(tuple(integer(f) if isinstance(f, int) else f for f in fields), _ND2NZ, "Nd2NzParams")
            ctx.instr(
                "DataCopy",
                Ref(buffer, place, ctype),
                (Ref(source.tensor, add(source.offset, mul(start, integer(source.row_stride))), ctype),),
                struct,
                pipe="MTE2",
                partial=True,
            )

        if order == "columns":
            copy(integer(0), integer(0), rows_ext, rows)
        elif rows == 16:
            copy(integer(0), integer(0), rows_ext, 16)
        else:
            with ctx.loop("row", integer(0), rows_ext, integer(16)) as row:
                count = minimum(integer(16), sub(rows_ext, row)) if known(rows_ext) != rows else integer(16)
                copy(mul(row, integer(cols)), row, count, 16)
        ctx.emit(QueueOp(action="enqueue", buffer=buffer, location=ctx.location))
        ctx.emit(QueueOp(action="dequeue", buffer=buffer, location=ctx.location))
        ctx.hold(ctx.tile(value), f"{position} {order}", Ref(buffer, integer(0), ctype))

    def _operand(self, ctx: Context, value: Value, use: tuple[str, str], transposed: bool) -> Operand:
        origin = value
        while origin in self._origin:
            origin = self._origin[origin]
        ref = ctx.form(ctx.tile(origin), " ".join(use))
        assert ref is not None and isinstance(ref.base, Buffer)
        rows, cols = round_up_int(value.shape[0], 16), round_up_int(value.shape[1], 16)
        return Operand(ref, rows, cols, transposed)

    # products

    def _dot(self, ctx: Context, op: Dot) -> None:
        a = self._operand(ctx, op.a, _use_a(), op.transpose_a)
        b = self._operand(ctx, op.b, _use_b(op), not op.transpose_b)
        ring = self.rings[self.parts.products[op]]
        m_axis, n_axis = (1 if op.transpose_a else 0), (0 if op.transpose_b else 1)
        m, n = ctx.extent(op.a.extents[m_axis]), ctx.extent(op.b.extents[n_axis])
        k_a, k_b = ctx.extent(op.a.extents[1 - m_axis]), ctx.extent(op.b.extents[1 - n_axis])
        if k_a != k_b and op.transpose_a and op.a.dtype == float32:
            # A turned 32-bit operand is multiplied in whole squares, so zeros of one meet what the other holds there.
            raise ctx.refuse(
                "dot of a transposed float32 operand and another that hold different extents along the contracted "
                "axis: slice both operands by the same loop",
                op,
            )
        k = minimum(k_a, k_b) if k_a != k_b else k_a
        acquire(ctx, ring, "FIX")
        multiply(ctx, a, b, (m, n, k), (op.result.shape[0], op.result.shape[1], op.a.shape[1 - m_axis]), ring)
        publish(ctx, ring, "FIX")


def _use_a() -> tuple[str, str]:
    return "A1", "bands"


def _use_b(op: Dot) -> tuple[str, str]:
    return "B1", "columns" if op.transpose_b else "bands"


def _layouts(parts: Parts) -> dict[Value, list[tuple[str, str]]]:
    """The L1 forms each loaded or received operand is used in."""
    origin: dict[Value, Value] = {}
    found: dict[Value, list[tuple[str, str]]] = {}
    for op in walk(parts.cube.body):
        if op.opcode == "narrow":
            origin[op.defines[0]] = op.operands[0]
        if isinstance(op, Dot):
            for value, use in ((op.a, _use_a()), (op.b, _use_b(op))):
                while value in origin and value not in parts.sends:
                    value = origin[value]
                uses = found.setdefault(value, [])
                if use not in uses:
                    uses.append(use)
    return found
