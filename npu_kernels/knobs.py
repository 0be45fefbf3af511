"""Every environment variable of the project, declared once with its type, default and meaning."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from .errors import KnobError

T = TypeVar("T")

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True)
class Knob(Generic[T]):
    """One environment variable.

    Attributes:
        name: the variable, ``NPU_KERNELS_…`` or a standard one such as ``CXX``.
        default: the value when the variable is unset or empty.
        parse: turns the text into a value; raises ``ValueError`` with the reason.
        meaning: one sentence for ``npu-kernels doctor`` and the docs.
    """

    name: str
    default: T
    parse: Callable[[str], T]
    meaning: str

    def get(self) -> T:
        """The value now; read at every call so that tests and users may change it.

        Raises:
            KnobError: NPK-KN01, when the text cannot be parsed.
        """
        text = os.environ.get(self.name, "")
        if text == "":
            return self.default
        try:
            return self.parse(text)
        except ValueError as error:
            raise KnobError(
                "NPK-KN01", f"{self.name}={text!r} cannot be used: {error}. Unset it or give another value."
            ) from None


def _flag(text: str) -> bool:
    lowered = text.strip().lower()
    if lowered in _TRUE:
        return True
    if lowered in _FALSE:
        return False
    raise ValueError("expected 1 or 0")


def _threads(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 1 <= number <= 4096:
        raise ValueError("expected a whole number from 1 to 4096")
    return number


CACHE_DIR: Knob[str | None] = Knob(
    "NPU_KERNELS_CACHE_DIR", None, str, "directory of built kernels (default: the platform's user cache)"
)
CHECK: Knob[bool] = Knob("NPU_KERNELS_CHECK", False, _flag, "1 runs every kernel in the twin's checked mode")
THREADS: Knob[int | None] = Knob(
    "NPU_KERNELS_THREADS", None, _threads, "threads of the twin (default: the CPUs this process may use)"
)
CXX: Knob[str | None] = Knob("CXX", None, str, "host C++ compiler, with arguments if needed")
CANN_HOME: Knob[str | None] = Knob(
    "ASCEND_HOME_PATH", None, str, "CANN installation; looked at by `npu-kernels doctor` only"
)
CANN_HEADERS: Knob[str | None] = Knob(
    "NPU_KERNELS_CANN_HEADERS", None, str, "folder of a CANN 8.1 toolkit, for the type check `make test-cann-headers`"
)

KNOBS: tuple[Knob[object], ...] = (CACHE_DIR, CHECK, THREADS, CXX, CANN_HOME, CANN_HEADERS)  # type: ignore[assignment]
