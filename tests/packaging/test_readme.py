"""The README's Python runs as it stands."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_code_block_runs(number: int, tmp_path: Path) -> None:
    file = tmp_path / f"block{number}.py"
    file.write_text(BLOCKS[number])
    runpy.run_path(str(file))


def test_there_is_a_kernel_and_a_substitution() -> None:
    assert any("@npu_kernel" in block for block in BLOCKS)
    assert any("substitute(" in block for block in BLOCKS)


def test_every_target_is_named() -> None:
    makefile = (README.parent / "Makefile").read_text()
    targets = re.findall(r"^([a-z-]+):.*##", makefile, re.MULTILINE)
    text = README.read_text()
    assert [target for target in targets if f"make {target}" not in text and target != "help"] == []
