"""Named dimensions: what the strings in a kernel's annotations say, and the sizes that solve them.

The strings are jaxtyping's: names, numbers, ``_`` for any size, one ``...`` or ``*name`` for any number of leading
axes, and products such as ``hkv*g``, of which one factor may be left for the shapes to determine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from npu_kernels.errors import SignatureError

_NAME = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True)
class Dimension:
    """One axis: the product of ``factors`` (names) and ``constant``; any size when ``anything`` is set."""

    text: str
    factors: tuple[str, ...] = ()
    constant: int = 1
    anything: bool = False


@dataclass(frozen=True)
class Shape:
    """An annotation's dimensions. ``variadic`` is the index of the token that stands for any number of axes."""

    text: str
    dimensions: tuple[Dimension, ...]
    variadic: int | None = None

    def of_rank(self, rank: int) -> tuple[Dimension, ...] | None:
        """One dimension per axis of an array of this rank; ``None`` when the rank does not fit."""
        if self.variadic is None:
            return self.dimensions if rank == len(self.dimensions) else None
        spare = rank - (len(self.dimensions) - 1)
        if spare < 0:
            return None
        token = self.dimensions[self.variadic]
        name = token.text.lstrip("*")
        middle = tuple(
            Dimension(f"{name}[{i}]", () if token.anything else (f"{name}[{i}]",), anything=token.anything)
            for i in range(spare)
        )
        return self.dimensions[: self.variadic] + middle + self.dimensions[self.variadic + 1 :]


def parse_shape(text: str) -> Shape:
    """Reads a jaxtyping dimension string.

    Raises:
        ValueError: with the part that is not understood.
    """
    dimensions = []
    variadic = None
    for position, token in enumerate(text.split()):
        if token.startswith(("...", "*")):
            if variadic is not None:
                raise ValueError("only one of `...` and `*name` may appear")
            variadic = position
            dimensions.append(Dimension(token, anything=token in ("...", "*_")))
        else:
            dimensions.append(_parse_dimension(token))
    return Shape(text, tuple(dimensions), variadic)


def _parse_dimension(token: str) -> Dimension:
    if token == "_":
        return Dimension(token, anything=True)
    factors, constant = [], 1
    for factor in token.split("*"):
        if factor.isdecimal():
            constant *= int(factor)
        elif _NAME.match(factor):
            factors.append(factor)
        else:
            raise ValueError(f"`{token}` is not a name, a number or a product of them")
    if len(set(factors)) != len(factors):
        raise ValueError(f"`{token}` names a factor twice")
    return Dimension(token, tuple(factors), constant)


@dataclass(frozen=True)
class _Axis:
    argument: str
    position: int
    dimension: Dimension
    size: int

    def __str__(self) -> str:
        return f"axis {self.position} of `{self.argument}`"


def solve(arrays: Sequence[tuple[str, Shape, tuple[int, ...]]], known: dict[str, int] | None = None) -> dict[str, int]:
    """The size of every named dimension.

    Args:
        arrays: name, annotation and shape of each array.
        known: sizes that are already fixed.

    Raises:
        SignatureError: NPK-SH01 when a rank or a number does not fit, NPK-SH02 when two axes disagree.
    """
    axes = [axis for name, shape, sizes in arrays for axis in _axes(name, shape, sizes)]
    solved = dict(known or {})
    origin: dict[str, str] = {}
    waiting = [axis for axis in axes if not axis.dimension.anything]
    while waiting:
        left = [axis for axis in waiting if not _settle(axis, solved, origin)]
        if len(left) == len(waiting):
            names = ", ".join(f"`{axis.dimension.text}` ({axis})" for axis in left)
            raise SignatureError(
                "NPK-SH01", f"more than one factor is left open in {names}; name each factor on an axis of its own"
            )
        waiting = left
    return solved


def _axes(name: str, shape: Shape, sizes: tuple[int, ...]) -> list[_Axis]:
    dimensions = shape.of_rank(len(sizes))
    if dimensions is None:
        least = "at least " if shape.variadic is not None else ""
        count = len(shape.dimensions) - (shape.variadic is not None)
        raise SignatureError(
            "NPK-SH01",
            f'`{name}` has shape {sizes}, but its annotation "{shape.text}" has {least}{count} axes',
        )
    return [_Axis(name, i, d, size) for i, (d, size) in enumerate(zip(dimensions, sizes, strict=True))]


def _settle(axis: _Axis, solved: dict[str, int], origin: dict[str, str]) -> bool:
    """Checks an axis whose factors are known, or learns the one that is not; False when two are unknown."""
    dimension = axis.dimension
    unknown = [factor for factor in dimension.factors if factor not in solved]
    product = dimension.constant * math.prod(solved[f] for f in dimension.factors if f in solved)
    if not unknown:
        if product != axis.size:
            raise _mismatch(axis, product, solved, origin)
        return True
    if len(unknown) > 1:
        return False
    if product == 0:
        if axis.size != 0:
            raise _mismatch(axis, 0, solved, origin)
        solved[unknown[0]] = 1  # nothing is there to tell, and every size fits
    elif axis.size % product:
        raise SignatureError(
            "NPK-SH01", f"{axis} has size {axis.size}, but `{dimension.text}` must be a multiple of {product}"
        )
    else:
        solved[unknown[0]] = axis.size // product
    origin[unknown[0]] = str(axis)
    return True


def _mismatch(axis: _Axis, expected: int, solved: dict[str, int], origin: dict[str, str]) -> SignatureError:
    dimension = axis.dimension
    if not dimension.factors:
        return SignatureError("NPK-SH01", f"{axis} has size {axis.size}, but its annotation says {expected}")
    if dimension.factors == (dimension.text,):
        source = f" by {origin[dimension.text]}" if dimension.text in origin else ""
        return SignatureError(
            "NPK-SH02", f"dimension `{dimension.text}` is {expected}{source}, but {axis} has size {axis.size}"
        )
    sizes = ", ".join(f"{f} = {solved[f]}" for f in dimension.factors if f in solved)
    return SignatureError(
        "NPK-SH02", f"dimension `{dimension.text}` is {expected} ({sizes}), but {axis} has size {axis.size}"
    )
