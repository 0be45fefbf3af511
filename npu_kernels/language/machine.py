"""What executes a kernel body: the tracer, or the interpreter. The language's functions check and then ask it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, ClassVar, Literal

from .. import ir
from .source import fail

if TYPE_CHECKING:
    from .tensor import Tensor, TensorSlice
    from .tile import Tile

LoopKind = Literal["parallel", "range"]
#: What Python asks a scalar for: a truth value, a number, or an integer to count or index with.
Use = Literal["truth", "number", "index"]


class Loop:
    """What ``nl.range`` and ``nl.parallel`` give; a ``for`` statement takes it from there."""

    def __iter__(self) -> Iterator[Tile]:
        fail(
            "NPK-LA01",
            "nl.range and nl.parallel belong into a for statement of a kernel or of a helper that carries "
            "@nl.function: decorate this function",
        )


class Machine(ABC):
    """Operands are legal when they arrive here: dtypes agree, shapes broadcast, numbers have become scalars."""

    #: True when values are known numbers, so that Python may branch on them.
    eager: ClassVar[bool]

    @abstractmethod
    def admit(self, tile: Tile) -> None:
        """Raises NPK-LA02 unless ``tile`` may be used where the body stands."""

    @abstractmethod
    def constant(self, value: bool | int | float, dtype: ir.DType) -> Tile: ...

    @abstractmethod
    def unary(self, kind: str, x: Tile) -> Tile: ...

    @abstractmethod
    def binary(self, kind: str, a: Tile, b: Tile) -> Tile: ...

    @abstractmethod
    def compare(self, predicate: str, a: Tile, b: Tile) -> Tile: ...

    @abstractmethod
    def select(self, condition: Tile, a: Tile, b: Tile) -> Tile: ...

    @abstractmethod
    def cast(self, x: Tile, dtype: ir.DType, rounding: str) -> Tile: ...

    @abstractmethod
    def full(self, shape: tuple[int, ...], value: Tile) -> Tile: ...

    @abstractmethod
    def arange(self, start: Tile, size: int) -> Tile: ...

    @abstractmethod
    def reshape(self, x: Tile, shape: tuple[int, ...]) -> Tile: ...

    @abstractmethod
    def broadcast(self, x: Tile, shape: tuple[int, ...]) -> Tile: ...

    @abstractmethod
    def reduce(self, kind: str, x: Tile, axis: int, keepdims: bool) -> Tile: ...

    @abstractmethod
    def dot(self, a: Tile, b: Tile, accumulator: Tile | None, transpose_a: bool, transpose_b: bool) -> Tile: ...

    @abstractmethod
    def output(self, shape: Sequence[int], dtype: ir.DType) -> Tensor: ...

    @abstractmethod
    def load(self, source: TensorSlice) -> Tile: ...

    @abstractmethod
    def store(self, target: TensorSlice, value: Tile) -> None: ...

    @abstractmethod
    def loop(self, kind: LoopKind, start: Tile | int, stop: Tile | int, step: int, pipelined: bool) -> Loop: ...

    @abstractmethod
    def distance(self, start: Tile, stop: Tile) -> int | None:
        """``stop - start`` when it is one known number."""

    @abstractmethod
    def excludes_zero(self, divisor: Tile) -> bool:
        """Whether a divisor is known to differ from zero."""

    @abstractmethod
    def number(self, tile: Tile, use: Use) -> bool | int | float:
        """The scalar as a Python number for ``use``; raises NPK-LA03 while tracing."""

    @abstractmethod
    def describe(self, tile: Tile) -> str: ...


_current: ContextVar[Machine | None] = ContextVar("npu_kernels.language.machine", default=None)


@contextmanager
def using(machine: Machine) -> Iterator[None]:
    token = _current.set(machine)
    try:
        yield
    finally:
        _current.reset(token)


def current_or_none() -> Machine | None:
    return _current.get()


def current() -> Machine:
    """The machine that runs the kernel body; NPK-LA01 outside of one."""
    machine = _current.get()
    if machine is None:
        fail("NPK-LA01", "the language works inside a kernel only: call the kernel, or decorate it with @npu_kernel")
    return machine
