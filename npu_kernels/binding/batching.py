"""``jax.vmap`` of kernels: one call of a kernel whose body has the batch as a parallel dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import batching

from npu_kernels import ir
from npu_kernels.errors import LoweringError, TransformError

from . import splitting
from .callsite import located
from .lowered import Lowered
from .primitive import KernelCall, Shapes, Variants, npu_kernel_call_p
from .rules import Current

Axes = tuple[int | None, ...]


@located
def _batch(arrays: Sequence[Any], axes: Sequence[Any], *, kernel: KernelCall, checked: bool) -> tuple[Any, Any]:
    places = tuple(None if axis is None else int(axis) for axis in axes)
    size = next(array.shape[axis] for array, axis in zip(arrays, places, strict=True) if axis is not None)
    if kernel.vmap == "sequential":
        results = _in_turn(arrays, places, kernel, checked)
    elif size == 0:
        results = [jnp.zeros((0, *out.shape), out.dtype) for out in kernel.outputs]
    else:
        chosen, call = batched(kernel, places, size)
        moved = [
            array if here is None or there is None or here == there else jnp.moveaxis(array, here, there)
            for array, here, there in zip(arrays, places, chosen, strict=True)
        ]
        results = call(*moved, checked=checked)
    return results, (0,) * len(kernel.outputs)


def _in_turn(arrays: Sequence[Any], axes: Axes, kernel: KernelCall, checked: bool) -> list[Any]:
    """One call after the other, inside one program."""
    rows = [jnp.moveaxis(a, axis, 0) for a, axis in zip(arrays, axes, strict=True) if axis is not None]

    def one(parts: list[Any]) -> list[Any]:
        rest = iter(parts)
        given = [a if axis is None else next(rest) for a, axis in zip(arrays, axes, strict=True)]
        return kernel(*given, checked=checked)

    results: list[Any] = jax.lax.map(one, rows)
    return results


def batched(kernel: KernelCall, axes: Axes, size: int) -> tuple[Axes, KernelCall]:
    """The call that does ``size`` calls of ``kernel``, and the batch axis it wants of each operand.

    That is the axis the operand has, unless the chip cannot read the operand there: then it is axis 0. Equal arguments
    give the same call.

    Raises:
        TransformError: NPK-TR01, for a kernel given as text.
        LoweringError: when no kernel with this batch can be lowered.
    """
    chosen: tuple[Axes, KernelCall] = kernel.derived(("vmap", axes, size), lambda: _derive(kernel, axes, size))
    return chosen


def _derive(kernel: KernelCall, axes: Axes, size: int) -> tuple[Axes, KernelCall]:
    if kernel.traced is None:
        raise TransformError(
            "NPK-TR01",
            f"kernel {kernel.name} is given as Ascend C text, so that no batched kernel can be derived from it. Give "
            'the batch a dimension of its own, make the kernel with vmap="sequential", or replace jax.vmap by '
            "jax.lax.map.",
        )
    refusal: LoweringError | None = None
    for plan in dict.fromkeys(_plans(axes, kernel.traced)):
        traced = ir.batch(kernel.traced, plan, size)
        try:
            source = Lowered(traced).generated
        except LoweringError as error:
            refusal = error
            continue
        outputs = [jax.ShapeDtypeStruct((size, *out.shape), out.dtype) for out in kernel.outputs]
        variants = None if kernel.variants is None else _Batched(kernel.variants, plan)
        call = KernelCall(
            kernel.name,
            outputs,
            source,
            traced=traced,
            rules=_rules(kernel, plan, size),
            elsewhere=_elsewhere(kernel, plan),
            variants=variants,
            sharding=splitting.batched(kernel, plan, size),
        )
        return plan, call
    assert refusal is not None
    raise LoweringError(
        refusal.code,
        f"kernel {kernel.name} under jax.vmap, {size} calls at once: {refusal.message}. Or make the kernel with "
        'vmap="sequential", which does one call after the other.',
        location=refusal.location,
    ) from None


def _rules(kernel: KernelCall, axes: Axes, size: int) -> Current[Any]:
    return Current(lambda: kernel.rules, lambda one: None if one is None else one.batched(axes, size))


def _elsewhere(kernel: KernelCall, axes: Axes) -> Callable[..., Sequence[Any]] | None:
    """What platforms without kernels run instead."""
    return None if kernel.elsewhere is None else jax.vmap(kernel.elsewhere, in_axes=axes)


def _plans(axes: Axes, kernel: ir.Kernel) -> Iterator[Axes]:
    """Batch axes to try: as they are; away from the contiguous axis; first."""
    yield axes
    last = [len(value.shape) or None for value in kernel.inputs]
    yield tuple(0 if axis == end else axis for axis, end in zip(axes, last, strict=True))
    yield tuple(None if axis is None else 0 for axis in axes)


class _Batched(Variants):
    """Variants of a batched call, from those of one call."""

    def __init__(self, one: Variants, axes: Axes) -> None:
        self.one = one
        self.axes = axes

    def trace(self, shapes: Shapes) -> ir.Kernel:
        size, rest = self._split(shapes)
        return ir.batch(self.one.trace(rest), self.axes, size)

    def call(self, shapes: Shapes) -> KernelCall:
        size, rest = self._split(shapes)
        chosen, call = batched(self.one.call(rest), self.axes, size)
        if chosen != self.axes:
            raise TransformError("NPK-TR01", f"kernel {call.name}: a shard of it wants its batch on other axes.")
        return call

    def _split(self, shapes: Shapes) -> tuple[int, Shapes]:
        """The batch size, and the shapes of one call."""
        size = next(shape[axis] for shape, axis in zip(shapes, self.axes, strict=True) if axis is not None)
        rest = (
            shape if axis is None else (*shape[:axis], *shape[axis + 1 :])
            for shape, axis in zip(shapes, self.axes, strict=True)
        )
        return size, tuple(rest)


batching.primitive_batchers[npu_kernel_call_p] = _batch
