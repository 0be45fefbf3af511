"""What a kernel's Python signature says: which parameters are arrays, of what shapes and dtypes, which are static."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from npu_kernels import ir
from npu_kernels.errors import SignatureError
from npu_kernels.language import Tensor

from .dimensions import Shape, parse_shape, solve

#: Keywords of a call that are not the kernel's own.
RESERVED = ("check", "implementation", "interpret")


@dataclass(frozen=True)
class ArraySpec:
    """An annotation such as ``Float[nl.Tensor, "rows dim"]``.

    Attributes:
        text: as the author wrote it, for messages.
        shape: ``None`` when every shape is allowed.
        dtypes: the language's dtypes that the annotation allows.
    """

    text: str
    shape: Shape | None
    dtypes: tuple[ir.DType, ...]

    def check_dtype(self, name: str, dtype: Any) -> ir.DType:
        """The language's dtype of an array.

        Raises:
            SignatureError: NPK-DT01.
        """
        found = ir.dtype_of(dtype)
        if found is None:
            known = ", ".join(d.name for d in ir.DTYPES)
            raise SignatureError("NPK-DT01", f"`{name}` is {dtype}, which no kernel takes; cast it to one of {known}")
        if found not in self.dtypes:
            allowed = ", ".join(d.name for d in self.dtypes)
            raise SignatureError(
                "NPK-DT01", f"`{name}` is {found.name}, but its annotation {self.text} allows {allowed}"
            )
        return found


@dataclass(frozen=True)
class KernelSignature:
    """The parameters of a kernel in order, and what it returns (empty when the author does not say)."""

    python: inspect.Signature
    arrays: Mapping[str, ArraySpec]
    statics: tuple[str, ...]
    returns: tuple[ArraySpec, ...]

    def bind(
        self, kernel: str, args: tuple[Any, ...], static: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The arguments of a call by name: positional ones, and static ones with their defaults.

        Raises:
            SignatureError: NPK-SG02.
        """
        if len(args) == len(self.arrays) and static.keys() >= self.required and static.keys() <= self.defaults.keys():
            return dict(zip(self.arrays, args, strict=True)), {**self.defaults, **static}
        try:
            bound = self.python.bind(*args, **static)
        except TypeError as error:
            raise SignatureError("NPK-SG02", f"kernel {kernel}{self.python}: {error}.") from None
        bound.apply_defaults()
        return (
            {name: bound.arguments[name] for name in self.arrays},
            {name: bound.arguments[name] for name in self.statics},
        )

    @functools.cached_property
    def defaults(self) -> dict[str, Any]:
        """Static arguments in order with their defaults, where they have one."""
        return {name: self.python.parameters[name].default for name in self.statics}

    @functools.cached_property
    def required(self) -> frozenset[str]:
        """Static arguments without a default."""
        return frozenset(n for n, default in self.defaults.items() if default is inspect.Parameter.empty)

    def solve_inputs(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
        """Named dimensions of a call; raises NPK-SH01 or NPK-SH02."""
        return solve([(n, s.shape, shapes[n]) for n, s in self.arrays.items() if s.shape is not None])

    def check_outputs(self, outputs: list[ir.Value], dims: Mapping[str, int]) -> None:
        """Compares what the body made with the return annotation; raises NPK-SH01, NPK-SH02 or NPK-DT01."""
        if not self.returns:
            return
        if len(outputs) != len(self.returns):
            raise SignatureError(
                "NPK-SH01", f"the body returns {len(outputs)} tensors, but the annotation says {len(self.returns)}"
            )
        shaped = []
        for position, (value, spec) in enumerate(zip(outputs, self.returns, strict=True)):
            name = f"result {position}" if len(outputs) > 1 else "the result"
            assert isinstance(value.type, ir.TensorType)
            spec.check_dtype(name, value.type.dtype.numpy)
            if spec.shape is not None:
                shaped.append((name, spec.shape, value.type.shape))
        solve(shaped, dict(dims))


def read_signature(function: Callable[..., Any], local_names: Mapping[str, Any]) -> KernelSignature:
    """Reads the annotations of a kernel function.

    Args:
        local_names: names of the scope that surrounds the definition, for annotations kept as text.

    Raises:
        SignatureError: NPK-SG01.
    """
    python = inspect.signature(function)
    hints = _hints(function, local_names)
    arrays: dict[str, ArraySpec] = {}
    statics: list[str] = []
    for name, parameter in python.parameters.items():
        if name in RESERVED:
            raise _error(function, f"parameter `{name}` has the name of an option of the call ({', '.join(RESERVED)})")
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise _error(function, f"parameter `{parameter}` may hold any number of arguments; name each of them")
        if name in hints and _is_array(hints[name]):
            if parameter.kind is parameter.KEYWORD_ONLY or parameter.default is not parameter.empty:
                raise _error(function, f"array `{name}` must be positional and without a default")
            arrays[name] = _array_spec(function, name, hints[name])
        elif parameter.kind is parameter.KEYWORD_ONLY:
            statics.append(name)
        else:
            raise _error(
                function,
                f'parameter `{name}` is neither an array (annotate it, as in `{name}: Float[nl.Tensor, "rows dim"]`) '
                "nor static (put it after a `*`)",
            )
    return KernelSignature(python, arrays, tuple(statics), _returns(function, hints.get("return")))


def _hints(function: Callable[..., Any], local_names: Mapping[str, Any]) -> dict[str, Any]:
    closure = inspect.getclosurevars(function).nonlocals if isinstance(function, types.FunctionType) else {}
    try:
        return typing.get_type_hints(function, localns={**local_names, **closure}, include_extras=True)
    except Exception as error:
        raise _error(function, f"its annotations cannot be evaluated: {error}") from None


def _is_array(annotation: Any) -> bool:
    return annotation is Tensor or getattr(annotation, "array_type", None) is Tensor


def _array_spec(function: Callable[..., Any], name: str, annotation: Any) -> ArraySpec:
    if annotation is Tensor:
        return ArraySpec("nl.Tensor", None, ir.DTYPES)
    text = f'{annotation.__name__.partition("[")[0]}[nl.Tensor, "{annotation.dim_str}"]'
    try:
        shape = parse_shape(annotation.dim_str)
    except ValueError as error:
        raise _error(function, f"the annotation {text} of `{name}` cannot be used: {error}") from None
    # jaxtyping lists dtype names, or has one object that stands for every dtype.
    names = annotation.dtypes if isinstance(annotation.dtypes, (tuple, list)) else None
    dtypes = tuple(d for d in ir.DTYPES if names is None or d.name in names)
    if not dtypes:
        raise _error(function, f"the annotation {text} of `{name}` allows no dtype that a kernel can take")
    return ArraySpec(text, shape, dtypes)


def _returns(function: Callable[..., Any], annotation: Any) -> tuple[ArraySpec, ...]:
    if annotation is None:
        return ()
    parts = typing.get_args(annotation) if typing.get_origin(annotation) is tuple else (annotation,)
    if not all(_is_array(part) for part in parts):
        raise _error(function, f"the return annotation {annotation} is neither a tensor nor a tuple of tensors")
    return tuple(_array_spec(function, "return", part) for part in parts)


def _error(function: Callable[..., Any], message: str) -> SignatureError:
    code = getattr(function, "__code__", None)
    location = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else None
    name = getattr(function, "__name__", repr(function))
    return SignatureError("NPK-SG01", f"kernel {name}: {message}.", location=location)
