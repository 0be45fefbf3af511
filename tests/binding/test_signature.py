"""What a kernel's signature may say, and what is said when it says something else."""

from __future__ import annotations

from typing import Any

import jax
import pytest
from jaxtyping import BFloat16, Bool, Complex, Float, Float32, Int, Shaped

import npu_kernels.language as nl
from npu_kernels import ir, npu_kernel
from npu_kernels.binding.signature import read_signature
from npu_kernels.errors import SignatureError


def _spec(annotation: Any) -> Any:
    def kernel(x: Any) -> None: ...

    kernel.__annotations__ = {"x": annotation}
    return read_signature(kernel, {}).arrays["x"]


@pytest.mark.parametrize(
    ("annotation", "dtypes"),
    [
        (Float[nl.Tensor, "n"], ("float32", "float16", "bfloat16")),
        (Float32[nl.Tensor, "n"], ("float32",)),
        (BFloat16[nl.Tensor, "n"], ("bfloat16",)),
        (Int[nl.Tensor, "n"], ("int32",)),
        (Bool[nl.Tensor, "n"], ("bool",)),
        (Shaped[nl.Tensor, "n"], tuple(d.name for d in ir.DTYPES)),
        (nl.Tensor, tuple(d.name for d in ir.DTYPES)),
    ],
)
def test_an_annotation_allows_the_languages_dtypes_of_its_kind(annotation: Any, dtypes: tuple[str, ...]) -> None:
    assert tuple(d.name for d in _spec(annotation).dtypes) == dtypes


def test_arrays_are_positional_and_statics_come_after_the_star() -> None:
    def kernel(x: Float[nl.Tensor, "n"], y: nl.Tensor, *, eps: float = 1e-6) -> Float[nl.Tensor, "n"]: ...

    signature = read_signature(kernel, {})
    assert list(signature.arrays) == ["x", "y"]
    assert signature.statics == ("eps",)
    assert [spec.text for spec in signature.returns] == ['Float[nl.Tensor, "n"]']


def test_annotations_kept_as_text_see_names_of_the_surrounding_scope() -> None:
    Local = Float[nl.Tensor, "n"]

    @npu_kernel
    def kernel(x: Local) -> Local: ...

    assert "kernel" in repr(kernel)


def _unannotated(x) -> None: ...  # type: ignore[no-untyped-def]
def _scalar(x: float) -> None: ...
def _array_by_keyword(*, x: Float[nl.Tensor, "n"]) -> None: ...
def _array_with_default(x: Float[nl.Tensor, "n"] = 0) -> None: ...  # type: ignore[assignment]
def _variadic(*x: Float[nl.Tensor, "n"]) -> None: ...
def _reserved(x: Float[nl.Tensor, "n"], *, interpret: bool = False) -> None: ...
def _another_array(x: Float[jax.Array, "n"]) -> None: ...
def _sum(x: Float[nl.Tensor, "n+1"]) -> None: ...
def _complex(x: Complex[nl.Tensor, "n"]) -> None: ...
def _returns_number(x: Float[nl.Tensor, "n"]) -> float: ...
def _unknown_name(x: NoSuchType) -> None: ...  # type: ignore[name-defined]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_unannotated, "neither an array"),
        (_scalar, "neither an array"),
        (_array_by_keyword, "must be positional"),
        (_array_with_default, "without a default"),
        (_variadic, "any number of arguments"),
        (_reserved, "name of an option"),
        (_another_array, "neither an array"),
        (_sum, r"`n\+1` is not a name, a number or a product"),
        (_complex, "allows no dtype"),
        (_returns_number, "neither a tensor nor a tuple"),
        (_unknown_name, "cannot be evaluated"),
    ],
)
def test_a_signature_that_cannot_be_understood_is_refused_at_its_line(function: Any, words: str) -> None:
    with pytest.raises(SignatureError, match=f"NPK-SG01: kernel {function.__name__}: .*{words}") as caught:
        npu_kernel(function)
    assert caught.value.location == f"{__file__}:{function.__code__.co_firstlineno}"


def test_only_a_function_can_be_a_kernel() -> None:
    with pytest.raises(SignatureError, match="NPK-SG01"):
        npu_kernel(len)  # type: ignore[arg-type]
