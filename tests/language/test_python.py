"""What the rewriting leaves alone: everything of Python that no traced value steers."""

from __future__ import annotations

import bdb
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npu_kernels.language as nl
from npu_kernels import ir

from .kernels import F32, ops, tensor, trace

SCALE = 2.0


def finish() -> nl.Tensor:
    out = nl.output((1,), F32)
    nl.store(out, 0.0)
    return out


def plain_breaks() -> list[Any]:
    found = []
    for i in range(10):
        if i % 2:
            continue
        if i > 5:
            break
        for j in range(3):
            if j == 1:
                found.append((i, j))
                break
        else:
            found.append("never")
    else:
        found.append("not reached")
    return [*found, i, j]


def plain_else() -> list[Any]:
    found = []
    for i in []:
        found.append(i)
    else:
        found.append("else")
    try:
        return [*found, i]
    except UnboundLocalError:
        return [*found, "unbound"]


def plain_return() -> Any:
    for i in range(5):
        if i == 3:
            for j in range(2):
                if j:
                    return i, j
    return None


def plain_try_with_while() -> list[Any]:
    found = []
    n = 0
    while n < 3:
        n += 1
        try:
            if n == 2:
                raise KeyError(n)
            found.append(n)
        except KeyError as error:
            found.append(f"caught {error}")
        finally:
            found.append("finally")
    return found


def plain_scopes() -> list[Any]:
    total = 0

    def add(n: int) -> int:
        nonlocal total
        for i in range(n):
            if i:
                total += i
        return total

    squares = [i * i if i else -1 for i in range(4)]
    picked = {k: (v if v > 1 else None) for k, v in enumerate(squares)}
    if (last := squares[-1]) > 8:
        label = "large"
        found = True
    else:
        label = "small"
    return [add(4), squares, picked, last, label, found, (lambda x: "odd" if x % 2 else "even")(3)]


def plain_elif() -> list[str]:
    found = []
    for n in range(4):
        if n == 0:
            found.append("zero")
        elif n == 1:
            found.append("one")
        elif n == 2:
            continue
        else:
            found.append("many")
    return found


@pytest.mark.parametrize(
    "body", [plain_breaks, plain_else, plain_return, plain_try_with_while, plain_scopes, plain_elif]
)
def test_plain_python_does_the_same_when_rewritten(body: Callable[[], Any]) -> None:
    assert nl.prepare(body)() == body()


def make_kernel(factor: float) -> Callable[..., Any]:
    count = 0

    def kernel(x: nl.Tensor, /, y: nl.Tensor, *, power: int = 2, twice: bool = False) -> nl.Tensor:
        nonlocal count
        count += 1
        out = nl.output((4,), F32)
        t = nl.load(x) + nl.load(y)
        for _ in range(power - 1):
            t = t * t
        nl.store(out, t * factor * SCALE * (2.0 if twice else 1.0))
        return out

    kernel.count = lambda: count  # type: ignore[attr-defined]
    return kernel


def test_closures_globals_defaults_and_keywords_work() -> None:
    kernel = make_kernel(3.0)
    constants = {op.value for op in ops(trace(kernel, tensor((4,)), tensor((4,)), twice=True), ir.Constant)}
    assert {3.0, 2.0} <= constants
    assert len(ops(trace(kernel, tensor((4,)), tensor((4,)), power=4), ir.Binary)) == 7
    assert kernel.count() == 2  # type: ignore[attr-defined]


def test_globals_are_read_when_the_kernel_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = make_kernel(3.0)
    trace(kernel, tensor((4,)), tensor((4,)))
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    constants = {op.value for op in ops(trace(kernel, tensor((4,)), tensor((4,))), ir.Constant)}
    assert 5.0 in constants and 2.0 not in constants


@nl.function
def power(t: Any, exponent: int) -> Any:
    """``t ** (2 ** exponent)``, by recursion on a known number."""
    if exponent == 0:
        return t
    return power(t * t, exponent - 1)


def test_a_function_that_calls_itself_on_a_known_number_unrolls() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((4,), F32)
        nl.store(out, power(nl.load(x), 3))
        return out

    assert len(ops(trace(kernel, tensor((4,))), ir.Binary)) == 3


class Doubler:
    def scaled(self, t: Any) -> Any:
        return t * 2.0


class Halver(Doubler):
    __half = 0.5

    @nl.function
    def scaled(self, t: Any) -> Any:
        for _ in nl.range(2):
            t = super().scaled(t) * self.__half
        return t


def test_methods_keep_their_class_and_private_names() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((4,), F32)
        nl.store(out, Halver().scaled(nl.load(x)))
        return out

    assert len(ops(trace(kernel, tensor((4,))), ir.Binary)) == 2


def test_a_numpy_scalar_may_stand_on_either_side() -> None:
    two = np.float32(2)

    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((4,), F32)
        t = nl.load(x)
        nl.store(out, nl.where(two < t, two - t, t / two))
        return out

    (result,) = nl.interpret(kernel, {"x": np.array([1, 2, 3, 8], np.float32)}, {})
    assert result.tolist() == [0.5, 1.0, -1.0, -6.0]
    assert [op.kind for op in ops(trace(kernel, tensor((4,))), ir.Binary)] == ["sub", "div"]


def test_a_function_is_rewritten_once() -> None:
    kernel = make_kernel(1.0)
    assert nl.prepare(kernel) is nl.prepare(kernel)


def test_tracebacks_show_the_authors_lines() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        for r in nl.range(3):
            if r > 1:
                raise RuntimeError("mine")
        return x

    with pytest.raises(RuntimeError) as caught:
        trace(kernel, tensor((4,)))
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.lineno) == (__file__, kernel.__code__.co_firstlineno + 3)
    assert last.line == 'raise RuntimeError("mine")'


def test_a_debugger_stops_at_lines_inside_traced_loops() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        out = nl.output((4,), F32)
        acc = nl.zeros(4)
        for r in nl.range(3):
            acc = acc + nl.load(x[r, :])
        nl.store(out, acc)
        return out

    line = kernel.__code__.co_firstlineno + 4
    seen: list[str] = []

    class Debugger(bdb.Bdb):
        def user_line(self, frame: Any) -> None:
            if (frame.f_code.co_filename, frame.f_lineno) == (__file__, line):
                seen.append(repr(frame.f_locals["acc"]))

    debugger = Debugger()
    debugger.set_break(__file__, line)
    before = sys.gettrace()
    try:
        debugger.runcall(trace, kernel, tensor((3, 4)))
    finally:
        sys.settrace(before)
    assert "<traced float32 [4] tile acc>" in seen


def test_methods_of_the_standard_library_meet_scalars() -> None:
    def kernel(x: nl.Tensor) -> nl.Tensor:
        parts = [nl.load(x[n : n + 2]) for n in range(0, 6, 2)]
        assert sum(1 for p in parts if p.shape == (2,)) == 3
        assert not any(p is None for p in parts)
        seen = {p: n for n, p in enumerate(parts)}
        assert seen[parts[1]] == 1
        return finish()

    trace(kernel, tensor((6,)))
