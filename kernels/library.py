"""What every library kernel brings along: how a call is prepared, and what the conformance suite and the CLI show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from npu_kernels.binding import Kernel
from npu_kernels.errors import LoweringError

Array = Any  # a jax.Array, a tracer or a NumPy array
Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Launch:
    """One kernel call, prepared from the arguments of a library function.

    Attributes:
        kernel: the kernel to call.
        arrays: its positional arguments, laid out as its signature says.
        statics: its keyword arguments.
        finish: turns the kernel's result into the function's result (a reshape).
    """

    kernel: Kernel
    arrays: tuple[Array, ...]
    statics: Mapping[str, Any]
    finish: Callable[[Array], Array]

    def __call__(self, *, interpret: bool = False) -> Array:
        """Runs the kernel; with ``interpret`` its body runs eagerly on NumPy."""
        return self.finish(self.kernel(*self.arrays, interpret=interpret, **self.statics))


@dataclass(frozen=True)
class Case:
    """One call of a library function for the conformance suite.

    Attributes:
        name: what is special about it; names the test.
        arguments: makes the array arguments by name from a seeded generator, in float64, bool or int32; the suite
            casts the floating ones to the dtype under test.
        keywords: the other arguments.
        dtypes: dtypes under test.
    """

    name: str
    arguments: Callable[[np.random.Generator], Mapping[str, Any]]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class Example:
    """Shapes of a real model, for ``npu-kernels list`` and ``show``.

    Attributes:
        model: where the shapes are met.
        shapes: shapes of the array arguments by name.
        dtype: element type of the arrays.
        keywords: the other arguments.
    """

    model: str
    shapes: Mapping[str, tuple[int, ...]]
    dtype: str = "float32"
    keywords: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Gradient:
    """The derivative of an operation; making one declares its rules on the kernels.

    Attributes:
        rules: for each kernel of the operation ``(fwd, bwd)`` as :meth:`Kernel.defvjp` takes them; both also take
            ``interpret``, which runs the bodies of their kernels on NumPy.
        operands: names of the arguments with a derivative, and which arrays of the :class:`Launch` they are.
        reference: ``(cotangent, all arguments by name)`` gives the cotangents by name in float64.
        tolerance: ``(dtype name, cotangent, all arguments by name)`` gives the largest errors allowed by name.
        cases: what the conformance suite runs.
    """

    rules: Mapping[Kernel, tuple[Callable[..., Any], Callable[..., Any]]]
    operands: Mapping[str, int]
    reference: Callable[[Float64, Mapping[str, Any]], Mapping[str, Float64]]
    tolerance: Callable[[str, Float64, Mapping[str, Any]], Mapping[str, Float64]]
    cases: tuple[Case, ...]

    def __post_init__(self) -> None:
        for kernel, (fwd, bwd) in self.rules.items():
            kernel.defvjp(fwd, bwd)


@dataclass(frozen=True)
class Operation:
    """A library operation.

    Attributes:
        name: as in ``npu_kernels.kernels.<name>`` and on the command line.
        summary: one line.
        function: the public function.
        prepare: the same arguments give the :class:`Launch`.
        reference: the same arguments as NumPy arrays give the result in float64.
        tolerance: ``(dtype name, all arguments by name, result of the reference)`` gives the largest error allowed per
            element; each operation documents why.
        examples: shapes of real models.
        cases: what the conformance suite runs.
        gradient: its derivative.
    """

    name: str
    summary: str
    function: Callable[..., Array]
    prepare: Callable[..., Launch]
    reference: Callable[..., Float64]
    tolerance: Callable[[str, Mapping[str, Any], Float64], Float64]
    examples: tuple[Example, ...]
    cases: tuple[Case, ...]
    gradient: Gradient


def tiling_that_fits(
    kernel: Kernel, specs: tuple[Any, ...], statics: Mapping[str, Any], candidates: Iterable[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """The first of some tilings, best first, with which a kernel's tiles fit on chip.

    For kernels that hold too many tiles for a formula: lowering plans them, and says.

    Args:
        specs: the kernel's array arguments, or their shapes and dtypes.
        statics: its other arguments, without the tiling.

    Raises:
        LoweringError: NPK-UB01 of the last candidate, when none fits.
    """
    refused: LoweringError | None = None
    for tiling in candidates:
        try:
            kernel.lower(*specs, **statics, **tiling)
        except LoweringError as error:
            if error.code != "NPK-UB01":
                raise
            refused = error
        else:
            return tiling
    assert refused is not None
    raise refused
