"""Data-parallel training with AdamW, and how two runs are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import optax
from jax.sharding import Mesh, PartitionSpec

import npu_kernels

from .model import batches, initial, loss

Loss = Callable[[Any, jax.Array], jax.Array]

DEVICES = 4
#: Largest relative difference of the losses in the first steps and later, and of the gradients of step 1.
EARLY, EARLY_STEPS, LATE, GRADIENT = 1e-4, 20, 2e-2, 1e-3


@dataclass(frozen=True)
class Run:
    """A training run.

    Attributes:
        losses: float ``[steps]``, in nats per byte, each before its update.
        gradients: of step 1, by the path of the parameter.
        launches: how often each kernel ran.
    """

    losses: np.ndarray
    gradients: dict[str, np.ndarray]
    launches: dict[str, int]


def train(function: Loss, steps: int, *, batch: int = 8, rate: float = 3e-3) -> Run:
    """Trains from the same start on the same batches: only ``function``, the loss, may differ between runs.

    Each of the devices takes a part of the batch; gradients are averaged over them.
    """
    mesh = Mesh(np.array(jax.devices()[:DEVICES]), ("data",))
    optimiser = optax.adamw(rate, weight_decay=0.01)
    gradients = _data_parallel(function, mesh)

    @jax.jit
    def step(params: Any, state: Any, tokens: jax.Array) -> tuple[Any, Any, jax.Array, Any]:
        value, gradient = gradients(params, tokens)
        updates, state = optimiser.update(gradient, state, params)
        return optax.apply_updates(params, updates), state, value, gradient

    before = Counter(npu_kernels.launches())
    params = initial()
    state = optimiser.init(params)
    losses, first = [], None
    for tokens in batches(steps, batch):
        params, state, value, gradient = step(params, state, tokens)
        first = gradient if first is None else first
        losses.append(float(value))
    leaves = jax.tree_util.tree_leaves_with_path(first)
    named = {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}
    return Run(np.array(losses), named, dict(Counter(npu_kernels.launches()) - before))


def _data_parallel(function: Loss, mesh: Mesh) -> Callable[[Any, jax.Array], tuple[jax.Array, Any]]:
    """Loss and gradient, each the mean over the devices' parts of the batch."""
    whole, split = PartitionSpec(), PartitionSpec("data")

    def part(params: Any, tokens: jax.Array) -> tuple[jax.Array, Any]:
        value, gradient = jax.value_and_grad(function)(params, tokens)
        return jax.lax.pmean(value, "data"), jax.lax.pmean(gradient, "data")

    mapped: Callable[[Any, jax.Array], tuple[jax.Array, Any]] = jax.shard_map(
        part, mesh=mesh, in_specs=(whole, split), out_specs=(whole, whole), check_vma=False
    )
    return mapped


def plain(steps: int) -> Run:
    """The model as written."""
    return train(loss, steps)


def on_kernels(steps: int) -> Run:
    """The same model through ``npu_kernels.substitute``."""
    return train(npu_kernels.substitute(loss), steps)


def loss_differences(ours: Run, theirs: Run) -> np.ndarray:
    """Relative difference of the losses at each step."""
    difference: np.ndarray = np.abs(ours.losses - theirs.losses) / theirs.losses
    return difference


def gradient_differences(ours: Run, theirs: Run) -> dict[str, float]:
    """For each parameter the largest difference of its gradients in step 1, relative to their largest element."""
    return {
        path: float(np.max(np.abs(ours.gradients[path] - leaf)) / np.max(np.abs(leaf)))
        for path, leaf in theirs.gradients.items()
    }


def disagreements(ours: Run, theirs: Run) -> list[str]:
    """What is further apart than rounding explains: one line each, none when the runs agree."""
    losses = loss_differences(ours, theirs)
    found = [
        f"losses of steps {where}: {np.max(part):.2e}, more than {bound:g}"
        for where, part, bound in (
            (f"1 to {EARLY_STEPS}", losses[:EARLY_STEPS], EARLY),
            (f"from {EARLY_STEPS + 1}", losses[EARLY_STEPS:], LATE),
        )
        if part.size and not np.max(part) <= bound
    ]
    found += [
        f"gradient of {path}: {off:.2e}, more than {GRADIENT:g}"
        for path, off in gradient_differences(ours, theirs).items()
        if not off <= GRADIENT
    ]
    return found
