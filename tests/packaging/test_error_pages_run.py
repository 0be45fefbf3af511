"""The Python on the error pages does what the page says: the wrong code raises the page's code, the right code runs.

A page shows the lines that matter; what stands around them is here, by code.
"""

from __future__ import annotations

import importlib.util
import re
import textwrap
from pathlib import Path

import pytest

from npu_kernels.errors import NpuKernelsError

PAGES = Path(__file__).parents[2] / "docs" / "errors"
IMPORTS = """
import jax
import jax.numpy as jnp
from jaxtyping import Float

import npu_kernels
import npu_kernels.language as nl
from npu_kernels import npu_kernel
from npu_kernels.kernels import attention, rms_norm
"""
KERNEL = """
@npu_kernel
def kernel(x: Float[nl.Tensor, "rows dim"], *, limit: float = 1.0, steps: int = 1, eps: float = 1e-6):
    rows, dim = x.shape
{body}

kernel.lower(jax.ShapeDtypeStruct({shape}, jnp.float32)).source
"""
COPY = """
out = nl.output(x.shape, x.dtype)
for r in nl.parallel(rows, step=8):
    {lines}
    nl.store(out[r:r + 8, :], t)
return out
"""
ROWS = """
out = nl.output((1, dim), x.dtype)
total = nl.zeros((1, dim))
{lines}
nl.store(out, total)
return out
"""
DOUBLE = """
@npu_kernel
def kernel(x: Float[nl.Tensor, {dims!r}], *, steps: int = 1, eps: float = 1e-6):
    out = nl.output(x.shape, x.dtype)
    nl.store(out, nl.load(x) * 2.0)
    return out

x = jnp.ones((8, 64))
{{lines}}
"""
SCALED = """
@npu_kernel
def scaled(x: Float[nl.Tensor, "rows dim"], factor: Float[nl.Tensor, "dim"]):
    out = nl.output(x.shape, x.dtype)
    nl.store(out, nl.load(x) * nl.load(factor))
    return out

"""

#: Lines inside a kernel over x: float32 [64, 128], or another shape.
IN_KERNEL = {
    "NPK-LA01": ROWS,
    "NPK-LA02": "out = nl.output((8, dim), x.dtype)\n{lines}\nreturn out",
    "NPK-LA04": COPY.replace("{lines}", "t = nl.load(x[r:r + 8, :])\n    {lines}"),
    "NPK-LA05": "out = nl.output((64,), nl.float32)\n{lines}\nnl.store(out, e)\nreturn out",
    "NPK-LA06": ROWS.replace("{lines}", "{lines}\n    total = total + nl.sum(t, axis=0, keepdims=True)"),
    "NPK-LA07": ROWS,
    "NPK-LA08": "{lines}",
    "NPK-LA09": "out = nl.output((rows, 1), x.dtype)\nt = nl.load(x)\n{lines}\nnl.store(out, s)\nreturn out",
    "NPK-UB01": "out = nl.output(x.shape, x.dtype)\n{lines}\n    nl.store(out[r:r + t.shape[0], :], t)\nreturn out",
    "NPK-AL01": ROWS,
    "NPK-LW01": "out = nl.output((16, 16), x.dtype)\na = nl.load(x)\n{lines}\nnl.store(out, p)\nreturn out",
}
SHAPES = {"NPK-UB01": "(4096, 4096)", "NPK-LW01": "(16, 64)"}
CLAMPED = textwrap.indent(COPY.replace("{lines}", "t = clamp(nl.load(x[r:r + 8, :]), limit)"), "    ")
QKV = "q = k = v = jnp.ones((1, 16, 1, 16))\nbias = jnp.ones((1, 1, 16, 16))\nmask = bias > 0\n"
#: Lines of a module.
IN_MODULE = {
    "NPK-LA03": "{lines}\n" + KERNEL.format(body=CLAMPED, shape="(64, 128)"),
    "NPK-SH01": DOUBLE.format(dims="rows dim"),
    "NPK-SH02": SCALED + "{lines}",
    "NPK-DT01": DOUBLE.format(dims="n"),
    "NPK-SG01": "{lines}",
    "NPK-SG02": DOUBLE.format(dims="rows dim"),
    "NPK-TR01": DOUBLE.format(dims="rows dim"),
    "NPK-TR02": DOUBLE.format(dims="rows dim"),
    "NPK-AT01": QKV + "{lines}",
    "NPK-AT02": "{lines}",
    "NPK-NM01": "{lines}",
}


def program(code: str, lines: str) -> str:
    if code in IN_MODULE:
        return IMPORTS + IN_MODULE[code].replace("{lines}", lines)
    frame = IN_KERNEL[code]
    indent = re.search(r"^( *)\{lines\}", frame, re.MULTILINE)
    assert indent is not None
    body = frame.replace(indent[0], textwrap.indent(lines.rstrip(), indent[1]))
    return IMPORTS + KERNEL.format(body=textwrap.indent(body, "    "), shape=SHAPES.get(code, "(64, 128)"))


def run(code: str, part: str, folder: Path) -> None:
    page = (PAGES / f"{code}.md").read_text()
    text = page[page.index(f"## {part}\n") :]
    match = re.search(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert match is not None
    file = folder / f"{part.lower()}.py"
    file.write_text(program(code, match[1]))
    spec = importlib.util.spec_from_file_location(f"page_{code.replace('-', '_')}_{part}", file)
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


@pytest.mark.parametrize("code", [*IN_KERNEL, *IN_MODULE])
def test_the_wrong_code_raises_the_pages_code(code: str, tmp_path: Path) -> None:
    with pytest.raises(NpuKernelsError) as caught:
        run(code, "Wrong", tmp_path)
    assert caught.value.code == code


@pytest.mark.parametrize("code", [*IN_KERNEL, *IN_MODULE])
def test_the_right_code_runs(code: str, tmp_path: Path) -> None:
    run(code, "Right", tmp_path)
