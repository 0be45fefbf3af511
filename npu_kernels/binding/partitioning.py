"""Calls in programs that XLA splits over devices: each device gets a kernel for its part.

A call that is lowered for several devices becomes a custom call with a Shardy rule, which says what axes go together.
When XLA partitions the program, it asks here: axes that may not be split are gathered, with a warning that says why,
and the kernel for the local shapes takes the call's place.
"""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jax.experimental.custom_partitioning import (
    ArrayMapping,
    CompoundFactor,
    SdyShardingRule,
    custom_partitioning,
)
from jax.extend.mlir import ir as mlir_ir
from jax.interpreters import mlir
from jax.sharding import NamedSharding, PartitionSpec

from npu_kernels import jax_compat
from npu_kernels.errors import NpuKernelsError
from npu_kernels.ir.sharding import Factor, Place

from .primitive import KernelCall, lower_call, npu_kernel_call_p
from .splitting import changes, chosen, factors_of, mesh_axes, resized, structs

_log = logging.getLogger("npu_kernels")


def _lower(ctx: mlir.LoweringRuleContext, *operands: Any, kernel: KernelCall, checked: bool) -> Any:
    if not jax_compat.is_partitioned(ctx):
        return lower_call(ctx, *operands, kernel=kernel, checked=checked)
    split = _partitioned(kernel, checked)
    results = mlir.lower_fun(split, multiple_results=True)(ctx, *operands)
    # The rest of the call is an address. Without this, the persistent cache could take another kernel's entry for it.
    call: Any = mlir.flatten_ir_values(results)[0].owner
    call.attributes["mhlo.frontend_attributes"] = mlir_ir.DictAttr.get(
        {"npu_kernels.call": mlir_ir.StringAttr.get(uuid.uuid4().hex)}
    )
    return results


def _partitioned(kernel: KernelCall, checked: bool) -> Callable[..., Any]:
    def call(*arrays: Any) -> list[Any]:
        return kernel.bind(*arrays, checked=checked)

    def partition(mesh: Any, operands: Any, results: Any) -> Any:
        local, shardings = _split(kernel, mesh, [*operands, *results])

        def lowered(*arrays: Any) -> list[Any]:
            return local.bind(*arrays, checked=checked)

        count = len(kernel.operands)
        return mesh, lowered, shardings[count:], tuple(shardings[:count])

    call.__name__ = kernel.name
    split = custom_partitioning(call)
    split.def_partition(partition, sharding_rule=_rule(kernel), decode_shardings=False)
    return split


def _rule(kernel: KernelCall) -> SdyShardingRule:
    """What Shardy may propagate: an axis that may not be split has a factor of its own, and stays as it is."""
    dimensions: dict[Place, Any] = {}
    sizes: dict[str, Any] = {}
    for i, factor in enumerate(factors_of(kernel)):
        for j, (place, group) in enumerate(factor.places.items()):
            name = f"f{i}" if factor.refusal is None else f"f{i}_{j}"
            if group > 1:
                sizes |= {name: factor.size, f"f{i}_{j}g": group}
                dimensions[place] = CompoundFactor(name, f"f{i}_{j}g")
            else:
                dimensions[place] = name
    mappings = [
        ArrayMapping(*(dimensions[t, axis] for axis in range(len(tensor.shape))))
        for t, tensor in enumerate(structs(kernel))
    ]
    count = len(kernel.operands)
    plain = {d for mapping in mappings for d in mapping if isinstance(d, str)}
    return SdyShardingRule(
        tuple(mappings[:count]), tuple(mappings[count:]), **{n: s for n, s in sizes.items() if n not in plain}
    )


def _split(kernel: KernelCall, mesh: Any, tensors: Sequence[Any]) -> tuple[KernelCall, list[Any]]:
    """The call for one device's part, and the shardings of its operands and results."""
    found = [jax_compat.mesh_spec(tensor.sharding, mesh) for tensor in tensors]
    given = {
        (t, axis): part for t, spec in enumerate(found) for axis, part in enumerate(spec or ()) if part is not None
    }
    wanted = chosen(kernel, given)
    split, reasons = {}, {}
    for factor, part in wanted.items():
        parts = math.prod(mesh.shape[name] for name in mesh_axes(part))
        if factor.size % parts:
            reasons[factor] = f"{factor.size} cannot be split into {parts} equal parts"
        else:
            split[factor] = (part, factor.size // parts)
    local, why = _local(kernel, {factor: size for factor, (_, size) in split.items()})
    if why is not None:
        reasons |= dict.fromkeys(split, why)
        split = {}
    specs: list[list[Any]] = [[None] * len(tensor.shape) for tensor in tensors]
    for factor, (part, _) in split.items():
        for tensor, axis in factor.places:
            specs[tensor][axis] = part
    _tell(kernel, given, specs, reasons)
    _tell_unknown(kernel, found)
    return local, [NamedSharding(mesh, PartitionSpec(*spec)) for spec in specs]


def _local(kernel: KernelCall, sizes: Mapping[Factor, int]) -> tuple[KernelCall, str | None]:
    """The call for factors of these sizes; else the whole one, and why."""
    if not sizes:
        return kernel, None
    assert kernel.variants is not None
    shapes = resized(kernel, sizes)
    why = None if kernel.sharding is not None else changes(kernel, shapes, list(sizes))
    if why is None:
        try:
            return kernel.variants.call(shapes), None
        except NpuKernelsError as error:
            why = error.message
    return kernel, f"the kernel for one part cannot be made ({why})"


def _tell(
    kernel: KernelCall,
    given: Mapping[Place, Any],
    specs: Sequence[Sequence[Any]],
    reasons: Mapping[Factor, str],
) -> None:
    """A warning for each operand that has to be gathered."""
    names = _names(kernel)
    for factor in factors_of(kernel):
        for tensor, axis in factor.places:
            part = given.get((tensor, axis))
            if part is None or specs[tensor][axis] == part or tensor >= len(kernel.operands):
                continue
            why = factor.refusal or reasons.get(factor) or "another axis is split over the same mesh axis"
            _log.warning(
                "kernel %s: `%s` is sharded over mesh axis %s on axis %d, which the kernel cannot split: %s. It is "
                "gathered before the call.",
                kernel.name,
                names[tensor],
                "`, `".join(mesh_axes(part)).join("``"),
                axis,
                why,
            )


def _tell_unknown(kernel: KernelCall, found: Sequence[Sequence[Any] | None]) -> None:
    """A warning for each operand that is gathered because its sharding is not that of whole mesh axes."""
    for name, spec in zip(_names(kernel), found, strict=False):
        if spec is None:
            _log.warning(
                "kernel %s: `%s` is sharded over a part of a mesh axis, or inside a shard_map that is manual over some "
                "mesh axes only. It is gathered before the call; make shard_map manual over every axis.",
                kernel.name,
                name,
            )


def _names(kernel: KernelCall) -> list[str]:
    if kernel.traced is None:
        return [f"operand {i}" for i in range(len(kernel.operands))]
    return [value.name for value in kernel.traced.inputs]


jax_compat.lower_with_devices(npu_kernel_call_p)
mlir.register_lowering(npu_kernel_call_p, _lower, platform="cpu", inline=False)
