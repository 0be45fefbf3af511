"""Error codes and environment variables keep their contracts."""

from __future__ import annotations

import pytest

from npu_kernels import errors, knobs


def _classes() -> list[type[errors.NpuKernelsError]]:
    return [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, errors.NpuKernelsError)]


def test_a_message_starts_with_its_code_and_ends_with_the_location() -> None:
    error = errors.LanguageError("NPK-LA06", "rows 8:16 of 12", location="k.py:3")
    assert str(error) == "NPK-LA06: rows 8:16 of 12\n  at k.py:3"
    assert (error.code, error.message, error.location) == ("NPK-LA06", "rows 8:16 of 12", "k.py:3")


def test_an_unlisted_code_is_refused() -> None:
    with pytest.raises(KeyError, match="NPK-XX99"):
        errors.LanguageError("NPK-XX99", "no such code")


@pytest.mark.parametrize("cls", _classes())
def test_every_class_is_caught_by_the_common_base(cls: type[errors.NpuKernelsError]) -> None:
    with pytest.raises(errors.NpuKernelsError):
        raise cls("NPK-IR01", "x")


def test_codes_have_the_stable_form() -> None:
    import re

    assert all(re.fullmatch(r"NPK-[A-Z]{2}\d\d", code) for code in errors.CODES)


def test_knob_reads_the_variable_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NPU_KERNELS_THREADS", raising=False)
    assert knobs.THREADS.get() is None
    monkeypatch.setenv("NPU_KERNELS_THREADS", "3")
    assert knobs.THREADS.get() == 3


@pytest.mark.parametrize(
    ("knob", "text"), [(knobs.THREADS, "0"), (knobs.THREADS, "-3"), (knobs.THREADS, "two"), (knobs.CHECK, "maybe")]
)
def test_a_bad_value_names_the_variable_and_the_value(
    knob: knobs.Knob[object], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(knob.name, text)
    with pytest.raises(errors.KnobError, match=f"NPK-KN01: {knob.name}='{text}'"):
        knob.get()


def test_an_empty_variable_is_an_unset_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPU_KERNELS_CHECK", "")
    assert knobs.CHECK.get() is False
