"""Random programs on the twin against eager runs: the same results, or a refusal with a code."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import npu_kernels.language as nl
from npu_kernels.binding import npu_kernel
from npu_kernels.errors import LoweringError

from .programs import Program, draw, same, shrink

PROGRAMS, GROUP = 300, 25


def outcome(program: Program, folder: Path) -> str:
    """What is wrong with a run of the program: nothing, a refusal with its code, an error, or a difference."""
    function = program.load(folder)
    arrays = program.arrays()
    expected = nl.interpret(function, arrays, {})
    kernel = npu_kernel(function)
    try:
        # Most in checked mode, which also finds what happens to give the right numbers; some as users run them.
        results = kernel(*arrays.values(), check=program.seed % 5 != 0)
    except LoweringError as error:
        return f"refused: {error}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    got = results if isinstance(results, tuple | list) else (results,)
    wrong = [n for n, (a, b) in enumerate(zip(got, expected, strict=True)) if not same(np.asarray(a), b)]
    return f"output {wrong[0]} differs" if wrong else ""


@pytest.mark.parametrize("first", range(0, PROGRAMS, GROUP))
def test_programs_on_the_twin_agree_with_eager_ones(first: int, tmp_path: Path) -> None:
    seeds = range(first, first + GROUP)
    # Two at a time: most of it is the host compiler, which is a process of its own.
    with ThreadPoolExecutor(2) as pool:
        outcomes = dict(zip(seeds, pool.map(lambda seed: outcome(draw(seed), tmp_path), seeds), strict=True))
    for seed, what in outcomes.items():
        if what and not what.startswith("refused: NPK-"):
            kind = what.split(":")[0]
            small = shrink(draw(seed), lambda p, kind=kind: outcome(p, tmp_path).split(":")[0] == kind)
            pytest.fail(f"seed {seed}: {outcome(small, tmp_path)}\n{small.source}")
    refused = [what for what in outcomes.values() if what]
    assert len(refused) <= GROUP // 10, "\n".join(refused)
