"""The Kernel object: a Python function that is traced, lowered, built and called like any JAX function."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from npu_kernels import ir, knobs, language
from npu_kernels.errors import SignatureError, TransformError
from npu_kernels.language.effects import environment

from .callsite import user_facing
from .lowered import Lowered
from .primitive import KernelCall
from .signature import KernelSignature, read_signature


@dataclass(frozen=True)
class _Specialisation:
    call: KernelCall
    lowered: Lowered


class Kernel:
    """A kernel written as a Python function; made by :func:`npu_kernel`.

    Calling it with arrays runs it, or records the call when JAX traces. It is specialised once for each combination of
    shapes, dtypes and static arguments.
    """

    def __init__(self, function: Callable[..., Any], local_names: Mapping[str, Any] | None = None) -> None:
        self._function = function
        self._signature: KernelSignature = read_signature(function, local_names or {})
        self._specialisations: dict[Any, _Specialisation] = {}
        self._lock = threading.RLock()
        functools.update_wrapper(self, function)

    @property
    def name(self) -> str:
        return self._function.__name__

    def __repr__(self) -> str:
        return f"<npu_kernel {self.name}{self._signature.python}>"

    @user_facing
    def __call__(self, *arrays: Any, interpret: bool = False, check: bool | None = None, **static: Any) -> Any:
        """Runs the kernel.

        Args:
            arrays: one array per positional parameter, of the annotated shape and dtype.
            interpret: run the Python body eagerly on NumPy, so that `print` and `breakpoint()` work in it.
            check: run in the twin's checked mode; by default as NPU_KERNELS_CHECK says.
            static: the kernel's keyword parameters.

        Returns:
            The result, or a tuple of results when the kernel has several.

        Raises:
            SignatureError: NPK-SG02, NPK-SH01, NPK-SH02 or NPK-DT01, when the call does not fit the signature.
            LanguageError, LoweringError, ToolchainError, CacheError: when the kernel cannot be built.
            KernelFault: when an eager call in checked mode found a fault.
        """
        bound, statics = self._bind(arrays, static)
        if interpret:
            return _packed(self._interpret(bound, statics))
        checked = knobs.CHECK.get() if check is None else check
        call = self._specialise(_specs(bound), statics).call
        return _packed(call(*bound.values(), checked=checked))

    @user_facing
    def lower(self, *specs: Any, **static: Any) -> Lowered:
        """The stages of the kernel for these shapes, without building or running it.

        Args:
            specs: arrays or ``jax.ShapeDtypeStruct``s, one per positional parameter.
            static: the kernel's keyword parameters.

        Raises:
            SignatureError, LanguageError, LoweringError: as a call does.
        """
        bound, statics = self._bind(specs, static)
        return self._specialise(_specs(bound), statics).lowered

    def _bind(self, args: tuple[Any, ...], static: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        try:
            bound = self._signature.python.bind(*args, **static)
        except TypeError as error:
            raise SignatureError("NPK-SG02", f"kernel {self.name}{self._signature.python}: {error}.") from None
        bound.apply_defaults()
        arrays = {name: _as_array(self.name, name, bound.arguments[name]) for name in self._signature.arrays}
        for name, array in arrays.items():
            if not all(isinstance(size, int) for size in array.shape):
                raise TransformError(
                    "NPK-TR01",
                    f"kernel {self.name}: `{name}` has the symbolic shape {array.shape}, but kernels need known "
                    "sizes; export the program once for each size.",
                )
        statics = {name: bound.arguments[name] for name in self._signature.statics}
        for name, value in statics.items():
            _check_static(self.name, name, value)
        return arrays, statics

    def _specialise(self, specs: Mapping[str, jax.ShapeDtypeStruct], statics: dict[str, Any]) -> _Specialisation:
        key = (
            tuple((spec.shape, spec.dtype) for spec in specs.values()),
            # 1 and 1.0 are equal, and so are 0.0 and -0.0; kernels made with them are not.
            tuple((type(value), repr(value), value) for value in statics.values()),
            environment(self._function),
        )
        with self._lock:
            if key not in self._specialisations:
                self._specialisations[key] = self._trace(specs, statics)
            return self._specialisations[key]

    def _trace(self, specs: Mapping[str, jax.ShapeDtypeStruct], statics: dict[str, Any]) -> _Specialisation:
        signature = self._signature
        types = {
            name: ir.TensorType(spec.shape, signature.arrays[name].check_dtype(name, spec.dtype))
            for name, spec in specs.items()
        }
        dims = signature.solve_inputs({name: spec.shape for name, spec in specs.items()})
        traced = language.trace(self._function, types, statics, dims=dims)
        signature.check_outputs(traced.outputs, dims)
        lowered = Lowered(traced)
        outputs = [_struct(value) for value in traced.outputs]
        # Generating now refuses what the chip has no room for while JAX traces, not later when it compiles.
        return _Specialisation(KernelCall(self.name, outputs, lowered.generated), lowered)

    def _interpret(self, arrays: Mapping[str, Any], statics: dict[str, Any]) -> list[jax.Array]:
        if any(isinstance(array, jax.core.Tracer) for array in arrays.values()):
            raise TransformError(
                "NPK-TR01", f"kernel {self.name}: interpret=True runs eagerly; call it outside of jax.jit."
            )
        specs = _specs(arrays)
        for name, spec in specs.items():
            self._signature.arrays[name].check_dtype(name, spec.dtype)
        self._signature.solve_inputs({name: spec.shape for name, spec in specs.items()})
        results = language.interpret(
            self._function, {name: np.asarray(array) for name, array in arrays.items()}, statics
        )
        return [jnp.asarray(result) for result in results]


@user_facing
def npu_kernel(function: Callable[..., Any]) -> Kernel:
    """Makes a kernel of a function whose positional parameters are annotated arrays.

    Positional parameters are arrays, annotated as ``Float[nl.Tensor, "rows dim"]`` or ``nl.Tensor``; parameters after
    a ``*`` are static Python values. Names of dimensions are checked at each call.

    Raises:
        SignatureError: NPK-SG01, when the signature cannot be understood.
    """
    if not inspect.isfunction(function):
        raise SignatureError("NPK-SG01", f"npu_kernel takes a Python function, not {function!r}.")
    # Annotations may name what is local where the decorator stands: the caller of the wrapper around this.
    return Kernel(function, sys._getframe(2).f_locals)


def _as_array(kernel: str, name: str, value: Any) -> Any:
    if isinstance(value, (jax.Array, jax.ShapeDtypeStruct)):
        return value
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError, OverflowError):
        raise SignatureError(
            "NPK-SG02", f"kernel {kernel}: `{name}` must be an array, not {type(value).__name__}."
        ) from None


def _check_static(kernel: str, name: str, value: Any) -> None:
    if isinstance(value, (jax.Array, np.ndarray)):
        raise SignatureError(
            "NPK-SG02",
            f"kernel {kernel}: `{name}` is static, so it must be a Python value that is known while tracing, not an "
            "array; inside jax.jit, name it in static_argnames.",
        )
    try:
        hash(value)
    except TypeError:
        raise SignatureError(
            "NPK-SG02", f"kernel {kernel}: `{name}` is static, so it must be hashable, not {type(value).__name__}."
        ) from None


def _specs(arrays: Mapping[str, Any]) -> dict[str, jax.ShapeDtypeStruct]:
    return {name: jax.ShapeDtypeStruct(array.shape, array.dtype) for name, array in arrays.items()}


def _struct(value: ir.Value) -> jax.ShapeDtypeStruct:
    assert isinstance(value.type, ir.TensorType)
    return jax.ShapeDtypeStruct(value.type.shape, value.type.dtype.numpy)


def _packed(results: list[jax.Array]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)
