"""What a rewrite is: part of a graph, and the JAX function that takes its place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from npu_kernels.graph.core import Value


@dataclass(frozen=True, eq=False)
class Replacement:
    """Replace everything between ``inputs`` and ``outputs`` by ``function(*inputs)``.

    All values belong to one graph: an expanded graph or one of its regions. Nodes in between stay where
    something else still reads them; what nothing reads any more is removed.

    Attributes:
        inputs: values the function reads, in the order of its arguments.
        outputs: values whose uses are redirected to the function's results.
        function: traceable by JAX; takes one array per input, returns a tuple with one array per output, of
            the output's shape and dtype.
        name: name of the function in the rewritten program.
    """

    inputs: Sequence[Value]
    outputs: Sequence[Value]
    function: Callable[..., tuple[Any, ...]]
    name: str
