"""The training example in a small form: both runs, and a third with a wrong gradient."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training.model import LENGTH, batches, text

STEPS = 30
EXAMPLES = Path(__file__).parents[2] / "examples"


def _run(steps: int, factor: float) -> dict[str, Any]:
    """Both runs in a process of their own: the number of devices is set before JAX starts."""
    result = subprocess.run(
        [sys.executable, "-P", str(Path(__file__).with_name("training_runs.py")), str(steps), str(factor)],
        env={**os.environ, "PYTHONPATH": str(EXAMPLES)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-4000:]
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    return _run(STEPS, 1.0)


def test_both_runs_agree_and_learn(report: dict[str, Any]) -> None:
    assert report["devices"] == 4
    assert report["disagreements"] == []
    assert max(report["loss_differences"][:20]) <= 1e-4 and max(report["loss_differences"]) <= 2e-2
    assert max(report["gradient_differences"].values()) <= 1e-3
    assert report["losses"][-1] < 0.7 * report["losses"][0]


def test_every_gradient_is_compared(report: dict[str, Any]) -> None:
    assert len(report["gradient_differences"]) == 11  # nine of the layers, the embedding, the last norm


def test_the_kernels_ran_forward_and_backward_on_every_device(report: dict[str, Any]) -> None:
    """Two layers, four devices: attention twice a step, RMSNorm five times."""
    assert report["plain_launches"] == {}
    launches = report["launches"]
    for kernel in ("flash_attention_residuals", "flash_attention_backward", "attention_query_gradient"):
        assert launches[kernel] == STEPS * 4 * 2
    for kernel in ("rms_norm_rows", "rms_norm_rows_backward", "column_sums"):
        assert launches[kernel] == STEPS * 4 * 5


def test_a_gradient_that_is_one_percent_off_is_noticed() -> None:
    """By each of RMSNorm's own weights, and by what lies before it."""
    wrong = " ".join(_run(1, 1.01)["disagreements"])
    for path in (".layers.attention_norm", ".layers.ffn_norm", ".norm", ".embedding"):
        assert f"gradient of {path}" in wrong


def test_batches_are_pieces_of_the_text() -> None:
    tokens = text()
    assert tokens.min() >= 0 and tokens.max() < 128
    made = batches(3, 2)
    assert made.shape == (3, 2, LENGTH + 1)
    np.testing.assert_array_equal(made, batches(3, 2))
    assert made[1, 1].astype(np.uint8).tobytes() in tokens.astype(np.uint8).tobytes()


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    from training.picture import draw

    draw(np.array([3.0, 2.0]), np.array([3.0, 2.1]), tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
