"""Splits a tile program between the cube core and its vector cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..ir import Op, Value


@dataclass(eq=False)
class Channel:
    """Tiles that go from one kind of core to the other through slots of the workspace.

    Attributes:
        name: for the workspace tensor.
        shape, ctype: of the whole tile, dense in its slot.
        depth: slots in the ring.
        ready, free: numbers of the cross-core flags.
        to_cube: the direction.
    """

    name: str
    shape: tuple[int, int]
    ctype: str
    to_cube: bool
    depth: int = 2
    ready: int = 0
    free: int = 0

    @property
    def elements(self) -> int:
        return self.shape[0] * self.shape[1]


@dataclass(eq=False, kw_only=True)
class Send(Op):
    """A tile computed on the vector cores, rows from ``row`` on, goes to the cube core."""

    opcode: ClassVar[str] = "send"
    channel: Channel
    value: Value
    row: Value | None


@dataclass(eq=False, kw_only=True)
class Receive(Op):
    """The rows from ``row`` on of a product of the cube core."""

    opcode: ClassVar[str] = "receive"
    channel: Channel
    row: Value | None
    result: Value
