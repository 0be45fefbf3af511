"""``explain`` and ``require``: what a program's substitutions are, and tests that they stay."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import Token
from pathlib import Path
from types import TracebackType
from typing import Any

from npu_kernels.errors import SubstitutionError
from npu_kernels.graph.expand import expand
from npu_kernels.graph.stablehlo_reader import read_stablehlo
from npu_kernels.substitution.engine import search
from npu_kernels.substitution.policy import DEFAULT, Policy, as_policy
from npu_kernels.substitution.report import Report, merge
from npu_kernels.substitution.substitute import Patterns, listeners, resolve_patterns, substituted


def explain(
    program: Callable[..., Any] | str | bytes | Path,
    *args: Any,
    policy: Policy | str = DEFAULT,
    patterns: Patterns = None,
    **kwargs: Any,
) -> Report:
    """What would be replaced in a program, what nearly would, and which guard stopped it.

    Args:
        program: a function, or a StableHLO module: its text or bytecode, or the path of a file with either.
        args, kwargs: arguments of the function; ``jax.ShapeDtypeStruct`` serve as well as arrays.
        policy, patterns: as in :func:`substitute`.

    Raises:
        GraphError: ``NPK-GR01`` for a module that cannot be read.
    """
    if isinstance(program, str | bytes | Path):
        return search(expand(read_stablehlo(program)), resolve_patterns(patterns), as_policy(policy)).report
    return substituted(program, policy, patterns).explain(*args, **kwargs)


class require(ContextDecorator):
    """Fails a test when a model stops matching.

    As a context manager or decorator it counts the static instances in all substituted programs that ran inside, each
    program once when it is traced; given a report it checks that one at once::

        with require("attention", count=30):
            substitute(forward)(params, tokens)

        require("attention", count=30, report=explain(forward, params, tokens))

    Args:
        pattern: name of the pattern.
        count: exact number of static instances, a loop body once; ``None`` for at least one.
        report: check this report.

    Raises:
        SubstitutionError: ``NPK-SB01``, naming the near misses.
    """

    def __init__(self, pattern: str, count: int | None = None, *, report: Report | None = None) -> None:
        self.pattern = pattern
        self.count = count
        self._reports: dict[int, Report] = {}
        self._token: Token[tuple[Callable[[Report], None], ...]] | None = None
        if report is not None:
            report.require(pattern, count)

    def __enter__(self) -> require:
        self._reports = {}
        self._token = listeners.set((*listeners.get(), self._heard))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            listeners.reset(self._token)
        if kind is None and not self._reports:
            raise SubstitutionError(
                "NPK-SB01",
                "no substituted function was traced inside the block; a call of a jitted function that was traced "
                "before does not count. Use require(..., report=explain(function, *args)) there",
            )
        if kind is None:
            merge(list(self._reports.values())).require(self.pattern, self.count)

    def _heard(self, report: Report) -> None:
        self._reports[id(report)] = report
