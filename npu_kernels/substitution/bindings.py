"""What a match binds, and where one that fails stopped."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from npu_kernels.graph.core import Value
from npu_kernels.substitution.axes import Axes, Axis, Index, Ref
from npu_kernels.substitution.heads import Condition, Head, Select

#: Constants agree within float32's rounding of a few operations, whatever precision they were folded in.
CONSTANT_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Shared:
    """A part of the example that was matched, for when the example uses it again.

    Attributes:
        index: of the example's read.
        ref: what it is in the program.
        coefficient: the program's constant factor there; ``None`` where a product around it accounts for it.
    """

    index: Index
    ref: Ref
    coefficient: float | None


@dataclass
class Bindings:
    """What one way of matching has bound so far.

    Attributes:
        variables: index in the example and read in the program, by variable.
        conditions: of boolean variables, as conjunctions.
        parameters: constants found for the declared parameters.
        axes: axes of the program an axis of the example stands for.
        nodes: shared parts of the example, by their value there.
        selections: masked values met.
    """

    variables: dict[str, tuple[Index, Ref]] = field(default_factory=dict)
    conditions: dict[str, tuple[Condition, ...]] = field(default_factory=dict)
    parameters: dict[str, float] = field(default_factory=dict)
    axes: dict[Axis, Axes] = field(default_factory=dict)
    nodes: dict[Value, Shared] = field(default_factory=dict)
    selections: list[Select] = field(default_factory=list)

    def copy(self) -> Bindings:
        return Bindings(
            dict(self.variables), dict(self.conditions), dict(self.parameters), dict(self.axes), dict(self.nodes),
            list(self.selections),
        )  # fmt: skip


@dataclass(frozen=True)
class Mismatch:
    """Where a match stopped.

    Attributes:
        progress: parts of the example matched before.
        expected: a few words on the example's part.
        found: the program's head there.
        ref: where in the program.
        detail: a sentence when more is known.
    """

    progress: int
    expected: str
    found: Head
    ref: Ref
    detail: str = ""


def close(a: float, b: float) -> bool:
    """Equal constants: equal infinities and NaNs included."""
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or math.isclose(a, b, rel_tol=CONSTANT_TOLERANCE)
