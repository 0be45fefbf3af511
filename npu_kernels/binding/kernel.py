"""The Kernel object: a Python function that is traced, lowered, built and called like any JAX function."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import jax
import jax.numpy as jnp
import numpy as np

from npu_kernels import ir, language
from npu_kernels.errors import SignatureError, TransformError
from npu_kernels.language.effects import environment

from .callsite import caller_location, user_facing
from .debugging import checked_mode
from .lowered import Lowered
from .operands import as_arrays, static_key
from .primitive import KernelCall, Shapes, Variants
from .rules import Bound, Current, Derivatives, Rules
from .signature import KernelSignature, read_signature
from .splitting import declared

_log = logging.getLogger("npu_kernels")

#: What a call's ``implementation`` may name.
_IMPLEMENTATIONS = ("npu", "xla")


@dataclass(frozen=True)
class _Specialisation:
    call: KernelCall
    lowered: Lowered


class Kernel:
    """A kernel written as a Python function; made by :func:`npu_kernel`.

    Calling it with arrays runs it, or records the call when JAX traces. It is specialised once for each combination of
    shapes, dtypes and static arguments.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        local_names: Mapping[str, Any] | None = None,
        *,
        reference: Callable[..., Any] | None = None,
        fallback: str | None = None,
        vmap: Literal["parallel", "sequential"] = "parallel",
        sharding: Sequence[str] | None = None,
    ) -> None:
        self._function = function
        self._vmap = vmap
        self._signature: KernelSignature = read_signature(function, local_names or {})
        self._sharding = None if sharding is None else tuple(sharding)
        self._derivatives = Derivatives(reference=reference)
        self._differentiated = False
        self._fallback = fallback is not None
        self._specialisations: dict[Any, _Specialisation] = {}
        self._lock = threading.RLock()
        functools.update_wrapper(self, function)

    @property
    def name(self) -> str:
        return self._function.__name__

    def __repr__(self) -> str:
        return f"<npu_kernel {self.name}{self._signature.python}>"

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Declares the derivative for reverse mode (``jax.grad``, ``jax.vjp``), made of kernels or of JAX functions.

        Args:
            fwd: ``fwd(*arrays, **statics) -> (result, residuals)``: the kernel's result, as an array or a tuple as the
                kernel returns it, and any pytree of arrays that ``bwd`` needs. It may call the kernel itself, or
                another one that also keeps what it computed on the way.
            bwd: ``bwd(residuals, cotangent, **statics) -> cotangents``: a tuple with one cotangent for each array
                argument, of its shape and dtype; None for zero, and for integer and boolean arguments. ``cotangent`` is
                an array or a tuple as the kernel's result, with ``float0`` zeros for integer and boolean results.

        The rule holds for every derivative taken after it is declared, of calls that were traced before too. Declaring
        it when calls were already differentiated by another rule clears JAX's caches. It is differentiated in turn for
        second derivatives, and batched by ``jax.vmap``, so it must be made of what JAX can transform.
        """
        self._declare(fwd=fwd, bwd=bwd)

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:
        """Declares the derivative for forward mode (``jax.jvp``), and for reverse mode where no vjp is declared.

        Args:
            jvp: ``jvp(primals, tangents, **statics) -> (result, tangent)``: tuples with one array for each array
                argument, as ``jax.custom_jvp`` has them; zeros stand for tangents that there are none of, of dtype
                ``float0`` for integer and boolean arguments. The tangent must be linear in ``tangents`` and, for
                reverse mode, made of what JAX can transpose: its own operations, and kernels that have a vjp rule.

        Returns:
            ``jvp``, so that the method can be used as a decorator.
        """
        self._declare(jvp=jvp)
        return jvp

    def _declare(self, **rules: Callable[..., Any]) -> None:
        with self._lock:
            self._derivatives = dataclasses.replace(self._derivatives, **rules)
            if self._differentiated:
                # JAX keeps derivatives made by the earlier rule.
                jax.clear_caches()
                self._differentiated = False

    def _rules(self, derivatives: Derivatives, call: Bound) -> Rules | None:
        rules = derivatives.rules(call)
        self._differentiated |= rules is not None
        return rules

    @user_facing
    def __call__(
        self,
        *arrays: Any,
        interpret: bool = False,
        check: bool | None = None,
        implementation: str | Sequence[str] | None = None,
        **static: Any,
    ) -> Any:
        """Runs the kernel.

        Args:
            arrays: one array per positional parameter, of the annotated shape and dtype.
            interpret: run the Python body eagerly on NumPy, so that `print` and `breakpoint()` work in it.
            check: run in the twin's checked mode; by default as :func:`npu_kernels.debug` and NPU_KERNELS_CHECK say.
            implementation: ``"npu"`` for the kernel, ``"xla"`` for its reference, or several to try in order; by
                default the kernel. With ``"xla"`` after ``"npu"`` the reference also runs on platforms without kernels.
            static: the kernel's keyword parameters.

        Returns:
            The result, or a tuple of results when the kernel has several.

        Raises:
            SignatureError: NPK-SG02, NPK-SH01, NPK-SH02 or NPK-DT01, when the call does not fit the signature.
            LanguageError, LoweringError, ToolchainError, CacheError: when the kernel cannot be built.
            KernelFault: when an eager call in checked mode found a fault.
            ExceptionGroup: NPK-PL02, when none of several implementations works; it holds the error of each.
        """
        if implementation is not None:
            return self._by(implementation, arrays, check, static)
        bound, statics = self._bind(arrays, static)
        if interpret:
            return _packed(self._interpret(bound, statics))
        return self._run(bound, statics, check, fallback=self._fallback)

    def _run(self, bound: dict[str, Any], statics: dict[str, Any], check: bool | None, *, fallback: bool) -> Any:
        checked = checked_mode() if check is None else check
        call = self._specialise(bound, statics, fallback=fallback).call
        return _packed(call(*bound.values(), checked=checked))

    def _by(self, implementation: str | Sequence[str], arrays: tuple[Any, ...], check: bool | None, static: Any) -> Any:
        names = tuple(implementation) if isinstance(implementation, (tuple, list)) else (implementation,)
        if not names or any(name not in _IMPLEMENTATIONS for name in names):
            raise SignatureError(
                "NPK-SG02",
                f"kernel {self.name}: implementation is {implementation!r}, but must be one or several of "
                f"{', '.join(map(repr, _IMPLEMENTATIONS))}.",
            )
        reference = self._derivatives.reference
        if "xla" in names and reference is None:
            raise SignatureError(
                "NPK-SG02",
                f"kernel {self.name}: implementation 'xla' runs the kernel's reference, but it has none; give it "
                "npu_kernel(reference=...).",
            )
        reasons: list[Exception] = []
        for position, name in enumerate(names):
            rest = names[position + 1 :]
            try:
                if name == "npu":
                    return self._on_npu(arrays, check, static, fallback="xla" in rest, tried=len(names) > 1)
                bound, statics = self._signature.bind(self.name, arrays, static)
                assert reference is not None
                return reference(*bound.values(), **statics)
            except Exception as error:
                if len(names) == 1:
                    raise
                reasons.append(error)
                if rest:
                    _log.warning("kernel %s: implementation %r is passed over: %s", self.name, name, error)
        place = caller_location()
        raise ExceptionGroup(
            f"NPK-PL02: kernel {self.name}: none of the implementations {', '.join(names)} can run this call"
            f"\n  at {place}",
            reasons,
        )

    def _on_npu(self, arrays: tuple[Any, ...], check: bool | None, static: Any, *, fallback: bool, tried: bool) -> Any:
        bound, statics = self._bind(arrays, static)
        if tried:
            # A kernel that cannot be built is passed over now, not refused later while JAX lowers the call.
            checked = checked_mode() if check is None else check
            self._specialise(bound, statics, fallback=fallback).call.build(checked=checked)
        return self._run(bound, statics, check, fallback=fallback)

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
        return self._specialise(bound, statics).lowered

    def _bind(self, args: tuple[Any, ...], static: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, statics = self._signature.bind(self.name, args, static)
        return as_arrays(self.name, self._signature, arrays), statics

    def _specialise(
        self, arrays: Mapping[str, Any], statics: dict[str, Any], *, fallback: bool = False
    ) -> _Specialisation:
        shapes = tuple([(array.shape, array.dtype) for array in arrays.values()])
        key = (shapes, static_key(self.name, statics), environment(self._function), fallback)
        found = self._specialisations.get(key)
        if found is not None:
            return found
        with self._lock:
            if key not in self._specialisations:
                self._specialisations[key] = self._make(_specs(arrays), statics, fallback)
            return self._specialisations[key]

    def _trace(self, specs: Mapping[str, jax.ShapeDtypeStruct], statics: dict[str, Any]) -> ir.Kernel:
        signature = self._signature
        for name, spec in specs.items():
            if not all(isinstance(size, int) for size in spec.shape):
                raise TransformError(
                    "NPK-TR01",
                    f"kernel {self.name}: `{name}` has the symbolic shape {spec.shape}, but kernels need known "
                    "sizes; export the program once for each size.",
                )
        types = {
            name: ir.TensorType(spec.shape, signature.arrays[name].check_dtype(name, spec.dtype))
            for name, spec in specs.items()
        }
        dims = signature.solve_inputs({name: spec.shape for name, spec in specs.items()})
        traced = language.trace(self._function, types, statics, dims=dims)
        signature.check_outputs(traced.outputs, dims)
        return traced

    def _make(
        self, specs: Mapping[str, jax.ShapeDtypeStruct], statics: dict[str, Any], fallback: bool
    ) -> _Specialisation:
        traced = self._trace(specs, statics)
        lowered = Lowered(traced)
        outputs = [_struct(value) for value in traced.outputs]
        bound = Bound(self.name, specs, tuple(outputs), statics)
        reference = self._derivatives.reference
        elsewhere = bound.function(reference) if fallback and reference is not None else None
        # Generating now refuses what the chip has no room for while JAX traces, not later when it compiles.
        call = KernelCall(
            self.name,
            outputs,
            lowered.generated,
            traced=traced,
            rules=Current(lambda: self._derivatives, lambda derivatives: self._rules(derivatives, bound)),
            elsewhere=elsewhere,
            variants=_Variants(self, specs, statics, fallback),
            vmap=self._vmap,
            sharding=None if self._sharding is None else declared(self.name, self._signature, traced, self._sharding),
        )
        return _Specialisation(call, lowered)

    def _interpret(self, arrays: Mapping[str, Any], statics: dict[str, Any]) -> list[jax.Array]:
        if any(isinstance(array, jax.core.Tracer) for array in arrays.values()):
            raise TransformError(
                "NPK-TR01", f"kernel {self.name}: interpret=True runs eagerly; call it outside of jax.jit."
            )
        static_key(self.name, statics)
        specs = _specs(arrays)
        for name, spec in specs.items():
            self._signature.arrays[name].check_dtype(name, spec.dtype)
        self._signature.solve_inputs({name: spec.shape for name, spec in specs.items()})
        results = language.interpret(
            self._function, {name: np.asarray(array) for name, array in arrays.items()}, statics
        )
        return [jnp.asarray(result) for result in results]


class _Variants(Variants):
    """A kernel with its dtypes and static arguments, for other shapes."""

    def __init__(
        self, kernel: Kernel, specs: Mapping[str, jax.ShapeDtypeStruct], statics: dict[str, Any], fallback: bool
    ) -> None:
        self.kernel = kernel
        self.fallback = fallback
        self.dtypes = {name: spec.dtype for name, spec in specs.items()}
        self.statics = statics

    def trace(self, shapes: Shapes) -> ir.Kernel:
        return self.kernel._trace(self._specs(shapes), self.statics)

    def call(self, shapes: Shapes) -> KernelCall:
        return self.kernel._specialise(self._specs(shapes), self.statics, fallback=self.fallback).call

    def _specs(self, shapes: Shapes) -> dict[str, jax.ShapeDtypeStruct]:
        pairs = zip(self.dtypes.items(), shapes, strict=True)
        return {name: jax.ShapeDtypeStruct(shape, dtype) for (name, dtype), shape in pairs}


@overload
def npu_kernel(function: Callable[..., Any]) -> Kernel: ...
@overload
def npu_kernel(
    *,
    reference: Callable[..., Any] | None = None,
    fallback: Literal["reference"] | None = None,
    vmap: Literal["parallel", "sequential"] = "parallel",
    sharding: Sequence[str] | None = None,
) -> Callable[[Callable[..., Any]], Kernel]: ...
@user_facing
def npu_kernel(
    function: Callable[..., Any] | None = None,
    *,
    reference: Callable[..., Any] | None = None,
    fallback: Literal["reference"] | None = None,
    vmap: Literal["parallel", "sequential"] = "parallel",
    sharding: Sequence[str] | None = None,
) -> Kernel | Callable[[Callable[..., Any]], Kernel]:
    """Makes a kernel of a function whose positional parameters are annotated arrays; used with or without arguments.

    Positional parameters are arrays, annotated as ``Float[nl.Tensor, "rows dim"]`` or ``nl.Tensor``; parameters after
    a ``*`` are static Python values. Names of dimensions are checked at each call.

    Args:
        reference: a JAX function with the kernel's arguments and results. The kernel is differentiated through it where
            it has no rule of its own, which a log line says once; and it is the implementation ``"xla"``.
        fallback: ``"reference"`` runs the reference on platforms that have no kernels, instead of raising NPK-PL01.
        vmap: what ``jax.vmap`` makes of a call: ``"parallel"`` one call of a kernel with the batch as a parallel
            dimension, ``"sequential"`` one call after the other.
        sharding: names of the dimensions along which a call may be split over devices, each device running the kernel
            on its part; ``()`` for none. None derives them from the body, which is always safe. A name that is a
            factor of a product must be its first.

    Raises:
        SignatureError: NPK-SG01, when the signature cannot be understood.
    """
    # Annotations may name what is local where the decorator stands: the caller of the wrapper around this.
    local_names = sys._getframe(2).f_locals
    if reference is not None and not callable(reference):
        raise SignatureError("NPK-SG01", f"npu_kernel(reference=...) takes a JAX function, not {reference!r}.")
    if fallback not in (None, "reference"):
        raise SignatureError("NPK-SG01", f"npu_kernel(fallback=...) takes 'reference' or None, not {fallback!r}.")
    if fallback is not None and reference is None:
        raise SignatureError("NPK-SG01", "npu_kernel(fallback='reference') needs reference=...: there is none to run.")
    if vmap not in ("parallel", "sequential"):
        raise SignatureError("NPK-SG01", f"npu_kernel(vmap=...) takes 'parallel' or 'sequential', not {vmap!r}.")

    if isinstance(sharding, str) or not all(isinstance(name, str) for name in sharding or ()):
        raise SignatureError(
            "NPK-SG01", f"npu_kernel(sharding=...) takes a tuple of dimension names, not {sharding!r}."
        )

    def make(function: Callable[..., Any]) -> Kernel:
        if not inspect.isfunction(function):
            raise SignatureError("NPK-SG01", f"npu_kernel takes a Python function, not {function!r}.")
        return Kernel(function, local_names, reference=reference, fallback=fallback, vmap=vmap, sharding=sharding)

    return user_facing(make) if function is None else make(function)


def _specs(arrays: Mapping[str, Any]) -> dict[str, jax.ShapeDtypeStruct]:
    return {name: jax.ShapeDtypeStruct(array.shape, array.dtype) for name, array in arrays.items()}


def _struct(value: ir.Value) -> jax.ShapeDtypeStruct:
    assert isinstance(value.type, ir.TensorType)
    return jax.ShapeDtypeStruct(value.type.shape, value.type.dtype.numpy)


def _packed(results: list[jax.Array]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)
