"""Every module of the corpus is read, and keeps its results when it is inlined or rewritten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from npu_kernels import jax_compat
from npu_kernels.graph.core import Graph
from npu_kernels.graph.expand import expand
from npu_kernels.graph.replacement import Replacement
from npu_kernels.graph.stablehlo_reader import read_stablehlo
from npu_kernels.graph.stablehlo_writer import rewrite_stablehlo, write_inlined

#: Ops that are swapped for the same function by another road: JAX, its own lowering, a merged private function.
SWAPPED = {
    "exponential": jnp.exp,
    "rsqrt": jax.lax.rsqrt,
    "tanh": jnp.tanh,
    "select": jax.lax.select,
    "divide": jax.lax.div,
    "negate": jnp.negative,
    "maximum": jnp.maximum,
}


def arguments(graph: Graph) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(11)
    made = []
    for value in graph.inputs:
        dtype = value.aval.numpy_dtype
        assert dtype is not None
        if dtype == np.bool_:
            made.append(rng.random(value.shape) > 0.3)
        elif dtype.kind in "iu":
            made.append(rng.integers(0, 8, value.shape).astype(dtype))
        else:
            made.append(rng.standard_normal(value.shape).astype(dtype))
    return made


def close(left: list[np.ndarray[Any, Any]], right: list[np.ndarray[Any, Any]]) -> None:
    """XLA fuses differently across calls, which moves roundings: 1e-4 for float32, two ulps for bfloat16."""
    for a, b in zip(left, right, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        tolerance = 1.6e-2 if a.dtype == jnp.bfloat16 else 1e-4
        if a.dtype.kind in "biu":
            np.testing.assert_array_equal(a, b)
        else:
            wide = np.complex128 if a.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(a.astype(wide), b.astype(wide), rtol=tolerance, atol=tolerance)


def test_the_corpus_has_all_its_files() -> None:
    assert len(list((Path(__file__).parent.parent / "data" / "corpus").glob("*.mlir"))) == 130


def test_every_operation_is_read_and_every_constant_has_a_value(corpus_file: Path) -> None:
    graph = read_stablehlo(corpus_file)
    unknown = {"stablehlo.reduce_window", "stablehlo.scatter", "stablehlo.sort", "stablehlo.convolution", "chlo.top_k"}
    flat = expand(graph)
    for node in flat.walk():
        assert node.op != "call"
        assert node.op != "opaque" or node.attrs["name"] in unknown
        assert node.op != "constant" or node.attrs["value"].shape == node.result.shape
        assert node.op != "reduce" or len(node.operands) == 1
        assert node.location is not None and node.location.startswith(f"{corpus_file}:")
    operations = sum(line.count(" = stablehlo.dot_general") for line in corpus_file.read_text().splitlines())
    assert sum(node.op == "dot_general" for node in flat.walk()) == operations


def test_inlining_every_call_gives_a_module_that_verifies(corpus_file: Path) -> None:
    graph = read_stablehlo(corpus_file)
    inlined = read_stablehlo(write_inlined(graph))
    assert [str(v.aval) for v in inlined.outputs] == [str(v.aval) for v in graph.outputs]
    assert without_locations(expand(inlined)) == without_locations(expand(graph))


def without_locations(graph: Graph) -> list[str]:
    return [line.split("  # ")[0] for line in str(graph).splitlines()]


def test_results_stay_when_calls_are_inlined_and_operations_swapped(forward_file: Path) -> None:
    graph = read_stablehlo(forward_file)
    inputs = arguments(graph)
    expected = jax_compat.run_module(graph.origin, inputs)
    close(jax_compat.run_module(write_inlined(graph), inputs), expected)

    flat = expand(graph)
    replacements = []
    for node in flat.walk():
        if node.op in SWAPPED:
            function = SWAPPED[node.op]
            replacements.append(
                Replacement(node.operands, node.results, lambda *xs, f=function: (f(*xs),), f"swapped_{node.op}")
            )
    rewritten = rewrite_stablehlo(flat, replacements)
    left = read_stablehlo(rewritten)
    calls = [node for node in left.walk() if node.op == "call" and node.attrs["name"].startswith("swapped_")]
    assert len(calls) == len(replacements)
    for node in left.walk():
        inside = node.graph.parent is not None and node.graph.parent in calls
        assert inside or node.op not in SWAPPED
    close(jax_compat.run_module(rewritten, inputs), expected)
