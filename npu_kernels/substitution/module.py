"""Substitution in a StableHLO module: what was lowered elsewhere can be rewritten too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from npu_kernels.graph.expand import expand
from npu_kernels.graph.stablehlo_reader import read_stablehlo
from npu_kernels.graph.stablehlo_writer import rewrite_stablehlo
from npu_kernels.substitution.engine import search
from npu_kernels.substitution.policy import DEFAULT, Policy, as_policy
from npu_kernels.substitution.report import Report
from npu_kernels.substitution.substitute import Patterns, resolve_patterns


def substitute_module(
    source: str | bytes | Path, *, policy: Policy | str = DEFAULT, patterns: Patterns = None
) -> tuple[Any, Report]:
    """A module with kernels in the place of the patterns it contains, and the report.

    Args:
        source: text or bytecode of a module, or the path of a file with either.
        policy, patterns: as in :func:`substitute`.

    Returns:
        An MLIR module (``str()`` is its text) with the functions and types of the one read, lowered for CPU, and
        what was replaced in it.

    Raises:
        GraphError: ``NPK-GR01`` for a module that cannot be read.
    """
    graph = expand(read_stablehlo(source))
    found = search(graph, resolve_patterns(patterns), as_policy(policy))
    return rewrite_stablehlo(graph, found.replacements), found.report
