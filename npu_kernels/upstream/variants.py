"""One specialisation of an exported kernel, in the words the templates use."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from npu_kernels.binding import Lowered
from npu_kernels.errors import CommandError
from npu_kernels.ir.device import TensorSpec
from npu_kernels.kernels import Launch, Operation

from .operators import OperatorText

#: dtype name → (C++ type in a kernel, GE enumerator, ACL enumerator, bytes).
DTYPES = {
    "float32": ("float", "ge::DT_FLOAT", "ACL_FLOAT", 4),
    "float16": ("half", "ge::DT_FLOAT16", "ACL_FLOAT16", 2),
    "bfloat16": ("bfloat16_t", "ge::DT_BF16", "ACL_BF16", 2),
}


@dataclass(frozen=True)
class Parameter:
    """A parameter of one specialisation, under its name in the prototype."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * DTYPES[self.dtype][3]


@dataclass(frozen=True)
class Variant:
    """A kernel generated for one set of shapes and one element type.

    Attributes:
        lowered: its stages.
        dtype: element type of every parameter.
        statics: the static arguments it was specialised to.
        relative_error: what its unit test allows.
    """

    lowered: Lowered
    dtype: str
    statics: dict[str, Any]
    inputs: tuple[Parameter, ...]
    outputs: tuple[Parameter, ...]
    relative_error: float

    @property
    def ctype(self) -> str:
        return DTYPES[self.dtype][0]

    @property
    def ge_dtype(self) -> str:
        return DTYPES[self.dtype][1]

    @property
    def acl_dtype(self) -> str:
        return DTYPES[self.dtype][2]

    @property
    def blocks(self) -> int:
        return self.lowered.generated.blocks

    @property
    def workspace(self) -> int:
        return self.lowered.generated.workspace_bytes

    @property
    def tiling(self) -> dict[str, int]:
        return self.lowered.program.tiling

    @property
    def ub_bytes(self) -> int:
        return self.lowered.program.memory_use().get("UB", 0)

    @property
    def fixed(self) -> dict[str, Any]:
        """Static arguments that a caller of the operator must know: blocks and element types are the folder's own."""
        return {name: value for name, value in self.statics.items() if isinstance(value, float)}

    @property
    def test_name(self) -> str:
        shapes = "_by_".join("x".join(map(str, p.shape)) for p in self.inputs)
        return f"{self.dtype}_{shapes}"


def make_variant(
    operation: Operation, text: OperatorText, shapes: Sequence[tuple[int, ...]], dtype: str, keywords: dict[str, Any]
) -> Variant:
    """Specialises the kernel of ``operation``.

    Raises:
        CommandError: NPK-EX10, when the kernel uses the cube unit, or the shapes are not one for each array of the
            operator, none of them empty.
        OperandError: when the shapes do not fit together.
    """
    names = [name for name in text.parameters if name != text.result]
    if len(shapes) != len(names) or not all(math.prod(shape) for shape in shapes):
        raise CommandError(
            "NPK-EX10",
            f"{operation.name} cannot be exported for {len(shapes)} shapes, {', '.join(map(str, shapes))}: "
            f"give one for each of {', '.join(names)}, none of them empty.",
        )
    launches: list[Launch] = []

    def prepare(*arrays: jax.Array) -> None:
        launches.append(operation.prepare(*arrays, **keywords))

    jax.eval_shape(prepare, *(jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)) for shape in shapes))
    (launch,) = launches
    specs = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in launch.arrays]
    lowered = launch.kernel.lower(*specs, **launch.statics)
    source = lowered.generated
    if source.kernel_type != "AIV_ONLY":
        raise CommandError(
            "NPK-EX10",
            f"{operation.name} runs as {source.kernel_type}; only kernels for the vector cores can be exported yet.",
        )
    return Variant(
        lowered,
        dtype,
        dict(launch.statics),
        tuple(_parameter(spec, spec.name) for spec in source.inputs),
        tuple(_parameter(spec, text.result) for spec in source.outputs),
        text.relative_error[dtype],
    )


def _parameter(spec: TensorSpec, name: str) -> Parameter:
    return Parameter(name, spec.shape, spec.dtype)


def camel(name: str) -> str:
    """``npk_rms_norm`` → ``NpkRmsNorm``."""
    return "".join(part.capitalize() for part in re.split("_+", name))
