"""``substitute``: a function whose attention and norms run as kernels, otherwise the function it was."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, cast

import jax
import numpy as np

from npu_kernels import jax_compat
from npu_kernels.graph.expand import expand
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


@dataclass(frozen=True)
class Program:
    """A function traced for one signature and rewritten.

    Attributes:
        run: from the dynamic leaves of the arguments to the dynamic leaves of the result; ``None`` when nothing
            was replaced.
        rebuild: from these to the result.
        report: what was replaced.
    """

    run: Callable[..., Sequence[Any]] | None
    rebuild: Callable[[Sequence[Any]], Any]
    report: Report
    cacheable: bool


class Substituted:
    """A function with kernels in the place of the patterns it contains; made by :func:`substitute`.

    It takes the arguments of the function and gives its results, under ``jit``, ``grad``, ``vmap`` and ``scan`` too.
    Arrays among the arguments, at any depth of pytrees, are traced; everything else is static. A signature (structure,
    shapes, dtypes, static values) is traced once. Closed-over arrays are taken as they are at that time, as in
    ``jax.jit``.
    """

    def __init__(
        self, function: Callable[..., Any], policy: Policy, patterns: tuple[Pattern | str, ...] | None
    ) -> None:
        self._function = function
        self._policy = policy
        self._patterns = patterns
        self._programs: dict[Hashable, Program] = {}
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = jax.tree.flatten((args, kwargs))
        program = self._program(leaves, structure)
        for listener in listeners.get():
            listener(program.report)
        if program.run is None:
            return self._function(*args, **kwargs)
        return program.rebuild(program.run(*(leaf for leaf in leaves if _is_dynamic(leaf))))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def explain(self, *args: Any, **kwargs: Any) -> Report:
        """The report for these arguments; ``jax.ShapeDtypeStruct`` serve as well as arrays."""
        leaves, structure = jax.tree.flatten((args, kwargs))
        return self._program(leaves, structure).report

    def _program(self, leaves: Sequence[Any], structure: Any) -> Program:
        patterns = resolve_patterns(self._patterns)
        key = _key(leaves, structure, patterns)
        if key is not None and key in self._programs:
            return self._programs[key]
        program = _trace(self._function, leaves, structure, self._policy, patterns)
        if key is not None and program.cacheable:
            self._programs[key] = program
        return program


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
    """
    chosen = tuple(patterns) if patterns is not None else None
    inner = function._function if isinstance(function, Substituted) else function
    return cast(Callable[..., Any], Substituted(inner, as_policy(policy), chosen))


def resolve_patterns(patterns: Patterns) -> tuple[Pattern, ...]:
    """Patterns from names and patterns; all registered ones for ``None``."""
    if patterns is None:
        return registered()
    return tuple(p if isinstance(p, Pattern) else registered([p])[0] for p in patterns)


def _trace(
    function: Callable[..., Any], leaves: Sequence[Any], structure: Any, policy: Policy, patterns: tuple[Pattern, ...]
) -> Program:
    result: dict[str, Any] = {}

    def flat(*dynamic: Any) -> list[Any]:
        remaining = iter(dynamic)
        args, kwargs = jax.tree.unflatten(
            structure, [next(remaining) if _is_dynamic(leaf) else leaf for leaf in leaves]
        )
        values, result["structure"] = jax.tree.flatten(function(*args, **kwargs))
        result["leaves"] = [None if _is_dynamic(value) else value for value in values]
        return [value for value in values if _is_dynamic(value)]

    flat.__name__ = flat.__qualname__ = getattr(function, "__name__", "function")
    closed = jax.make_jaxpr(flat)(*(leaf for leaf in leaves if _is_dynamic(leaf)))
    graph = expand(read_jaxpr(closed, name=flat.__name__))
    found = search(graph, patterns, policy)
    run = jax_compat.jaxpr_to_function(rewrite_jaxpr(graph, found.replacements)) if found.replacements else None
    static, out_structure = result["leaves"], result["structure"]

    def rebuild(dynamic: Sequence[Any]) -> Any:
        remaining = iter(dynamic)
        return jax.tree.unflatten(out_structure, [next(remaining) if leaf is None else leaf for leaf in static])

    cacheable = not any(isinstance(const, jax.core.Tracer) for const in closed.consts)
    return Program(run, rebuild, found.report, cacheable)


def _is_dynamic(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct)


def _key(leaves: Sequence[Any], structure: Any, patterns: tuple[Pattern, ...]) -> Hashable | None:
    """What a trace depends on; ``None`` when a static argument cannot be hashed."""
    described: list[tuple[Any, ...]] = []
    for leaf in leaves:
        if _is_dynamic(leaf):
            described.append(("array", leaf.shape, str(leaf.dtype), bool(getattr(leaf, "weak_type", False))))
        else:
            described.append(("static", type(leaf), leaf))
    config: Any = jax.config
    settings = (config.jax_enable_x64, config.jax_default_matmul_precision)
    key = (structure, tuple(described), settings, tuple(map(id, patterns)))
    try:
        hash(key)
    except TypeError:
        return None
    return key
