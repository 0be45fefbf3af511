"""Python functions as jaxprs and back: pytrees, static arguments, methods, one trace per signature."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any, Generic, TypeVar

import jax
import numpy as np

from npu_kernels import jax_compat

T = TypeVar("T")

_ARRAYS = (jax.Array, np.ndarray, np.generic, jax.ShapeDtypeStruct)
#: Signatures a cache remembers. A float that changes with every call must not fill the memory.
_REMEMBERED = 256


@dataclass(frozen=True)
class Traced:
    """A function traced for one signature.

    Attributes:
        jaxpr: closed jaxpr from the array leaves of the arguments to the array leaves of the result.
        is_output_array: for each leaf of the result, whether the jaxpr computes it.
        constants: the other leaves of the result, as the function returned them.
        out_tree: structure of the result.
    """

    jaxpr: Any
    is_output_array: Sequence[bool]
    constants: Sequence[Any]
    out_tree: Any

    def result(self, outputs: Sequence[Any]) -> Any:
        """The function's result from the jaxpr's outputs."""
        arrays, others = iter(outputs), iter(self.constants)
        leaves = [next(arrays) if is_array else next(others) for is_array in self.is_output_array]
        return jax.tree.unflatten(self.out_tree, leaves)


@dataclass(frozen=True)
class Arguments:
    """Arguments of one call, taken apart.

    Attributes:
        leaves: all leaves.
        is_array: which of them are traced; the rest are static, part of the signature.
        tree: structure of ``(args, kwargs)``.
    """

    leaves: Sequence[Any]
    is_array: Sequence[bool]
    tree: Any

    @property
    def arrays(self) -> list[Any]:
        return [leaf for leaf, is_array in zip(self.leaves, self.is_array, strict=True) if is_array]

    def with_arrays(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        given = iter(arrays)
        leaves = [next(given) if is_array else leaf for leaf, is_array in zip(self.leaves, self.is_array, strict=True)]
        args, kwargs = jax.tree.unflatten(self.tree, leaves)
        return tuple(_unwrap(arg) for arg in args), {name: _unwrap(arg) for name, arg in kwargs.items()}

    def signature(self) -> Hashable | None:
        """What decides whether a trace can be used again; ``None`` when a static argument cannot be hashed."""
        parts = [
            _type_key(leaf) if is_array else _static_key(leaf)
            for leaf, is_array in zip(self.leaves, self.is_array, strict=True)
        ]
        key = (self.tree, tuple(parts), jax_compat.trace_context())
        try:
            hash(key)
        except TypeError:
            return None
        return key


@dataclass(frozen=True)
class _Static:
    """A static argument of a jitted function: one leaf, whatever it holds."""

    value: Any


def take_apart(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """Split arguments into what is traced and what is static.

    A jitted function says itself which arguments are static, and traces all the rest, Python numbers included. Any
    other function may branch on a Python number, so only arrays are traced.
    """
    statics = jax_compat.jit_statics(function)
    if statics is not None:
        numbers, names = statics
        positions = {number % len(args) for number in numbers if -len(args) <= number < len(args)}
        args = tuple(_Static(arg) if i in positions else arg for i, arg in enumerate(args))
        kwargs = {name: _Static(arg) if name in names else arg for name, arg in kwargs.items()}
    leaves, tree = jax.tree.flatten((args, kwargs))
    if statics is not None:
        is_array = [not isinstance(leaf, _Static) for leaf in leaves]
    else:
        is_array = [isinstance(leaf, _ARRAYS) for leaf in leaves]
    return Arguments(leaves, is_array, tree)


def _trace(function: Callable[..., Any], arguments: Arguments) -> Traced:
    out_tree: Any = None
    is_output_array: list[bool] = []
    constants: list[Any] = []

    def flat(*arrays: Any) -> list[Any]:
        nonlocal out_tree, is_output_array, constants
        args, kwargs = arguments.with_arrays(arrays)
        leaves, out_tree = jax.tree.flatten(function(*args, **kwargs))
        is_output_array = [isinstance(leaf, _ARRAYS) for leaf in leaves]
        constants = [leaf for leaf in leaves if not isinstance(leaf, _ARRAYS)]
        return [leaf for leaf in leaves if isinstance(leaf, _ARRAYS)]

    flat.__name__ = flat.__qualname__ = getattr(function, "__name__", "function")
    closed = jax.make_jaxpr(flat)(*arguments.arrays)
    return Traced(closed, is_output_array, constants, out_tree)


class TraceCache(Generic[T]):
    """What is made of a function's jaxpr, once per signature.

    A signature is the structure of the arguments, the type of every array, the value of everything static, and JAX's
    configuration. As under ``jax.jit``, what the function reads from elsewhere is read when it is traced.

    Args:
        function: any function JAX can trace, jitted or not.
        build: from the function traced, and the ``extra`` of the call, to what is remembered.
    """

    def __init__(self, function: Callable[..., Any], build: Callable[[Traced, Any], T]) -> None:
        self._function = function
        self._build = build
        self._known: OrderedDict[Hashable, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, args: tuple[Any, ...], kwargs: dict[str, Any], extra: Hashable = None) -> tuple[Arguments, T]:
        """The arguments taken apart, and what was built for their signature and ``extra``.

        ``jax.ShapeDtypeStruct`` may stand for arrays.

        Raises:
            jax.errors.JAXTypeError: the function is not traceable, as under ``jax.jit``.
        """
        function, args = _unbound(self._function, args)
        arguments = take_apart(function, args, kwargs)
        signature = arguments.signature()
        key = None if signature is None else (signature, extra)
        with self._lock:
            if key is not None and key in self._known:
                self._known.move_to_end(key)
                return arguments, self._known[key]
        traced = _trace(function, arguments)
        built = self._build(traced, extra)
        # A constant that is itself being traced belongs to one trace of a caller and must not outlive it.
        lasting = not any(isinstance(const, jax.core.Tracer) for const in jax_compat.jaxpr_consts(traced.jaxpr))
        if key is not None and lasting:
            with self._lock:
                self._known[key] = built
                while len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
        return arguments, built


def _unbound(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A bound method as its function and the instance as first argument: a jitted one counts it when it says static."""
    if isinstance(function, MethodType) and jax_compat.jit_statics(function.__func__) is not None:
        return function.__func__, (function.__self__, *args)
    return function, args


def _unwrap(argument: Any) -> Any:
    return argument.value if isinstance(argument, _Static) else argument


def _type_key(leaf: Any) -> Hashable:
    return leaf if isinstance(leaf, jax.ShapeDtypeStruct) else jax.typeof(leaf)


def _static_key(leaf: Any) -> Hashable:
    """Equal only for values that behave the same: 1, 1.0 and True differ, 0.0 and -0.0 too."""
    value = _unwrap(leaf)
    return (type(value), repr(value) if isinstance(value, float | complex) else value)
