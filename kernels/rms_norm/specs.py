"""RMSNorm's tiling, the shapes real models give it, and what its conformance suite runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..library import Case, Example, Float64

#: Elements of one float32 tile. A block of rows needs about five of them in the unified buffer at once (input and
#: output twice for double buffering, one temporary), 160 KB of the 184 KB that facts of the A2 leave to a kernel.
TILE_ELEMENTS = 8192
#: Columns of one step when a row is longer than a tile.
WIDE_COLUMNS = 4096
#: Elements of one float32 tile of the backward kernel, which holds about ten of them.
BACKWARD_ELEMENTS = 4608
#: Rows and columns of one step of a sum over rows.
SUMMED_ROWS, SUMMED_COLUMNS = 8, 512
#: AI Vector cores of the smallest A2 part; blocks are not made larger than what keeps these busy.
VECTOR_CORES = 40


def block_rows(rows: int, dim: int) -> int:
    """Rows of a block, or 0 when not even one row fits and the kernel must walk along the row.

    As many rows as fit a tile, but no more than give every vector core a block: a transfer grows with the block, and
    an idle core costs more than a short transfer.
    """
    fitting = TILE_ELEMENTS // dim
    if fitting == 0:
        return 0
    per_core = -(-rows // VECTOR_CORES)
    return max(1, min(fitting, per_core, 64))


def backward_rows(rows: int, dim: int) -> dict[str, Any] | None:
    """Rows of a block and blocks of a group for the backward kernel; None when not even one row fits.

    A group belongs to one vector core and gives one part of the weight's gradient, so there are about as many as cores.
    """
    fitting = BACKWARD_ELEMENTS // dim
    if fitting == 0:
        return None
    per_core = -(-rows // VECTOR_CORES)
    block = max(1, min(fitting, per_core, 64))
    return {"block_rows": block, "blocks": -(-per_core // block)}


EXAMPLES = (
    Example("SmolLM2-135M", {"x": (1, 64, 576), "weight": (576,)}, keywords={"eps": 1e-5}),
    Example("Llama-3-8B", {"x": (1, 128, 4096), "weight": (4096,)}, "bfloat16", {"eps": 1e-5}),
    Example("Gemma-2-2B", {"x": (1, 128, 2304), "weight": (2304,)}, "bfloat16", {"eps": 1e-6}),
    Example("Qwen2-0.5B", {"x": (1, 128, 896), "weight": (896,)}, "bfloat16", {"eps": 1e-6}),
)

_UNIT = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
_SMALLEST = {"float32": 2.0**-149, "float16": 2.0**-24, "bfloat16": 2.0**-133}


def tolerance(dtype: str, arguments: Mapping[str, Any], expected: Float64) -> Float64:
    """Largest error allowed per element, relative to the reference.

    The sum of ``dim`` squares in float32 is off by at most ``dim`` units (half of that survives the root), and square,
    division, root and two products add a few; 16 units beyond √dim cover every order of summation met (blocks and
    trees, whose error grows far slower than ``dim``). The cast to ``dtype`` adds one rounding of that dtype, and
    results below its normal range are off by at most its smallest step.
    """
    dim = np.shape(arguments["x"])[-1]
    single = _UNIT["float32"] * (16 + np.sqrt(dim))
    final = 0.0 if dtype == "float32" else _UNIT[dtype]
    allowed: Float64 = np.abs(expected) * (single + final) + _SMALLEST[dtype]
    return allowed


def gradient_tolerance(dtype: str, cotangent: Float64, arguments: Mapping[str, Any]) -> Mapping[str, Float64]:
    """Largest errors allowed per element of the cotangents of ``x`` and ``weight``.

    The two terms of ``dx = r (c - n · mean(c n))`` may cancel, so errors are relative to their magnitudes; ``r``,
    ``n`` and the mean are each off by at most the ``16 + √dim`` float32 units of :func:`tolerance`. The same holds for
    a term of ``dweight``, whose sum over the rows adds √rows and 16 more units of the magnitudes for blocks, groups
    and their sum. Casts add one rounding.
    """
    x = np.asarray(arguments["x"]).astype(np.float64)
    weight = arguments.get("weight")
    scale = 1.0 if weight is None else np.asarray(weight).astype(np.float64)
    units = _UNIT["float32"] * (16 + np.sqrt(x.shape[-1]))
    final = 0.0 if dtype == "float32" else _UNIT[dtype]
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        factor = 1.0 / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + arguments["eps"])
        normal, scaled = np.abs(x * factor), np.abs(cotangent * scale)
        size = (scaled + normal * np.mean(scaled * normal, axis=-1, keepdims=True)) * factor
        terms = np.abs(cotangent * normal).reshape(-1, x.shape[-1])
        total = np.sum(terms, axis=0)
    more = _UNIT["float32"] * (16 + np.sqrt(len(terms)))
    return {
        "x": size * (2 * units + final) + _SMALLEST[dtype],
        "weight": total * (units + more + final) + _SMALLEST[dtype],
    }


def _normal(*shape: int, weight: bool = True, scale: float = 1.0) -> Callable[[np.random.Generator], Mapping[str, Any]]:
    def arguments(rng: np.random.Generator) -> Mapping[str, Any]:
        x = rng.standard_normal(shape) * scale
        return {"x": x, "weight": 1.0 + 0.1 * rng.standard_normal(shape[-1])} if weight else {"x": x}

    return arguments


def _with_values(rng: np.random.Generator) -> Mapping[str, Any]:
    x = rng.standard_normal((8, 96))
    x[0, 3] = np.nan
    x[1, 5] = np.inf
    x[2, 7] = -np.inf
    x[3, :] = 0.0
    x[4, :] = -0.0
    x[5, :] = 1e-40
    x[6, 1:] = 0.0
    return {"x": x, "weight": rng.standard_normal(96)}


_F32, _BF16 = ("float32",), ("bfloat16",)

CASES = (
    Case("smollm2", _normal(1, 37, 576), {"eps": 1e-5}, _F32),
    Case("llama3", _normal(1, 5, 4096), {"eps": 1e-5}, _BF16),
    Case("gemma2", _normal(2, 9, 2304), {"eps": 1e-6}, _BF16),
    Case("no weight", _normal(3, 7, 64, weight=False), {"eps": 1e-6}, ("float16",)),
    Case("one row", _normal(128), {"eps": 1e-6}, _F32),
    Case("four leading dimensions", _normal(2, 3, 1, 5, 40), {"eps": 1e-6}, _F32),
    Case("one element a row", _normal(11, 1), {"eps": 1e-6}, _BF16),
    Case("row narrower than 32 bytes", _normal(13, 3), {"eps": 1e-6}),
    Case("odd row length", _normal(17, 513), {"eps": 1e-6}),
    Case("row longer than a tile", _normal(3, 8197), {"eps": 1e-6}, ("float32", "bfloat16")),
    Case("more rows than all cores hold at once", _normal(1283, 33), {"eps": 1e-6}, _F32),
    Case("inputs of 1e-4", _normal(8, 96, scale=1e-4), {"eps": 1e-6}),
    Case("inputs of 1e4", _normal(8, 96, scale=1e4), {"eps": 1e-6}),
    Case("NaN, infinities, zeros and denormals", _with_values, {"eps": 1e-6}),
)

GRADIENT_CASES = (
    Case("smollm2", _normal(1, 37, 576), {"eps": 1e-5}, _F32),
    Case("llama3", _normal(1, 5, 4096), {"eps": 1e-5}, _BF16),
    Case("no weight", _normal(3, 7, 64, weight=False), {"eps": 1e-6}, ("float16",)),
    Case("one element a row", _normal(11, 1), {"eps": 1e-6}, _F32),
    Case("odd row length", _normal(17, 513), {"eps": 1e-6}, ("float32", "bfloat16")),
    Case("row longer than a tile", _normal(3, 8197), {"eps": 1e-6}, ("float32", "float16")),
    Case("more rows than all cores hold at once", _normal(1283, 33), {"eps": 1e-6}, _F32),
    Case("inputs of 1e-4", _normal(8, 96, scale=1e-4), {"eps": 1e-6}, _F32),
    Case("inputs of 1e4", _normal(8, 96, scale=1e4), {"eps": 1e-6}, _F32),
    Case("NaN, infinities, zeros and denormals", _with_values, {"eps": 1e-6}, _F32),
)
