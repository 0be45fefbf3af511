"""Sizes of tensors."""

from __future__ import annotations


class Dim(int):
    """A size of a tensor, as ``x.shape`` gives it.

    A kernel is specialised to its shapes, so a dimension is a known number and behaves as the ``int`` it is. Code that
    uses it only through arithmetic, comparison and the functions of the language does not depend on that.

    Attributes:
        origin: where it comes from, for error messages, for example ``x.shape[0]``.
    """

    origin: str

    def __new__(cls, size: int, origin: str = "") -> Dim:
        dim = super().__new__(cls, size)
        dim.origin = origin
        return dim
