"""Values and operations of the tile IR.

SSA with structured control flow. A kernel body is a :class:`Block`; loops and branches hold blocks. Elementwise
operations broadcast implicitly, as NumPy does: a scalar, a tile with a 1 where the other has *n*, and a rank-1
tile ``[c]`` which stands for ``[1, c]``. Every operation carries the author's line.

Extents: along each axis a tile holds data in its first ``extents[axis]`` elements and nothing beyond. An extent is
an ``int`` (usually the capacity) or an ``index`` scalar computed from a loop variable (the ragged last tile of a loop).
When two operands of an elementwise operation have different extents along an axis with equal capacity, the result
has the smaller one. Reductions, ``mean``'s divisor and stores respect extents.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import ClassVar, Literal

from .types import DType, ScalarType, TensorType, TileType, Type

UNARY = ("neg", "exp", "log", "sqrt", "rsqrt", "reciprocal", "tanh", "abs", "not")
BINARY = ("add", "sub", "mul", "div", "floordiv", "mod", "maximum", "minimum", "and", "or", "xor")
PREDICATES = ("eq", "ne", "lt", "le", "gt", "ge")
REDUCTIONS = ("sum", "max", "min", "mean")
#: ``astype(..., rounding=)``: nearest even, toward -inf, toward +inf, toward zero, half away from zero.
ROUNDINGS = ("rint", "floor", "ceil", "trunc", "round")


@dataclass(frozen=True)
class Location:
    """A line of the author's Python source."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(eq=False)
class Value:
    """A result of an operation or an argument of a block; compared by identity.

    Attributes:
        name: the Python name it was assigned to, or a hint; the printer makes names unique.
        extents: for tiles, one per axis (see the module's docstring); empty otherwise.
    """

    type: Type
    name: str = ""
    extents: tuple[int | Value, ...] = ()

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return () if isinstance(self.type, ScalarType) else self.type.shape

    @property
    def is_tile(self) -> bool:
        return isinstance(self.type, TileType)

    @property
    def is_scalar(self) -> bool:
        return isinstance(self.type, ScalarType)

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.type, TensorType)


@dataclass(eq=False)
class Block:
    """A list of operations with arguments, ended by the values it yields to its owner."""

    args: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    yields: tuple[Value, ...] = ()


@dataclass(eq=False, kw_only=True)
class Op:
    """Base of all operations. ``result`` or ``results`` hold what it defines."""

    opcode: ClassVar[str] = ""
    location: Location

    @property
    def operands(self) -> tuple[Value, ...]:
        """Every value it reads, extents of its results included, in a fixed order."""
        found: list[Value] = []
        for f in fields(self):
            if f.name in ("result", "results", "location"):
                continue
            found.extend(_values(getattr(self, f.name)))
        for value in self.defines:
            found.extend(e for e in value.extents if isinstance(e, Value))
        return tuple(found)

    @property
    def defines(self) -> tuple[Value, ...]:
        result = getattr(self, "result", None)
        return (result,) if result is not None else tuple(getattr(self, "results", ()))

    @property
    def blocks(self) -> tuple[Block, ...]:
        return ()


def _values(item: object) -> Iterator[Value]:
    if isinstance(item, Value):
        yield item
    elif isinstance(item, tuple):
        for part in item:
            yield from _values(part)


@dataclass(eq=False, kw_only=True)
class Constant(Op):
    """A known scalar. ``value`` is a Python bool, int or float (float may be inf or nan)."""

    opcode: ClassVar[str] = "constant"
    value: bool | int | float
    result: Value


@dataclass(eq=False, kw_only=True)
class Unary(Op):
    """``neg exp log sqrt rsqrt reciprocal tanh abs`` on floats (``neg``, ``abs`` on int32 too); ``not`` on bool."""

    opcode: ClassVar[str] = "unary"
    kind: str
    operand: Value
    result: Value


@dataclass(eq=False, kw_only=True)
class Binary(Op):
    """Elementwise arithmetic; both operands have the result's dtype. ``floordiv`` and ``mod`` on index and int32
    scalars only; ``and or xor`` on bool."""

    opcode: ClassVar[str] = "binary"
    kind: str
    lhs: Value
    rhs: Value
    result: Value


@dataclass(eq=False, kw_only=True)
class Compare(Op):
    """Elementwise comparison of two operands of one dtype; result bool. IEEE: NaN compares false, but for ``ne``."""

    opcode: ClassVar[str] = "compare"
    predicate: str
    lhs: Value
    rhs: Value
    result: Value


@dataclass(eq=False, kw_only=True)
class Select(Op):
    """``where(condition, on_true, on_false)``: bool condition, operands of the result's dtype, all broadcast."""

    opcode: ClassVar[str] = "select"
    condition: Value
    on_true: Value
    on_false: Value
    result: Value


@dataclass(eq=False, kw_only=True)
class Cast(Op):
    """Conversion between dtypes. ``rounding`` is one of :data:`ROUNDINGS`; float to float and int to float round by
    it, float to int too (default ``trunc`` there, ``rint`` elsewhere). bool becomes 0 or 1; to bool is ``!= 0``."""

    opcode: ClassVar[str] = "cast"
    operand: Value
    rounding: str
    result: Value


@dataclass(eq=False, kw_only=True)
class Full(Op):
    """A tile filled with a scalar of its dtype."""

    opcode: ClassVar[str] = "full"
    value: Value
    result: Value


@dataclass(eq=False, kw_only=True)
class Arange(Op):
    """A rank-1 int32 tile ``start, start + 1, …``; ``start`` is an int32 or index scalar."""

    opcode: ClassVar[str] = "arange"
    start: Value
    result: Value


@dataclass(eq=False, kw_only=True)
class Reshape(Op):
    """Adds or drops axes of size 1 (``t[:, None]``, ``t[None, :]``, keepdims); no data moves."""

    opcode: ClassVar[str] = "reshape"
    operand: Value
    result: Value


@dataclass(eq=False, kw_only=True)
class Broadcast(Op):
    """Explicit broadcast to a larger capacity."""

    opcode: ClassVar[str] = "broadcast"
    operand: Value
    result: Value


@dataclass(eq=False, kw_only=True)
class Narrow(Op):
    """The same tile with smaller extents (those of ``result``); no data moves."""

    opcode: ClassVar[str] = "narrow"
    operand: Value
    result: Value


@dataclass(eq=False, kw_only=True)
class Reduce(Op):
    """``sum max min mean`` along ``axis``; with ``keepdims`` the axis stays with size 1. ``max`` and ``min`` of
    a row that holds a NaN are NaN. Reducing a rank-1 tile without keepdims gives a scalar. Floats only."""

    opcode: ClassVar[str] = "reduce"
    kind: str
    operand: Value
    axis: int
    keepdims: bool
    result: Value


@dataclass(eq=False, kw_only=True)
class Dot(Op):
    """Matrix product on the cube unit, accumulated in float32: ``op(a) @ op(b) [+ accumulator]``.

    ``a`` is ``[m, k]`` (``[k, m]`` when ``transpose_a``), ``b`` is ``[k, n]`` (``[n, k]`` when ``transpose_b``); both
    have one dtype of float16, bfloat16, float32. The result is float32 ``[m, n]``. Only the extents contribute:
    elements beyond k's extent count as absent, not as garbage.
    """

    opcode: ClassVar[str] = "dot"
    a: Value
    b: Value
    accumulator: Value | None
    transpose_a: bool
    transpose_b: bool
    result: Value


@dataclass(eq=False, kw_only=True)
class Load(Op):
    """Reads a slice of a tensor. Per tensor axis: ``starts`` (index scalar) and ``sizes`` (static, ``None`` for an
    axis that is indexed away). The result is a tile of the kept axes, or a scalar when none is kept; its extents say
    how much of the slice lies inside the tensor."""

    opcode: ClassVar[str] = "load"
    tensor: Value
    starts: tuple[Value, ...]
    sizes: tuple[int | None, ...]
    result: Value


@dataclass(eq=False, kw_only=True)
class Store(Op):
    """Writes a tile or scalar of the tensor's dtype into a slice. ``extents`` (per kept axis) say how much is
    written: the part of the slice that lies inside the tensor and holds data."""

    opcode: ClassVar[str] = "store"
    tensor: Value
    value: Value
    starts: tuple[Value, ...]
    sizes: tuple[int | None, ...]
    extents: tuple[int | Value, ...]


@dataclass(eq=False, kw_only=True)
class For(Op):
    """A counted loop ``start, start + step, … < stop``.

    ``kind`` is ``parallel`` (iterations are independent, spread over cores, nothing carried) or ``range`` (in order on
    one core, pipelined when ``pipelined``). ``body.args`` is the loop variable (index) followed by one argument per
    carried value; ``body.yields`` are their next values; ``results`` their last.
    """

    opcode: ClassVar[str] = "for"
    kind: Literal["parallel", "range"]
    start: Value
    stop: Value
    step: int
    inits: tuple[Value, ...]
    body: Block
    results: tuple[Value, ...]
    pipelined: bool = True

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (self.body,)


@dataclass(eq=False, kw_only=True)
class If(Op):
    """A branch on a bool scalar; both blocks yield as many values as there are results."""

    opcode: ClassVar[str] = "if"
    condition: Value
    then: Block
    orelse: Block
    results: tuple[Value, ...]

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (self.then, self.orelse)


@dataclass(eq=False)
class Kernel:
    """A traced kernel, specialised to shapes, dtypes and static arguments.

    Attributes:
        name: a C identifier.
        inputs, outputs: tensors in call order; their ``Value.name`` is the Python name.
        body: the statements; it yields nothing.
        statics: static keyword arguments by name, for the header comment of the generated source.
        dims: named dimensions and their sizes.
    """

    name: str
    inputs: list[Value]
    outputs: list[Value]
    body: Block
    location: Location
    statics: dict[str, object] = field(default_factory=dict)
    dims: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        from .printer import print_kernel  # the printer needs the operations

        return print_kernel(self)


def walk(block: Block) -> Iterator[Op]:
    """Every operation of a block and of the blocks inside it, in program order."""
    for op in block.ops:
        yield op
        for inner in op.blocks:
            yield from walk(inner)
