"""Named dimensions are solved from shapes, and a disagreement names the dimension and both sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_kernels.binding.dimensions import parse_shape, solve
from npu_kernels.errors import SignatureError


def _solve(*arrays: tuple[str, tuple[int, ...]]) -> dict[str, int]:
    return solve([(name, parse_shape(text), sizes) for name, (text, sizes) in zip("abcdef", arrays, strict=False)])


def test_names_get_the_sizes_of_their_axes() -> None:
    assert _solve(("rows dim", (3, 5)), ("dim", (5,))) == {"rows": 3, "dim": 5}


def test_one_name_with_two_sizes_names_both_axes() -> None:
    with pytest.raises(SignatureError) as caught:
        _solve(("rows dim", (3, 5)), ("dim", (6,)))
    assert str(caught.value) == "NPK-SH02: dimension `dim` is 5 by axis 1 of `a`, but axis 0 of `b` has size 6"


@pytest.mark.parametrize("sizes", [(), (1, 2), (1, 2, 3)])
def test_a_wrong_rank_is_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(SignatureError, match="NPK-SH01: `a` has shape"):
        _solve(("n", sizes))


def test_a_number_is_that_size() -> None:
    assert _solve(("3 n", (3, 4))) == {"n": 4}
    with pytest.raises(SignatureError, match="NPK-SH01: axis 0 of `a` has size 2, but its annotation says 3"):
        _solve(("3 n", (2, 4)))


def test_an_underscore_is_any_size() -> None:
    assert _solve(("_ _ n", (3, 4, 5))) == {"n": 5}


@pytest.mark.parametrize("order", [0, 1])
def test_one_factor_of_a_product_is_solved_whatever_the_order(order: int) -> None:
    arrays = [("b t hkv*g d", (2, 7, 12, 64)), ("b s hkv d", (2, 9, 4, 64))]
    solved = _solve(*(arrays if order == 0 else arrays[::-1]))
    assert solved == {"b": 2, "t": 7, "s": 9, "hkv": 4, "g": 3, "d": 64}


def test_a_product_that_does_not_divide_is_refused() -> None:
    with pytest.raises(
        SignatureError, match=r"NPK-SH01: axis 0 of `a` has size 10, but `hkv\*g` must be a multiple of 4"
    ):
        _solve(("hkv*g", (10,)), ("hkv", (4,)))


def test_a_product_of_known_factors_is_compared() -> None:
    with pytest.raises(SignatureError, match=r"NPK-SH02: dimension `a\*b` is 6 \(a = 2, b = 3\), but axis 0 of `c`"):
        _solve(("a", (2,)), ("b", (3,)), ("a*b", (7,)))


def test_a_product_with_two_unknown_factors_is_refused() -> None:
    with pytest.raises(SignatureError, match="more than one factor is left open"):
        _solve(("a*b", (6,)))


def test_a_constant_factor_is_divided_out() -> None:
    assert _solve(("2*half", (6,))) == {"half": 3}


@pytest.mark.parametrize(("text", "shape"), [("... d", (2, 3, 4)), ("... d", (4,)), ("n ... d", (2, 3, 3, 4))])
def test_an_ellipsis_is_any_number_of_axes(text: str, shape: tuple[int, ...]) -> None:
    assert _solve((text, shape))["d"] == 4


def test_a_named_ellipsis_is_the_same_axes_everywhere() -> None:
    _solve(("*batch d", (2, 3, 4)), ("*batch", (2, 3)))
    with pytest.raises(SignatureError, match=r"NPK-SH02: dimension `batch\[1\]` is 3"):
        _solve(("*batch d", (2, 3, 4)), ("*batch", (2, 5)))


def test_an_ellipsis_still_needs_its_other_axes() -> None:
    with pytest.raises(SignatureError, match="at least 2 axes"):
        _solve(("... n d", (4,)))


@pytest.mark.parametrize("text", ["n-1", "#n", "a*a", "... *b", "n+1", "?n"])
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_shape(text)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=4), st.integers(0, 3))
def test_any_shape_fits_names_of_its_own(sizes: list[int], extra: int) -> None:
    names = [f"n{i}" for i in range(len(sizes))]
    assert _solve((" ".join(names), tuple(sizes))) == dict(zip(names, sizes, strict=True))


@given(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20))
def test_a_factor_is_the_quotient(a: int, b: int, c: int) -> None:
    assert _solve(("a*b*c", (a * b * c,)), ("a c", (a, c)))["b"] == b


def test_empty_axes_fit_any_factor() -> None:
    assert _solve(("hkv*g", (0,)), ("hkv", (0,)))["hkv"] == 0
    with pytest.raises(SignatureError, match="NPK-SH02"):
        _solve(("hkv*g", (3,)), ("hkv", (0,)))
