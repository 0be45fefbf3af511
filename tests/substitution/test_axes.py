"""Layout is only an index: a value read through any chain of layout operations is its source, arranged."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from npu_kernels.graph.expand import expand
from npu_kernels.graph.jaxpr_reader import read_jaxpr
from npu_kernels.substitution.axes import align, fresh, resolve, whole
from npu_kernels.substitution.call import Operand
from npu_kernels.substitution.fold import Folder
from npu_kernels.substitution.peel import Peeler


@st.composite
def layouts(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[str, Any]]]:
    """A shape and operations, each described by what it makes."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)))
    current, steps = shape, []
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["transpose", "split", "merge", "expand", "stretch"]))
        if kind == "transpose":
            order = tuple(draw(st.permutations(range(len(current)))))
            steps.append((kind, order))
            current = tuple(current[i] for i in order)
            continue
        at = draw(st.integers(0, len(current) - 1))
        if kind == "split" and len(current) < 6:
            outer = draw(st.sampled_from([d for d in range(1, current[at] + 1) if current[at] % d == 0]))
            current = (*current[:at], outer, current[at] // outer, *current[at + 1 :])
        elif kind == "merge" and at + 1 < len(current):
            current = (*current[:at], current[at] * current[at + 1], *current[at + 2 :])
        elif kind == "expand" and len(current) < 6:
            current = (*current[:at], 1, *current[at:])
        elif kind == "stretch" and current[at] == 1 and math.prod(current) < 500:
            current = (*current[:at], 3, *current[at + 1 :])
            steps.append(("broadcast", current))
            continue
        else:
            continue
        steps.append(("reshape", current))
    return shape, steps


def apply(x: Any, steps: list[tuple[str, Any]]) -> Any:
    for kind, what in steps:
        match kind:
            case "transpose":
                x = jnp.transpose(x, what)
            case "reshape":
                x = x.reshape(what)
            case "broadcast":
                x = jnp.broadcast_to(x, what)
    return x


@settings(max_examples=60)
@given(layouts())
def test_a_read_through_layout_is_the_source_arranged(case: tuple[tuple[int, ...], list[tuple[str, Any]]]) -> None:
    shape, steps = case
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    graph = expand(read_jaxpr(jax.make_jaxpr(lambda x: apply(x, steps))(x)))
    (output,) = graph.outputs
    read = whole(output)
    leaf = Peeler().peel(read)
    wanted = np.asarray(apply(x, steps))
    if leaf.value is not graph.inputs[0]:
        # A reshape across a stretched axis: no axes say where an element comes from, so the view stops there.
        assert any(kind == "broadcast" for kind, _ in steps)
        return
    arranged = Operand(leaf, read.index).plan()(jnp.asarray(x))
    np.testing.assert_array_equal(arranged, wanted)


@given(st.sampled_from([(6, (2, 3)), (12, (3, 4)), (12, (2, 2, 3))]))
def test_aligned_groups_have_equal_parts(case: tuple[int, tuple[int, ...]]) -> None:
    size, parts = case
    (coarse,), fine = fresh((size,)), tuple(axis for dim in fresh(parts) for axis in dim)
    pairs = align(coarse, fine)
    assert pairs is not None
    assert [axis.size for axis in pairs] == list(parts)
    assert resolve(coarse) == tuple(pairs)


def test_groups_that_do_not_divide_are_not_aligned() -> None:
    (six,), four = fresh((6,)), tuple(axis for dim in fresh((4,)) for axis in dim)
    assert align(six, four) is None


def fold(function: Any, *arguments: Any) -> Any:
    graph = expand(read_jaxpr(jax.make_jaxpr(function)(*arguments)))
    return Folder().splat(graph.outputs[0]), Folder().array(graph.outputs[0])


def test_constants_fold_in_their_own_dtype() -> None:
    def third() -> Any:
        return jnp.broadcast_to(jnp.sqrt(jnp.full((2,), 3, jnp.bfloat16)) / 7, (4, 2))

    splat, array = fold(third)
    assert splat == array[0, 0] == third()[0, 0]
    assert splat.dtype == jnp.bfloat16


def test_masks_that_depend_on_no_input_are_known() -> None:
    def window() -> Any:
        rows, columns = jnp.arange(6)[:, None], jnp.arange(6)[None, :]
        return (columns <= rows) & (columns > rows - 3)

    splat, array = fold(window)
    assert splat is None
    np.testing.assert_array_equal(array, window())


def test_what_depends_on_an_input_is_unknown() -> None:
    assert fold(lambda x: x * 0 + jnp.arange(3.0), jnp.ones(3)) == (None, None)
    assert fold(lambda x: jnp.where(x > 0, 2.0, 2.0), jnp.ones(3))[1] is None
