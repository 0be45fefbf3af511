"""Loops, branches and the values they carry, on either kind of core."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..ir import For, If, Op, Value, bool_
from ..ir import expr as E
from ..ir.device import Assign, Branch, Let, Loop, Ref, Stmt
from ..ir.expr import Expr, Name, Number, integer
from . import forms, moves
from .context import SCALAR_CTYPE, TILE_CTYPE, Context, Tile

LowerOps = Callable[[Context, list[Op]], None]


@dataclass(frozen=True)
class Carried:
    """Storage that outlives an iteration or a branch: a variable, or a buffer holding one form of a tile."""

    name: Name | None = None
    ref: Ref | None = None
    form: str = ""


def _form(value: Value) -> str:
    return TILE_CTYPE[value.dtype]


def _persistent(ctx: Context, value: Value, base: str) -> Carried:
    """Storage for a carried tile."""
    tile = ctx.tile(value)
    form = _form(value)
    if form == "bits":
        return Carried(ref=forms.new_bits(ctx, base, tile.layout), form=form)
    return Carried(ref=ctx.temp(base, form, tile.layout.size), form=form)


def _elements(tile: Tile, form: str) -> int:
    return max(tile.layout.size // 8, 32) if form == "bits" else tile.layout.size


def _assign(ctx: Context, target: Carried, value: Value) -> None:
    """Copies a tile into carried storage; memory planning merges the two where it can."""
    assert target.ref is not None
    tile = ctx.tile(value)
    source = forms.native(ctx, tile)
    if source.base is not target.ref.base:
        moves.copy_tile(ctx, target.ref, source, _elements(tile, target.form))


def _variable(ctx: Context, value: Value, base: str, init: Expr) -> Name:
    name = Name(ctx.names.fresh(base), init.ctype)
    ctx.emit(Let(name=name, value=init, location=ctx.location))
    return name


def _yield(ctx: Context, targets: list[Carried], values: tuple[Value, ...]) -> None:
    """Assigns all targets at once: a source that another target overwrites first is saved."""
    owned = {t.ref.base for t in targets if t.ref is not None}
    saved: dict[int, Ref] = {}
    for i, (target, value) in enumerate(zip(targets, values, strict=True)):
        if target.ref is None:
            continue
        source = forms.native(ctx, ctx.tile(value))
        if source.base in owned and source.base is not target.ref.base:
            tile = ctx.tile(value)
            copy = ctx.temp(f"{value.name}_next", source.ctype, _elements(tile, target.form))
            moves.copy_tile(ctx, copy, source, _elements(tile, target.form))
            saved[i] = copy
    for i, (target, value) in enumerate(zip(targets, values, strict=True)):
        if i in saved and target.ref is not None:
            moves.copy_tile(ctx, target.ref, saved[i], _elements(ctx.tile(value), target.form))
        elif target.ref is not None:
            _assign(ctx, target, value)
    written = {t.name.text for t in targets if t.name is not None}
    pairs: list[tuple[Name, Expr]] = []
    for target, value in zip(targets, values, strict=True):
        if target.name is None:
            continue
        source_expr = ctx.scalar(value)
        if any(n.text in written - {target.name.text} for n in E.names(source_expr)):
            source_expr = _variable(ctx, value, f"{value.name}_next", source_expr)
        pairs.append((target.name, source_expr))
    for name, expr in pairs:
        if name != expr:
            ctx.emit(Assign(name=name, value=expr, location=ctx.location))


def _bind(ctx: Context, value: Value, carried: Carried) -> None:
    if carried.name is not None:
        ctx.scalars[value] = carried.name
    else:
        assert carried.ref is not None
        ctx.hold(ctx.tile(value), carried.form, carried.ref)


def for_range(ctx: Context, op: For, lower: LowerOps, keep: tuple[bool, ...]) -> None:
    """A loop in order on one core; ``keep`` says which carried values this core needs."""
    args = [a for a, k in zip(op.body.args[1:], keep, strict=True) if k]
    inits = [v for v, k in zip(op.inits, keep, strict=True) if k]
    yields = tuple(v for v, k in zip(op.body.yields, keep, strict=True) if k)
    results = [v for v, k in zip(op.results, keep, strict=True) if k]
    carried: list[Carried] = []
    for arg, init in zip(args, inits, strict=True):
        base = arg.name or init.name
        if arg.is_scalar:
            carried.append(Carried(name=_variable(ctx, arg, base, ctx.scalar(init))))
        else:
            storage = _persistent(ctx, arg, base)
            _assign(ctx, storage, init)
            carried.append(storage)
    location = ctx.location
    start, stop = ctx.scalar(op.start), ctx.scalar(op.stop)
    low, high = E.bounds(start)[0], E.bounds(stop)[1]
    var = Name(
        ctx.names.fresh(op.body.args[0].name or "i"), "int64_t", low, None if high is None else max(high - 1, low or 0)
    )
    body: list[Stmt] = []
    ctx.depth += 1
    with ctx.into(body):
        ctx.scalars[op.body.args[0]] = var
        for arg, storage in zip(args, carried, strict=True):
            _bind(ctx, arg, storage)
        lower(ctx, op.body.ops)
        ctx.location = location
        _yield(ctx, carried, yields)
    ctx.depth -= 1
    ctx.emit(Loop(var=var, start=start, stop=stop, step=integer(op.step), body=body, location=location))
    for result, storage in zip(results, carried, strict=True):
        _bind(ctx, result, storage)


def branch(ctx: Context, op: If, lower: LowerOps, keep: tuple[bool, ...]) -> None:
    """A branch on a scalar; ``keep`` says which results this core needs."""
    condition = ctx.scalar(op.condition)
    results = [r for r, k in zip(op.results, keep, strict=True) if k]
    sides = [tuple(v for v, k in zip(b.yields, keep, strict=True) if k) for b in op.blocks]
    if isinstance(condition, Number):
        taken = op.then if condition.value else op.orelse
        lower(ctx, taken.ops)
        for result, value in zip(results, sides[0 if condition.value else 1], strict=True):
            if result.is_scalar:
                ctx.scalars[result] = ctx.scalar(value)
            else:
                forms.share(ctx, ctx.tile(result), ctx.tile(value))
        return
    carried: list[Carried] = []
    for result in results:
        if result.is_scalar:
            zero = Number(False if result.dtype == bool_ else 0, _scalar_ctype(result))
            carried.append(Carried(name=_variable(ctx, result, result.name, zero)))
        else:
            carried.append(_persistent(ctx, result, result.name))
    location = ctx.location
    bodies: list[list[Stmt]] = []
    for block, values in zip(op.blocks, sides, strict=True):
        body: list[Stmt] = []
        with ctx.into(body):
            lower(ctx, block.ops)
            ctx.location = location
            _yield(ctx, carried, values)
        bodies.append(body)
    ctx.emit(Branch(condition=condition, then=bodies[0], orelse=bodies[1], location=location))
    for result, storage in zip(results, carried, strict=True):
        _bind(ctx, result, storage)


def _scalar_ctype(value: Value) -> str:
    return SCALAR_CTYPE[value.dtype]


@dataclass(eq=False)
class Nest:
    """Parallel loops that share out one count of units."""

    loops: list[For]
    prologues: list[list[Op]]
    body: list[Op]


def nest_of(op: For) -> Nest:
    """The loop and the parallel loops directly inside it, as long as only scalar work stands between them."""
    nest = Nest([op], [], op.body.ops)
    while nest.body and isinstance(nest.body[-1], For) and nest.body[-1].kind == "parallel":
        *between, inner = nest.body
        assert isinstance(inner, For)
        bounds_inside = {v for o in between for v in o.defines} | set(nest.loops[-1].body.args)
        scalar = all(len(o.defines) == 1 and o.defines[0].is_scalar and not o.blocks for o in between)
        constant = {o.defines[0] for o in between if o.opcode == "constant"}
        if not scalar or any(v in bounds_inside - constant for v in (inner.start, inner.stop)):
            break
        nest.prologues.append(between)
        nest.loops.append(inner)
        nest.body = inner.body.ops
    return nest


def parallel(ctx: Context, op: For, lower: LowerOps) -> Expr:
    """The units of a nest of parallel loops, each core (group) taking every ``blocks``-th; returns their number."""
    nest = nest_of(op)
    location = ctx.location
    trips: list[Expr] = []
    for i, loop in enumerate(nest.loops):
        lower(ctx, [o for o in nest.prologues[i - 1] if o.opcode == "constant"] if i else [])
        span = E.sub(ctx.scalar(loop.stop), ctx.scalar(loop.start))
        trips.append(E.maximum(integer(0), E.ceil_div(span, loop.step)))
    units: Expr = integer(1)
    for trip in trips:
        units = E.mul(units, trip)
    high = E.bounds(units)[1]
    unit = Name(ctx.names.fresh("unit"), "int64_t", 0, None if high is None else max(high - 1, 0))
    body: list[Stmt] = []
    ctx.depth += 1
    with ctx.into(body):
        left: Expr = unit
        positions: list[Expr] = []
        for trip in reversed(trips[1:]):
            positions.insert(0, E.mod(left, trip))
            left = E.floordiv(left, trip)
        positions.insert(0, left)
        for i, (loop, position) in enumerate(zip(nest.loops, positions, strict=True)):
            var = loop.body.args[0]
            value = E.add(ctx.scalar(loop.start), E.mul(position, integer(loop.step)))
            ctx.scalars[var] = ctx.let(var.name or "i", value)
            if i < len(nest.prologues):
                lower(ctx, [o for o in nest.prologues[i] if o.opcode != "constant"])
        lower(ctx, nest.body)
    ctx.depth -= 1
    blocks = Name("tiling.blocks", "int64_t", 1, None)
    block = Name("blockIdx", "int64_t", 0, None)
    ctx.emit(Loop(var=unit, start=block, stop=units, step=blocks, body=body, location=location))
    return units
