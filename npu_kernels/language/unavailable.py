"""Names without a value, where a loop or branch has left none."""

from __future__ import annotations

from typing import NoReturn

from .source import fail


class Unavailable:
    """Stands in a name that has no value here; any use of it says why."""

    __slots__ = ("_code", "_message")

    def __init__(self, code: str, message: str) -> None:
        self._code = code
        self._message = message

    def refuse(self, *_: object, **__: object) -> NoReturn:
        fail(self._code, self._message)

    def __getattr__(self, name: str) -> NoReturn:
        self.refuse()


for _operator in (
    *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "rfloordiv", "mod", "rmod"),
    *("and", "rand", "or", "ror", "xor", "rxor", "lt", "le", "gt", "ge", "eq", "ne", "pow", "matmul", "neg", "invert"),
    *("abs", "bool", "index", "int", "float", "iter", "len", "getitem", "call", "str", "repr", "array", "format"),
):
    setattr(Unavailable, f"__{_operator}__", Unavailable.refuse)
Unavailable.__hash__ = object.__hash__  # type: ignore[method-assign]
