"""Tile IR to device IR: the passes in order."""

from __future__ import annotations

from ..ir import Kernel, Value, walk
from ..ir.device import Event, Program, Section, Stmt, Tensor, TensorSpec, walk_statements
from ..ir.expr import Expr, Number, bounds
from .arch import Arch, arch_of
from .coalesce import coalesce
from .context import TILE_CTYPE, Context, Names
from .liveness import Liveness
from .memory import plan
from .moves import gm_ctype
from .prune import prune
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
    names = Names()
    tensors = _tensors(kernel, names)
    ctx = Context(chip, _granule(kernel), tensors, names, "AIV")
    vector = VectorLowering(ctx, Number(True, "bool"))
    vector.kernel(kernel)
    section = finish("AIV", ctx.statements, chip, kernel)
    units = _units(vector.units)
    blocks = max(1, min(units if units is not None else chip.vector_cores, chip.vector_cores))
    return Program(
        name=kernel.name,
        kernel_type="AIV_ONLY",
        inputs=[_spec(v) for v in kernel.inputs],
        outputs=[_spec(v) for v in kernel.outputs],
        tensors=list(tensors.values()),
        vector=section,
        cube=None,
        units=units if units is not None else blocks,
        blocks=blocks,
        tiling={"blocks": blocks},
        workspace_bytes=0,
        location=kernel.location,
        notes=_notes(kernel),
    )


def finish(kind: str, statements: list[Stmt], arch: Arch, kernel: Kernel) -> Section:
    """Plans memory and places synchronisation for one section."""
    statements = coalesce(prune(statements))
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
        v: Tensor(names.fresh(v.name + "Gm"), gm_ctype(TILE_CTYPE[v.dtype]), v.type.size, i)  # type: ignore[union-attr]
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
        notes.append(", ".join(f"{k} = {v!r}" for k, v in kernel.statics.items()))
    return notes
