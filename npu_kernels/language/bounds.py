"""What is known of an integer scalar while tracing: an affine form over atoms with intervals and congruences."""

from __future__ import annotations

import math
from dataclasses import dataclass, field


@dataclass(eq=False)
class Atom:
    """An integer whose inner make-up is not followed further, compared by identity.

    Attributes:
        low, high: inclusive bounds, ``None`` when unknown.
        modulus, residue: the value is ``residue`` modulo ``modulus`` (1 and 0 when nothing is known).
    """

    low: int | None
    high: int | None
    modulus: int = 1
    residue: int = 0


@dataclass(frozen=True)
class Affine:
    """``const + sum(factor * atom)``."""

    const: int
    terms: dict[Atom, int] = field(default_factory=dict)

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def atom(self) -> Atom | None:
        """The atom this is, with no factor or offset."""
        if self.const == 0 and len(self.terms) == 1:
            atom, factor = next(iter(self.terms.items()))
            return atom if factor == 1 else None
        return None

    @property
    def low(self) -> int | None:
        return self._bound(lowest=True)

    @property
    def high(self) -> int | None:
        return self._bound(lowest=False)

    def _bound(self, lowest: bool) -> int | None:
        total = self.const
        for atom, factor in self.terms.items():
            bound = atom.low if (factor > 0) == lowest else atom.high
            if bound is None:
                return None
            total += factor * bound
        return total

    @property
    def congruence(self) -> tuple[int, int]:
        """``(modulus, residue)``; modulus 0 stands for a known number."""
        modulus, residue = 0, self.const
        for atom, factor in self.terms.items():
            modulus = math.gcd(modulus, factor * atom.modulus)
            residue += factor * atom.residue
        return (modulus, residue % modulus if modulus else residue)

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        terms = dict(self.terms)
        for atom, own in other.terms.items():
            terms[atom] = terms.get(atom, 0) + factor * own
        return Affine(self.const + factor * other.const, {a: f for a, f in terms.items() if f})

    def times(self, factor: int) -> Affine:
        return Affine(0).plus(self, factor) if factor else Affine(0)

    def same(self, other: Affine) -> bool:
        return self.const == other.const and self.terms == other.terms


def opaque(low: int | None, high: int | None, modulus: int = 1, residue: int = 0) -> Affine:
    """A new atom, or the number itself when the bounds leave one."""
    if low is not None and low == high:
        return Affine(low)
    return Affine(0, {Atom(low, high, modulus, residue % modulus): 1})


def binary(kind: str, a: Affine, b: Affine) -> Affine:
    """What is known of ``a kind b`` for the integer operations of the IR."""
    match kind:
        case "add":
            return a.plus(b)
        case "sub":
            return a.plus(b, -1)
        case "mul":
            if b.is_constant:
                return a.times(b.const)
            return b.times(a.const) if a.is_constant else _product(a, b)
        case "floordiv":
            return _floordiv(a, b)
        case "mod":
            return _mod(a, b)
        case "minimum":
            return _extreme(a, b, smaller=True)
        case "maximum":
            return _extreme(a, b, smaller=False)
    return opaque(None, None)


def loop_variable(start: Affine, stop: Affine, step: int) -> Atom:
    """The variable of ``for v in range(start, stop, step)`` seen from inside the body."""
    modulus, residue = start.congruence
    modulus = math.gcd(modulus, step)
    high = None if stop.high is None else stop.high - 1
    if high is not None:
        high -= (high - residue) % modulus
    return Atom(start.low, high, modulus, residue % modulus)


def union(a: Affine, b: Affine) -> Affine:
    """What holds for a value that is one of the two."""
    if a.same(b):
        return a
    low = min(a.low, b.low) if a.low is not None and b.low is not None else None
    high = max(a.high, b.high) if a.high is not None and b.high is not None else None
    return opaque(low, high, *_common(a, b))


def below_or_equal(a: Affine, b: Affine) -> bool:
    """Whether ``a <= b`` is proven."""
    gap = b.plus(a, -1).low
    return gap is not None and gap >= 0


def _common(a: Affine, b: Affine) -> tuple[int, int]:
    (m, r), (n, s) = a.congruence, b.congruence
    modulus = math.gcd(m, n, abs(r - s)) or 1
    return modulus, r % modulus


def _product(a: Affine, b: Affine) -> Affine:
    ends = (a.low, a.high, b.low, b.high)
    if any(e is None for e in ends):
        return opaque(None, None)
    corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high) if x is not None and y is not None]
    return opaque(min(corners), max(corners))


def _floordiv(a: Affine, b: Affine) -> Affine:
    if b.is_constant and b.const > 0:
        d = b.const
        if a.const % d == 0 and all(f % d == 0 for f in a.terms.values()):
            return Affine(a.const // d, {atom: f // d for atom, f in a.terms.items()})
        low, high = a.low, a.high
        return opaque(None if low is None else low // d, None if high is None else high // d)
    if a.low is not None and a.low >= 0 and b.low is not None and b.low > 0:
        return opaque(0, None if a.high is None else a.high // b.low)
    return opaque(None, None)


def _mod(a: Affine, b: Affine) -> Affine:
    if b.is_constant and b.const > 0:
        d = b.const
        modulus, residue = a.congruence
        if modulus % d == 0:
            return Affine(residue % d)
        if a.low is not None and a.high is not None and a.low // d == a.high // d:
            return a.plus(Affine(a.low // d * d), -1)
        common = math.gcd(modulus, d)
        return opaque(0, d - 1, common, residue % common)
    if b.low is not None and b.low > 0:
        return opaque(0, None if b.high is None else b.high - 1)
    return opaque(None, None)


def _extreme(a: Affine, b: Affine, *, smaller: bool) -> Affine:
    if below_or_equal(a, b):
        return a if smaller else b
    if below_or_equal(b, a):
        return b if smaller else a
    pick = min if smaller else max
    lows = [x for x in (a.low, b.low) if x is not None]
    highs = [x for x in (a.high, b.high) if x is not None]
    # The minimum is at most each operand, so one known upper bound is enough; it needs both lower ones.
    low = pick(lows) if len(lows) == 2 or (not smaller and lows) else None
    high = pick(highs) if len(highs) == 2 or (smaller and highs) else None
    return opaque(low, high, *_common(a, b))
