"""The forms a canonical view can have at its head: what is left when layout, casts and spelling are taken away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from npu_kernels.substitution.axes import Axes, Ref


@dataclass(frozen=True)
class Leaf:
    """A value the view does not look into."""

    ref: Ref


@dataclass(frozen=True)
class Number:
    """A constant; its value is the head's coefficient."""


@dataclass(frozen=True)
class Factor:
    """``ref ** exponent``, or ``sqrt(ref) ** exponent``; the ref's own coefficient counts for the product."""

    ref: Ref
    exponent: int
    root: bool = False


@dataclass(frozen=True)
class Product:
    """Factors in the order they were written; a quotient has negative exponents."""

    factors: tuple[Factor, ...]


@dataclass(frozen=True)
class Sum:
    """``constant + sum(sign * ref)``, one level of additions, constants of all levels gathered."""

    constant: float
    terms: tuple[tuple[int, Ref], ...]


@dataclass(frozen=True)
class Reduce:
    """A reduction of ``body`` over ``bound``; kind ``sum``, ``mean``, ``max``, ``min``, ``prod``, ``and`` or ``or``."""

    kind: str
    bound: Axes
    body: Ref


@dataclass(frozen=True)
class Dot:
    """The sum over ``bound`` of ``a * b``."""

    bound: Axes
    a: Ref
    b: Ref


@dataclass(frozen=True)
class Condition:
    """A boolean value, or its opposite.

    Attributes:
        ref: the boolean; or numbers known while matching, when ``equals`` is given.
        negated: it holds where the boolean does not.
        equals: the number that ``ref`` is where the boolean is true.
    """

    ref: Ref
    negated: bool = False
    equals: float | None = None

    def holds(self, array: Any) -> Any:
        """Where the condition holds, from an array of what ``ref`` reads: NumPy's or JAX's."""
        found = array if self.equals is None else array == self.equals
        return ~found if self.negated else found


@dataclass(frozen=True)
class Select:
    """``body`` where all conditions hold, the number ``fill`` elsewhere.

    Attributes:
        additive: written as ``body + where(condition, 0, fill)`` with a fill that swallows the body.
        whole: the value of the selection, for positions and dtypes.
    """

    conditions: tuple[Condition, ...]
    body: Ref
    fill: float
    additive: bool
    whole: Ref


@dataclass(frozen=True)
class Op:
    """Any other elementwise operation."""

    name: str
    args: tuple[Ref, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)


Core = Leaf | Number | Product | Sum | Reduce | Dot | Select | Op


@dataclass(frozen=True)
class Head:
    """``coefficient * core``; ``ref`` reads the core, without its coefficient where that is a value of its own."""

    coefficient: float
    core: Core
    ref: Ref


def describe(head: Head) -> str:
    """A few words for a report."""
    core = head.core
    match core:
        case Leaf(ref):
            node = ref.value.producer
            return f"`{node.op}`" if node is not None else "an input"
        case Number():
            return f"the constant {head.coefficient:.9g}"
        case Product(factors):
            return f"a product of {len(factors)} factors"
        case Sum():
            return "a sum"
        case Reduce(kind):
            return f"a {kind} reduction"
        case Dot():
            return "a dot product"
        case Select():
            return "a masked value"
        case Op(name):
            return f"`{name}`"
