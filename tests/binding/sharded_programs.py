"""Programs on eight host devices; ``test_sharding.py`` runs this file in a process of its own.

Each function is one check; the last line of the output is a JSON object with what went wrong in each.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxtyping import Float

import npu_kernels.language as nl
from npu_kernels import npu_kernel
from npu_kernels.kernels import attention, rms_norm

CHECKS: dict[str, Callable[[], None]] = {}


def check(function: Callable[[], None]) -> Callable[[], None]:
    CHECKS[function.__name__] = function
    return function


@npu_kernel
def softmax(x: Float[nl.Tensor, "rows dim"]) -> Float[nl.Tensor, "rows dim"]:
    out = nl.output(x.shape, x.dtype)
    for r in nl.parallel(x.shape[0], step=8):
        t = nl.load(x[r : r + 8, :])
        e = nl.exp(t - nl.max(t, axis=-1, keepdims=True))
        nl.store(out[r : r + 8, :], e / nl.sum(e, axis=-1, keepdims=True))
    return out


softmax.defvjp(
    lambda x: (lambda y: (y, y))(softmax(x)),
    lambda y, ct: (y * (ct - (y * ct).sum(-1, keepdims=True)),),
)


def mesh(shape: tuple[int, ...] = (8,), names: tuple[str, ...] = ("d",), kind: AxisType = AxisType.Auto) -> Mesh:
    return jax.make_mesh(shape, names, axis_types=(kind,) * len(shape))


def normal(*shape: int, seed: int = 0) -> Any:
    return np.asarray(jax.random.normal(jax.random.key(seed), shape))


class Warnings(logging.Handler):
    """What was logged inside the ``with``."""

    def __enter__(self) -> list[str]:
        self.lines: list[str] = []
        logging.getLogger("npu_kernels").addHandler(self)
        return self.lines

    def __exit__(self, *_: object) -> None:
        logging.getLogger("npu_kernels").removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def run(fn: Any, where: Mesh, arrays: list[Any], specs: list[P], expected: Any, *, gathers: int, local: str) -> Any:
    """Compiles, looks for collectives and at the local shape of the kernel's result, runs and compares."""
    placed = [jax.device_put(a, NamedSharding(where, s)) for a, s in zip(arrays, specs, strict=True)]
    compiled = jax.jit(fn).lower(*placed).compile()
    text = compiled.as_text()
    assert len(re.findall(r"all-gather(?:-start)?\(", text)) == gathers, text
    assert not re.search(r"all-to-all|collective-permute", text) or gathers, text
    calls = [line for line in text.splitlines() if "npu_kernels.launch" in line]
    assert calls and all(local in line for line in calls), calls
    result = compiled(*placed)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
    return result


@check
def rows_are_split_without_a_collective() -> None:
    x = normal(64, 40)
    for kind in (AxisType.Auto, AxisType.Explicit):
        where = mesh((4, 2), ("d", "h"), kind)
        with Warnings() as said:
            for spec, local in ((P("d"), "f32[16,40]"), (P(("d", "h")), "f32[8,40]"), (P("h", None), "f32[32,40]")):
                y = run(softmax, where, [x], [spec], jax.nn.softmax(x), gathers=0, local=local)
                assert y.sharding.is_equivalent_to(NamedSharding(where, spec), 2), y.sharding
        assert not said, said


@check
def parts_shorter_than_a_tile() -> None:
    x = normal(8, 40)
    run(softmax, mesh(), [x], [P("d")], jax.nn.softmax(x), gathers=0, local="f32[1,40]")


@check
def an_axis_that_is_read_whole_is_gathered_with_a_warning() -> None:
    x = normal(64, 40)
    with Warnings() as said:
        run(softmax, mesh(), [x], [P(None, "d")], jax.nn.softmax(x), gathers=1, local="f32[64,40]")
    (line,) = said
    assert re.fullmatch(
        r"kernel softmax: `x` is sharded over mesh axis `d` on axis 1, which the kernel cannot split: axis 1 of `x` is "
        r"read whole at \S+sharded_programs\.py:\d+\. It is gathered before the call\.",
        line,
    ), line


@check
def one_axis_is_split_and_another_gathered() -> None:
    x = normal(64, 40)
    where = mesh((4, 2), ("d", "h"))
    y = run(softmax, where, [x], [P("h", "d")], jax.nn.softmax(x), gathers=1, local="f32[32,40]")
    assert y.sharding.spec[0] == "h"


@check
def batch_and_heads_of_attention() -> None:
    q, k = normal(4, 20, 8, 16), normal(4, 30, 4, 16, seed=1)
    expected = jax.nn.dot_product_attention(q, k, k, is_causal=True)

    def fn(q: Any, k: Any) -> Any:
        return attention(q, k, k, is_causal=True)

    spec = P("h", None, "d")
    run(fn, mesh((4, 2), ("d", "h")), [q, k], [spec, spec], expected, gathers=0, local="f32[2,20,2,16]")


@check
def one_key_head_serves_all() -> None:
    q, k = normal(2, 16, 8, 16), normal(2, 30, 1, 16, seed=1)
    expected = jax.nn.dot_product_attention(q, k, k)
    specs = [P(None, None, "d"), P()]
    run(lambda q, k: attention(q, k, k), mesh(), [q, k], specs, expected, gathers=0, local="f32[2,16,1,16]")


@check
def heads_that_do_not_divide_into_whole_groups() -> None:
    q, k = normal(2, 16, 8, 16), normal(2, 30, 2, 16, seed=1)
    expected = jax.nn.dot_product_attention(q, k, k)
    specs = [P(None, None, "d"), P()]
    with Warnings() as said:
        placed = [jax.device_put(a, NamedSharding(mesh(), s)) for a, s in zip((q, k), specs, strict=True)]
        got = jax.jit(lambda q, k: attention(q, k, k))(*placed)
    np.testing.assert_allclose(got, expected, atol=1e-5)
    assert any("`query` is sharded over mesh axis `d` on axis 2" in s and "8 equal parts" in s for s in said), said


@check
def queries_of_attention_unless_it_is_causal() -> None:
    q, k = normal(1, 32, 2, 16), normal(1, 30, 2, 16, seed=1)
    specs = [P(None, "d"), P()]
    plain = jax.nn.dot_product_attention(q, k, k)
    run(lambda q, k: attention(q, k, k), mesh(), [q, k], specs, plain, gathers=0, local="f32[1,4,2,16]")
    causal = jax.nn.dot_product_attention(q, k, k, is_causal=True)
    with Warnings() as said:
        fn = lambda q, k: attention(q, k, k, is_causal=True)  # noqa: E731
        run(fn, mesh(), [q, k], specs, causal, gathers=1, local="f32[1,32,2,16]")
    assert len(said) == 1 and "its position" in said[0], said


@check
def rms_norm_of_a_batch() -> None:
    x, w = normal(8, 3, 64), normal(64, seed=1)
    expected = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w
    fn = lambda x, w: rms_norm(x, w, eps=1e-6)  # noqa: E731
    run(fn, mesh(), [x, w], [P("d"), P()], expected, gathers=0, local="f32[3,64]")


@check
def a_batched_call() -> None:
    x = normal(8, 8, 40)
    fn = jax.vmap(softmax, in_axes=1)
    expected = jax.nn.softmax(x).transpose(1, 0, 2)
    run(fn, mesh(), [x], [P(None, "d")], expected, gathers=0, local="f32[1,8,40]")
    run(fn, mesh(), [x], [P("d")], expected, gathers=0, local="f32[8,1,40]")


@check
def gradients_data_parallel() -> None:
    x, w = normal(16, 40), normal(40, seed=1)

    def loss(f: Any) -> Any:
        return jax.grad(lambda w, x: (f(x * w) ** 2).sum())

    for kind in (AxisType.Auto, AxisType.Explicit):
        where = mesh(kind=kind)
        xs = jax.device_put(x, NamedSharding(where, P("d")))
        ws = jax.device_put(w, NamedSharding(where, P()))
        compiled = jax.jit(loss(softmax)).lower(ws, xs).compile()
        assert "all-gather" not in compiled.as_text()
        np.testing.assert_allclose(compiled(ws, xs), loss(jax.nn.softmax)(w, x), rtol=1e-4, atol=1e-5)


@check
def inside_scan() -> None:
    x = normal(16, 40)

    def fn(x: Any) -> Any:
        return jax.lax.scan(lambda c, _: (softmax(c), None), x, None, length=3)[0]

    expected = jax.nn.softmax(jax.nn.softmax(jax.nn.softmax(x)))
    run(fn, mesh(), [x], [P("d")], expected, gathers=0, local="f32[2,40]")


@check
def manual_axes() -> None:
    x = normal(8, 40)
    for vma in (True, False):
        f = jax.shard_map(softmax, mesh=mesh(), in_specs=P("d"), out_specs=P("d"), check_vma=vma)
        np.testing.assert_allclose(jax.jit(f)(x), jax.nn.softmax(x), atol=1e-6)
        np.testing.assert_allclose(f(x), jax.nn.softmax(x), atol=1e-6)
        g = jax.shard_map(
            lambda x, w: jax.lax.pmean(rms_norm(x, w, eps=1e-6), "d"),
            mesh=mesh(),
            in_specs=(P("d"), P()),
            out_specs=P(),
            check_vma=vma,
        )
        w = normal(40, seed=1)
        expected = (x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w).mean(0, keepdims=True)
        np.testing.assert_allclose(jax.jit(g)(x, w), expected, rtol=1e-5, atol=1e-5)


@check
def manual_over_some_axes() -> None:
    x = normal(8, 40)
    where = mesh((4, 2), ("d", "h"))
    f = jax.jit(jax.shard_map(softmax, mesh=where, in_specs=P("d"), out_specs=P("d"), axis_names={"d"}))
    np.testing.assert_allclose(f(x), jax.nn.softmax(x), atol=1e-6)
    inner = jax.device_put(x, NamedSharding(where, P(("d", "h"))))
    with Warnings() as said:
        np.testing.assert_allclose(f(inner), jax.nn.softmax(x), atol=1e-6)
    assert len(said) == 1 and "make shard_map manual over every axis" in said[0], said


@check
def derivative_inside_manual_axes() -> None:
    x = normal(8, 40)

    def loss(f: Any) -> Any:
        return lambda x: jax.lax.psum((f(x) ** 2).sum(), "d")

    where = mesh()
    f = jax.shard_map(loss(softmax), mesh=where, in_specs=P("d"), out_specs=P())
    np.testing.assert_allclose(jax.grad(f)(x), jax.grad(lambda x: (jax.nn.softmax(x) ** 2).sum())(x), atol=1e-6)


@check
def pmap() -> None:
    x = normal(8, 1, 40)
    np.testing.assert_allclose(jax.pmap(softmax)(x), jax.nn.softmax(x), atol=1e-6)


@check
def what_the_author_says_goes_first() -> None:
    x = normal(8, 40)
    never = npu_kernel(sharding=())(softmax.__wrapped__)
    with Warnings() as said:
        run(never, mesh(), [x], [P("d")], jax.nn.softmax(x), gathers=1, local="f32[8,40]")
    assert len(said) == 1 and "npu_kernel(sharding=...) does not name it" in said[0], said
    rows = npu_kernel(sharding=("rows",))(softmax.__wrapped__)
    run(rows, mesh(), [x], [P("d")], jax.nn.softmax(x), gathers=0, local="f32[1,40]")
    y = normal(8, 3, 40)
    run(jax.vmap(rows), mesh(), [y], [P("d")], jax.nn.softmax(y), gathers=0, local="f32[1,3,40]")


@check
def a_part_that_is_another_kernel_is_gathered() -> None:
    @npu_kernel
    def long_or_short(x: Float[nl.Tensor, "rows dim"]) -> Float[nl.Tensor, "rows dim"]:
        out = nl.output(x.shape, x.dtype)
        for r in nl.parallel(x.shape[0]):
            nl.store(out[r, :], nl.load(x[r, :]) * (2.0 if x.shape[0] > 4 else 3.0))
        return out

    x = normal(8, 40)
    with Warnings() as said:
        run(long_or_short, mesh(), [x], [P("d")], 2 * x, gathers=1, local="f32[8,40]")
    assert len(said) == 1 and "the kernel for one part cannot be made" in said[0], said


@check
def a_mesh_axis_that_does_not_divide() -> None:
    for fn in (
        lambda x: jax.jit(softmax, in_shardings=NamedSharding(mesh(), P("d")))(x),
        lambda x: jax.shard_map(softmax, mesh=mesh(), in_specs=P("d"), out_specs=P("d"))(x),
    ):
        try:
            fn(normal(12, 40))
        except ValueError as error:
            assert re.search("divisible|evenly divide", str(error)), error
        else:
            raise AssertionError("12 rows over 8 devices")


@check
def uneven_parts_inside_a_program() -> None:
    """A constraint inside may leave parts of unequal size; what does not divide is computed whole."""
    x = normal(8, 3, 40)

    def fn(x: Any) -> Any:
        return softmax(x.reshape(24, 40)[:20])

    got = jax.jit(fn)(jax.device_put(x, NamedSharding(mesh(), P("d"))))
    np.testing.assert_allclose(got, jax.nn.softmax(x.reshape(24, 40)[:20]), atol=1e-6)


if __name__ == "__main__":
    assert len(jax.devices()) == 8
    outcome = {}
    for name, function in CHECKS.items():
        try:
            function()
            outcome[name] = ""
        except Exception:
            outcome[name] = traceback.format_exc()
    json.dump(outcome, sys.stdout)
