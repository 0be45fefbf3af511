"""One line of Ascend C for each statement of the device IR, through the statement templates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import jinja2

from npu_kernels.ir.device import (
    Arg,
    Assign,
    Barrier,
    Branch,
    Buffer,
    CopyScalar,
    CrossFlag,
    Declare,
    Enum,
    Event,
    Instr,
    Let,
    Loop,
    QueueOp,
    ReadScalar,
    Ref,
    Stmt,
    Struct,
    walk_statements,
)
from npu_kernels.ir.expr import Number, known

from .expressions import text

_INDENT = "    "


class Writer:
    """Collects lines with the author's line of each."""

    def __init__(self, environment: jinja2.Environment) -> None:
        self.shapes: Any = environment.get_template("statements.j2").module
        self.lines: list[str] = []
        self.locations: list[tuple[str, int] | None] = []
        self._where: tuple[str, int] | None = None
        self._mutable: set[str] = set()
        self._masks = 0

    def section(self, statements: list[Stmt], depth: int) -> None:
        self._mutable = {s.name.text for s in walk_statements(statements) if isinstance(s, Assign)}
        self.block(statements, depth)

    def block(self, statements: list[Stmt], depth: int) -> None:
        for statement in statements:
            self.statement(statement, depth)

    def emit(self, shape: str, depth: int, **values: Any) -> None:
        render: Callable[[dict[str, Any]], str] = getattr(self.shapes, shape)
        self.lines.append(_INDENT * depth + str(render(values)).strip())
        self.locations.append(self._where)

    def statement(self, s: Stmt, depth: int) -> None:
        where = (s.location.file, s.location.line)
        if s.location.line and where != self._where:
            self._where = where
            self.emit("comment", depth, where=f"{PurePath(where[0]).name}:{where[1]}")
        match s:
            case Instr():
                self.call(s, depth)
            case Let():
                shape = "variable" if s.name.text in self._mutable else "let"
                self.emit(shape, depth, name=s.name.text, ctype=s.name.ctype, value=text(s.value))
            case Assign():
                self.emit("assign", depth, name=s.name.text, value=text(s.value))
            case ReadScalar():
                self.emit("read_scalar", depth, name=s.name.text, ctype=s.name.ctype, value=_element(s))
            case CopyScalar():
                dst, source = _base(s.dst), _base(s.source)
                self.emit(
                    "copy_scalar",
                    depth,
                    dst=dst,
                    dst_index=text(s.dst.offset),
                    source=source,
                    source_index=text(s.source.offset),
                )
            case Loop():
                self.emit("loop", depth, var=s.var.text, start=text(s.start), stop=text(s.stop, 5), step=text(s.step))
                self.block(s.body, depth + 1)
                self.emit("close", depth)
            case Branch():
                self.emit("branch", depth, condition=text(s.condition))
                self.block(s.then, depth + 1)
                if s.orelse:
                    self.emit("orelse", depth)
                    self.block(s.orelse, depth + 1)
                self.emit("close", depth)
            case Declare():
                self.buffer("declare", s.buffer, depth)
            case QueueOp():
                self.buffer(s.action, s.buffer, depth)
            case Barrier():
                self.emit("barrier", depth, pipe=s.pipe)
            case Event():
                self.emit(f"{s.action}_event", depth, event=s.event)
            case CrossFlag():
                self.emit(f"cross_{s.action}", depth, flag=s.flag, pipe=s.pipe)

    def buffer(self, shape: str, buffer: Buffer, depth: int) -> None:
        assert buffer.storage is not None
        self.emit(shape, depth, name=buffer.name, ctype=buffer.ctype, storage=buffer.storage.name)

    def call(self, s: Instr, depth: int) -> None:
        args: list[Arg] = [s.dst, *s.sources, *s.args]
        written: list[str] = []
        for arg in args:
            if isinstance(arg, Struct) and arg.name == "masks":
                self._masks += 1
                name = f"lanes{self._masks}"
                assert not isinstance(arg.fields[0], Enum)
                self.emit("bits", depth, name=name, value=text(arg.fields[0]))
                written.append(name)
            else:
                written.append(_argument(arg))
        self.emit("call", depth, api=s.api, templates=s.templates, args=written)


def _base(ref: Ref) -> str:
    base = ref.base.name
    if ref.ctype != ref.base.ctype:
        base = f"{base}.ReinterpretCast<{ref.ctype}>()"
    return base


def _ref(ref: Ref) -> str:
    base = _base(ref)
    return base if known(ref.offset) == 0 else f"{base}[{text(ref.offset)}]"


def _element(s: ReadScalar) -> str:
    value = f"{_base(s.source)}.GetValue({text(s.source.offset)})"
    if s.source.ctype == "bfloat16_t":
        return f"ToFloat({value})"
    if s.source.ctype == "uint8_t":
        return f"{value} != 0"
    return value if s.source.ctype == s.name.ctype else f"static_cast<{s.name.ctype}>({value})"


def _argument(arg: Arg) -> str:
    if isinstance(arg, Ref):
        return _ref(arg)
    if isinstance(arg, Enum):
        return arg.text
    if isinstance(arg, Struct):
        parts = [
            f.text if isinstance(f, Enum) else _field(f, ctype) for f, ctype in zip(arg.fields, arg.types, strict=True)
        ]
        return f"{arg.name}{{{', '.join(parts)}}}"
    return text(arg)


def _field(field: Any, ctype: str) -> str:
    if isinstance(field, Number):
        return text(field)
    return f"static_cast<{ctype}>({text(field)})"
