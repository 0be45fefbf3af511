"""Text of a device program, for people and for comparing what passes did."""

from __future__ import annotations

from .device import Program, Section
from .expr import Apply, Expr, Name, Number
from .statements import (
    Assign,
    Barrier,
    Branch,
    CopyScalar,
    CrossFlag,
    Declare,
    Event,
    Instr,
    Let,
    Loop,
    QueueOp,
    ReadScalar,
    Stmt,
)
from .storage import Arg, Enum, Ref, Struct


def print_program(program: Program) -> str:
    """The storages and the statements of each section, one a line."""
    lines = [f"program {program.name} {program.kernel_type} units {program.units} blocks {program.blocks} {{"]
    for section in program.sections:
        lines += _section(section)
    return "\n".join([*lines, "}"]) + "\n"


def print_expr(expr: Expr) -> str:
    """A scalar expression in prefix form; variables and literals stand for themselves."""
    if isinstance(expr, Number):
        return repr(expr.value)
    if isinstance(expr, Name):
        return expr.text
    return f"({expr.op} {' '.join(print_expr(a) for a in expr.args)})"


def _section(section: Section) -> list[str]:
    lines = [f"  {section.kind} {{"]
    for s in section.storages:
        kind = f"queue {s.position} x{s.depth}" if s.depth else "buffer"
        lines.append(f"    {kind} {s.name}: {s.nbytes} B in {s.memory} for {', '.join(b.name for b in s.tenants)}")
    _block(section.statements, 2, lines)
    return [*lines, "  }"]


def _block(statements: list[Stmt], depth: int, lines: list[str]) -> None:
    pad = "  " * depth
    for s in statements:
        lines.append(pad + _statement(s))
        for i, body in enumerate(s.bodies):
            if i and body:
                lines.append(f"{pad}}} else {{")
            _block(body, depth + 1, lines)
        if s.bodies:
            lines.append(f"{pad}}}")


def _statement(s: Stmt) -> str:
    match s:
        case Instr():
            args = "".join(f", {_arg(a)}" for a in (*s.sources, *s.args))
            return f"{s.pipe} {s.api} {_arg(s.dst)}{args}"
        case Let() | Assign():
            return f"{'let ' if isinstance(s, Let) else ''}{s.name.text} = {print_expr(s.value)}"
        case ReadScalar():
            return f"let {s.name.text} = read {_arg(s.source)}"
        case CopyScalar():
            return f"{_arg(s.dst)} = {_arg(s.source)}"
        case Loop():
            bounds = f"{print_expr(s.start)} to {print_expr(s.stop)} step {print_expr(s.step)}"
            return f"for {s.var.text} = {bounds} {{"
        case Branch():
            return f"if {print_expr(s.condition)} {{"
        case Declare():
            return f"declare {s.buffer.name}: {s.buffer.elements} x {s.buffer.ctype}"
        case QueueOp():
            return f"{s.action} {s.buffer.name}"
        case Barrier():
            return f"barrier {s.pipe}"
        case Event():
            return f"{s.action} {s.event}"
        case CrossFlag():
            return f"cross {s.action} flag {s.flag} on {s.pipe}"
        case _:
            raise TypeError(f"unknown statement {type(s).__name__}")


def _arg(arg: Arg) -> str:
    if isinstance(arg, Ref):
        return f"{arg.base.name}[{print_expr(arg.offset)}]"
    if isinstance(arg, Enum):
        return arg.text.split("::")[-1]
    if isinstance(arg, Struct):
        return f"{{{', '.join(f.text if isinstance(f, Enum) else print_expr(f) for f in arg.fields)}}}"
    assert isinstance(arg, Number | Name | Apply)
    return print_expr(arg)
