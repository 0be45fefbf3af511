"""``substitute``: a function whose attention and norms run as kernels, otherwise the function it was."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any, cast

from npu_kernels import jax_compat
from npu_kernels.graph.expand import expand
from npu_kernels.graph.function import TraceCache, Traced
from npu_kernels.graph.jaxpr_reader import read_jaxpr
from npu_kernels.graph.jaxpr_writer import rewrite_jaxpr
from npu_kernels.substitution.engine import search
from npu_kernels.substitution.pattern import Pattern
from npu_kernels.substitution.policy import DEFAULT, Policy, as_policy
from npu_kernels.substitution.registry import registered
from npu_kernels.substitution.report import Report

#: Called with the report of every substituted program that runs; see :class:`npu_kernels.substitution.require`.
listeners: ContextVar[tuple[Callable[[Report], None], ...]] = ContextVar("listeners", default=())

Patterns = Iterable[Pattern | str] | None
#: Attribute of a function with what was made of it.
_KEPT = "__npu_kernels_substituted__"


@dataclass(frozen=True)
class Program:
    """A function traced for one signature and rewritten.

    Attributes:
        traced: the function as it was.
        run: from the arrays of the arguments to the arrays of the result; ``None`` when nothing was replaced.
        report: what was replaced.
    """

    traced: Traced
    run: Callable[..., Sequence[Any]] | None
    report: Report


class Substituted:
    """A function with kernels in the place of the patterns it contains; made by :func:`substitute`.

    It takes the arguments of the function and gives its results, under ``jit``, ``grad``, ``vmap`` and ``scan`` too.
    Arrays among the arguments, at any depth of pytrees, are traced; everything else is static, unless the function is
    jitted and says what is static itself. A signature (structure, shapes, dtypes, static values) is traced once.
    Closed-over arrays are taken as they are at that time, as in ``jax.jit``.
    """

    def __init__(
        self, function: Callable[..., Any], policy: Policy, patterns: tuple[Pattern | str, ...] | None
    ) -> None:
        self._function = function
        self._policy = policy
        self._patterns = patterns
        self._cache = TraceCache(function, self._build)
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        arguments, program = self._cache.get(args, kwargs, resolve_patterns(self._patterns))
        for listener in listeners.get():
            listener(program.report)
        if program.run is None:
            return self._function(*args, **kwargs)
        return program.traced.result(program.run(*arguments.arrays))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def explain(self, *args: Any, **kwargs: Any) -> Report:
        """The report for these arguments; ``jax.ShapeDtypeStruct`` serve as well as arrays."""
        return self._cache.get(args, kwargs, resolve_patterns(self._patterns))[1].report

    def _build(self, traced: Traced, patterns: tuple[Pattern, ...]) -> Program:
        name = getattr(self._function, "__name__", "function")
        graph = expand(read_jaxpr(traced.jaxpr, name=name))
        found = search(graph, patterns, self._policy)
        if not found.replacements:
            return Program(traced, None, found.report)
        return Program(traced, jax_compat.jaxpr_to_function(rewrite_jaxpr(graph, found.replacements)), found.report)


def substitute(
    function: Callable[..., Any], *, policy: Policy | str = DEFAULT, patterns: Patterns = None
) -> Callable[..., Any]:
    """A function that computes what ``function`` does, with kernels in the place of the patterns it contains.

    Args:
        function: any function JAX can trace, ``jax.jit`` applied or not.
        policy: what may change about numbers: a :class:`Policy`, or ``default``, ``exact``, ``fast``.
        patterns: names of patterns, or patterns; ``None`` for all that are registered when it is called.

    Raises:
        ValueError: for an unknown policy.
        SubstitutionError: ``NPK-SB02``, when called, for an unknown pattern.

    Returns:
        The same object for equal arguments, so that neither it nor a ``jax.jit`` around it is traced again.
    """
    return cast(Callable[..., Any], substituted(function, policy, patterns))


def substituted(function: Callable[..., Any], policy: Policy | str, patterns: Patterns) -> Substituted:
    """:func:`substitute`, with the type it really returns."""
    chosen = as_policy(policy), tuple(patterns) if patterns is not None else None
    inner = function._function if isinstance(function, Substituted) else function
    made = _made(inner)
    if chosen not in made:
        made.setdefault(chosen, Substituted(inner, *chosen))
    return made[chosen]


def _made(function: Callable[..., Any]) -> dict[Any, Substituted]:
    """What was made of a function so far: kept with it, so that it lives as long as the function and no longer.

    Other callables (methods are new objects at each access, modules may be frozen) keep nothing.
    """
    jitted = not isinstance(function, MethodType) and jax_compat.jit_statics(function) is not None
    if not (jitted or isinstance(function, FunctionType)):
        return {}
    kept: tuple[Any, dict[Any, Substituted]] | None = vars(function).get(_KEPT)
    if kept is None or kept[0] is not function:
        # Decorators copy the attributes of what they wrap.
        kept = function, {}
        setattr(function, _KEPT, kept)
    return kept[1]


def resolve_patterns(patterns: Patterns) -> tuple[Pattern, ...]:
    """Patterns from names and patterns; all registered ones for ``None``."""
    if patterns is None:
        return registered()
    return tuple(p if isinstance(p, Pattern) else registered([p])[0] for p in patterns)
