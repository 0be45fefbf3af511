"""The only module that touches private JAX, and the public parts of JAX that moved between releases.

Tested from jax 0.10.2 on. What is known to differ: from 0.12 a jaxpr carries its own constants and ``Jaxpr`` and
``ClosedJaxpr`` are one class; ``scan`` states its split into constants, carry and slices as ``ft_in``.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.ffi
import numpy as np
from jax.extend import core as jex_core
from jax.extend.backend import get_backend, get_compile_options
from jax.extend.mlir import ir as mlir
from jax.extend.mlir.dialects import stablehlo
from jax.sharding import NamedSharding, PartitionSpec

_PACKAGE = str(Path(__file__).resolve().parent)


# ----------------------------------------------------------------------------------------------------
# MLIR


def create_mlir_context() -> mlir.Context:
    """A context with StableHLO, CHLO, func and the other dialects of JAX's modules."""
    from jax._src.interpreters import mlir as jax_mlir

    context: mlir.Context = jax_mlir.make_ir_context()
    return context


def parse_module(source: str | bytes, context: mlir.Context | None = None) -> mlir.Module:
    """Parse StableHLO: MLIR text, MLIR bytecode, or a portable artifact (versioned bytecode)."""
    context = context if context is not None else create_mlir_context()
    with context:
        if isinstance(source, bytes) and b"StableHLO_v" in source[:64]:
            return stablehlo.deserialize_portable_artifact(context, source)
        return mlir.Module.parse(source)


def module_to_bytecode(module: mlir.Module) -> bytes:
    from jax._src.interpreters import mlir as jax_mlir

    return bytes(jax_mlir.module_to_bytecode(module))


def run_module(module: mlir.Module, arguments: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
    """Compile a module for XLA:CPU and run its ``main`` once on one device."""
    return compile_module(module)(arguments)


def compile_module(module: mlir.Module) -> Callable[[Sequence[Any]], list[np.ndarray[Any, Any]]]:
    """Compile a module for XLA:CPU; the result runs it on one device, NumPy in and NumPy out."""
    backend = get_backend("cpu")
    executable = backend.compile_and_load(
        module_to_bytecode(module), backend.local_devices()[:1], get_compile_options(1, 1)
    )
    device = jax.devices("cpu")[0]

    def run(arguments: Sequence[Any]) -> list[np.ndarray[Any, Any]]:
        buffers = [jax.device_put(argument, device) for argument in arguments]
        results = executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
        return [np.asarray(shards[0]) for shards in results]

    return run


def lower_to_module(function: Callable[..., Any], avals: Sequence[jax.ShapeDtypeStruct]) -> str:
    """StableHLO text of a JAX function for the CPU platform; every argument is kept, used or not."""
    lowered = jax.jit(function, keep_unused=True).trace(*avals).lower(lowering_platforms=("cpu",))
    return str(lowered.as_text())


_FILE_LOCATION = re.compile(r'"([^"]+)":(\d+)(?::\d+)?')


def mlir_location(operation: mlir.Operation) -> str | None:
    """``file:line`` of the innermost user frame in an operation's location, when it has one.

    An operation of a module that was parsed from text without locations has the file ``-`` and its line there.
    """
    found = [(file, int(line)) for file, line in _FILE_LOCATION.findall(str(operation.location))]
    return _first_user_frame(found)


def named_operations(name: str) -> mlir.Location:
    """A context in which lowered operations also carry ``name``, as those of ``jax.named_scope`` do."""
    return mlir.Location.name(name, mlir.Location.current)


# ----------------------------------------------------------------------------------------------------
# jaxprs


def open_jaxpr(jaxpr: Any) -> Any:
    """The jaxpr with constvars, invars, eqns and outvars, of a closed or an open one."""
    return jaxpr.jaxpr if isinstance(jaxpr, jex_core.ClosedJaxpr) else jaxpr


def jaxpr_consts(jaxpr: Any) -> list[Any]:
    """Values of the constvars; empty for an open jaxpr, whose constvars are inputs."""
    return list(getattr(jaxpr, "consts", ()))


def replace_in_jaxpr(template: Any, **changes: Any) -> Any:
    """A copy of a closed or open jaxpr with eqns, outvars or effects changed, its constants kept."""
    inner: Any = open_jaxpr(template)
    changed = inner.replace(**changes)
    return changed if isinstance(template, jex_core.Jaxpr) else template.replace(jaxpr=changed)


def is_literal(atom: Any) -> bool:
    return isinstance(atom, jex_core.Literal)


def make_literal(value: Any, aval: Any) -> Any:
    return jex_core.Literal(value, aval)


def is_dropped(variable: Any) -> bool:
    return isinstance(variable, jex_core.DropVar)


def new_variable(aval: Any) -> Any:
    return jex_core.Var(aval)


def scan_counts(params: dict[str, Any]) -> tuple[int, int]:
    """Numbers of constants and of carried values among a ``scan``'s operands."""
    if "num_consts" in params:
        return int(params["num_consts"]), int(params["num_carry"])
    consts, carry, _ = params["ft_in"].unpack()
    return len(consts), len(carry)


def is_plain_jit(params: dict[str, Any]) -> bool:
    """Whether inlining a ``jit`` equation loses nothing: no shardings, layouts, donation or compiler options."""

    def unset(key: str) -> bool:
        return all(value is None or type(value).__name__ == "UnspecifiedValue" for value in params.get(key, ()))

    settings = ("in_shardings", "out_shardings", "in_layouts", "out_layouts")
    return (
        all(unset(key) for key in settings)
        and not any(params.get("donated_invars", ()))
        and not params.get("compiler_options_kvs")
    )


def is_user_function(jaxpr: Any) -> bool:
    """Whether a jaxpr was traced from a function of the user, as far as its debug information knows."""
    from jax._src import source_info_util

    file = getattr(getattr(open_jaxpr(jaxpr), "debug_info", None), "func_filename", None)
    return file is not None and source_info_util.is_user_filename(file) and not file.startswith(_PACKAGE)


def jaxpr_name(jaxpr: Any) -> str | None:
    """Name of the function a jaxpr was traced from, when its debug information knows it."""
    return getattr(getattr(open_jaxpr(jaxpr), "debug_info", None), "func_name", None)


def eqn_location(eqn: Any) -> str | None:
    """``file:line`` of the innermost user frame of an equation; ``None`` when it was made by no user code."""
    from jax._src import source_info_util

    frames = source_info_util.user_frames(eqn.source_info.traceback)
    return _first_user_frame((frame.file_name, frame.start_line) for frame in frames)


def current_location() -> str | None:
    """``file:line`` of the user's frame for what JAX is working on.

    That is an equation while JAX transforms, lowers or transposes one, else the Python call under way.
    """
    from jax._src import source_info_util

    frames = source_info_util.user_frames(source_info_util.current().traceback)
    return _first_user_frame((frame.file_name, frame.start_line) for frame in frames)


def _first_user_frame(frames: Any) -> str | None:
    from jax._src import source_info_util

    for file, line in frames:
        if source_info_util.is_user_filename(file) and not file.startswith(_PACKAGE):
            return f"{file}:{line}"
    return None


def jaxpr_to_function(closed: Any) -> Callable[..., list[Any]]:
    """A function of flat arguments that binds every equation again, so that transformations see them."""
    function: Callable[..., list[Any]] = jex_core.jaxpr_as_fun(closed)
    return function


def single_call_jaxpr(function: Callable[..., Any], avals: Sequence[Any]) -> Any:
    """Closed jaxpr of ``jit(function)``: one call equation, whose name is the function's; under ``disable_jit`` too."""
    with jax.disable_jit(False):
        return jax.make_jaxpr(jax.jit(function))(*avals)


def jit_statics(function: Any) -> tuple[tuple[int, ...], tuple[str, ...]] | None:
    """Static argument numbers and names of a jitted function; ``None`` for any other callable."""
    info = getattr(function, "_jit_info", None)
    if info is None:
        return None
    return tuple(info.static_argnums), tuple(info.static_argnames)


def trace_context() -> Any:
    """Hashable state of JAX's configuration that a trace depends on: 64-bit mode, precision, mesh ..."""
    from jax._src import config

    return config.trace_context()


# ----------------------------------------------------------------------------------------------------
# Primitives and custom calls


def jit_primitive(function: Callable[..., Any]) -> Callable[..., Any]:
    """``jax.jit`` of a function that binds one primitive, as the evaluation of that primitive.

    It compiles under ``jax.disable_jit`` too, where running the function would evaluate the primitive again; and
    ``jax.debug_nans`` names the function instead of looking inside.
    """
    function._apply_primitive = True  # type: ignore[attr-defined]
    compiled = jax.jit(function)

    @functools.wraps(function)
    def call(*arrays: Any) -> Any:
        with jax.disable_jit(False):
            return compiled(*arrays)

    return call


def register_stateful_ffi_target(name: str, stages: dict[str, Any], state_type: Any) -> None:
    """Registers an FFI target for the cpu platform whose instantiation hands a state to its execution.

    The type comes before the target, which asks for its id; and both come after the CPU client exists: a type that is
    registered earlier makes the client fail to start.
    """
    jax.devices("cpu")
    jax.ffi.register_ffi_type(f"{name}.state", state_type, platform="cpu")
    jax.ffi.register_ffi_target(name, stages, platform="cpu")


# ----------------------------------------------------------------------------------------------------
# Meshes


def result_avals(
    results: Sequence[jax.ShapeDtypeStruct],
    operands: Sequence[Any],
    specs: Callable[[Sequence[PartitionSpec]], Sequence[PartitionSpec]],
) -> list[Any]:
    """What JAX knows of results made from operands with these avals.

    Inside ``shard_map`` they differ along each mesh axis along which an operand does. Under a mesh with explicit axes
    their types say how they are sharded.

    Args:
        specs: gives the partition specs of the results for those of the operands.
    """
    from jax._src import core

    meshes = [aval.sharding.mesh for aval in operands]
    mesh = next((m for m in meshes if not m.empty), jax.sharding.get_abstract_mesh())
    if mesh.empty:
        return [core.ShapedArray(r.shape, r.dtype) for r in results]
    varying = frozenset[Any]().union(*(aval.mat.varying for aval in operands))
    if any(part is not None for aval in operands for part in aval.sharding.spec):
        found = specs([aval.sharding.spec for aval in operands])
    else:
        found = [PartitionSpec(*(None,) * len(r.shape)) for r in results]
    return [
        core.ShapedArray(
            r.shape,
            r.dtype,
            sharding=NamedSharding(mesh, spec),
            manual_axis_type=core.ManualAxisType(varying=varying),
        )
        for r, spec in zip(results, found, strict=True)
    ]


def struct_of(array: Any) -> jax.ShapeDtypeStruct:
    """Shape and dtype of an array, and its sharding where its type states one."""
    aval = jax.typeof(array)
    sharding = None if all(part is None for part in aval.sharding.spec) else aval.sharding
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding)


def with_leading_axis(struct: jax.ShapeDtypeStruct, size: int) -> jax.ShapeDtypeStruct:
    """The same with an axis in front, which is not sharded."""
    sharding = struct.sharding
    if isinstance(sharding, NamedSharding):
        sharding = NamedSharding(sharding.mesh, PartitionSpec(None, *sharding.spec))
    return jax.ShapeDtypeStruct((size, *struct.shape), struct.dtype, sharding=sharding)


def vary_alike(arrays: Sequence[Any]) -> Sequence[Any]:
    """Inside ``shard_map``: the arrays, all varying over the mesh axes over which any of them does."""
    from jax._src import core

    if jax.sharding.get_abstract_mesh().empty:
        return arrays
    return tuple(core.auto_insert_reshard(*arrays))


def lower_with_devices(primitive: jex_core.Primitive) -> None:
    """The lowering rule of ``primitive`` gets to know the devices the program is compiled for."""
    from jax._src import dispatch

    dispatch.prim_requires_devices_during_lowering.add(primitive)


def is_partitioned(ctx: Any) -> bool:
    """Whether what is being lowered goes through the partitioner: on several devices, and not by hand on each."""
    from jax._src import sharding_impls

    context = ctx.module_context.axis_context
    if isinstance(context, sharding_impls.SPMDAxisContext):
        return context.mesh.size > 1 and set(context.manual_axes) != set(context.mesh.axis_names)
    if isinstance(context, sharding_impls.ShardingContext):
        return context.num_devices > 1
    return False


def mesh_spec(sharding: Any, mesh: jax.sharding.Mesh) -> tuple[Any, ...] | None:
    """Mesh axes by array axis of a sharding that the partitioner found; None when whole mesh axes do not say it."""
    from jax._src import sharding_impls

    if sharding is None or sharding._hlo_sharding.is_replicated():
        return ()
    if mesh.empty:
        return None
    try:
        return tuple(sharding_impls.parse_flatten_op_sharding(sharding._hlo_sharding, mesh)[0])
    except ValueError:
        return None
