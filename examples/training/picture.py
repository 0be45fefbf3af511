"""Both loss curves, and below them their difference."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt


def draw(plain: np.ndarray, kernels: np.ndarray, path: Path) -> None:
    """Writes the picture; losses are in nats per byte, one for each step."""
    steps = np.arange(1, len(plain) + 1)
    figure, (top, bottom) = plt.subplots(2, 1, sharex=True, figsize=(7, 5), height_ratios=(3, 1), layout="constrained")
    top.plot(steps, plain, label="plain JAX", color="tab:blue", linewidth=3, alpha=0.5)
    top.plot(steps, kernels, label="on kernels", color="black", linewidth=1)
    top.set_ylabel("loss, nats per byte")
    top.legend()
    bottom.semilogy(steps, np.maximum(np.abs(kernels - plain) / plain, 1e-9), color="black", linewidth=1)
    bottom.set_ylabel("difference, relative")
    bottom.set_xlabel("step")
    figure.savefig(path)
    plt.close(figure)
