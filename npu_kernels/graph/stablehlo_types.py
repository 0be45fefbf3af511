"""Types of StableHLO values as shapes and NumPy names."""

from __future__ import annotations

import re

from jax.extend.mlir import ir as mlir

from npu_kernels.errors import GraphError
from npu_kernels.graph.core import Aval

_FLOAT8 = re.compile(r"f(?:8|6|4)(E\d+M\d+)(\w*)", re.ASCII)
_NAMES = {
    "i1": "bool",
    "bf16": "bfloat16",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"i{bits}": f"int{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (2, 4, 8, 16, 32, 64)},
}


def dtype_name(element: str) -> str:
    """NumPy's (or ml_dtypes') name of an MLIR element type; MLIR's own where there is none."""
    if element in _NAMES:
        return _NAMES[element]
    if _FLOAT8.fullmatch(element):
        width, rest = element[1], element[2:]
        return f"float{width}_{rest.lower()}"
    return element


def aval_of(kind: mlir.Type) -> Aval:
    """Shape and dtype of a ranked tensor; a token or tuple has the empty shape and MLIR's name."""
    text = str(kind)
    if not text.startswith("tensor<"):
        return Aval((), "token" if text == "!stablehlo.token" else text)
    ranked = mlir.RankedTensorType(kind)
    if not ranked.has_static_shape:
        raise GraphError(
            "NPK-GR01", f"{text} has a dimension that is not a known number; refine the module's shapes first"
        )
    return Aval(tuple(ranked.shape), dtype_name(str(ranked.element_type)))
