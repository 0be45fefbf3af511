"""Random programs on the twin against eager runs: the same results, or a refusal with a code."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
import pytest

from npu_kernels.binding import Kernel, npu_kernel
from npu_kernels.errors import LoweringError

from .batch import build_together
from .programs import Program, draw, same, shrink

PROGRAMS, GROUP = 300, 25


def outcomes(programs: list[Program], folder: Path, *, checked: bool) -> list[str]:
    """What is wrong with a run of each: nothing, a refusal with its code, an error, or a difference."""
    found: dict[int, str] = {}
    kernels = {n: npu_kernel(p.load(folder)) for n, p in enumerate(programs)}
    sources = []
    for n, kernel in kernels.items():
        specs = (jax.ShapeDtypeStruct(t.shape, t.dtype.numpy) for t in programs[n].types().values())
        try:
            sources.append(kernel.lower(*specs).generated)
        except LoweringError as error:
            found[n] = f"refused: {error}"
        except Exception as error:
            found[n] = f"{type(error).__name__}: {error}"
    build_together(sources, checked=checked)
    for n, kernel in kernels.items():
        if n not in found:
            found[n] = difference(programs[n], kernel, checked=checked)
    return [found[n] for n in kernels]


def difference(program: Program, kernel: Kernel, *, checked: bool) -> str:
    arrays = program.arrays().values()
    try:
        results, expected = kernel(*arrays, check=checked), kernel(*arrays, interpret=True)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if not isinstance(results, tuple):
        results, expected = (results,), (expected,)
    pairs = enumerate(zip(results, expected, strict=True))
    wrong = [n for n, (a, b) in pairs if not same(np.asarray(a), np.asarray(b))]
    return f"output {wrong[0]} differs" if wrong else ""


@pytest.mark.parametrize("first", range(0, PROGRAMS, GROUP))
def test_programs_on_the_twin_agree_with_eager_ones(first: int, tmp_path: Path) -> None:
    programs = [draw(seed) for seed in range(first, first + GROUP)]
    # Most in checked mode, which also finds what happens to give the right numbers; some as users run them.
    fast = [p for p in programs if p.seed % 5 == 0]
    checked = [p for p in programs if p.seed % 5 != 0]
    batches = [(fast, False), (checked[::2], True), (checked[1::2], True)]
    # Two at a time: most of it is the host compiler, which is a process of its own.
    with ThreadPoolExecutor(2) as pool:
        done = pool.map(lambda batch: outcomes(batch[0], tmp_path, checked=batch[1]), batches)
        found = [
            (p, check, what)
            for (ps, check), whats in zip(batches, done, strict=True)
            for p, what in zip(ps, whats, strict=True)
        ]
    for program, check, what in found:
        if what and not what.startswith("refused: NPK-"):
            kind = what.split(":")[0]

            def alone(p: Program, check: bool = check) -> str:
                return outcomes([p], tmp_path, checked=check)[0]

            small = shrink(program, lambda p, kind=kind, alone=alone: alone(p).split(":")[0] == kind)
            pytest.fail(f"seed {program.seed}: {alone(small)}\n{small.source}")
    refused = [what for _, _, what in found if what]
    assert len(refused) <= GROUP // 10, "\n".join(refused)
