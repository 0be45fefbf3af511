"""Run by ``test_training.py`` in a process with four devices: ``python training_runs.py STEPS FACTOR`` prints JSON.

``FACTOR`` scales the cotangents that RMSNorm's kernel gives: 1 is right.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import jax

jax.config.update("jax_num_cpu_devices", 4)

from training.run import disagreements, gradient_differences, loss_differences, on_kernels, plain  # noqa: E402

from npu_kernels.kernels import catalogue  # noqa: E402


def scale_gradient(factor: float) -> None:
    (kernel, (fwd, bwd)), *_ = catalogue()["rms_norm"].gradient.rules.items()

    def scaled(*args: Any, **statics: Any) -> Any:
        return tuple(cotangent * factor for cotangent in bwd(*args, **statics))

    kernel.defvjp(fwd, scaled)


def main(steps: int, factor: float) -> None:
    if factor != 1:
        scale_gradient(factor)
    theirs, ours = plain(steps), on_kernels(steps)
    report = {
        "devices": jax.device_count(),
        "losses": theirs.losses.tolist(),
        "loss_differences": loss_differences(ours, theirs).tolist(),
        "gradient_differences": gradient_differences(ours, theirs),
        "disagreements": disagreements(ours, theirs),
        "launches": ours.launches,
        "plain_launches": theirs.launches,
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
