"""Tiles: values on chip, their operators, and how operands of different kinds meet."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from .. import ir
from . import numbers
from .bounds import Affine
from .dtypes import as_dtype
from .machine import Machine, current
from .operators import SPELLED, refuse_operators
from .refusals import Transposed, refuse_attribute, refuse_operand
from .source import fail

Number = bool | int | float


class Tile:
    """A value on chip: a tile of rank 1 or 2, or a scalar (rank 0). It never changes; operators make new ones.

    Attributes:
        shape: the capacity, always known numbers. How much of it holds data (the valid extent) may be less in the
            last tile of a loop; loads, reductions and stores respect it.
        dtype: the element type.
    """

    __slots__ = ("dtype", "facts", "machine", "payload", "shape", "step")
    __hash__ = object.__hash__

    def __init__(
        self,
        machine: Machine,
        shape: tuple[int, ...],
        dtype: ir.DType,
        payload: Any,
        facts: Affine | None = None,
        step: int | None = None,
    ) -> None:
        self.machine = machine
        self.shape = shape
        self.dtype = dtype
        self.payload = payload
        self.facts = facts
        self.step = step

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def T(self) -> Tile | Transposed:
        """A rank-2 tile with its axes swapped, as an operand of ``nl.dot``."""
        return Transposed(self) if self.ndim == 2 else self

    def astype(self, dtype: ir.DType, *, rounding: str | None = None) -> Tile:
        """Converts the elements.

        Args:
            rounding: ``rint`` (to nearest even), ``floor``, ``ceil``, ``trunc`` or ``round`` (half away from zero).
                By default ``trunc`` from a float to an integer, ``rint`` elsewhere.

        Raises:
            LanguageError: NPK-LA05 for a dtype the language lacks, NPK-LA09 for another rounding.
        """
        return cast(self, dtype, rounding=rounding)

    def __getitem__(self, key: object) -> Tile:
        """``t[:, None]``, ``t[None, :]`` and ``t[:]``: adds axes of size 1."""
        items = key if isinstance(key, tuple) else (key,)
        shape: list[int] = []
        axis = 0
        for item in items:
            if item is None:
                shape.append(1)
            elif isinstance(item, slice) and item == slice(None) and axis < self.ndim:
                shape.append(self.shape[axis])
                axis += 1
            else:
                fail("NPK-LA01", "a tile can only gain axes (t[:, None], t[None, :]): to read a part, slice the tensor")
        shape += self.shape[axis:]
        current().admit(self)
        if len(shape) > 2:
            fail("NPK-LA04", f"a tile has rank 1 or 2; indexing {list(self.shape)} like this gives {shape}")
        if not self.shape:
            return self.machine.full(tuple(shape), as_element(self)) if shape else self
        return self if tuple(shape) == self.shape else self.machine.reshape(self, tuple(shape))

    def __add__(self, other: Any) -> Tile:
        return binary("add", self, other)

    def __radd__(self, other: Any) -> Tile:
        return binary("add", other, self)

    def __sub__(self, other: Any) -> Tile:
        return binary("sub", self, other)

    def __rsub__(self, other: Any) -> Tile:
        return binary("sub", other, self)

    def __mul__(self, other: Any) -> Tile:
        return binary("mul", self, other)

    def __rmul__(self, other: Any) -> Tile:
        return binary("mul", other, self)

    def __truediv__(self, other: Any) -> Tile:
        return binary("div", self, other)

    def __rtruediv__(self, other: Any) -> Tile:
        return binary("div", other, self)

    def __floordiv__(self, other: Any) -> Tile:
        return binary("floordiv", self, other)

    def __rfloordiv__(self, other: Any) -> Tile:
        return binary("floordiv", other, self)

    def __mod__(self, other: Any) -> Tile:
        return binary("mod", self, other)

    def __rmod__(self, other: Any) -> Tile:
        return binary("mod", other, self)

    def __and__(self, other: Any) -> Tile:
        return binary("and", self, other)

    def __rand__(self, other: Any) -> Tile:
        return binary("and", other, self)

    def __or__(self, other: Any) -> Tile:
        return binary("or", self, other)

    def __ror__(self, other: Any) -> Tile:
        return binary("or", other, self)

    def __xor__(self, other: Any) -> Tile:
        return binary("xor", self, other)

    def __rxor__(self, other: Any) -> Tile:
        return binary("xor", other, self)

    def __pow__(self, exponent: Any) -> Tile:
        if type(exponent) is int and exponent == 2:
            return binary("mul", self, self)
        fail("NPK-LA09", f"tiles can be squared only (t ** 2), not raised to {exponent!r}: use nl.exp and nl.log")

    def __lt__(self, other: Any) -> Tile:
        return compare("lt", self, other)

    def __le__(self, other: Any) -> Tile:
        return compare("le", self, other)

    def __gt__(self, other: Any) -> Tile:
        return compare("gt", self, other)

    def __ge__(self, other: Any) -> Tile:
        return compare("ge", self, other)

    def __eq__(self, other: Any) -> Tile:  # type: ignore[override]
        return compare("eq", self, other)

    def __ne__(self, other: Any) -> Tile:  # type: ignore[override]
        return compare("ne", self, other)

    def __neg__(self) -> Tile:
        return unary("neg", self)

    def __pos__(self) -> Tile:
        return self

    def __abs__(self) -> Tile:
        return unary("abs", self)

    def __invert__(self) -> Tile:
        return unary("not", self)

    def __bool__(self) -> bool:
        return bool(self.machine.number(self, "truth"))

    def __int__(self) -> int:
        return int(self.machine.number(self, "number"))

    def __float__(self) -> float:
        return float(self.machine.number(self, "number"))

    def __index__(self) -> int:
        return int(self.machine.number(self, "index"))

    def __iter__(self) -> NoReturn:
        fail("NPK-LA03", "a tile cannot be iterated over: use the operations on whole tiles")

    def __len__(self) -> NoReturn:
        fail("NPK-LA03", f"a tile has no len(): its shape {list(self.shape)} is in .shape")

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        fail("NPK-LA03", "a tile is no NumPy array: use the functions of npu_kernels.language")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """An operator with a NumPy scalar on its left arrives here; the rest of NumPy is refused."""
        name = ufunc.__name__
        # NumPy hands its scalars over as arrays of rank 0.
        inputs = tuple(i.item() if isinstance(i, np.ndarray) and i.ndim == 0 else i for i in inputs)
        if method == "__call__" and len(inputs) == 2 and not kwargs:
            if name in _UFUNC_COMPARISONS:
                return compare(_UFUNC_COMPARISONS[name], *inputs)
            if name in _UFUNCS:
                return binary(_UFUNCS[name], *inputs)
        fail("NPK-LA03", f"NumPy's {name} takes no tile: use the functions of npu_kernels.language")

    def __getattr__(self, name: str) -> NoReturn:
        refuse_attribute("a tile", name)

    def __repr__(self) -> str:
        return self.machine.describe(self)

    def __format__(self, spec: str) -> str:
        return format(self.machine.number(self, "number"), spec) if spec else repr(self)


_UFUNCS = {
    "add": "add",
    "subtract": "sub",
    "multiply": "mul",
    "divide": "div",
    "floor_divide": "floordiv",
    "remainder": "mod",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
}
_UFUNC_COMPARISONS = {
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "equal": "eq",
    "not_equal": "ne",
}
_WAYS = {
    "matmul": "write nl.dot(a, b)",
    "rmatmul": "write nl.dot(a, b)",
    "rpow": "write nl.exp(t * math.log(base))",
    "divmod": "write // and %",
    "round": 'write .astype(nl.int32, rounding="rint")',
    "floor": 'write .astype(nl.int32, rounding="floor")',
    "ceil": 'write .astype(nl.int32, rounding="ceil")',
    "trunc": 'write .astype(nl.int32, rounding="trunc")',
    "lshift": "multiply by a power of two",
    "rshift": "divide by a power of two with //, which scalars have",
    "setitem": "a tile never changes; nl.where makes another one, and nl.store writes into an output",
}


def _refuse_operator(tile: Tile, name: str) -> NoReturn:
    way = _WAYS.get(name, "use the functions of npu_kernels.language")
    fail("NPK-LA01", f"tiles have no {SPELLED[name]}: {way}")


refuse_operators(Tile, _refuse_operator)


def as_operand(item: object, role: str = "an operand") -> Tile | Number:
    """``item`` as a tile that may be used here or a Python number."""
    if isinstance(item, Tile):
        current().admit(item)
        return item
    if isinstance(item, np.generic):
        item = item.item()
    if isinstance(item, bool | int | float):
        return item
    refuse_operand(item, role)


def constant(value: Number, dtype: ir.DType) -> Tile:
    """A Python number as a scalar of ``dtype``; numbers take the dtype of what they meet."""
    if dtype == ir.bool_:
        if not isinstance(value, bool):
            fail("NPK-LA05", f"the number {value!r} meets a bool tile: compare (t == {value!r}) or cast the tile first")
        return current().constant(value, dtype)
    if isinstance(value, bool):
        fail("NPK-LA05", f"{value} meets a {dtype} tile: write 1 or 0, or use nl.where")
    if dtype.is_float:
        try:
            return current().constant(float(value), dtype)
        except OverflowError:
            fail("NPK-LA09", f"an integer of {int(value).bit_length()} bits does not fit into {dtype}")
    if isinstance(value, float):
        what = "an index" if dtype == ir.index else f"an {dtype} value"
        fail("NPK-LA05", f"the float {value!r} meets {what}: cast it to a float first (.astype(nl.float32))")
    bits = 64 if dtype == ir.index else 32
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        fail("NPK-LA09", f"{value} does not fit into {dtype}: it ranges over {bits} bits")
    return current().constant(int(value), dtype)


def unify(operation: str, *items: Tile | Number) -> list[Tile]:
    """Operands of one dtype. Numbers and index scalars adapt; two tiles of different dtypes do not."""
    tiles = [i for i in items if isinstance(i, Tile)]
    strong = {t.dtype for t in tiles if t.dtype != ir.index}
    if len(strong) > 1:
        names = " and ".join(sorted(d.name for d in strong))
        wide = "nl.float32" if any(d.is_float for d in strong) else "nl.int32"
        fail("NPK-LA05", f"{operation} of {names}: cast one explicitly, for example .astype({wide})")
    dtype = strong.pop() if strong else ir.index
    if dtype == ir.int32 and any(t.dtype == ir.index for t in tiles) and not any(t.shape for t in tiles):
        dtype = ir.index
    return [_adapt(i, dtype) if isinstance(i, Tile) else constant(i, dtype) for i in items]


def _adapt(tile: Tile, dtype: ir.DType) -> Tile:
    if tile.dtype == dtype:
        return tile
    if dtype == ir.bool_:
        fail("NPK-LA05", "an index meets a bool tile: compare it first")
    return current().cast(tile, dtype, "rint")


def as_element(scalar: Tile) -> Tile:
    """A scalar as elements of a tile have it: an index becomes int32."""
    return current().cast(scalar, ir.int32, "rint") if scalar.dtype == ir.index else scalar


def broadcast(operation: str, *tiles: Tile) -> tuple[int, ...]:
    shape = ir.broadcast_shapes(*(t.shape for t in tiles))
    if shape is None:
        shapes = " and ".join(str(list(t.shape)) for t in tiles)
        fail("NPK-LA04", f"{operation}: shapes {shapes} do not broadcast; add an axis with t[:, None] or t[None, :]")
    return shape


def binary(kind: str, a: object, b: object) -> Tile | Any:
    """Elementwise arithmetic; of two Python numbers, the Python result."""
    left, right = as_operand(a, "the left operand"), as_operand(b, "the right operand")
    if not isinstance(left, Tile) and not isinstance(right, Tile):
        return numbers.ARITHMETIC[kind](left, right)
    x, y = unify(kind, left, right)
    dtype = x.dtype
    shape = broadcast(kind, x, y)
    if (kind in ("and", "or", "xor")) != (dtype == ir.bool_):
        way = "cast it first (.astype(nl.float32))" if dtype == ir.bool_ else "compare first, it works on bool"
        fail("NPK-LA05", f"{kind} of {dtype} values does not exist: {way}")
    if kind == "div" and not dtype.is_float:
        way = "// divides scalars" if not shape else "cast to nl.float32 first"
        fail("NPK-LA05", f"{dtype} values cannot be divided with /: {way}")
    if kind in ("floordiv", "mod"):
        sign = "//" if kind == "floordiv" else "%"
        if shape or dtype.is_float:
            fail("NPK-LA05", f"{sign} is for index and int32 scalars: for tiles divide floats and cast with a rounding")
        if not current().excludes_zero(y):
            fail("NPK-LA09", f"the divisor of {sign} may be 0: bound it with nl.maximum(divisor, 1)")
    return current().binary(kind, x, y)


def compare(predicate: str, a: object, b: object) -> Tile | Any:
    """Elementwise comparison, a bool tile; of two Python numbers, a Python bool."""
    left, right = as_operand(a, "the left operand"), as_operand(b, "the right operand")
    if not isinstance(left, Tile) and not isinstance(right, Tile):
        return numbers.COMPARISON[predicate](left, right)
    x, y = unify("a comparison", left, right)
    broadcast("a comparison", x, y)
    if x.dtype == ir.bool_:
        if predicate not in ("eq", "ne"):
            fail("NPK-LA05", "bool values have no order: cast them first")
        differ = current().binary("xor", x, y)
        return differ if predicate == "ne" else current().unary("not", differ)
    return current().compare(predicate, x, y)


def unary(kind: str, x: Tile) -> Tile:
    current().admit(x)
    if kind == "not":
        if x.dtype != ir.bool_:
            fail("NPK-LA05", f"~ is for bool values, not {x.dtype}: compare first")
    elif x.dtype == ir.bool_ or (kind not in ("neg", "abs") and not x.dtype.is_float):
        fail("NPK-LA05", f"{kind} of {x.dtype} does not exist: cast first (.astype(nl.float32))")
    return current().unary(kind, x)


def cast(x: Any, dtype: object, *, rounding: str | None = None) -> Tile:
    """``x.astype(dtype, rounding=rounding)``, for Python numbers too."""
    target = as_dtype(dtype)
    value = as_operand(x)
    if rounding is not None and rounding not in ir.ROUNDINGS:
        fail("NPK-LA09", f"rounding {rounding!r} is none of {', '.join(ir.ROUNDINGS)}")
    if not isinstance(value, Tile):
        if target == ir.bool_:
            return constant(bool(value), target)
        return constant(int(value) if isinstance(value, bool) else value, target)
    if value.dtype == target:
        if rounding is not None:
            fail("NPK-LA09", f"the value is {target} already, so there is nothing to round")
        return value
    default = "trunc" if value.dtype.is_float and target == ir.int32 else "rint"
    return current().cast(value, target, rounding or default)
