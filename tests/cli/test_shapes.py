"""The notation of shapes on the command line."""

from __future__ import annotations

import jax
import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_kernels.cli.shapes import arrange, parse_shape
from npu_kernels.errors import CommandError

DTYPES = {
    "float32": np.float32,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
    "int32": np.int32,
    "bool": np.bool_,
}


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=5), st.sampled_from(sorted(DTYPES)))
def test_name_sizes_and_dtype_are_read(sizes: list[int], dtype: str) -> None:
    name, shape = parse_shape(f"x_1={'x'.join(map(str, sizes))}:{dtype}")
    assert name == "x_1"
    assert shape.shape == tuple(sizes)
    assert shape.dtype == np.dtype(DTYPES[dtype])


def test_a_dtype_left_out_is_float32() -> None:
    assert parse_shape("x=3x4")[1] == jax.ShapeDtypeStruct((3, 4), np.float32)


def test_sizes_left_out_are_a_scalar() -> None:
    assert parse_shape("n=:int32") == ("n", jax.ShapeDtypeStruct((), np.int32))


@pytest.mark.parametrize(
    "text", ["", "x=3,4", "x=3x", "x=3x4:float64", "x=3x4:", "=3", "x=-1", "x=3x4:float32:float32"]
)
def test_what_does_not_fit_the_notation_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(CommandError, match=r"NPK-CL01.*x=4096x1024:float32"):
        parse_shape(text)


def test_shapes_are_brought_into_the_order_of_the_parameters() -> None:
    shapes = arrange(["weight=8", "x=2x8"], ["x", "weight"])
    assert list(shapes) == ["x", "weight"]
    assert [shape.shape for shape in shapes.values()] == [(2, 8), (8,)]


def test_shapes_without_names_fill_from_the_left() -> None:
    assert [shape.shape for shape in arrange(["2x8", "8"], ["x", "weight"]).values()] == [(2, 8), (8,)]


@pytest.mark.parametrize("texts", [["x=2x8", "bias=8"], ["x=2x8", "x=8"], ["2x8", "8", "8"]])
def test_a_shape_that_fits_no_tensor_is_refused(texts: list[str]) -> None:
    with pytest.raises(CommandError, match=r"NPK-CL01.*x, weight"):
        arrange(texts, ["x", "weight"])


def test_a_missing_shape_is_named() -> None:
    with pytest.raises(CommandError, match="no shape for weight"):
        arrange(["x=2x8"], ["x", "weight"])


def test_an_optional_tensor_may_be_left_out_or_given_by_name() -> None:
    assert list(arrange(["2x8"], ["x", "weight"], ["weight", "lengths"])) == ["x"]
    assert list(arrange(["2x8", "lengths=2:int32"], ["x", "weight"], ["weight", "lengths"])) == ["x", "lengths"]
