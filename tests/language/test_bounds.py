"""What the tracer believes of an index holds for every iteration."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import npu_kernels.language as nl
from npu_kernels.language.tile import Tile

from .kernels import F32, tensor, trace

#: An expression over the loop variables: how it is built, and its value for known numbers.
Build = Callable[[list[Any]], Any]


def leaf() -> st.SearchStrategy[tuple[str, Build]]:
    variables = st.integers(0, 1).map(lambda n: (f"v{n}", lambda env: env[n]))
    numbers = st.integers(-9, 9).map(lambda c: (str(c), lambda env: c))
    return st.one_of(variables, numbers)


def grow(inner: st.SearchStrategy[tuple[str, Build]]) -> st.SearchStrategy[tuple[str, Build]]:
    def binary(name: str, apply: Callable[[Any, Any], Any]) -> st.SearchStrategy[tuple[str, Build]]:
        return st.tuples(inner, inner).map(
            lambda pair: (
                f"{name}({pair[0][0]}, {pair[1][0]})",
                lambda env: apply(pair[0][1](env), pair[1][1](env)),
            )
        )

    def quotient(name: str, apply: Callable[[Any, Any], Any]) -> st.SearchStrategy[tuple[str, Build]]:
        return st.tuples(inner, st.integers(1, 7)).map(
            lambda pair: (f"{name}({pair[0][0]}, {pair[1]})", lambda env: apply(pair[0][1](env), pair[1]))
        )

    return st.one_of(
        binary("add", lambda a, b: a + b),
        binary("sub", lambda a, b: a - b),
        binary("mul", lambda a, b: a * b),
        binary("min", nl.minimum),
        binary("max", nl.maximum),
        quotient("floordiv", lambda a, b: a // b),
        quotient("mod", lambda a, b: a % b),
        inner.map(lambda e: (f"abs({e[0]})", lambda env: abs(e[1](env)))),
        inner.map(lambda e: (f"neg({e[0]})", lambda env: -e[1](env))),
    )


EXPRESSIONS = st.recursive(leaf(), grow, max_leaves=8)
RANGES = st.tuples(st.integers(-5, 5), st.integers(1, 20), st.integers(1, 6))


@settings(max_examples=300)
@given(EXPRESSIONS, RANGES, RANGES)
def test_bounds_and_congruences_hold(
    expression: tuple[str, Build], first: tuple[int, int, int], second: tuple[int, int, int]
) -> None:
    kept: list[Any] = []
    keep = kept.append

    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((1,), F32)
        for a in nl.range(first[0], first[0] + first[1], step=first[2]):
            for b in nl.range(a + second[0], a + second[0] + second[1], step=second[2]):
                keep(expression[1]([a, b]))
                nl.store(out, 0.0)
        return out

    trace(kernel, tensor((1,)))
    traced = kept[-1]
    facts = traced.facts if isinstance(traced, Tile) else None
    firsts = range(first[0], first[0] + first[1], first[2])
    for a, step in itertools.product(firsts, range(0, second[1], second[2])):
        value = expression[1]([a, a + second[0] + step])
        if facts is None:
            assert value == traced
            continue
        modulus, residue = facts.congruence
        assert facts.low is None or facts.low <= value
        assert facts.high is None or value <= facts.high
        assert (value - residue) % modulus == 0 if modulus else value == residue
