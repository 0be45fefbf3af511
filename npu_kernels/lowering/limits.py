"""Refuses instructions whose parameters exceed what the chip encodes, at the author's line."""

from __future__ import annotations

from ..errors import LoweringError
from ..ir.device import Enum, Instr, Stmt, Struct, walk_statements
from ..ir.expr import bounds
from .arch import Arch

_LARGEST = {"uint8_t": 2**8 - 1, "uint16_t": 2**16 - 1, "uint32_t": 2**32 - 1}


def check_limits(statements: list[Stmt], arch: Arch) -> None:
    """Looks at every parameter whose value, or largest value, is known.

    Raises:
        LoweringError: NPK-AL01.
    """
    for statement in walk_statements(statements):
        if not isinstance(statement, Instr):
            continue
        for arg in statement.args:
            if isinstance(arg, Struct):
                for position, (field, ctype) in enumerate(zip(arg.fields, arg.types, strict=True)):
                    if not isinstance(field, Enum):
                        _check(statement, bounds(field)[1], _limit(statement, position, ctype, arch), arch)


def _limit(instr: Instr, position: int, ctype: str, arch: Arch) -> int | None:
    if instr.api == "DataCopyPad" and position == 0 and ctype == "uint16_t":
        return arch.max_copy_rows
    if instr.api == "DataCopyPad" and position == 1 and ctype == "uint32_t":
        return arch.max_copy_bytes
    if instr.api == "Mmad" and position < 3:
        return arch.max_mmad
    return _LARGEST.get(ctype)


def _check(instr: Instr, value: int | None, limit: int | None, arch: Arch) -> None:
    if value is not None and limit is not None and value > limit:
        raise LoweringError(
            "NPK-AL01",
            f"{instr.api} would need {value:,} where architecture {arch.name} takes at most {limit:,}. "
            "Use smaller tiles, or a tensor whose rows lie closer together",
            location=str(instr.location),
        )
