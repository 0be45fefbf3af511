"""What is no operand, and what to do instead."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from .operators import refuse_operators
from .source import fail
from .unavailable import Unavailable

if TYPE_CHECKING:
    from .tile import Tile


class Transposed:
    """A transposed operand of ``nl.dot``; no data moves."""

    def __init__(self, tile: Tile) -> None:
        self.tile = tile

    @property
    def T(self) -> Tile:
        return self.tile

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tile.shape[::-1]

    def __getattr__(self, name: str) -> NoReturn:
        _refuse_transposed()


def _refuse_transposed() -> NoReturn:
    fail("NPK-LA01", "a transposed tile is only an operand of nl.dot: load it the other way round for anything else")


refuse_operators(Transposed, lambda self, _: _refuse_transposed())


def refuse_attribute(what: str, name: str) -> NoReturn:
    """For ``__getattr__``: names with an underscore are for Python and its tools to ask, the rest is an author's."""
    if name.startswith("_"):
        raise AttributeError(name)
    known = name in sys.modules[__package__].__all__
    way = f"write nl.{name}(...)" if known else "the functions of npu_kernels.language take it as an argument"
    fail("NPK-LA01", f"{what} has no .{name}: {way}")


def refuse_operand(item: object, role: str) -> NoReturn:
    """Says why ``item`` is no tile and no number."""
    from .tensor import Tensor, TensorSlice

    if isinstance(item, Unavailable):
        item.refuse()
    if isinstance(item, Transposed):
        _refuse_transposed()
    if isinstance(item, Tensor | TensorSlice):
        fail("NPK-LA03", f"{role} is {item}, which lies in global memory: nl.load it first")
    if isinstance(item, np.ndarray) or hasattr(item, "__jax_array__") or type(item).__module__.startswith("jax"):
        fail("NPK-LA03", f"{role} is an array: pass it to the kernel as an argument, and nl.load it")
    fail("NPK-LA03", f"{role} is a {type(item).__name__}, which is neither a tile nor a number")
