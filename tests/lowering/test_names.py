"""Names of a kernel's source never hide what the generated text names itself, Ascend C or C++."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Float

import npu_kernels.language as nl
from npu_kernels import codegen, npu_kernel
from npu_kernels.lowering.context import Names

TEMPLATES = Path(codegen.__file__).parent / "templates"


def test_no_word_of_the_templates_is_free() -> None:
    text = "\n".join(path.read_text() for path in TEMPLATES.glob("*.j2"))
    # Of a word that an expression is a part of the rest says nothing.
    code = re.sub(r"\{%.*?%\}", " ", re.sub(r"(?m)^#.*|//.*", "", re.sub(r"\{\{.*?\}\}", "\0", text)))
    words = set(re.findall(r"(?<![\w\0])[A-Za-z_]\w*(?![\w\0])", code))
    assert {"LocalTensor", "tiling", "source", "blockIdx", "const", "int64_t"} <= words
    assert [word for word in sorted(words) if Names().fresh(word) == word] == []


@pytest.mark.parametrize(
    ("base", "name"),
    [
        ("scores", "scores"),
        ("scoreTile", "score_tile"),
        ("BLOCK", "block"),
        ("LocalTensor", "local_tensor"),
        ("xQueue", "x_queue"),
        ("eventV_MTE2", "event_v_mte2"),
        ("half", "half2"),
        ("int64_t", "int64_t2"),
        ("lanes1", "lanes1_2"),
        ("template", "template2"),
        ("__x__", "x"),
        ("_", "v"),
        ("2x", "v2x"),
    ],
)
def test_names_are_written_in_snake_case_and_reserved_ones_numbered(base: str, name: str) -> None:
    assert Names().fresh(base) == name


def test_names_are_unique() -> None:
    names = Names()
    assert [names.fresh(base) for base in ("Exp", "exp", "EXP", "exp2")] == ["exp", "exp2", "exp3", "exp2_2"]
    assert [names.fresh("x", "Gm"), names.fresh("X", "Gm"), names.fresh("xGm")] == ["xGm", "xGm2", "x_gm"]


# fmt: off
@npu_kernel
def DataCopyPad(
    workspace: Float[nl.Tensor, "PIPE_V int64_t"], tiling: Float[nl.Tensor, "int64_t"], *, ASSERT: float, note: Any
) -> tuple[Float[nl.Tensor, "PIPE_V int64_t"], Float[nl.Tensor, "PIPE_V PIPE_V"]]:
    PIPE_V, int64_t = workspace.shape
    GM_ADDR = nl.output((PIPE_V, int64_t), workspace.dtype)
    errno = nl.output((PIPE_V, PIPE_V), workspace.dtype)
    LocalTensor = nl.load(tiling)
    for AscendC in nl.parallel(PIPE_V, step=16):
        DataCopyExtParams = nl.load(workspace[AscendC : AscendC + 16, :])
        TQue = DataCopyExtParams * ASSERT
        Muls = nl.exp(TQue - nl.max(TQue, axis=-1, keepdims=True))
        half = Muls / nl.sum(Muls, axis=-1, keepdims=True)
        template = nl.where(half > LocalTensor, half, 0.0)
        lanes1 = template.astype(nl.float16)
        RoundMode = lanes1.astype(nl.float32)
        PipeBarrier = nl.full((16, 1), 0.0)
        for pipe in nl.range(3):
            ASCEND_IS_AIV = nl.load(tiling[pipe])
            PipeBarrier = PipeBarrier + ASCEND_IS_AIV
        blockIdx = RoundMode + PipeBarrier
        nl.store(GM_ADDR[AscendC : AscendC + 16, :], blockIdx)
        for HardEvent in nl.range(0, PIPE_V, step=16):
            Mmad = nl.load(workspace[HardEvent : HardEvent + 16, :])
            Fixpipe = nl.dot(Muls, Mmad, transpose_b=True)
            SetFlag = Fixpipe + 0.0
            nl.store(errno[AscendC : AscendC + 16, HardEvent : HardEvent + 16], SetFlag)
    return GM_ADDR, errno
# fmt: on


class Note:
    """A static argument whose text breaks lines and ends with what continues a comment."""

    def __repr__(self) -> str:
        return "first\nint main; \\"


def test_a_kernel_may_use_any_names() -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((40, 24)).astype(np.float32)
    w = np.full(24, 0.04, np.float32)
    w[:3] = 0.25, 0.5, 1.0
    out, scores = DataCopyPad(jnp.asarray(x), jnp.asarray(w), ASSERT=2.0, note=Note())
    wide = np.exp(2.0 * x.astype(np.float64) - 2.0 * x.max(-1, keepdims=True))
    share = wide / wide.sum(-1, keepdims=True)
    # Weights are rounded to float16, up to 1: 11 bits.
    np.testing.assert_allclose(out, np.where(share > w, share, 0.0) + 1.75, atol=2.0**-11)
    # 24 products, float32.
    np.testing.assert_allclose(scores, wide @ x.T.astype(np.float64), atol=24 * 2.0**-23 * np.abs(x).max())
