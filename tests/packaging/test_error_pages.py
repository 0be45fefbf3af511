"""Every error code has a page with what happened, the wrong code and the right code."""

from __future__ import annotations

from pathlib import Path

import pytest

from npu_kernels.errors import CODES

PAGES = Path(__file__).parents[2] / "docs" / "errors"


@pytest.mark.parametrize("code", CODES)
def test_code_has_a_page(code: str) -> None:
    page = (PAGES / f"{code}.md").read_text()
    assert page.startswith(f"# {code}: {CODES[code]}\n")
    assert page.index("## Wrong") < page.index("## Right")


def test_no_page_is_left_over() -> None:
    assert {page.stem for page in PAGES.glob("NPK-*.md")} == set(CODES)


def test_the_index_lists_every_code_with_its_meaning() -> None:
    index = (PAGES / "README.md").read_text()
    for code, meaning in CODES.items():
        assert f"| [{code}]({code}.md) | {meaning} |" in index
