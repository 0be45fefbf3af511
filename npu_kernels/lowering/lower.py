"""Tile IR to device IR: the passes in order."""

from __future__ import annotations

from ..errors import LoweringError
from ..ir import Kernel, Load, Value, walk
from ..ir.device import Event, Program, Section, Stmt, Tensor, TensorSpec, walk_statements
from ..ir.expr import Expr, Name, bounds, compare, integer
from .arch import Arch, arch_of
from .coalesce import coalesce
from .context import TILE_CTYPE, Context, Names
from .cube import CubeLowering
from .demote import demote
from .exchange import VectorExchange, drain, rings, workspace
from .limits import check_limits
from .liveness import Liveness
from .memory import plan, surplus
from .moves import gm_ctype
from .partition import Parts, partition
from .prune import prune
from .split_rows import split_rows
from .sync import barriers, release
from .vector import VectorLowering


def lower(kernel: Kernel, arch: str = "2201") -> Program:
    """The device program of a verified tile kernel.

    Args:
        arch: ``2201`` (Atlas A2 and A3).

    Raises:
        LoweringError: NPK-UB01 when the tiles exceed a memory (with the table of buffers), NPK-AL01 when an
            instruction's limit or the number of buffers is exceeded, NPK-LW01 for what has no lowering; each at the
            author's line.
    """
    chip = arch_of(arch)
    _check_tensors(kernel)
    parts = partition(kernel, chip)
    return _vector_program(kernel, chip) if parts is None else _mixed_program(kernel, parts, chip)


def _check_tensors(kernel: Kernel) -> None:
    for op in walk(kernel.body):
        if isinstance(op, Load) and op.tensor in kernel.outputs:
            raise LoweringError(
                "NPK-LW01",
                f"{op.tensor.name} is an output and is read back; cores are not in step, so what they have stored is "
                "not known. Keep the tile instead, or write a second kernel",
                location=str(op.location),
            )


def _vector_program(kernel: Kernel, chip: Arch) -> Program:
    names = Names()
    tensors = _tensors(kernel, names)
    ctx = Context(chip, _granule(kernel), tensors, names, "AIV")
    vector = VectorLowering(ctx)
    vector.kernel(kernel)
    section = finish("AIV", ctx.statements, chip, kernel)
    units = _units(vector.units)
    blocks = max(1, min(chip.vector_cores if units is None else units, chip.vector_cores))
    return _program(kernel, "AIV_ONLY", list(tensors.values()), section, None, units, blocks, 0)


def _mixed_program(kernel: Kernel, parts: Parts, chip: Arch) -> Program:
    """One cube core and its two vector cores run the same units."""
    names = Names()
    tensors = _tensors(kernel, names)
    channel_names = {c: names.fresh(c.name, "Slots") for c in parts.channels}
    slots, stride = workspace(parts.channels, len(tensors), channel_names)
    channels = dict(zip(parts.channels, slots, strict=True))

    vector_ctx = Context(chip, _granule(kernel), tensors, names, "AIV")
    vector_ctx.location = kernel.location
    split = split_rows(parts.vector)
    sub_block = Name("subBlockIdx", "int64_t", 0, 1)
    if split.half is not None:
        vector_ctx.scalars[split.half] = sub_block
    first = compare("==", sub_block, integer(0))
    vector_rings = rings(vector_ctx, channels)
    vector = VectorLowering(vector_ctx, VectorExchange(vector_rings, first), frozenset(split.shared), first)
    vector.kernel(split.kernel)
    for ring in vector_rings.values():
        if ring.channel.to_cube:
            drain(vector_ctx, ring, "MTE3")

    cube_ctx = Context(chip, _granule(kernel), tensors, names, "AIC")
    cube_ctx.location = kernel.location
    cube_rings = rings(cube_ctx, channels)
    CubeLowering(cube_ctx, parts, cube_rings).kernel(parts.cube)
    for ring in cube_rings.values():
        if not ring.channel.to_cube:
            drain(cube_ctx, ring, "FIX")

    units = _units(vector.units)
    blocks = max(1, min(chip.cube_cores if units is None else units, chip.cube_cores))
    return _program(
        kernel,
        "MIX_AIC_1_2",
        [*tensors.values(), *slots],
        finish("AIV", vector_ctx.statements, chip, kernel),
        finish("AIC", cube_ctx.statements, chip, kernel),
        units,
        blocks,
        stride * blocks,
    )


def _program(
    kernel: Kernel,
    kernel_type: str,
    tensors: list[Tensor],
    vector: Section,
    cube: Section | None,
    units: int | None,
    blocks: int,
    workspace_bytes: int,
) -> Program:
    return Program(
        name=kernel.name,
        kernel_type=kernel_type,
        inputs=[_spec(v) for v in kernel.inputs],
        outputs=[_spec(v) for v in kernel.outputs],
        tensors=tensors,
        vector=vector,
        cube=cube,
        units=blocks if units is None else units,
        blocks=blocks,
        tiling={"blocks": blocks},
        workspace_bytes=workspace_bytes,
        location=kernel.location,
        notes=_notes(kernel),
    )


def finish(kind: str, statements: list[Stmt], arch: Arch, kernel: Kernel) -> Section:
    """Plans memory and places synchronisation for one section."""
    statements = coalesce(prune(statements))
    check_limits(statements, arch)
    liveness = Liveness(statements)
    beyond = surplus(liveness, arch)
    if beyond:
        statements = demote(statements, liveness, beyond)
        liveness = Liveness(statements)
    storages = plan(liveness, arch, kernel.name, kernel.location)
    statements = barriers(release(statements, liveness))
    events = sorted({s.event for s in walk_statements(statements) if isinstance(s, Event)})
    return Section(kind, statements, storages, events)


def _granule(kernel: Kernel) -> int:
    """Elements of the narrowest dtype of the kernel in 32 bytes."""
    sizes = [v.dtype.itemsize for v in (*kernel.inputs, *kernel.outputs) if v.dtype.itemsize < 4]
    values = (v for op in walk(kernel.body) for v in op.defines if v.is_tile)
    sizes += [2 for v in values if v.dtype.is_float and v.dtype.itemsize == 2]
    return 32 // min(sizes, default=4)


def _tensors(kernel: Kernel, names: Names) -> dict[Value, Tensor]:
    return {
        v: Tensor(names.fresh(v.name, "Gm"), gm_ctype(TILE_CTYPE[v.dtype]), v.type.size, i)  # type: ignore[union-attr]
        for i, v in enumerate((*kernel.inputs, *kernel.outputs))
    }


def _spec(value: Value) -> TensorSpec:
    return TensorSpec(value.name, value.shape, value.dtype.name)


def _units(units: list[Expr]) -> int | None:
    """The largest number of units a nest has, ``None`` when it is known at run time only; 1 without parallel loops."""
    highs = [bounds(u)[1] for u in units]
    return None if any(h is None for h in highs) else max((h for h in highs if h is not None), default=1)


def _notes(kernel: Kernel) -> list[str]:
    shapes = [f"{v.name}: {v.dtype.short}[{', '.join(map(str, v.shape))}]" for v in (*kernel.inputs, *kernel.outputs)]
    notes = [", ".join(shapes)]
    if kernel.statics:
        written = ", ".join(f"{k} = {v!r}" for k, v in kernel.statics.items())
        # A comment ends with its line, and a backslash there would carry on with the next.
        notes.append(" ".join(written.split()).rstrip("\\"))
    return notes
