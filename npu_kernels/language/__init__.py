"""``nl``: all that a kernel body may say.

A kernel is a function from tensors to tensors. Its body runs once while tracing, and makes tile IR; with
``interpret=True`` it runs eagerly on NumPy instead.
"""

from __future__ import annotations

from ..ir import bfloat16, bool_, float16, float32, int32
from .dim import Dim
from .functions import abs, clip, exp, log, maximum, minimum, reciprocal, rsqrt, sqrt, tanh, where
from .interpret import interpret
from .loops import function, parallel, range, static_range
from .memory import arange, broadcast_to, dot, full, load, output, store, zeros
from .reductions import max, mean, min, sum
from .rewrite import prepare
from .tensor import Tensor, TensorSlice
from .tile import Tile, cast
from .trace import trace

__all__ = [
    "Dim",
    "Tensor",
    "TensorSlice",
    "Tile",
    "abs",
    "arange",
    "bfloat16",
    "bool_",
    "broadcast_to",
    "cast",
    "clip",
    "dot",
    "exp",
    "float16",
    "float32",
    "full",
    "function",
    "int32",
    "interpret",
    "load",
    "log",
    "max",
    "maximum",
    "mean",
    "min",
    "minimum",
    "output",
    "parallel",
    "prepare",
    "range",
    "reciprocal",
    "rsqrt",
    "sqrt",
    "static_range",
    "store",
    "sum",
    "tanh",
    "trace",
    "where",
    "zeros",
]
