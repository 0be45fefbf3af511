"""Fair timing on a machine that other work shares: two programs take turns, and the ratio of each round is kept.

A slow spell hits both programs of a round alike, so the median of the ratios holds still where medians of times do not.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

Program = Callable[[], Any]
ROUNDS = 25
#: A program against itself has to come out this close to 1, else the machine is too busy for numbers to count.
SELF_TOLERANCE = 0.05


@dataclass(frozen=True)
class Comparison:
    """Times in seconds; `ratio` is ours over theirs, so below 1 is faster. `low` and `high` are its quartiles."""

    ratio: float
    low: float
    high: float
    ours: float
    theirs: float
    rounds: int


def seconds(program: Program) -> float:
    start = time.perf_counter()
    jax.block_until_ready(program())
    return time.perf_counter() - start


def compare(ours: Program, theirs: Program, rounds: int = ROUNDS) -> Comparison:
    """Runs ours, theirs, ours, theirs in every round; the first runs, which build and load, are not counted."""
    for program in (ours, theirs, ours, theirs):
        seconds(program)
    mine, other = [], []
    for _ in range(rounds):
        times = [seconds(program) for program in (ours, theirs, ours, theirs)]
        mine.append((times[0] + times[2]) / 2)
        other.append((times[1] + times[3]) / 2)
    ratios = [a / b for a, b in zip(mine, other, strict=True)]
    low, ratio, high = statistics.quantiles(ratios, n=4)
    return Comparison(ratio, low, high, statistics.median(mine), statistics.median(other), rounds)


def self_check(program: Program, rounds: int = ROUNDS, attempts: int = 3) -> Comparison:
    """The program against itself: the first of `attempts` that is 1.00 within `SELF_TOLERANCE`, else the closest."""
    tried = []
    for _ in range(attempts):
        tried.append(compare(program, program, rounds))
        if abs(tried[-1].ratio - 1) <= SELF_TOLERANCE:
            break
    return min(tried, key=lambda result: abs(result.ratio - 1))
