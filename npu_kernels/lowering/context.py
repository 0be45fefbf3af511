"""State of lowering one section: the statements so far, the storage of each value, fresh names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..errors import LoweringError
from ..ir import Location, Op, Value, bfloat16, bool_, float16, float32, index, int32
from ..ir.device import (
    ITEMSIZE,
    Arg,
    Branch,
    Buffer,
    Declare,
    Event,
    Instr,
    Let,
    Loop,
    ReadScalar,
    Ref,
    Stmt,
    Tensor,
)
from ..ir.expr import Expr, Name, Number, add, bounds, integer
from ..ir.types import DType
from .arch import Arch
from .layout import Layout

#: C++ type of a tile's elements; masks are held as bits, one per element.
TILE_CTYPE = {float32: "float", float16: "half", bfloat16: "bfloat16_t", int32: "int32_t", bool_: "bits"}
SCALAR_CTYPE = {
    float32: "float",
    float16: "float",
    bfloat16: "float",
    int32: "int32_t",
    bool_: "bool",
    index: "int64_t",
}
#: Identifiers without a capital that C++ (keywords up to C++20, the C library's macros, compilers' words), Ascend C or
#: the generated text's own frame means something by. Types end in ``_t``, which no variable does.
_RESERVED = frozenset(
    {
        "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case",
        "catch", "char", "class", "co_await", "co_return", "co_yield", "compl", "concept", "const",
        "const_cast", "consteval", "constexpr", "constinit", "continue", "decltype", "default", "delete", "do",
        "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for",
        "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not",
        "not_eq", "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register",
        "reinterpret_cast", "requires", "return", "short", "signed", "sizeof", "static", "static_assert",
        "static_cast", "struct", "switch", "template", "this", "thread_local", "throw", "true", "try",
        "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual", "void", "volatile", "while",
        "xor", "xor_eq", "assert", "errno", "i386", "linux", "stderr", "stdin", "stdout", "typeof", "unix",
        "half", "kernel", "pipe", "source", "tiling", "workspace",
    }
)  # fmt: skip
#: Names that the writer makes up as it goes, and types.
_MADE = re.compile(r"lanes\d+|\w+_t")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(eq=False)
class Tile:
    """A tile value during lowering: capacity, run-time extents, dtype; its storage is in ``Context.forms``."""

    name: str
    shape: tuple[int, ...]
    extents: tuple[Expr, ...]
    dtype: DType
    layout: Layout
    low: int | None = None
    high: int | None = None


class Names:
    """Unique C identifiers, close to the Python names.

    Whatever Ascend C names (functions, types, macros, enumerators) has a capital, and so has whatever the generated
    text names itself: members, queues, events. A name from a kernel's source is therefore written in snake case, and
    never hides any of them, whichever of them the text uses.
    """

    def __init__(self) -> None:
        self.taken: set[str] = set(_RESERVED)

    def fresh(self, base: str, suffix: str = "") -> str:
        """A name like ``base``; with a ``suffix``, which has a capital, one of the text's own."""
        clean = _HUMP.sub("_", re.sub(r"\W+", "_", base).strip("_")).lower() or "v"
        if clean[0].isdigit():
            clean = "v" + clean
        clean += suffix
        name, n = clean, 1
        while name in self.taken or _MADE.fullmatch(name):
            n += 1
            name = f"{clean}{n}" if not clean[-1].isdigit() else f"{clean}_{n}"
        self.taken.add(name)
        return name


class Context:
    """Builds the statements of one section."""

    def __init__(self, arch: Arch, granule: int, tensors: dict[Value, Tensor], names: Names, core: str) -> None:
        self.arch = arch
        self.granule = granule
        self.tensors = tensors
        self.names = names
        self.core = core
        self.location = Location("", 0)
        self.statements: list[Stmt] = []
        self.scalars: dict[Value, Expr] = {}
        self.tiles: dict[Value, Tile] = {}
        self._scopes: list[dict[tuple[Tile, str], Ref]] = [{}]
        self._groups = 0
        self.depth = 0

    # statements

    def emit(self, statement: Stmt) -> None:
        self.statements.append(statement)

    @contextmanager
    def into(self, statements: list[Stmt]) -> Iterator[list[Stmt]]:
        """Statements inside the ``with`` go to ``statements``; storage made there is forgotten afterwards."""
        outer, self.statements = self.statements, statements
        self._scopes.append({})
        try:
            yield statements
        finally:
            self.statements = outer
            self._scopes.pop()

    @contextmanager
    def loop(self, base: str, start: Expr, stop: Expr, step: Expr, *, independent: bool = False) -> Iterator[Name]:
        low, high = bounds(start)[0], bounds(stop)[1]
        never = low is not None and high is not None and high <= low
        var = Name(self.names.fresh(base), "int64_t", low, None if high is None or never else high - 1)
        body: list[Stmt] = []
        self.depth += 1
        with self.into(body):
            yield var
        self.depth -= 1
        if never:
            return
        self.emit(
            Loop(var=var, start=start, stop=stop, step=step, body=body, independent=independent, location=self.location)
        )

    @contextmanager
    def branch(self, condition: Expr) -> Iterator[None]:
        """Statements inside run under ``condition``; a known condition leaves no branch behind."""
        body: list[Stmt] = []
        if isinstance(condition, Number):
            with self.into(body):
                yield
            if condition.value:
                self.statements.extend(body)
            return
        with self.into(body):
            yield
        self.emit(Branch(condition=condition, then=body, location=self.location))

    def sync(self, event: str) -> None:
        """The second pipe of ``event`` waits for everything the first has been given."""
        self.emit(Event(action="set", event=event, location=self.location))
        self.emit(Event(action="wait", event=event, location=self.location))

    def group(self) -> int:
        """A number for instructions that touch disjoint parts of their destination."""
        self._groups += 1
        return self._groups

    def instr(
        self,
        api: str,
        dst: Ref,
        sources: tuple[Ref, ...] = (),
        *args: Arg,
        inplace: bool | tuple[int, ...] = False,
        partial: bool = False,
        accumulates: bool = False,
        group: int = 0,
        pipe: str = "V",
        templates: tuple[str, ...] = (),
    ) -> None:
        """Emits a call; ``inplace`` true stands for every source with elements as wide as the result's."""
        if isinstance(inplace, bool):
            width = ITEMSIZE[dst.ctype]
            inplace = tuple(i for i, s in enumerate(sources) if inplace and ITEMSIZE[s.ctype] == width)
        self.emit(
            Instr(
                api=api,
                dst=dst,
                sources=sources,
                args=args,
                inplace=inplace,
                partial=partial,
                accumulates=accumulates,
                group=group,
                pipe=pipe,
                templates=templates,
                location=self.location,
            )
        )

    # scalars

    def let(self, base: str, value: Expr) -> Expr:
        """A variable holding ``value``; literals and variables stand for themselves."""
        if isinstance(value, Number | Name):
            return value
        low, high = bounds(value)
        name = Name(self.names.fresh(base), value.ctype, low, high)
        self.emit(Let(name=name, value=value, location=self.location))
        return name

    def read(self, base: str, source: Ref, ctype: str) -> Name:
        """A variable with the element at ``source``, once the pipes that write it are done."""
        name = Name(self.names.fresh(base), ctype)
        if isinstance(source.base, Buffer):
            self.sync("V_S")
        self.emit(ReadScalar(name=name, source=source, location=self.location))
        return name

    def scalar(self, value: Value) -> Expr:
        return self.scalars[value]

    def extent(self, extent: int | Value) -> Expr:
        return integer(extent) if isinstance(extent, int) else self.scalars[extent]

    # storage

    def buffer(self, base: str, ctype: str, elements: int, position: str = "VECCALC") -> Buffer:
        return Buffer(self.names.fresh(base), ctype, elements, position, self.location)

    def temp(self, base: str, ctype: str, elements: int) -> Ref:
        """A new buffer of the vector cores, declared here."""
        buffer = self.buffer(base, ctype, elements)
        self.emit(Declare(buffer=buffer, location=self.location))
        return Ref(buffer, integer(0), ctype)

    def tile(self, value: Value) -> Tile:
        """The tile of ``value``, made on first use."""
        if value not in self.tiles:
            self.tiles[value] = Tile(
                value.name or "tile",
                value.shape,
                tuple(self.extent(e) for e in value.extents),
                value.dtype,
                Layout.of(value.shape, self.granule),
            )
        return self.tiles[value]

    def form(self, tile: Tile, ctype: str) -> Ref | None:
        """Where ``tile`` is held as ``ctype``, when it is."""
        for scope in reversed(self._scopes):
            if (tile, ctype) in scope:
                return scope[(tile, ctype)]
        return None

    def forms(self, tile: Tile) -> dict[str, Ref]:
        """Every form ``tile`` is held in."""
        found: dict[str, Ref] = {}
        for scope in self._scopes:
            found.update({c: r for (t, c), r in scope.items() if t is tile})
        return found

    def hold(self, tile: Tile, ctype: str, ref: Ref) -> None:
        self._scopes[-1][(tile, ctype)] = ref

    # refusals

    def refuse(self, message: str, op: Op | None = None) -> LoweringError:
        where = op.location if op is not None else self.location
        return LoweringError("NPK-LW01", message, location=str(where))


def at(ref: Ref, offset: Expr | int) -> Ref:
    """``ref`` moved by ``offset`` elements."""
    return Ref(ref.base, add(ref.offset, integer(offset) if isinstance(offset, int) else offset), ref.ctype)


def cast_ref(ref: Ref, ctype: str) -> Ref:
    """The same memory seen as ``ctype``; the offset must be zero."""
    return Ref(ref.base, ref.offset, ctype)
