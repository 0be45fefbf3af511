"""The arithmetic of the benchmark harness, on a clock that the tests hold."""

from __future__ import annotations

import itertools
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HARNESS = Path(__file__).parents[2] / "benchmarks" / "harness.py"


@pytest.fixture
def harness() -> dict[str, Any]:
    return runpy.run_path(str(HARNESS))


def on_clock(harness: dict[str, Any], costs: Callable[[str], float]) -> list[str]:
    """Makes `seconds` report `costs` of each program; gives the order in which programs ran."""
    order: list[str] = []

    def seconds(program: str) -> float:
        order.append(program)
        return costs(program)

    harness["compare"].__globals__["seconds"] = seconds
    return order


def test_programs_take_turns_after_two_runs_that_do_not_count(harness: dict[str, Any]) -> None:
    order = on_clock(harness, lambda program: 1.0)
    harness["compare"]("ours", "theirs", 25)
    assert order == ["ours", "theirs"] * 2 * 26


def test_the_ratio_is_ours_over_theirs(harness: dict[str, Any]) -> None:
    on_clock(harness, {"ours": 1.5, "theirs": 0.5}.__getitem__)
    result = harness["compare"]("ours", "theirs")
    assert (result.ratio, result.low, result.high) == (3.0, 3.0, 3.0)
    assert (result.ours, result.theirs, result.rounds) == (1.5, 0.5, 25)


def test_a_slow_spell_that_hits_both_does_not_move_the_ratio(harness: dict[str, Any]) -> None:
    load: Iterator[float] = itertools.chain.from_iterable(itertools.repeat(1.0 + n % 7, 4) for n in itertools.count())
    on_clock(harness, lambda program: (2.0 if program == "ours" else 1.0) * next(load))
    assert harness["compare"]("ours", "theirs").ratio == 2.0


def test_a_machine_that_times_a_program_unlike_itself_is_found_out(harness: dict[str, Any]) -> None:
    drift = itertools.cycle([1.2, 1.0])
    order = on_clock(harness, lambda program: next(drift))
    result = harness["self_check"]("program", 25, 3)
    assert abs(result.ratio - 1) > harness["SELF_TOLERANCE"]
    assert len(order) == 3 * 4 * 26


def test_a_quiet_machine_passes_at_once(harness: dict[str, Any]) -> None:
    order = on_clock(harness, lambda program: 1.0)
    assert harness["self_check"]("program", 25, 3).ratio == 1.0
    assert len(order) == 4 * 26


def test_the_closest_attempt_is_reported(harness: dict[str, Any]) -> None:
    per_attempt = 4 * 26
    drifts = itertools.chain.from_iterable([ratio, 1.0] * (per_attempt // 2) for ratio in (1.5, 1.2, 1.3))
    on_clock(harness, lambda program: next(drifts))
    assert round(harness["self_check"]("program", 25, 3).ratio, 6) == 1.2
