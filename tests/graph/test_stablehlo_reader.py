"""Modules are read from text, bytecode and portable artifacts, with constants of every dtype, or refused in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.extend.mlir.dialects import stablehlo

from npu_kernels import jax_compat
from npu_kernels.errors import GraphError
from npu_kernels.graph.core import Graph
from npu_kernels.graph.jaxpr_reader import read_jaxpr
from npu_kernels.graph.stablehlo_reader import read_stablehlo

TEXT = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.sine %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}"""


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def test_text_bytecode_portable_artifacts_and_files_are_read(tmp_path: Path) -> None:
    module = jax_compat.parse_module(TEXT)
    bytecode = jax_compat.module_to_bytecode(module)
    portable = jax.jit(jnp.sin).trace(jax.ShapeDtypeStruct((2,), np.float32)).lower().compiler_ir("stablehlo")
    artifact = bytes(stablehlo.serialize_portable_artifact(portable, stablehlo.get_current_version()))
    (tmp_path / "text.mlir").write_text(TEXT)
    (tmp_path / "code.mlirbc").write_bytes(bytecode)
    (tmp_path / "portable.mlirbc").write_bytes(artifact)
    for source in (TEXT, TEXT.encode(), bytecode, artifact, module, *tmp_path.iterdir()):
        assert ops(read_stablehlo(source)) == ["sine"]


def test_a_module_without_locations_has_its_own_lines(tmp_path: Path) -> None:
    file = tmp_path / "model.mlir"
    file.write_text(TEXT)
    assert read_stablehlo(file).nodes[0].location == f"{file}:2"
    assert read_stablehlo(TEXT).nodes[0].location == "<module>:2"


def test_a_module_with_locations_has_the_users_lines() -> None:
    def function(x: jax.Array) -> jax.Array:
        return jax.nn.softmax(x)

    module = jax.jit(function).lower(np.ones(3, np.float32)).compiler_ir("stablehlo")
    line = function.__code__.co_firstlineno + 1
    assert {node.location for node in read_stablehlo(module).nodes if node.op == "exponential"} == {
        f"{__file__}:{line}"
    }


@pytest.mark.parametrize(
    "value",
    [
        np.array([1.5, -0.0, np.inf, -np.inf, np.nan], np.float32),
        np.array([1e-45, 3e38, 1e300], np.float64),
        np.float16(0.1),
        np.array([1, np.nan, -np.inf, 3e38], ml_dtypes.bfloat16),
        np.full((2, 3), 0.25, ml_dtypes.float8_e4m3fn),
        np.array([1.5, 448], ml_dtypes.float8_e4m3fn),
        np.array([1 + 2j, complex(np.nan, -np.inf), -0.5j], np.complex64),
        np.array(3 - 1j, np.complex128),
        np.array([True, False, True]),
        np.full((3, 5), True),
        np.arange(40) % 3 == 0,
        np.arange(600).reshape(20, 30) % 7 == 0,
        np.array([-128, 127], np.int8),
        np.array([2**63 - 1, -(2**63)], np.int64),
        np.array([2**64 - 1, 0], np.uint64),
        np.full((3,), 2**32 - 1, np.uint32),
        np.arange(-3000, 3000, dtype=np.int32).reshape(60, 100),
        np.linspace(-1, 1, 4000, dtype=np.float32),
        np.linspace(-1, 1, 4000).astype(ml_dtypes.bfloat16),
        np.linspace(-1, 1, 4000).astype(np.complex64),
        np.zeros((0, 3), np.float32),
        np.array([-8, 7], ml_dtypes.int4),
        np.array([3, 0], ml_dtypes.uint4),
    ],
    ids=lambda value: f"{value.dtype}{list(value.shape)}",
)
def test_constants_are_read_bit_for_bit(value: np.ndarray[Any, Any]) -> None:
    with jax.enable_x64(True):
        text = jax.jit(lambda: jnp.asarray(value)).lower().as_text()
    constants = [node for node in read_stablehlo(text).walk() if node.op == "constant"]
    (found,) = [node.result.constant for node in constants if node.result.shape == value.shape]
    assert found is not None and found.dtype == value.dtype
    assert np.ascontiguousarray(found).tobytes() == np.ascontiguousarray(value).tobytes()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("this is no module", "StableHLO"),
        ("func.func @other() { return }", "no function main"),
        ("func.func @main() { call @main() : () -> ()\n return }", "calls itself"),
        (
            "func.func private @f() -> tensor<f32>\n"
            "func.func @main() -> tensor<f32> { %0 = call @f() : () -> tensor<f32>\n return %0 : tensor<f32> }",
            "@f is declared without a body",
        ),
        (
            "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }",
            "not a known number",
        ),
    ],
    ids=["no MLIR", "no main", "recursion", "no body", "dynamic shape"],
)
def test_what_cannot_be_read_is_said(text: str, message: str) -> None:
    with pytest.raises(GraphError, match=message) as caught:
        read_stablehlo(text)
    assert caught.value.code == "NPK-GR01"


def test_both_readers_give_the_same_graph() -> None:
    def function(x: jax.Array, w: jax.Array, mask: jax.Array) -> jax.Array:
        scores = jax.lax.dot_general(x, w, (((1,), (0,)), ((), ()))) / np.float32(2)
        scores = jax.lax.select(mask, scores, jax.lax.broadcast(np.float32(-1e9), scores.shape))
        top = jax.lax.broadcast_in_dim(jax.lax.reduce_max(scores, (1,)), scores.shape, (0,))
        e = jax.lax.exp(scores - top)
        return jax.lax.transpose(e, (1, 0))[1:3].astype(jnp.bfloat16)

    arguments = (np.ones((4, 5), np.float32), np.ones((5, 6), np.float32), np.ones((4, 6), bool))
    from_jaxpr = read_jaxpr(jax.make_jaxpr(function)(*arguments))
    from_module = read_stablehlo(jax_compat.lower_to_module(function, arguments))

    def facts(graph: Graph) -> list[tuple[str, str, str]]:
        # StableHLO spells out the broadcast of scalars.
        skipped = ("constant", "broadcast_in_dim")
        return [
            (node.op, str(node.result.aval), str(sorted(node.attrs.items())))
            for node in graph.nodes
            if node.op not in skipped
        ]

    assert facts(from_jaxpr) == facts(from_module)
