"""Read a jaxpr into a graph.

How the operands of nodes with regions map to the inputs of their regions:

* ``scan {num_consts, num_carry, length, reverse}``: one to one, constants, carried values, then slices of the xs;
* ``while {cond_nconsts, body_nconsts}``: operands are the condition's constants, the body's constants, the initial
  values; each region takes its own constants and then the carried values;
* ``case``: the first operand chooses, the rest go one to one to every branch;
* ``remat``, ``shard_map``, ``custom_vjp``, ``jit``: one to one.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from npu_kernels import jax_compat
from npu_kernels.errors import GraphError
from npu_kernels.graph.core import Aval, Graph, Value
from npu_kernels.graph.jaxpr_ops import describe

#: Primitives whose body is inlined freely: nothing but a name is lost.
_CALLS = {
    "jit": "jit",
    "pjit": "jit",
    "closed_call": "closed_call",
    "core_call": "closed_call",
    "custom_jvp_call": "custom_jvp",
}
_REGIONS = {
    "scan": "scan",
    "while": "while",
    "cond": "case",
    "remat": "remat",
    "remat2": "remat",
    "checkpoint": "remat",
    "shard_map": "shard_map",
    "custom_vjp_call": "custom_vjp",
    "custom_vjp_call_jaxpr": "custom_vjp",
}


def read_jaxpr(closed: Any, *, name: str = "main") -> Graph:
    """Graph of a closed jaxpr.

    Constants of the jaxpr and literals become ``constant`` nodes; a constant that is itself being traced has the
    value ``None``.

    Raises:
        GraphError: ``NPK-GR01`` for a dimension that is not a known number.
    """
    return _read(closed, name, None)


def aval_of(abstract: Any) -> Aval:
    """The graph's aval of a JAX abstract value; tokens have the empty shape."""
    shape = getattr(abstract, "shape", ())
    if not all(isinstance(size, int | np.integer) for size in shape):
        raise GraphError(
            "NPK-GR01", f"{abstract} has a dimension that is not a known number; trace with concrete shapes"
        )
    dtype = getattr(abstract, "dtype", None)
    name = "token" if dtype is None else str(dtype)
    if type(abstract).__name__ == "AbstractRef":
        name = f"ref<{name}>"
    return Aval(tuple(int(size) for size in shape), name)


def constant_value(value: Any) -> np.ndarray[Any, Any] | None:
    """A constant as NumPy sees it; ``None`` for tracers, keys and arrays spread over processes."""
    if isinstance(value, jax.core.Tracer):
        return None
    if isinstance(value, jax.Array) and (
        not value.is_fully_addressable or jax.numpy.issubdtype(value.dtype, jax.dtypes.extended)
    ):
        return None
    try:
        return np.asarray(value)
    except TypeError:
        return None


def region_jaxprs(eqn: Any) -> list[tuple[str, Any]]:
    """Parameter name and jaxpr of every body of an equation this module reads."""
    params = eqn.params
    match eqn.primitive.name:
        case "while":
            return [("cond_jaxpr", params["cond_jaxpr"]), ("body_jaxpr", params["body_jaxpr"])]
        case "cond":
            return [("branches", branch) for branch in params["branches"]]
        case _:
            key = next(key for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in params)
            return [(key, params[key])]


def _read(jaxpr: Any, name: str, location: str | None) -> Graph:
    """``location``, when given, is the call that stands for every equation of a function that is not the user's."""
    graph = Graph(name, origin=jaxpr)
    values: dict[Any, Value] = {}
    inner = jax_compat.open_jaxpr(jaxpr)
    consts = jax_compat.jaxpr_consts(jaxpr)
    for variable, const in zip(inner.constvars, consts, strict=False):
        values[variable] = graph.add(
            "constant", (), [(aval_of(variable.aval), variable)], {"value": constant_value(const)}
        ).result
    inputs = inner.invars if consts else [*inner.constvars, *inner.invars]
    for variable in inputs:
        values[variable] = graph.add_input(aval_of(variable.aval), variable)

    def read(atom: Any) -> Value:
        if not jax_compat.is_literal(atom):
            return values[atom]
        return graph.add("constant", (), [(aval_of(atom.aval), atom)], {"value": constant_value(atom.val)}).result

    for eqn in inner.eqns:
        operands = [read(atom) for atom in eqn.invars]
        _read_eqn(graph, eqn, operands, values, location)
    graph.outputs = [read(atom) for atom in inner.outvars]
    return graph


def _read_eqn(graph: Graph, eqn: Any, operands: list[Value], values: dict[Any, Value], location: str | None) -> None:
    own = location if location is not None else jax_compat.eqn_location(eqn)
    primitive = eqn.primitive.name
    regions: list[Graph] = []
    if primitive in _CALLS:
        ((_, body),) = region_jaxprs(eqn)
        kind = _CALLS[primitive]
        op = "jit" if kind == "jit" and not jax_compat.is_plain_jit(eqn.params) else "call"
        called = str(eqn.params.get("name") or jax_compat.jaxpr_name(body) or primitive)
        attrs: dict[str, Any] = {"name": called, "kind": kind}
        regions = [_read(body, called, None if jax_compat.is_user_function(body) else own)]
    elif primitive in _REGIONS:
        op = _REGIONS[primitive]
        attrs = _region_attrs(op, eqn.params)
        regions = [_read(body, _region_name(op, i, eqn), location) for i, (_, body) in enumerate(region_jaxprs(eqn))]
    else:
        op, operands, attrs = describe(eqn, operands)
    node = graph.add(
        op,
        operands,
        [(aval_of(variable.aval), variable) for variable in eqn.outvars],
        attrs,
        regions,
        location=own,
        origin=eqn,
    )
    values.update(zip(eqn.outvars, node.results, strict=True))


def _region_attrs(op: str, params: dict[str, Any]) -> dict[str, Any]:
    match op:
        case "scan":
            num_consts, num_carry = jax_compat.scan_counts(params)
            return {
                "num_consts": num_consts,
                "num_carry": num_carry,
                "length": int(params["length"]),
                "reverse": bool(params["reverse"]),
            }
        case "while":
            return {key: int(params[key]) for key in ("cond_nconsts", "body_nconsts")}
        case "custom_vjp":
            return {"name": jax_compat.jaxpr_name(params["call_jaxpr"]) or "custom_vjp"}
        case _:
            return {}


def _region_name(op: str, index: int, eqn: Any) -> str:
    match op:
        case "while":
            return ("cond", "body")[index]
        case "case":
            return f"branch{index}"
        case _:
            return str(eqn.params.get("name", "body"))
