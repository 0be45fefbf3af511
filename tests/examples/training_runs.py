"""Run by ``test_training.py`` in a process with four devices: ``python training_runs.py STEPS``, prints JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import jax

jax.config.update("jax_num_cpu_devices", 4)

from training.run import Run, disagreements, gradient_differences, loss_differences, on_kernels, plain  # noqa: E402

from npu_kernels.kernels import catalogue  # noqa: E402


def scaled_gradient(steps: int, factor: float) -> Run:
    """On kernels, where the cotangents that RMSNorm's kernel gives are wrong by a factor."""
    (kernel, (fwd, bwd)), *_ = catalogue()["rms_norm"].gradient.rules.items()

    def wrong(*args: Any, **statics: Any) -> Any:
        return tuple(cotangent * factor for cotangent in bwd(*args, **statics))

    kernel.defvjp(fwd, wrong)
    try:
        return on_kernels(steps)
    finally:
        kernel.defvjp(fwd, bwd)


def main(steps: int) -> None:
    theirs, ours = plain(steps), on_kernels(steps)
    wrong = scaled_gradient(1, 1.01)
    report = {
        "devices": jax.device_count(),
        "losses": theirs.losses.tolist(),
        "loss_differences": loss_differences(ours, theirs).tolist(),
        "gradient_differences": gradient_differences(ours, theirs),
        "disagreements": disagreements(ours, theirs),
        "launches": ours.launches,
        "plain_launches": theirs.launches,
        "wrong": [line for line in disagreements(wrong, theirs_first(theirs)) if line.startswith("gradient")],
    }
    print(json.dumps(report))


def theirs_first(run: Run) -> Run:
    """The run's first step."""
    return Run(run.losses[:1], run.gradients, run.launches)


if __name__ == "__main__":
    main(int(sys.argv[1]))
