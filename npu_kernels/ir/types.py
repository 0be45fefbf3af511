"""Types of the tile IR: dtypes, tensors in global memory, tiles on chip, scalars."""

from __future__ import annotations

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class DType:
    """An element type.

    Attributes:
        name: the IR's and the language's name, for example ``float32``.
        short: the printed form, for example ``f32``.
        itemsize: bytes per element in global memory.
        kind: ``f`` float, ``i`` signed integer, ``b`` boolean, ``x`` index.
    """

    name: str
    short: str
    itemsize: int
    kind: str

    def __repr__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The NumPy dtype with the same bits (ml_dtypes for bfloat16, int64 for index)."""
        return _NUMPY[self.name]


float32 = DType("float32", "f32", 4, "f")
float16 = DType("float16", "f16", 2, "f")
bfloat16 = DType("bfloat16", "bf16", 2, "f")
int32 = DType("int32", "i32", 4, "i")
bool_ = DType("bool", "i1", 1, "b")
#: Loop variables, offsets and extents: 64-bit, on the scalar unit, never in a tile.
index = DType("index", "index", 8, "x")

_NUMPY: dict[str, np.dtype[np.generic]] = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "int32": np.dtype(np.int32),
    "bool": np.dtype(np.bool_),
    "index": np.dtype(np.int64),
}
#: Dtypes an array argument or a tile may have.
DTYPES: tuple[DType, ...] = (float32, float16, bfloat16, int32, bool_)


def dtype_of(numpy_dtype: np.dtype[np.generic]) -> DType | None:
    """The IR dtype with these bits, or ``None`` when the language has none."""
    return next((d for d in DTYPES if d.numpy == numpy_dtype), None)


@dataclass(frozen=True)
class TensorType:
    """An array in global memory, dense and row-major."""

    shape: tuple[int, ...]
    dtype: DType

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return f"tensor<{_dims(self.shape)}{self.dtype.short}>"


@dataclass(frozen=True)
class TileType:
    """A value on chip of rank 1 or 2. ``shape`` is its capacity; how much of it holds data is
    :attr:`Value.extents`."""

    shape: tuple[int, ...]
    dtype: DType

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"tile<{_dims(self.shape)}{self.dtype.short}>"


@dataclass(frozen=True)
class ScalarType:
    """One element in a register of the scalar unit."""

    dtype: DType

    def __str__(self) -> str:
        return self.dtype.short


Type = TensorType | TileType | ScalarType


def _dims(shape: tuple[int, ...]) -> str:
    return "".join(f"{n}x" for n in shape)
