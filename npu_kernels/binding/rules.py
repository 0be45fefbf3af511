"""Derivative rules: declared on a kernel, bound to one call, batched with it.

A :class:`Kernel` holds :class:`Derivatives`, the user's functions as declared. Each call of it has :class:`Rules`, the
same functions bound to its static arguments and its shapes, in terms of flat lists; ``gradients`` turns those into
rules of the primitive. A call derived from another by ``jax.vmap`` takes ``rules.batched(...)``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from npu_kernels.errors import TransformError

from . import batched_rules
from .batched_rules import Arrays

_log = logging.getLogger("npu_kernels")

Structs = Mapping[str, jax.ShapeDtypeStruct]
S = TypeVar("S")


@dataclass(frozen=True, eq=False)
class Rules:
    """Derivative rules of one call; the static arguments are bound.

    Attributes:
        forward: operands → (results, residuals, any pytree of arrays); None stands for the call itself, with the list
            of its operands as residuals.
        pullback: (residuals, cotangents of the results) → cotangents of the operands; None when reverse mode goes
            through ``pushforward``.
        pushforward: (operands, tangents) → (results, tangents of the results), made of operations that JAX can
            transpose; None when there is no forward mode.
    """

    forward: Callable[[Arrays], tuple[Arrays, Any]] | None = None
    pullback: Callable[[Any, Arrays], Arrays] | None = None
    pushforward: Callable[[Arrays, Arrays], tuple[Arrays, Arrays]] | None = None

    def batched(self, in_axes: Sequence[int | None], axis_size: int, out_axes: int = 0) -> Rules:
        """The rules of the call that does ``axis_size`` calls at once: ``jax.vmap`` of these.

        Args:
            in_axes: the batch axis of each operand, or None for one that all calls share. The cotangent of a shared
                operand is the sum over the batch.
            out_axes: the batch axis of every result.
        """
        axes = tuple(in_axes)
        forward, pullback, pushforward = self.forward, self.pullback, self.pushforward
        if pullback is not None:
            keeps_operands = forward is None
            pullback = batched_rules.pullback(pullback, axes, axis_size, out_axes, keeps_operands=keeps_operands)
        if forward is not None:
            forward = batched_rules.forward(forward, axes, axis_size, out_axes)
        if pushforward is not None:
            pushforward = batched_rules.pushforward(pushforward, axes, axis_size, out_axes)
        return Rules(forward, pullback, pushforward)


class Current(Generic[S]):
    """Rules of a call as they are declared when it is differentiated, not when it was traced.

    A call outlives its trace: in the caches of ``jax.jit`` and of ``substitute``. Until ``source`` answers another
    object the rules are the same object, so that equal derivatives share what JAX makes of them.

    Args:
        source: what the rules are made of.
        make: makes them; None where nothing is declared.
    """

    def __init__(self, source: Callable[[], S], make: Callable[[S], Rules | None]) -> None:
        self._source = source
        self._make = make
        self._made: tuple[S, Rules | None] | None = None

    def __call__(self) -> Rules | None:
        source = self._source()
        made = self._made
        if made is None or made[0] is not source:
            self._made = made = source, self._make(source)
        return made[1]


@dataclass(frozen=True)
class Derivatives:
    """What a kernel's author declared; every function also gets the call's static arguments.

    Attributes:
        fwd: ``fwd(*arrays) -> (result, residuals)``.
        bwd: ``bwd(residuals, cotangent) -> cotangents``, a tuple with one for each array argument.
        jvp: ``jvp(primals, tangents) -> (result, tangent)``.
        reference: a JAX function of the kernel's signature.
    """

    fwd: Callable[..., Any] | None = None
    bwd: Callable[..., Any] | None = None
    jvp: Callable[..., Any] | None = None
    reference: Callable[..., Any] | None = None

    def rules(self, call: Bound) -> Rules | None:
        """The rules of one call; None when nothing is declared.

        Reverse mode goes through ``bwd``, else ``jvp``, else the reference; forward mode through ``jvp``, else the
        reference.
        """
        pushforward = None
        if self.jvp is not None:
            pushforward = call.pushforward(self.jvp)
        elif self.reference is not None:
            pushforward = call.pushforward_of(self.reference)
        if self.fwd is not None and self.bwd is not None:
            return Rules(call.forward(self.fwd), call.pullback(self.bwd), pushforward)
        if self.jvp is not None:
            return Rules(pushforward=pushforward)
        if self.reference is not None:
            return Rules(pullback=call.pullback_of(self.reference), pushforward=pushforward)
        return None


@dataclass(frozen=True)
class Bound:
    """What binds a declared function to one call: it gives the statics, and checks what the function returns.

    Every method raises, or makes functions that raise, :class:`TransformError` NPK-TR02 for what does not fit.
    """

    kernel: str
    operands: Structs
    results: tuple[jax.ShapeDtypeStruct, ...]
    statics: Mapping[str, Any]

    def forward(self, fwd: Callable[..., Any]) -> Callable[[Arrays], tuple[Arrays, Any]]:
        def forward(operands: Arrays) -> tuple[Arrays, Any]:
            result, residuals = self.pair("fwd", "(result, residuals)", fwd(*operands, **self.statics))
            return self.checked_results("fwd", result), self.checked_residuals(residuals)

        return forward

    def pullback(self, bwd: Callable[..., Any]) -> Callable[[Any, Arrays], Arrays]:
        def pullback(residuals: Any, cotangents: Arrays) -> Arrays:
            given = _instantiated(cotangents, self.results)
            packed = given[0] if len(given) == 1 else tuple(given)
            return self.checked_cotangents(bwd(residuals, packed, **self.statics))

        return pullback

    def pushforward(self, jvp: Callable[..., Any]) -> Callable[[Arrays, Arrays], tuple[Arrays, Arrays]]:
        def pushforward(operands: Arrays, tangents: Arrays) -> tuple[Arrays, Arrays]:
            given = tuple(_instantiated(tangents, self.operands.values()))
            result, tangent = self.pair("jvp", "(result, tangent)", jvp(tuple(operands), given, **self.statics))
            return self.checked_results("jvp", result), self.checked_tangents(tangent)

        return pushforward

    def function(self, reference: Callable[..., Any]) -> Callable[..., Arrays]:
        """The reference as a function from arrays to a list of results."""

        def function(*operands: Any) -> Arrays:
            return self.checked_results("the reference", reference(*operands, **self.statics))

        return function

    def pushforward_of(self, reference: Callable[..., Any]) -> Callable[[Arrays, Arrays], tuple[Arrays, Arrays]]:
        function = self.function(reference)

        def pushforward(operands: Arrays, tangents: Arrays) -> tuple[Arrays, Arrays]:
            _say_once(self.kernel)
            given = _instantiated(tangents, self.operands.values())
            results, made = jax.jvp(function, tuple(operands), tuple(given))
            return results, _without_float0(made, self.results)

        return pushforward

    def pullback_of(self, reference: Callable[..., Any]) -> Callable[[Any, Arrays], Arrays]:
        function = self.function(reference)

        def pullback(operands: Any, cotangents: Arrays) -> Arrays:
            _say_once(self.kernel)
            _, transposed = jax.vjp(function, *operands)
            return _without_float0(transposed(_instantiated(cotangents, self.results)), self.operands.values())

        return pullback

    def pair(self, function: str, wanted: str, returned: Any) -> tuple[Any, Any]:
        if not isinstance(returned, (tuple, list)) or len(returned) != 2:
            raise self.wrong(f"{function} must return a pair {wanted}, but it returned {_kind(returned)}")
        return returned[0], returned[1]

    def checked_results(self, function: str, result: Any) -> Arrays:
        listed = self.listed(function, "result", result)
        for i, (value, struct) in enumerate(zip(listed, self.results, strict=True)):
            self.check(function, self.result_name(i), value, struct)
        return listed

    def checked_tangents(self, tangent: Any) -> Arrays:
        listed = self.listed("jvp", "tangent", tangent)
        made: list[Any] = []
        for i, (value, struct) in enumerate(zip(listed, self.results, strict=True)):
            made.append(self.differential("jvp", "tangent", self.result_name(i), value, struct))
            if made[-1] is None and has_tangent(struct):
                made[-1] = _zero(struct)
        return made

    def checked_residuals(self, residuals: Any) -> Any:
        for path, leaf in jax.tree_util.tree_leaves_with_path(residuals):
            try:
                jax.typeof(leaf)
            except TypeError:
                at = jax.tree_util.keystr(path)
                raise self.wrong(
                    f"the residuals of fwd must be arrays, but residuals{at} is {_kind(leaf)}; the static arguments "
                    "are given to bwd as they are"
                ) from None
        return residuals

    def checked_cotangents(self, cotangents: Any) -> Arrays:
        names = ", ".join(self.operands)
        count = len(self.operands)
        if not isinstance(cotangents, (tuple, list)):
            raise self.wrong(
                f"bwd must return a tuple of one cotangent for each of ({names}), but it returned {_kind(cotangents)}"
            )
        if len(cotangents) != count:
            raise self.wrong(
                f"bwd returned {len(cotangents)} cotangents, but the kernel has {count} array arguments ({names})"
            )
        return [
            self.differential("bwd", "cotangent", f"`{name}`", value, struct)
            for value, (name, struct) in zip(cotangents, self.operands.items(), strict=True)
        ]

    def differential(self, function: str, noun: str, name: str, value: Any, struct: jax.ShapeDtypeStruct) -> Any:
        """The tangent or cotangent as an array, None for zero."""
        if value is None:
            return None
        if not has_tangent(struct):
            if getattr(value, "dtype", None) == jax.dtypes.float0:
                return None
            raise self.wrong(
                f"{name} is {struct.dtype}, so {function} must return None as its {noun}, but it returned "
                f"{_kind(value)}"
            )
        self.check(function, f"the {noun} of {name}", value, struct)
        return jnp.asarray(value, struct.dtype)

    def check(self, function: str, what: str, value: Any, struct: jax.ShapeDtypeStruct) -> None:
        try:
            aval = jax.typeof(value)
            shape, dtype, weak = aval.shape, aval.dtype, getattr(aval, "weak_type", False)
        except (TypeError, AttributeError):
            raise self.wrong(f"{function} returned {_kind(value)} as {what}, which must be an array") from None
        if shape != struct.shape:
            raise self.wrong(f"{function} returned {what} with shape {shape}, but it must have shape {struct.shape}")
        if dtype != struct.dtype and not weak:
            raise self.wrong(f"{function} returned {what} as {dtype}, but it must be {struct.dtype}")

    def listed(self, function: str, noun: str, value: Any) -> list[Any]:
        values = list(value) if isinstance(value, (tuple, list)) else [value]
        if len(values) != len(self.results):
            raise self.wrong(
                f"{function} returned {len(values)} arrays as its {noun}, but the kernel has {len(self.results)} "
                "results"
            )
        return values

    def result_name(self, position: int) -> str:
        return "the result" if len(self.results) == 1 else f"result {position}"

    def wrong(self, sentence: str) -> TransformError:
        return TransformError("NPK-TR02", f"derivative of kernel {self.kernel}: {sentence}.")


_said: set[str] = set()


def _say_once(kernel: str) -> None:
    if kernel not in _said:
        _said.add(kernel)
        _log.warning("kernel %s has no derivative kernel: it is differentiated through its reference", kernel)


def has_tangent(struct: Any) -> bool:
    """Whether arrays like this have tangents: integers and booleans do not."""
    return bool(jnp.issubdtype(struct.dtype, jnp.inexact))


def _instantiated(values: Arrays, structs: Iterable[Any]) -> list[Any]:
    return [_zero(struct) if value is None else value for value, struct in zip(values, structs, strict=True)]


def _without_float0(values: Arrays, structs: Iterable[Any]) -> list[Any]:
    return [value if has_tangent(struct) else None for value, struct in zip(values, structs, strict=True)]


def _zero(struct: Any) -> Any:
    if has_tangent(struct):
        return jnp.zeros(struct.shape, struct.dtype)
    return np.zeros(struct.shape, jax.dtypes.float0)


def _kind(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array of shape {tuple(value.shape)} and dtype {value.dtype}"
    return f"{value!r} of type {type(value).__name__}"
