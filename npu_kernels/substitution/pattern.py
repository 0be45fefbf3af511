"""Patterns by example: a JAX function says what is replaced, and is traced again for every match."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from npu_kernels.errors import SubstitutionError
from npu_kernels.graph.core import Graph, Node, Value
from npu_kernels.graph.expand import expand
from npu_kernels.graph.jaxpr_reader import read_jaxpr
from npu_kernels.substitution.axes import Ref, whole
from npu_kernels.substitution.heads import Core
from npu_kernels.substitution.matcher import Matcher
from npu_kernels.substitution.policy import Permission
from npu_kernels.substitution.view import View

if TYPE_CHECKING:
    from npu_kernels.substitution.call import Call
    from npu_kernels.substitution.match import Match

_PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
#: Values no program has by chance; they stand for a parameter while the example is traced the first time.
_SENTINELS = (0.7312871, -3.1274615e31, 0.0041273, 1.9371264, 0.2718461, 5.4937812)
RESULT = "result"


@dataclass(frozen=True)
class Argument:
    """An argument of an example.

    Attributes:
        axes: names of its axes, most significant first.
        boolean: a mask; it may be any conjunction of booleans and may lack axes.
    """

    axes: tuple[str, ...]
    boolean: bool = False


def array(axes: str) -> Argument:
    """A float argument: ``array("b t n d")``."""
    return Argument(tuple(axes.split()))


def mask(axes: str) -> Argument:
    """A boolean argument."""
    return Argument(tuple(axes.split()), boolean=True)


@dataclass(frozen=True, eq=False)
class Example:
    """One spelling of what a pattern replaces; spellings the canonical view makes equal need no second example.

    Attributes:
        function: traceable by JAX; arrays by position in the order of ``arguments``, parameters by keyword.
        arguments: axes by argument name.
        result: axes of the only result.
        parameters: names of constants a program may choose.
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Argument]
    result: tuple[str, ...]
    parameters: tuple[str, ...] = ()

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of the float arguments."""
        return tuple(name for name, argument in self.arguments.items() if not argument.boolean)

    def signature(self, axis: str) -> frozenset[str]:
        """Float arguments that have the axis, and ``result`` when the result has it: what tells axes apart."""
        found = {name for name in self.arrays if axis in self.arguments[name].axes}
        return frozenset(found | ({RESULT} if axis in self.result else set()))

    @property
    def axis_names(self) -> tuple[str, ...]:
        names = [axis for argument in self.arguments.values() for axis in argument.axes]
        return tuple(dict.fromkeys(names))

    @cached_property
    def prototype(self) -> Traced:
        """The example traced at distinct primes with sentinels for its parameters."""
        sizes = dict(zip(self.axis_names, _PRIMES, strict=False))
        sentinels = dict(zip(self.parameters, _SENTINELS, strict=False))
        traced = self.trace(sizes, sentinels, open_parameters=True)
        if Matcher(traced.view, traced.variables, {}, traced.view).match(traced.root, traced.root) is None:
            raise SubstitutionError(
                "NPK-SB02",
                f"the example {self.function.__name__} does not match itself; write it without reshapes and with "
                "arguments used as they are",
            )
        return traced

    def trace(self, sizes: Mapping[str, int], parameters: Mapping[str, float], *, open_parameters: bool) -> Traced:
        """Trace at given sizes and parameters.

        Raises:
            SubstitutionError: ``NPK-SB02`` when the example cannot be traced or has not exactly one result.
        """
        specs = [
            jax.ShapeDtypeStruct(tuple(sizes[a] for a in argument.axes), np.bool_ if argument.boolean else np.float32)
            for argument in self.arguments.values()
        ]
        try:
            closed = jax.make_jaxpr(lambda *arrays: self.function(*arrays, **parameters))(*specs)
        except Exception as error:
            raise SubstitutionError(
                "NPK-SB02", f"the example {self.function.__name__} cannot be traced: {error}"
            ) from error
        graph = expand(read_jaxpr(closed))
        if len(graph.outputs) != 1:
            raise SubstitutionError("NPK-SB02", f"the example {self.function.__name__} must have one result")
        variables = dict(zip(graph.inputs, self.arguments, strict=True))
        return Traced(graph, View(), variables, parameters if open_parameters else {}, whole(graph.outputs[0]))


@dataclass(frozen=True, eq=False)
class Traced:
    """A traced example: its graph, its view, and what its inputs and open parameters are called."""

    graph: Graph
    view: View
    variables: Mapping[Value, str]
    parameters: Mapping[str, float]
    root: Ref

    @cached_property
    def form(self) -> Core:
        """The canonical form of the result."""
        return self.view.head(self.root).core


@dataclass(frozen=True)
class Reason:
    """Why something was not replaced: a stable code and a sentence."""

    code: str
    sentence: str


class Declined(Exception):
    """Raised by guards and layouts: the match is right but must not be replaced."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(f"{code}: {sentence}")
        self.reason = Reason(code, sentence)


@dataclass(frozen=True, eq=False)
class Pattern:
    """What is replaced by what.

    Attributes:
        name: for reports and :func:`require`.
        examples: spellings, tried in order.
        build: turns a match into the call that replaces it; raises :class:`Declined` where the kernel cannot.
        needs: permissions every use needs.
        guards: further conditions; each raises :class:`Declined`.
        anchor: whether a node is the mark of something this pattern might replace.
        explain: why the thing at an anchor was not replaced; ``None`` when it is no near miss at all.
        dtypes: float dtypes the kernel computes with.
    """

    name: str
    examples: Sequence[Example]
    build: Callable[[Match], Call]
    anchor: Callable[[View, Node], bool]
    explain: Callable[[View, Node], Reason | None]
    needs: frozenset[Permission] = frozenset({Permission.REORDER})
    guards: Sequence[Callable[[Match], None]] = ()
    dtypes: frozenset[str] = field(default=frozenset({"float32", "float16", "bfloat16"}))


@lru_cache(maxsize=512)
def _retrace(example: Example, sizes: tuple[tuple[str, int], ...], parameters: tuple[tuple[str, float], ...]) -> Traced:
    return example.trace(dict(sizes), dict(parameters), open_parameters=False)


def retrace(example: Example, sizes: Mapping[str, int], parameters: Mapping[str, float]) -> Traced:
    """The example traced for one match; equal matches share the trace."""
    return _retrace(example, tuple(sorted(sizes.items())), tuple(sorted(parameters.items())))
