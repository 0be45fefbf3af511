"""Names without a value, where a loop or branch has left none."""

from __future__ import annotations

from typing import NoReturn

from .operators import refuse_operators
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


refuse_operators(Unavailable, lambda self, _: self.refuse())
for _text in ("str", "repr", "format"):
    setattr(Unavailable, f"__{_text}__", Unavailable.refuse)
