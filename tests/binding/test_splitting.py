"""What may be split over devices: allowed splits change no result, and each refusal has a kernel where one would."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import npu_kernels.language as nl
from npu_kernels import ir
from npu_kernels.binding.primitive import KernelCall, Shapes
from npu_kernels.binding.splitting import factors_of
from npu_kernels.errors import LanguageError
from npu_kernels.ir.sharding import Factor, Place

Array = np.ndarray[Any, Any]
Body = Callable[..., Any]


class Traced:
    """A function as a call that is not lowered, for any shapes."""

    def __init__(self, body: Body, shapes: Shapes) -> None:
        self.names = body.__code__.co_varnames[: len(shapes)]
        self.body = body

    def trace(self, shapes: Shapes) -> ir.Kernel:
        types = {n: ir.TensorType(shape, ir.float32) for n, shape in zip(self.names, shapes, strict=True)}
        return nl.trace(self.body, types, {})

    def call(self, shapes: Shapes) -> KernelCall:
        traced = self.trace(shapes)
        outputs = [jax.ShapeDtypeStruct(out.shape, np.float32) for out in traced.outputs]
        return KernelCall(traced.name, outputs, None, traced=traced, variants=self)  # type: ignore[arg-type]


def factor_at(body: Body, shapes: Shapes, place: Place) -> Factor:
    (found,) = [f for f in factors_of(Traced(body, shapes).call(shapes)) if place in f.places]
    return found


def split_runs(body: Body, shapes: Shapes, places: dict[Place, Any], parts: int) -> tuple[list[Array], list[Array]]:
    """Results of the whole, and of the parts put together; axes at ``places`` are cut."""
    rng = np.random.default_rng(7)
    names = Traced(body, shapes).names
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]

    def run(operands: list[Array]) -> list[Array]:
        return [np.asarray(r) for r in nl.interpret(body, dict(zip(names, operands, strict=True)), {})]

    def cut(tensor: int, array: Array, part: int) -> Array:
        for (t, axis), _ in places.items():
            if t == tensor:
                array = np.split(array, parts, axis)[part]
        return array

    whole = run(arrays)
    pieces = [run([cut(t, array, part) for t, array in enumerate(arrays)]) for part in range(parts)]
    joined = []
    for i, result in enumerate(whole):
        axes = [axis for t, axis in places if t == len(shapes) + i]
        joined.append(np.concatenate([piece[i] for piece in pieces], axes[0]) if axes else pieces[0][i])
        assert joined[-1].shape == result.shape
    return whole, joined


# ------------------------------------------------------------------------------------------------------
# Allowed


def rows_of_tiles(x: nl.Tensor, weight: nl.Tensor) -> Any:
    rows, dim = x.shape
    out, low = nl.output((rows, dim), nl.float32), nl.output((rows,), nl.float32)
    scale = nl.load(weight)
    for r in nl.parallel(rows, step=8):
        t = nl.load(x[r : r + 8, :])
        nl.store(out[r : r + 8, :], t / nl.sum(t * t, axis=1, keepdims=True) * scale)
        nl.store(low[r : r + 8], nl.min(t, axis=1))
    return out, low


def two_loops(x: nl.Tensor, y: nl.Tensor) -> Any:
    rows, dim = x.shape
    out, other = nl.output((rows, dim), nl.float32), nl.output((rows, dim), nl.float32)
    for r in nl.parallel(rows, step=4):
        nl.store(out[r : r + 4, :], nl.load(x[r : r + 4, :]) * 2.0)
    for r in nl.parallel(rows):
        nl.store(other[r, :], nl.load(x[r, :]) + nl.load(y[:, r]))
    return out, other


def heads(q: nl.Tensor, k: nl.Tensor) -> Any:
    queries, count = q.shape[:2]
    keys, group = k.shape[0], count // k.shape[1]
    out = nl.output((queries, count, keys), nl.float32)
    for n in nl.parallel(count):
        for t in nl.parallel(queries, step=8):
            product = nl.dot(nl.load(q[t : t + 8, n, :]), nl.load(k[:, n // group, :]), transpose_b=True)
            nl.store(out[t : t + 8, n, :], product)
    return out


def branches(x: nl.Tensor, limit: nl.Tensor) -> Any:
    rows, dim = x.shape
    out = nl.output((rows, dim), nl.float32)
    for r in nl.parallel(rows):
        if nl.load(limit[r]) > 0.0:
            nl.store(out[r, :], nl.load(x[r, :]))
        else:
            nl.store(out[r, :], -nl.load(x[r, :]))
    return out


def in_pieces(x: nl.Tensor) -> Any:
    rows, dim = x.shape
    out = nl.output((rows, dim), nl.float32)
    for r in nl.parallel(rows, step=4):
        for c in nl.range(0, dim, step=16):
            nl.store(out[r : r + 4, c : c + 16], nl.exp(nl.load(x[r : r + 4, c : c + 16])))
    return out


@pytest.mark.parametrize(
    ("body", "shapes", "places", "parts"),
    [
        (rows_of_tiles, ((24, 5), (5,)), {(0, 0): 1, (2, 0): 1, (3, 0): 1}, (2, 3, 4, 24)),
        (rows_of_tiles, ((7, 5), (5,)), {(0, 0): 1, (2, 0): 1, (3, 0): 1}, (7,)),
        (two_loops, ((8, 3), (3, 8)), {(0, 0): 1, (1, 1): 1, (2, 0): 1, (3, 0): 1}, (2, 8)),
        (heads, ((10, 6, 4), (5, 3, 4)), {(0, 1): 2, (1, 1): 1, (2, 1): 2}, (3,)),
        (heads, ((10, 6, 4), (5, 3, 4)), {(0, 0): 1, (2, 0): 1}, (2, 5, 10)),
        (heads, ((10, 6, 4), (5, 6, 4)), {(0, 1): 1, (1, 1): 1, (2, 1): 1}, (2, 6)),
        (heads, ((10, 6, 4), (5, 1, 4)), {(0, 1): 1, (2, 1): 1}, (2, 6)),
        (branches, ((6, 4), (6,)), {(0, 0): 1, (1, 0): 1, (2, 0): 1}, (2, 3, 6)),
        (in_pieces, ((8, 40), ), {(0, 0): 1, (1, 0): 1}, (2, 8)),
        (in_pieces, ((8, 40), ), {(0, 1): 1, (1, 1): 1}, (2, 4, 40)),
    ],
)  # fmt: skip
def test_an_axis_that_may_be_split(
    body: Body, shapes: Shapes, places: dict[Place, int], parts: tuple[int, ...]
) -> None:
    factor = factor_at(body, shapes, next(iter(places)))
    assert factor.refusal is None
    assert dict(factor.places) == places
    for count in parts:
        assert factor.size % count == 0
        for whole, joined in zip(*split_runs(body, shapes, places, count), strict=True):
            # NumPy's matrix product rounds differently at another size.
            np.testing.assert_allclose(joined, whole, rtol=1e-5, atol=1e-5 if body is heads else 0)


# ------------------------------------------------------------------------------------------------------
# Refused. Each kernel gives something else when its axis is cut all the same.


def reduced(x: nl.Tensor) -> Any:
    rows, dim = x.shape
    out = nl.output((dim,), nl.float32)
    total = nl.zeros((dim,))
    for r in nl.range(rows):
        total = total + nl.load(x[r, :])
    nl.store(out, total)
    return out


def running(x: nl.Tensor) -> Any:
    out, total = nl.output(x.shape, nl.float32), nl.zeros((x.shape[1],))
    for r in nl.range(x.shape[0]):
        total = total + nl.load(x[r, :])
        nl.store(out[r, :], total)
    return out


def reduced_in_its_tile(x: nl.Tensor) -> Any:
    out = nl.output(x.shape, nl.float32)
    for r in nl.parallel(x.shape[0], step=8):
        t = nl.load(x[r : r + 8, :])
        nl.store(out[r : r + 8, :], t - nl.max(t, axis=0, keepdims=True))
    return out


def multiplied_away(x: nl.Tensor) -> Any:
    rows, dim = x.shape
    out = nl.output((rows, dim, dim), nl.float32)
    for r in nl.parallel(rows, step=8):
        t = nl.load(x[r : r + 8, :])
        product = nl.dot(t, t, transpose_a=True)
        for i in nl.range(8):
            if r + i < rows:
                nl.store(out[nl.minimum(r + i, rows - 1), :, :], product)
    return out


def shifted(x: nl.Tensor) -> Any:
    rows = x.shape[0]
    out = nl.output(x.shape, nl.float32)
    for r in nl.parallel(rows):
        nl.store(out[r, :], nl.load(x[nl.minimum(r + 1, rows - 1), :]))
    return out


def reversed_rows(x: nl.Tensor) -> Any:
    rows = x.shape[0]
    out = nl.output(x.shape, nl.float32)
    for r in nl.parallel(rows):
        nl.store(out[rows - 1 - r, :], nl.load(x[r, :]))
    return out


def every_second(x: nl.Tensor) -> Any:
    rows, dim = x.shape
    out = nl.output((rows // 2, dim), nl.float32)
    for r in nl.parallel(rows // 2):
        nl.store(out[r, :], nl.load(x[2 * r, :]) + nl.load(x[2 * r + 1, :]))
    return out


def first_row(x: nl.Tensor) -> Any:
    out = nl.output(x.shape, nl.float32)
    for r in nl.parallel(x.shape[0]):
        nl.store(out[r, :], nl.load(x[r, :]) + nl.load(x[0, :]))
    return out


def read_whole_too(x: nl.Tensor) -> Any:
    out = nl.output(x.shape, nl.float32)
    mean = nl.mean(nl.load(x), axis=0)
    for r in nl.parallel(x.shape[0]):
        nl.store(out[r, :], nl.load(x[r, :]) - mean)
    return out


def windowed(x: nl.Tensor) -> Any:
    rows, dim = x.shape
    out = nl.output((rows, dim), nl.float32)
    for r in nl.parallel(0, rows, step=2):
        first = nl.minimum(r, rows - 4)
        t = nl.load(x[first : first + 4, :])
        nl.store(out[r : r + 2, :], nl.full((2, dim), nl.max(nl.max(t, axis=1))))
    return out


def positions(x: nl.Tensor) -> Any:
    rows, dim = x.shape
    out = nl.output((rows, dim), nl.float32)
    for r in nl.parallel(rows, step=4):
        below = nl.arange(r, r + 4)[:, None] < 3
        nl.store(out[r : r + 4, :], nl.where(below, nl.load(x[r : r + 4, :]), 0.0))
    return out


def branch_on_position(x: nl.Tensor) -> Any:
    out = nl.output(x.shape, nl.float32)
    for r in nl.parallel(x.shape[0]):
        t = nl.load(x[r, :])
        if r == 0:
            t = t * 2.0
        nl.store(out[r, :], t)
    return out


def prefix(x: nl.Tensor, y: nl.Tensor) -> Any:
    out = nl.output(x.shape, nl.float32)
    for r in nl.parallel(x.shape[0]):
        t = nl.load(x[r, :])
        for i in nl.range(r + 1):
            t = t + nl.load(y[i, :])
        nl.store(out[r, :], t)
    return out


def divided_by_its_length(x: nl.Tensor) -> Any:
    rows = x.shape[0]
    out = nl.output(x.shape, nl.float32)
    for r in nl.parallel(rows):
        nl.store(out[r, :], nl.load(x[r, :]) / rows)
    return out


def counted(x: nl.Tensor) -> Any:
    rows, dim = x.shape
    out = nl.output((rows, dim), nl.float32)
    for r in nl.parallel(rows):
        t = nl.load(x[r, :])
        for _ in nl.range(rows):
            t = t * 2.0
        nl.store(out[r, :], t)
    return out


def long_or_short(x: nl.Tensor) -> Any:
    rows = x.shape[0]
    out = nl.output(x.shape, nl.float32)
    for r in nl.parallel(rows):
        nl.store(out[r, :], nl.load(x[r, :]) * (2.0 if rows // 8 % 2 else 3.0))
    return out


def pairs(x: nl.Tensor) -> Any:
    rows = x.shape[0]
    out = nl.output((rows, rows), nl.float32)
    for r in nl.parallel(rows):
        for c in nl.parallel(rows):
            nl.store(out[r, c], nl.sum(nl.load(x[r, :]) * nl.load(x[c, :])))
    return out


def last_wins(x: nl.Tensor) -> Any:
    rows, dim = x.shape
    out = nl.output((dim,), nl.float32)
    for r in nl.range(rows):
        nl.store(out, nl.load(x[r, :]))
    return out


def transposed_store(x: nl.Tensor, weight: nl.Tensor) -> Any:
    rows = x.shape[0]
    out = nl.output((rows, 4), nl.float32)
    for r in nl.parallel(rows, step=4):
        t = nl.load(x[r : r + 4, :])
        nl.store(out[r : r + 4, :], nl.dot(nl.load(weight), t, transpose_b=True))
    return out


def half_of_it(x: nl.Tensor, y: nl.Tensor) -> Any:
    rows = x.shape[0]
    out = nl.output(x.shape, nl.float32)
    for r in nl.parallel(rows):
        nl.store(out[r, :], nl.load(x[r, :]))
    for r in nl.parallel(0, rows - 2):
        nl.store(out[r, :], nl.load(y[r, :]))
    return out


@pytest.mark.parametrize(
    ("body", "shapes", "places", "why"),
    [
        (reduced, ((8, 5),), [(0, 0)], "carries values from one tile to the next"),
        (running, ((8, 5),), [(0, 0), (1, 0)], "carries values"),
        (reduced_in_its_tile, ((8, 5),), [(0, 0), (1, 0)], "it is reduced at"),
        (multiplied_away, ((8, 4),), [(0, 0), (1, 0)], "it is summed over at"),
        (shifted, ((8, 5),), [(0, 0), (1, 0)], "axis 0 of `x` is read at .* other than tile by tile"),
        (reversed_rows, ((8, 5),), [(0, 0), (1, 0)], "its position reaches `out` other than as its tile"),
        (first_row, ((8, 5),), [(0, 0), (1, 0)], "axis 0 of `x` is read at .* other than tile by tile"),
        (read_whole_too, ((8, 5),), [(0, 0), (1, 0)], "axis 0 of `x` is read whole"),
        (windowed, ((8, 5),), [(0, 0), (1, 0)], "axis 0 of `x` is read at .* other than tile by tile"),
        (positions, ((8, 5),), [(0, 0), (1, 0)], "its position is used in a computation"),
        (branch_on_position, ((8, 5),), [(0, 0), (1, 0)], "its position is used in a computation"),
        (prefix, ((8, 5), (8, 5)), [(0, 0), (2, 0)], "its position bounds another loop"),
        (divided_by_its_length, ((8, 5),), [(0, 0), (1, 0)], "depends on its length"),
        (counted, ((8, 5),), [(0, 0), (1, 0)], "depends on its length"),
        (long_or_short, ((8, 5),), [(0, 0), (1, 0)], "depends on its length"),
        (last_wins, ((8, 5),), [(0, 0)], "output `out` depends on it and does not have it"),
        (transposed_store, ((8, 5), (4, 5)), [(0, 0), (2, 0)], "another axis of a tile holds it where `out` is stored"),
        (half_of_it, ((8, 5), (8, 5)), [(0, 0), (1, 0), (2, 0)], "the loop at .* does not run over all of it"),
    ],
    ids=lambda p: getattr(p, "__name__", None),
)  # fmt: skip
def test_an_axis_that_may_not_be_split(body: Body, shapes: Shapes, places: list[Place], why: str) -> None:
    for parts in (2, 4):
        if any(shapes[t][axis] % parts for t, axis in places if t < len(shapes)):
            continue
        try:
            whole, joined = split_runs(body, shapes, dict.fromkeys(places), parts)
        except (LanguageError, ValueError):
            break
        if any(not np.allclose(a, b, rtol=1e-4) for a, b in zip(whole, joined, strict=True)):
            break
    else:
        pytest.fail("this kernel may be split, so it tests no refusal")
    refusal = factor_at(body, shapes, places[0]).refusal
    assert refusal is not None and re.search(why, refusal), refusal


@pytest.mark.parametrize(
    ("body", "shapes", "place", "why"),
    [
        (pairs, ((6, 5),), (0, 0), "two axes of `out` lie along it"),
        (every_second, ((8, 5),), (1, 0), "its position reaches `x`"),
        (rows_of_tiles, ((8, 5), (5,)), (1, 0), "axis 0 of `weight` is read whole"),
        (heads, ((10, 6, 4), (5, 3, 4)), (0, 2), "axis 2 of `q` is read whole"),
    ],
)
def test_what_cannot_even_be_cut_is_refused(body: Body, shapes: Shapes, place: Place, why: str) -> None:
    refusal = factor_at(body, shapes, place).refusal
    assert refusal is not None and why in refusal, refusal


def test_a_kernel_given_as_text_is_not_split(add_one: Any) -> None:
    assert all("Ascend C text" in str(factor.refusal) for factor in factors_of(add_one(4)))
