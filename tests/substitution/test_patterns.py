"""A pattern of one's own: what its example may leave open, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from npu_kernels.errors import SubstitutionError
from npu_kernels.substitution import Declined, Example, Match, Pattern, array, explain, register, substitute
from npu_kernels.substitution.call import Call, Operand

X = jnp.asarray(np.random.default_rng(0).standard_normal((3, 4)), jnp.float32)
Y = jnp.linspace(-1, 1, 12).reshape(3, 4)


def spelled(x: Any, y: Any, *, bound: float) -> Any:
    return jnp.tanh(x) * y * bound


def build(match: Match) -> Call:
    x, y, axes = match.variable("x"), match.variable("y"), match.root.axes
    bound = match.parameters["bound"]
    if x.value.dtype == "float16":
        raise Declined("half", "half precision is too coarse")
    return Call(
        function=lambda x, y: jnp.sinh(x) / jnp.cosh(x) * y * bound,
        operands=[Operand(x, (axes,)), Operand(y, (axes,))],
        result=(axes,),
        root=match.root,
        output=match.root.value,
        shapes=[f"x {x.value.aval}"],
    )


def make(function: Callable[..., Any] = spelled, name: str = "bounded") -> Pattern:
    example = Example(function, {"x": array("r"), "y": array("r")}, ("r",), ("bound",))
    return Pattern(name, [example], build, lambda _, node: node.op == "tanh", lambda *_: None)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: jnp.tanh(x) * y * 3.0,
        lambda x, y: y * (3.0 * jnp.tanh(x)),
        lambda x, y: -y * jnp.tanh(x) / 0.5,
        lambda x, y: (jnp.tanh(x.T) * y.T * 2).T,
        lambda x, y: jnp.tanh(x.reshape(12)).reshape(3, 4) * y,
    ],
)
def test_a_pattern_matches_its_spellings(function: Callable[..., Any]) -> None:
    pattern = make()
    assert explain(function, X, Y, patterns=[pattern]).counts == {"bounded": 1}
    got = substitute(function, patterns=[pattern])(X, Y)
    np.testing.assert_allclose(got, function(X, Y), rtol=1e-5, atol=1e-6)


def test_a_build_may_decline_and_the_report_says_why() -> None:
    halves = X.astype(jnp.float16), Y.astype(jnp.float16)
    (miss,) = explain(lambda x, y: jnp.tanh(x) * y * 2, *halves, patterns=[make()]).near_misses
    assert (miss.reason, miss.sentence) == ("half", "half precision is too coarse")


def test_constants_are_never_wildcards() -> None:
    pattern = make(lambda x, y, *, bound: jnp.tanh(x * 2.0) * y * bound)
    assert explain(lambda x, y: jnp.tanh(x * 2.0) * y, X, Y, patterns=[pattern]).counts == {"bounded": 1}
    assert not explain(lambda x, y: jnp.tanh(x * 2.1) * y, X, Y, patterns=[pattern]).replaced


def test_an_example_that_does_not_match_itself_is_refused() -> None:
    with pytest.raises(SubstitutionError, match=r"NPK-SB02.*does not match itself"):
        explain(spelled, X, Y, patterns=[make(lambda x, y, *, bound: jnp.sort(x) * y * bound)], bound=2.0)


def test_an_example_that_cannot_be_traced_is_refused() -> None:
    def wrong(x: Any, y: Any, *, bound: float) -> Any:
        return x @ y @ bound

    with pytest.raises(SubstitutionError, match=r"NPK-SB02.*wrong cannot be traced"):
        explain(lambda x, y: x * y, X, Y, patterns=[make(wrong)])


def test_a_name_is_registered_once() -> None:
    first = register(make(name="test_patterns.once"))
    assert register(first) is first
    with pytest.raises(SubstitutionError, match="NPK-SB02"):
        register(make(name="test_patterns.once"))


def test_one_argument_for_both_is_no_match_for_two() -> None:
    """x and y may be one value; x may not be two."""
    same = make(lambda x, y, *, bound: jnp.tanh(x) * x * y * bound)
    assert explain(lambda x, y: jnp.tanh(x) * x * y, X, Y, patterns=[same]).counts == {"bounded": 1}
    assert not explain(lambda x, y: jnp.tanh(x) * (x + 1) * y, X, Y, patterns=[same]).replaced


def test_a_transposed_use_of_one_argument_is_no_match() -> None:
    square = jnp.ones((4, 4))
    same = make(lambda x, y, *, bound: jnp.tanh(x) * x * y * bound)
    assert not explain(lambda x, y: jnp.tanh(x) * x.T * y, square, square, patterns=[same]).replaced


def test_patterns_work_under_vmap_and_grad() -> None:
    replaced = substitute(lambda x, y: spelled(x, y, bound=2.0), patterns=[make()])
    np.testing.assert_allclose(jax.vmap(replaced)(X, Y), spelled(X, Y, bound=2.0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        jax.grad(lambda x: replaced(x, Y).sum())(X),
        jax.grad(lambda x: spelled(x, Y, bound=2.0).sum())(X),
        rtol=1e-4,
        atol=1e-5,
    )
