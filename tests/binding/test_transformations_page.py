"""The page on transformations names tests and cases that exist, and its example runs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "transformations.md").read_text()
IMPORTS = """
import jax.numpy as jnp
from jaxtyping import Float

import npu_kernels.language as nl
from npu_kernels import npu_kernel
"""


def test_every_test_on_the_page_exists() -> None:
    text = "\n".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py"))
    defined = set(re.findall(r"^def (test_\w+)\(", text, re.MULTILINE))
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert len(named) > 20
    assert named <= defined


def test_the_example_runs(tmp_path: Path) -> None:
    code = re.search(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert code is not None
    file = tmp_path / "page.py"
    file.write_text(IMPORTS + code[1])
    spec = importlib.util.spec_from_file_location("transformations_page", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    x, weight = jnp.ones((3, 8)), jnp.arange(8.0)
    gx, gw = jax.grad(lambda x, w: jnp.sum(module.scaled(x, w, factor=3.0)), (0, 1))(x, weight)
    np.testing.assert_array_equal(gx, np.broadcast_to(3 * weight, x.shape))
    np.testing.assert_array_equal(gw, np.full(8, 9.0))
