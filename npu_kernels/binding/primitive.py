"""The JAX primitive through which every kernel is called, and its rules."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Literal, Protocol

import jax
import jax.ffi
from jax.extend.core import Primitive
from jax.interpreters import mlir

from npu_kernels import ir, jax_compat, toolchain
from npu_kernels.errors import KernelFault, TransformError
from npu_kernels.ir.sharding import Factor
from npu_kernels.toolchain import Artifact, Source

from .callsite import located
from .registration import TARGET, ensure_registered, fault_in
from .rules import Current, Rules
from .splitting import result_specs

#: Platforms whose runtime has the custom call.
PLATFORMS = frozenset({"cpu", "npu"})


class KernelSource(Source, Protocol):
    """A generated kernel with what a launch needs; ``ir.device.KernelSource`` is one.

    Attributes:
        blocks: how many blocks to launch.
        workspace_bytes: global memory that the launch lends to the kernel.
        tiling: read-only data passed as the last argument.
    """

    @property
    def blocks(self) -> int: ...
    @property
    def workspace_bytes(self) -> int: ...
    @property
    def tiling(self) -> bytes: ...


Shapes = tuple[tuple[int, ...], ...]


class Variants(Protocol):
    """The same kernel for operands of other shapes; dtypes and static arguments stay."""

    def trace(self, shapes: Shapes) -> ir.Kernel:
        """Its tile IR. Raises as a call with such operands does."""

    def call(self, shapes: Shapes) -> KernelCall:
        """The call; the same object for the same shapes."""


class KernelCall:
    """A kernel specialised to shapes, dtypes and static arguments: the parameter of the primitive.

    Two calls are equal when they are the same object, so a :class:`Kernel` keeps one per specialisation.

    Args:
        name: the kernel's name in jaxprs, counts and reports.
        outputs: shapes and dtypes of the results.
        source: the generated kernel.
        traced: its tile IR; None for a kernel given as text.
        rules: how it is differentiated; None when it never is.
        elsewhere: a JAX function from the same arrays to the list of results, for platforms without kernels; None
            refuses those.
        variants: the kernel for other shapes; None when it cannot be traced again.
        vmap: whether ``jax.vmap`` makes one call of many, or calls one after the other.
        sharding: which axes may be split over devices, as the kernel's author says; None derives it from the body.
    """

    def __init__(
        self,
        name: str,
        outputs: Sequence[jax.ShapeDtypeStruct],
        source: KernelSource,
        *,
        traced: ir.Kernel | None = None,
        rules: Current[Any] | None = None,
        elsewhere: Callable[..., Sequence[Any]] | None = None,
        variants: Variants | None = None,
        vmap: Literal["parallel", "sequential"] = "parallel",
        sharding: tuple[Factor, ...] | None = None,
    ) -> None:
        self.name = name
        self.outputs = tuple(outputs)
        self.source = source
        self.traced = traced
        self._rules = rules
        self.elsewhere = elsewhere
        self.variants = variants
        self.vmap = vmap
        self.sharding = sharding
        self._derived: dict[Hashable, Any] = {}
        self._deriving = threading.RLock()
        self._lock = threading.Lock()
        self._eager: dict[bool, Callable[..., list[jax.Array]]] = {}

    def __repr__(self) -> str:
        return self.name

    @functools.cached_property
    def operands(self) -> tuple[jax.ShapeDtypeStruct, ...]:
        """Shapes and dtypes of the operands; empty for a kernel given as text."""
        inputs = () if self.traced is None else self.traced.inputs
        return tuple(jax.ShapeDtypeStruct(value.shape, value.dtype.numpy) for value in inputs)

    @property
    def rules(self) -> Rules | None:
        """How it is differentiated, as declared now; None when nothing is declared."""
        return None if self._rules is None else self._rules()

    def derived(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What ``make`` returned the first time for ``key``: what is derived from one call is one object."""
        with self._deriving:
            if key not in self._derived:
                self._derived[key] = make()
            return self._derived[key]

    def build(self, *, checked: bool) -> Artifact:
        return toolchain.build(self.source, checked=checked)

    def __call__(self, *arrays: Any, checked: bool) -> list[jax.Array]:
        """Calls the kernel; an eager call in checked mode waits for its end.

        Raises:
            KernelFault: when an eager call in checked mode found a fault.
        """
        if not checked:
            return self.bind(*arrays, checked=False)
        try:
            results = self.bind(*arrays, checked=True)
            if not any(isinstance(result, jax.core.Tracer) for result in results):
                jax.block_until_ready(results)
        except jax.errors.JaxRuntimeError as error:
            raise _fault_of(error) from None
        return results

    def bind(self, *arrays: Any, checked: bool) -> list[jax.Array]:
        """Runs the kernel without waiting for it, or records the call when ``arrays`` are traced."""
        results: list[jax.Array] = npu_kernel_call_p.bind(*jax_compat.vary_alike(arrays), kernel=self, checked=checked)
        return results

    def compiled(self, *, checked: bool) -> Callable[..., list[jax.Array]]:
        """The call compiled on its own, for arrays that are there."""
        with self._lock:
            if checked not in self._eager:

                def call(*arrays: Any) -> list[jax.Array]:
                    return self.bind(*arrays, checked=checked)

                call.__name__ = call.__qualname__ = self.name
                self._eager[checked] = jax_compat.jit_primitive(call)
            return self._eager[checked]


def _fault_of(error: Exception) -> Exception:
    """The fault that a launch met, as an error of ours; the same error when it is none of ours."""
    fault = fault_in(str(error))
    if fault is None:
        return error
    sentence = fault.message.removeprefix(f"{fault.code}: ")
    return KernelFault(fault.code, sentence, location=fault.python_location or None)


npu_kernel_call_p = Primitive("npu_kernel_call")
npu_kernel_call_p.multiple_results = True


def _evaluate(*arrays: Any, kernel: KernelCall, checked: bool) -> list[jax.Array]:
    return kernel.compiled(checked=checked)(*arrays)


def _abstract(*avals: Any, kernel: KernelCall, checked: bool) -> list[Any]:
    return jax_compat.result_avals(kernel.outputs, avals, functools.partial(result_specs, kernel))


def lower_call(ctx: mlir.LoweringRuleContext, *operands: Any, kernel: KernelCall, checked: bool) -> Any:
    ensure_registered()
    artifact = kernel.build(checked=checked)
    source = kernel.source
    with jax_compat.named_operations(kernel.name):
        return jax.ffi.ffi_lowering(TARGET)(
            ctx,
            *operands,
            hash=artifact.hash,
            name=kernel.name,
            blocks=source.blocks,
            workspace_bytes=source.workspace_bytes,
            tiling=source.tiling.hex(),
        )


@located
def _lower_elsewhere(ctx: mlir.LoweringRuleContext, *operands: Any, kernel: KernelCall, checked: bool) -> Any:
    platforms = ctx.platforms or ctx.module_context.platforms
    if set(platforms) <= PLATFORMS:
        return lower_call(ctx, *operands, kernel=kernel, checked=checked)
    if kernel.elsewhere is not None:
        return mlir.lower_fun(kernel.elsewhere, multiple_results=True)(ctx, *operands)
    raise TransformError(
        "NPK-PL01",
        f"kernel {kernel.name} runs on JAX's cpu platform (through the twin), but it is being compiled for "
        f"{', '.join(platforms)}. Set JAX_PLATFORMS=cpu, move its arguments to jax.devices('cpu')[0], or give the "
        "kernel npu_kernel(reference=..., fallback='reference').",
    )


npu_kernel_call_p.def_impl(_evaluate)
npu_kernel_call_p.def_abstract_eval(_abstract)
mlir.register_lowering(npu_kernel_call_p, _lower_elsewhere, inline=False)
