"""Differentiation of kernel calls.

The derivative of a call is ``forward``, bound at once, and a linear primitive ``npu_kernel_tangent``, which stands for
the tangents of its results. Reverse mode transposes that primitive, which runs ``pullback``; forward mode evaluates it,
which needs ``pushforward``. No call is wrapped in a ``custom_vjp``: without differentiation a call is one equation.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Protocol

import jax
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.sharding import PartitionSpec

from npu_kernels import jax_compat
from npu_kernels.errors import TransformError

from . import batched_rules
from .batched_rules import Arrays, Axes
from .callsite import located
from .debugging import checked_mode, debug
from .primitive import KernelCall, npu_kernel_call_p
from .rules import Rules, has_tangent

_PREFIX = "npu_kernels."


class LinearMap(Protocol):
    """The derivative of a call at one point: from tangents of some operands to tangents of the inexact results.

    Two maps are equal when they do the same with the same ``leaves``, the residuals that the primitive carries.
    """

    @property
    def name(self) -> str: ...
    @property
    def num_leaves(self) -> int: ...
    @property
    def results(self) -> Sequence[jax.ShapeDtypeStruct]: ...
    @property
    def has_forward_mode(self) -> bool: ...
    def pullback(self, leaves: Arrays, cotangents: Arrays) -> Arrays: ...
    def pushforward(self, leaves: Arrays, tangents: Arrays) -> Arrays: ...


@dataclass(frozen=True)
class _CallMap:
    """The derivative of one call.

    Attributes:
        rules: those the residuals are of.
        tree: how the first leaves make up the residuals.
        operands: which leaf each operand of the call is; empty without forward mode, which alone needs them.
        active: which operands have a tangent.
        results: the tangents' shapes, dtypes and, under a mesh with explicit axes, shardings.
    """

    kernel: KernelCall
    rules: Rules
    checked: bool
    num_leaves: int
    tree: Any
    operands: tuple[int, ...]
    active: tuple[bool, ...]
    results: tuple[jax.ShapeDtypeStruct, ...]

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def has_forward_mode(self) -> bool:
        return self.rules.pushforward is not None

    def pullback(self, leaves: Arrays, cotangents: Arrays) -> Arrays:
        assert self.rules.pullback is not None
        residuals = jax.tree.unflatten(self.tree, leaves[: self.tree.num_leaves])
        given = iter(cotangents)
        every = [next(given) if has_tangent(out) else None for out in self.kernel.outputs]
        with _mode(self.checked):
            made = self.rules.pullback(residuals, every)
        return [cotangent for cotangent, active in zip(made, self.active, strict=True) if active]

    def pushforward(self, leaves: Arrays, tangents: Arrays) -> Arrays:
        assert self.rules.pushforward is not None
        given = iter(tangents)
        every = [next(given) if active else None for active in self.active]
        with _mode(self.checked):
            _, made = self.rules.pushforward([leaves[i] for i in self.operands], every)
        return [tangent for tangent, out in zip(made, self.kernel.outputs, strict=True) if has_tangent(out)]


@dataclass(frozen=True)
class _BatchedMap:
    """``jax.vmap`` of a map; results have the batch as axis 0."""

    one: LinearMap
    leaf_axes: tuple[int | None, ...]
    tangent_axes: tuple[int | None, ...]
    axis_size: int

    @property
    def name(self) -> str:
        return self.one.name

    @property
    def num_leaves(self) -> int:
        return self.one.num_leaves

    @property
    def results(self) -> list[jax.ShapeDtypeStruct]:
        return [jax_compat.with_leading_axis(out, self.axis_size) for out in self.one.results]

    @property
    def has_forward_mode(self) -> bool:
        return self.one.has_forward_mode

    def pullback(self, leaves: Arrays, cotangents: Arrays) -> Arrays:
        axes = [0] * len(cotangents)
        return batched_rules.pulled_back(
            self.one.pullback, leaves, self.leaf_axes, cotangents, axes, self.tangent_axes, self.axis_size
        )

    def pushforward(self, leaves: Arrays, tangents: Arrays) -> Arrays:
        axes = list(self.leaf_axes), list(self.tangent_axes)
        mapped = jax.vmap(self.one.pushforward, in_axes=axes, axis_size=self.axis_size)
        made: Arrays = mapped(list(leaves), list(tangents))
        return made


def _mode(checked: bool) -> AbstractContextManager[None]:
    """Kernels of a derivative run in the mode of the call."""
    return contextlib.nullcontext() if checked == checked_mode() else debug(check=checked)


# ----------------------------------------------------------------------------------------------------
# The call


@located
def _differentiate(
    primals: Arrays, tangents: Arrays, *, kernel: KernelCall, checked: bool
) -> tuple[list[Any], list[Any]]:
    rules = kernel.rules
    if rules is None:
        raise TransformError(
            "NPK-TR01",
            f"kernel {kernel.name} has no derivative rule; declare one with {kernel.name}.defvjp, or give "
            "npu_kernel(reference=...) a JAX function to differentiate instead.",
        )
    active = tuple(not isinstance(tangent, ad.Zero) for tangent in tangents)
    if rules.pullback is None:
        assert rules.pushforward is not None
        with _mode(checked):
            every = [tangent if is_active else None for tangent, is_active in zip(tangents, active, strict=True)]
            results, made = rules.pushforward(list(primals), every)
        results = [checkpoint_name(result, _PREFIX + kernel.name) for result in results]
        return results, _with_zeros(results, made)
    if rules.forward is None:
        results, residuals = kernel.bind(*primals, checked=checked), list(primals)
    else:
        with _mode(checked):
            results, residuals = rules.forward(list(primals))
    leaves, tree = jax.tree.flatten(residuals)
    results, leaves = _named(kernel.name, primals, results, leaves)
    operands = _slots(primals, leaves) if rules.pushforward is not None else ()
    types = tuple(jax_compat.struct_of(r) for r, out in zip(results, kernel.outputs, strict=True) if has_tangent(out))
    linear = _CallMap(kernel, rules, checked, len(leaves), tree, operands, active, types)
    given = [tangent for tangent, is_active in zip(tangents, active, strict=True) if is_active]
    made = iter(npu_kernel_tangent_p.bind(*leaves, *given, linear=linear))
    return results, _with_zeros(results, [next(made) if has_tangent(out) else None for out in kernel.outputs])


def _named(kernel: str, primals: Arrays, results: Arrays, leaves: Arrays) -> tuple[list[Any], list[Any]]:
    """Results and residuals under the name by which a checkpoint policy knows them; operands stay as they are."""
    named = {id(primal): primal for primal in primals}
    for value in (*results, *leaves):
        if id(value) not in named:
            named[id(value)] = checkpoint_name(value, _PREFIX + kernel)
    return [named[id(value)] for value in results], [named[id(value)] for value in leaves]


def _slots(operands: Arrays, leaves: list[Any]) -> tuple[int, ...]:
    """Where each operand stands among the leaves; appends those that do not."""
    slots = []
    for operand in operands:
        slot = batched_rules.position(operand, leaves)
        if slot is None:
            slot = len(leaves)
            leaves.append(operand)
        slots.append(slot)
    return tuple(slots)


def _with_zeros(results: Arrays, tangents: Arrays) -> list[Any]:
    return [
        ad.Zero(jax.typeof(result).to_tangent_aval()) if tangent is None else tangent
        for result, tangent in zip(results, tangents, strict=True)
    ]


@located
def _transpose(cotangents: Arrays, *operands: Any, kernel: KernelCall, checked: bool) -> list[Any]:
    """A call on tangents, made by a jvp rule: it is linear in them, so that its pullback at any point transposes it."""
    unknown = [ad.is_undefined_primal(operand) for operand in operands]
    rules = kernel.rules
    if rules is None or rules.pullback is None:
        raise TransformError(
            "NPK-TR01",
            f"kernel {kernel.name} is called on tangents and has no vjp rule by which to transpose the call; declare "
            f"one with {kernel.name}.defvjp.",
        )
    with _mode(checked):
        point = [
            jax.numpy.zeros(operand.aval.shape, operand.aval.dtype) if is_unknown else operand
            for operand, is_unknown in zip(operands, unknown, strict=True)
        ]
        residuals: Any = point
        if rules.forward is not None:
            _, residuals = rules.forward(point)
        given = [None if isinstance(cotangent, ad.Zero) else cotangent for cotangent in cotangents]
        made = rules.pullback(residuals, given)
    return [cotangent if is_unknown else None for cotangent, is_unknown in zip(made, unknown, strict=True)]


# ----------------------------------------------------------------------------------------------------
# Its tangents

npu_kernel_tangent_p = Primitive("npu_kernel_tangent")
npu_kernel_tangent_p.multiple_results = True


def _abstract_tangent(*operands: Any, linear: LinearMap) -> list[Any]:
    def specs(_: Sequence[PartitionSpec]) -> list[PartitionSpec]:
        whole = [PartitionSpec(*(None,) * len(out.shape)) for out in linear.results]
        return [out.sharding.spec if out.sharding else plain for out, plain in zip(linear.results, whole, strict=True)]

    return jax_compat.result_avals(linear.results, operands, specs)


@located
def _evaluate_tangent(*operands: Any, linear: LinearMap) -> Arrays:
    if not linear.has_forward_mode:
        raise TransformError(
            "NPK-TR01",
            f"kernel {linear.name} has no rule for forward mode (jax.jvp, jax.jacfwd, jax.hessian): its derivative "
            f"runs backwards only. Declare one with {linear.name}.defjvp or npu_kernel(reference=...), or use "
            "reverse mode.",
        )
    return linear.pushforward(operands[: linear.num_leaves], operands[linear.num_leaves :])


@located
def _differentiate_tangent(primals: Arrays, tangents: Arrays, *, linear: LinearMap) -> tuple[Any, Any]:
    leaves = primals[: linear.num_leaves]
    if all(isinstance(tangent, ad.Zero) for tangent in tangents[: linear.num_leaves]):
        given = [ad.instantiate_zeros(tangent) for tangent in tangents[linear.num_leaves :]]
        results = npu_kernel_tangent_p.bind(*primals, linear=linear)
        return results, npu_kernel_tangent_p.bind(*leaves, *given, linear=linear)
    made = [ad.instantiate_zeros(tangent) for tangent in tangents]
    return jax.jvp(functools.partial(_evaluate_tangent, linear=linear), tuple(primals), tuple(made))


@located
def _transpose_tangent(cotangents: Arrays, *operands: Any, linear: LinearMap) -> list[Any]:
    leaves, tangents = operands[: linear.num_leaves], operands[linear.num_leaves :]
    given = [None if isinstance(cotangent, ad.Zero) else cotangent for cotangent in cotangents]
    made = linear.pullback(leaves, given)
    wanted = [
        cotangent if ad.is_undefined_primal(tangent) else None
        for cotangent, tangent in zip(made, tangents, strict=True)
    ]
    return [None] * len(leaves) + wanted


def _batch_tangent(operands: Arrays, axes: Axes, *, linear: LinearMap) -> tuple[list[Any], list[int]]:
    size = next(operand.shape[axis] for operand, axis in zip(operands, axes, strict=True) if axis is not None)
    leaf_axes, tangent_axes = tuple(axes[: linear.num_leaves]), tuple(axes[linear.num_leaves :])
    many = _BatchedMap(linear, leaf_axes, tangent_axes, size)
    results = npu_kernel_tangent_p.bind(*operands, linear=many)
    return results, [0] * len(results)


npu_kernel_tangent_p.def_impl(_evaluate_tangent)
npu_kernel_tangent_p.def_abstract_eval(_abstract_tangent)
mlir.register_lowering(npu_kernel_tangent_p, mlir.lower_fun(_evaluate_tangent, multiple_results=True))
ad.primitive_jvps[npu_kernel_tangent_p] = _differentiate_tangent
ad.primitive_transposes[npu_kernel_tangent_p] = _transpose_tangent
batching.primitive_batchers[npu_kernel_tangent_p] = _batch_tangent
ad.primitive_jvps[npu_kernel_call_p] = _differentiate
ad.primitive_transposes[npu_kernel_call_p] = _transpose


# ----------------------------------------------------------------------------------------------------
# jax.checkpoint


def save_kernels(*names: str) -> Callable[..., bool]:
    """A policy for ``jax.checkpoint`` that saves what some kernels made, and recomputes everything else.

    Saved are the results of those kernels and the residuals of their derivative rules, so that none of them runs again
    in the backward pass. ``jax.checkpoint_policies.save_from_both_policies`` joins it with another policy. The values
    carry the name ``npu_kernels.<kernel>``, which policies of JAX's own may use as well.

    Args:
        names: names of kernels; ``*`` and ``?`` stand for any letters, as in ``"attention*"``.
    """

    def policy(primitive: Any, *avals: Any, **params: Any) -> bool:
        if primitive is npu_kernel_call_p:
            name = params["kernel"].name
        elif primitive.name == "name" and params["name"].startswith(_PREFIX):
            name = params["name"].removeprefix(_PREFIX)
        else:
            return False
        return any(fnmatchcase(name, pattern) for pattern in names)

    return policy
