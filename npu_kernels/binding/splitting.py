"""Which axes of a call may be split over devices, and into what: derived from its body, or as its author says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
from jax.sharding import PartitionSpec

from npu_kernels import ir
from npu_kernels.errors import NpuKernelsError, SignatureError
from npu_kernels.ir.sharding import Factor, Place, difference, factors

from .signature import KernelSignature

if TYPE_CHECKING:
    from .primitive import KernelCall, Shapes


def factors_of(kernel: KernelCall) -> tuple[Factor, ...]:
    """Every axis of every operand and result, in factors that are split together or not at all."""
    found: tuple[Factor, ...] = kernel.derived("factors", lambda: _factors(kernel))
    return found


def _factors(kernel: KernelCall) -> tuple[Factor, ...]:
    if kernel.sharding is not None:
        return kernel.sharding
    if kernel.traced is None or kernel.variants is None:
        tensors = (*kernel.operands, *kernel.outputs) if kernel.operands else kernel.outputs
        why = "the kernel is given as Ascend C text"
        return tuple(
            Factor({(t, axis): 1}, size, why)
            for t, tensor in enumerate(tensors)
            for axis, size in enumerate(tensor.shape)
        )
    return tuple(
        factor if factor.refusal else Factor(factor.places, factor.size, _depends_on_length(kernel, factor))
        for factor in factors(kernel.traced)
    )


def declared(kernel: str, signature: KernelSignature, traced: ir.Kernel, names: Sequence[str]) -> tuple[Factor, ...]:
    """The factors of a call whose author names the dimensions that may be split.

    Raises:
        SignatureError: NPK-SG01.
    """
    specs = [*(spec.shape for spec in signature.arrays.values()), *(spec.shape for spec in signature.returns)]
    tensors = (*traced.inputs, *traced.outputs)
    specs += [None] * (len(tensors) - len(specs))
    split: dict[str, dict[Place, int]] = {name: {} for name in names}
    rest: list[Factor] = []
    for t, (tensor, spec) in enumerate(zip(tensors, specs, strict=True)):
        dimensions = (spec.of_rank(len(tensor.shape)) if spec is not None else None) or (None,) * len(tensor.shape)
        for axis, (dimension, size) in enumerate(zip(dimensions, tensor.shape, strict=True)):
            first, *others = dimension.factors if dimension is not None and dimension.factors else ("",)
            if dimension is not None and any(name in split for name in others):
                raise SignatureError(
                    "NPK-SG01",
                    f"kernel {kernel}: sharding={tuple(names)!r} names a factor of `{dimension.text}` that is not its "
                    "first, so that its parts do not lie together.",
                )
            if first in split:
                split[first][t, axis] = size // traced.dims[first]
            else:
                rest.append(Factor({(t, axis): 1}, size, "npu_kernel(sharding=...) does not name it"))
    for name, places in split.items():
        if not any(t >= len(traced.inputs) for t, _ in places):
            raise SignatureError(
                "NPK-SG01",
                f"kernel {kernel}: sharding={tuple(names)!r} names `{name}`, which is no dimension of a result in the "
                "kernel's annotations.",
            )
    return (*(Factor(places, traced.dims[name]) for name, places in split.items()), *rest)


def batched(kernel: KernelCall, axes: Sequence[int | None], size: int) -> tuple[Factor, ...] | None:
    """The declared factors of a call that does ``size`` calls at once; the calls themselves may be split."""
    if kernel.sharding is None:
        return None
    at = [*axes, *(0 for _ in kernel.outputs)]

    def moved(place: Place) -> Place:
        t, axis = place
        batch = at[t]
        return t, axis + (batch is not None and axis >= batch)

    calls: dict[Place, int] = {(t, axis): 1 for t, axis in enumerate(at) if axis is not None}
    inner = (
        Factor({moved(place): group for place, group in factor.places.items()}, factor.size, factor.refusal)
        for factor in kernel.sharding
    )
    return (Factor(calls, size), *inner)


def _depends_on_length(kernel: KernelCall, factor: Factor) -> str | None:
    """What the body, traced with twice the length, does otherwise."""
    return changes(kernel, resized(kernel, {factor: 2 * factor.size}), [factor])


def changes(kernel: KernelCall, shapes: Shapes, changed: Sequence[Factor]) -> str | None:
    """Why the kernel for operands of other ``shapes`` is another one than for those it has; None when it is not."""
    assert kernel.traced is not None and kernel.variants is not None
    try:
        other = kernel.variants.trace(shapes)
    except NpuKernelsError as error:
        return f"with another length of it: {error.message}"
    return difference(kernel.traced, other, changed)


def resized(kernel: KernelCall, sizes: Mapping[Factor, int]) -> Shapes:
    """Shapes of the operands when some factors have other sizes."""
    shapes = [list(operand.shape) for operand in kernel.operands]
    for factor, size in sizes.items():
        for (tensor, axis), group in factor.places.items():
            if tensor < len(shapes):
                shapes[tensor][axis] = size * group
    return tuple(tuple(shape) for shape in shapes)


def result_specs(kernel: KernelCall, operands: Sequence[PartitionSpec]) -> list[PartitionSpec]:
    """Partition specs of the results for those of the operands."""
    given = {(t, axis): part for t, spec in enumerate(operands) for axis, part in enumerate(spec) if part is not None}
    count = len(kernel.operands)
    specs: list[list[Any]] = [[None] * len(out.shape) for out in kernel.outputs]
    for factor, part in chosen(kernel, given).items():
        for tensor, axis in factor.places:
            if tensor >= count:
                specs[tensor - count][axis] = part
    return [PartitionSpec(*spec) for spec in specs]


def chosen(kernel: KernelCall, given: Mapping[Place, Any]) -> dict[Factor, Any]:
    """For each factor that is split, the mesh axes it is split over; one mesh axis splits one factor."""
    found: dict[Factor, Any] = {}
    taken: set[str] = set()
    for factor in factors_of(kernel):
        if factor.refusal is not None:
            continue
        for place in factor.places:
            part = given.get(place)
            names = set(mesh_axes(part))
            if names and not names & taken:
                found[factor] = part
                taken |= names
                break
    return found


def mesh_axes(part: Any) -> tuple[str, ...]:
    """Names of the mesh axes in one entry of a partition spec."""
    return () if part is None else (part,) if isinstance(part, str) else tuple(part)


def structs(kernel: KernelCall) -> tuple[jax.ShapeDtypeStruct, ...]:
    """Operands and results."""
    return (*kernel.operands, *kernel.outputs)
