"""Random tile programs: kernels as source text, drawn from a seed, small enough to read when one fails.

Values are kept bounded, and comparisons and roundings to integers are drawn over exact values only, so that a
difference of one rounding between two executions stays small.
"""

from __future__ import annotations

import importlib.util
import random
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from npu_kernels import ir

FLOATS = ("float32", "float16", "bfloat16")
_DTYPES = {d.name: d for d in ir.DTYPES}


@dataclass(frozen=True)
class Var:
    """A name of the program. ``exact``: no rounding is involved; ``bound``: largest magnitude, when finite."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    exact: bool = True
    bound: float = 4.0


@dataclass(frozen=True)
class Line:
    """A statement, or one with bodies below it."""

    text: str
    bodies: tuple[tuple[Line, ...], ...] = ()

    def render(self, depth: int) -> Iterator[str]:
        yield "    " * depth + self.text
        for n, body in enumerate(self.bodies):
            if n:
                yield "    " * depth + "else:"
            for line in body:
                yield from line.render(depth + 1)
            if not body:
                yield "    " * (depth + 1) + "pass"


@dataclass(frozen=True)
class Program:
    """A kernel, its inputs by name, and whether special values are among their data."""

    seed: int
    inputs: dict[str, tuple[tuple[int, ...], str]]
    body: tuple[Line, ...]
    special: bool

    @property
    def name(self) -> str:
        return f"program_{self.seed}"

    @property
    def source(self) -> str:
        head = f"def {self.name}({', '.join(f'{name}: nl.Tensor' for name in self.inputs)}):"
        lines = [line for part in self.body for line in part.render(1)]
        return "\n".join(["import npu_kernels.language as nl", "", "", head, *lines, ""])

    def load(self, folder: Path) -> Callable[..., Any]:
        """The kernel as a function with a source file."""
        path = folder / f"{self.name}_{zlib.crc32(self.source.encode()):08x}.py"
        path.write_text(self.source)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return getattr(module, self.name)  # type: ignore[no-any-return]

    def types(self) -> dict[str, ir.TensorType]:
        return {name: ir.TensorType(shape, _DTYPES[dtype]) for name, (shape, dtype) in self.inputs.items()}

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        made: dict[str, np.ndarray[Any, Any]] = {}
        for name, (shape, dtype) in self.inputs.items():
            rng = np.random.default_rng([self.seed, int(name[1:])])
            kind = _DTYPES[dtype].numpy
            if dtype == "bool":
                made[name] = rng.random(shape) < 0.5
            elif dtype == "int32":
                made[name] = rng.integers(-4, 5, shape).astype(np.int32)
            else:
                # Quarters: exact in every dtype, and rich in ties.
                values = rng.integers(-16, 17, shape) / 4
                if self.special:
                    pick = rng.random(shape)
                    specials = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0], shape)
                    values = np.where(pick < 0.1, specials, values)
                made[name] = values.astype(kind)
        return made

    def simpler(self) -> Iterator[Program]:
        """Programs with an output or a statement less, or a compound statement replaced by one of its bodies."""
        outputs = [line.text.split(" ")[0] for line in self.body if "= nl.output(" in line.text]
        for name in outputs if len(outputs) > 1 else []:
            kept = ", ".join(o for o in outputs if o != name)
            yield self._with((*_without(self.body[:-1], name), Line(f"return {kept}")))
        for body in _simpler(self.body):
            yield self._with(body)

    def _with(self, body: tuple[Line, ...]) -> Program:
        text = "\n".join(part for line in body for part in line.render(0))
        used = {name: kind for name, kind in self.inputs.items() if re.search(rf"\b{name}\b", text)}
        return replace(self, body=body, inputs=used)


def _without(body: tuple[Line, ...], output: str) -> tuple[Line, ...]:
    kept = (line for line in body if not re.search(rf"\b{output}\b", line.text))
    return tuple(replace(line, bodies=tuple(_without(b, output) for b in line.bodies)) for line in kept)


def _simpler(body: tuple[Line, ...]) -> Iterator[tuple[Line, ...]]:
    for n, line in enumerate(body):
        yield (*body[:n], *body[n + 1 :])
        for m, inner in enumerate(line.bodies):
            yield (*body[:n], *inner, *body[n + 1 :])
            for less in _simpler(inner):
                bodies = (*line.bodies[:m], less, *line.bodies[m + 1 :])
                yield (*body[:n], replace(line, bodies=bodies), *body[n + 1 :])


def draw(seed: int) -> Program:
    """The program of a seed."""
    return _Drawing(seed).program()


@dataclass
class _Drawing:
    seed: int
    rng: random.Random = field(init=False)
    inputs: dict[str, tuple[tuple[int, ...], str]] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        pick = self.rng.choice
        self.rows = pick([1, 5, 8, 13, 16, 33])
        self.block = pick([1, 4, 8, 16])
        self.columns = pick([1, 3, 8, 16, 17, 32, 64, 65])
        self.special = self.rng.random() < 0.2
        self.heads = pick([0, 0, 3])

    def program(self) -> Program:
        visible: list[Var] = []
        head: list[Line] = []
        if self.rng.random() < 0.5:
            var = self.fresh((self.columns,), self.rng.choice(FLOATS))
            head.append(Line(f"{var.name} = nl.load({self.input((self.columns,), var.dtype)})"))
            visible.append(var)
        body: list[Line] = []
        for _ in range(self.rng.randint(1, 3)):
            self.tile(body, visible)
        for _ in range(self.rng.randint(3, 12)):
            self.statement(body, visible, depth=0)
        outputs: list[Line] = []
        # Names that nothing reads: storing them keeps the whole program alive.
        text = "\n".join(part for line in body for part in line.render(0))
        leaves = [v for v in visible if len(re.findall(rf"\b{v.name}\b", text)) == 1 and self.whole(v)]
        if not leaves:
            leaves = [
                self.assign(body, visible, f"nl.full(({self.columns},), 1.0)", self.fresh((self.columns,), "float32"))
            ]
        for var in self.rng.sample(leaves, k=min(len(leaves), 5)):
            self.store(outputs, body, var)
        names = ", ".join(line.text.split(" ")[0] for line in outputs)
        loop = Line(f"for r in nl.parallel({self.rows}, step={self.block}):", (tuple(body),))
        if self.heads:
            loop = Line(f"for h in nl.parallel({self.heads}):", ((loop,),))
        return Program(self.seed, dict(self.inputs), (*outputs, *head, loop, Line(f"return {names}")), self.special)

    def fresh(self, shape: tuple[int, ...], dtype: str, exact: bool = True, bound: float = 4.0) -> Var:
        self.count += 1
        return Var(f"v{self.count}", shape, dtype, exact, bound)

    def input(self, shape: tuple[int, ...], dtype: str) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = (shape, dtype)
        return name

    def assign(self, body: list[Line], visible: list[Var], text: str, var: Var) -> Var:
        body.append(Line(f"{var.name} = {text}"))
        visible.append(var)
        return var

    def tile(self, body: list[Line], visible: list[Var], dtype: str | None = None) -> Var:
        """Loads the block's rows."""
        kind = dtype or self.rng.choice([*FLOATS, *FLOATS, "int32", "bool"])
        size, rows = self.columns, f"r : r + {self.block}"
        match self.rng.randint(0, 4):
            case 0:
                name = self.input((self.rows,), kind)
                return self.assign(body, visible, f"nl.load({name}[{rows}])", self.fresh((self.block,), kind))
            case 1:
                name = self.input((2, self.rows, size), kind)
                at = self.rng.choice(["0", "-1", "r % 2"])
                var = self.fresh((self.block, size), kind)
                return self.assign(body, visible, f"nl.load({name}[{at}, {rows}, :])", var)
            case 2 if self.heads:
                name = self.input((self.rows, self.heads, size), kind)
                var = self.fresh((self.block, size), kind)
                return self.assign(body, visible, f"nl.load({name}[{rows}, h, :])", var)
        name = self.input((self.rows, size), kind)
        return self.assign(body, visible, f"nl.load({name}[{rows}, :])", self.fresh((self.block, size), kind))

    def whole(self, var: Var) -> bool:
        """Whether storing the tile leaves no element of the output unwritten."""
        ragged = self.rows % self.block != 0
        return not ragged or self.block not in (var.shape[1:] if self.tiled(var) else var.shape)

    def tiled(self, var: Var) -> bool:
        """Whether the first axis surely is the block's rows."""
        return bool(var.shape) and var.shape[0] == self.block and (len(var.shape) > 1 or self.columns != self.block)

    def store(self, outputs: list[Line], body: list[Line], var: Var) -> None:
        name = f"out{len(outputs)}"
        if self.tiled(var):
            shape = (self.rows, *var.shape[1:])
            place = ", ".join([f"r : r + {self.block}", *(":" for _ in var.shape[1:])])
        else:
            shape = (-(-self.rows // self.block), *var.shape)
            place = ", ".join([f"r // {self.block}", *(":" for _ in var.shape)])
        if self.heads:
            shape, place = (self.heads, *shape), f"h, {place}"
        outputs.append(Line(f"{name} = nl.output({shape}, nl.{_spelled(var.dtype)})"))
        body.append(Line(f"nl.store({name}[{place}], {var.name})"))

    # Statements

    def statement(self, body: list[Line], visible: list[Var], depth: int) -> None:
        kinds = [self.unary, self.binary, self.binary, self.number, self.reduction, self.masked, self.cast, self.shape]
        kinds += [self.unary, self.cast, self.counting, self.logic, self.tile_statement]
        if depth < 2:
            kinds += [self.loop, self.branch, self.product, self.product, self.unrolled, self.walk, self.chosen]
        self.rng.choice(kinds)(body, visible, depth)

    def pick(self, visible: list[Var], test: Callable[[Var], bool]) -> Var | None:
        found = [v for v in visible if test(v)]
        return self.rng.choice(found) if found else None

    def tile_statement(self, body: list[Line], visible: list[Var], depth: int) -> None:
        self.tile(body, visible)

    def unary(self, body: list[Line], visible: list[Var], depth: int) -> None:
        a = self.pick(visible, lambda v: v.dtype in FLOATS and v.bound <= 64)
        if a is None:
            return
        text, exact, bound = self.rng.choice(
            [
                ("nl.exp(nl.clip({0}, -3.0, 3.0))", False, 21.0),
                ("nl.log(nl.abs({0}) + 0.5)", False, 8.0),
                ("nl.sqrt(nl.abs({0}) + 0.25)", False, 8.0),
                ("nl.rsqrt(abs({0}) + 0.5)", False, 2.0),
                ("nl.reciprocal(nl.abs({0}) + 0.5)", False, 2.0),
                ("nl.tanh({0})", False, 1.0),
                ("nl.abs({0})", a.exact, a.bound),
                ("-{0}", a.exact, a.bound),
                ("nl.clip({0}, -1.0, 2.0)", a.exact, 2.0),
            ]
        )
        self.assign(body, visible, text.format(a.name), self.fresh(a.shape, a.dtype, exact, bound))

    def binary(self, body: list[Line], visible: list[Var], depth: int) -> None:
        a = self.pick(visible, lambda v: v.dtype != "bool" and v.bound <= 64)
        if a is None:
            return
        b = self.pick(
            visible,
            lambda v: v.dtype == a.dtype and v.bound <= 64 and ir.broadcast_shapes(a.shape, v.shape) is not None,
        )
        assert b is not None
        shape = ir.broadcast_shapes(a.shape, b.shape) or ()
        exact = a.exact and b.exact
        whole = a.dtype == "int32"
        options = [
            ("{0} + {1}", whole and exact, a.bound + b.bound),
            ("{0} - {1}", whole and exact, a.bound + b.bound),
            ("{0} * {1}", whole and exact, a.bound * b.bound),
            ("nl.maximum({0}, {1})", exact, max(a.bound, b.bound)),
            ("nl.minimum({0}, {1})", exact, max(a.bound, b.bound)),
        ]
        if not whole:
            options.append(("{0} / (nl.abs({1}) + 0.5)", False, 2 * a.bound))
        text, exact, bound = self.rng.choice(options)
        self.assign(body, visible, text.format(a.name, b.name), self.fresh(shape, a.dtype, exact, bound))

    def number(self, body: list[Line], visible: list[Var], depth: int) -> None:
        a = self.pick(visible, lambda v: v.dtype != "bool" and v.bound <= 64)
        if a is None:
            return
        n = self.rng.choice(["2", "-1", "3"] if a.dtype == "int32" else ["0.5", "-2", "1.25", "0.1"])
        text = self.rng.choice(["{0} + {1}", "{1} - {0}", "{0} * {1}", "nl.maximum({0}, {1})", "nl.minimum({1}, {0})"])
        exact = a.exact and (a.dtype == "int32" or (text.startswith("nl.") and n != "0.1"))
        var = self.fresh(a.shape, a.dtype, exact, a.bound * 3 + 3)
        self.assign(body, visible, text.format(a.name, n), var)

    def reduction(self, body: list[Line], visible: list[Var], depth: int) -> None:
        a = self.pick(visible, lambda v: v.dtype in FLOATS and bool(v.shape) and v.bound <= 64)
        if a is None:
            return
        kind = self.rng.choice(["sum", "max", "min", "mean"])
        axis = self.rng.choice([*range(len(a.shape)), -1])
        keep = self.rng.random() < 0.6
        size = a.shape[axis]
        shape = tuple(n for i, n in enumerate(a.shape) if i != axis % len(a.shape))
        if keep:
            shape = tuple(1 if i == axis % len(a.shape) else n for i, n in enumerate(a.shape))
        bound = a.bound * (size if kind == "sum" else 1)
        exact = a.exact and kind in ("max", "min")
        text = f"nl.{kind}({a.name}, axis={axis}{', keepdims=True' if keep else ''})"
        var = self.assign(body, visible, text, self.fresh(shape, a.dtype, exact, bound))
        if bound > 64:
            self.assign(body, visible, f"{var.name} * {1 / size}", self.fresh(shape, a.dtype, False, a.bound))

    def compare(self, visible: list[Var]) -> tuple[str, tuple[int, ...]] | None:
        a = self.pick(visible, lambda v: v.dtype != "bool" and v.exact)
        if a is None:
            return None
        sign = self.rng.choice(["<", "<=", ">", ">=", "==", "!="])
        b = self.pick(
            visible,
            lambda v: v.dtype == a.dtype and v.exact and ir.broadcast_shapes(a.shape, v.shape) is not None,
        )
        if b is None or self.rng.random() < 0.5:
            return f"{a.name} {sign} {self.rng.choice(['0', '1', '-2'])}", a.shape
        return f"{a.name} {sign} {b.name}", ir.broadcast_shapes(a.shape, b.shape) or ()

    def masked(self, body: list[Line], visible: list[Var], depth: int) -> None:
        test = self.compare(visible)
        a = self.pick(visible, lambda v: v.dtype != "bool")
        if test is None or a is None:
            return
        b = self.pick(visible, lambda v: v.dtype == a.dtype and v.shape == a.shape)
        shape = ir.broadcast_shapes(test[1], a.shape)
        if shape is None or b is None:
            return
        other, bound = (b.name, b.bound) if self.rng.random() < 0.5 else (self.rng.choice(["1", "-2"]), 2.0)
        exact = a.exact and b.exact
        var = self.fresh(shape, a.dtype, exact, max(a.bound, bound))
        self.assign(body, visible, f"nl.where({test[0]}, {a.name}, {other})", var)

    def logic(self, body: list[Line], visible: list[Var], depth: int) -> None:
        a = self.pick(visible, lambda v: v.dtype == "bool")
        if a is None:
            test = self.compare(visible)
            if test is not None:
                self.assign(body, visible, test[0], self.fresh(test[1], "bool"))
            return
        b = self.pick(visible, lambda v: v.dtype == "bool" and ir.broadcast_shapes(a.shape, v.shape) is not None)
        assert b is not None
        text = self.rng.choice(["{0} & {1}", "{0} | {1}", "{0} ^ {1}", "~{0} & {1}", "{0} != {1}"])
        shape = ir.broadcast_shapes(a.shape, b.shape) or ()
        self.assign(body, visible, text.format(a.name, b.name), self.fresh(shape, "bool"))

    def cast(self, body: list[Line], visible: list[Var], depth: int) -> None:
        target = self.rng.choice([*FLOATS, "int32", "bool"])
        a = self.pick(visible, lambda v: v.dtype != target and (v.exact or target in FLOATS) and v.bound < 1000)
        if a is None:
            return
        rounding = ""
        if a.dtype in FLOATS and target != "bool" and self.rng.random() < 0.5 and a.exact:
            rounding = f', rounding="{self.rng.choice(ir.ROUNDINGS)}"'
        exact = a.exact and (target in ("int32", "bool", "float32") or a.bound <= 16)
        text = f"{a.name}.astype(nl.{_spelled(target)}{rounding})"
        self.assign(body, visible, text, self.fresh(a.shape, target, exact, a.bound + 1))

    def shape(self, body: list[Line], visible: list[Var], depth: int) -> None:
        a = self.pick(visible, lambda v: len(v.shape) == 1)
        if a is None:
            return
        text, shape = self.rng.choice([("[:, None]", (a.shape[0], 1)), ("[None, :]", (1, a.shape[0]))])
        self.assign(body, visible, a.name + text, replace(self.fresh(shape, a.dtype), exact=a.exact, bound=a.bound))

    def counting(self, body: list[Line], visible: list[Var], depth: int) -> None:
        if self.rng.random() < 0.5:
            var = self.fresh((self.block,), "int32", bound=float(self.rows))
            self.assign(body, visible, f"nl.arange(r, r + {self.block})", var)
        else:
            var = self.fresh((self.columns,), "int32", bound=float(self.columns))
            self.assign(body, visible, f"nl.arange({self.columns})", var)

    # Statements with bodies

    def loop(self, body: list[Line], visible: list[Var], depth: int) -> None:
        a = self.pick(visible, lambda v: v.dtype in FLOATS and v.name.startswith("v") and v.bound <= 64)
        if a is None:
            return
        self.count += 1
        index, acc = (
            f"k{self.count}",
            self.assign(body, visible, f"{a.name} * 0.5", self.fresh(a.shape, a.dtype, False)),
        )
        stop = self.rng.choice(["2", "3", "nl.minimum(r + 1, 3)", "r // 4"])
        inner: list[Line] = []
        seen = [v for v in visible if v is not acc]
        seen.append(replace(acc, exact=False))
        for _ in range(self.rng.randint(1, 3)):
            self.statement(inner, seen, depth + 1)
        b = self.pick(seen, lambda v: v.dtype == a.dtype and ir.broadcast_shapes(a.shape, v.shape) == a.shape)
        assert b is not None
        scale = self.rng.choice([f"({index} + 1)", "1.0"])
        inner.append(Line(f"{acc.name} = nl.tanh({acc.name} * 0.5 + {b.name} * {scale} * 0.01)"))
        body.append(Line(f"for {index} in nl.range({stop}):", (tuple(inner),)))

    def walk(self, body: list[Line], visible: list[Var], depth: int) -> None:
        """Reduces a longer row block by block, with a ragged last block."""
        self.count += 1
        index = f"k{self.count}"
        length, step = self.rng.choice([(20, 8), (33, 16), (16, 16), (64, 32), (5, 8)])
        name = self.input((self.rows, length), "float32")
        kind, fold = self.rng.choice([("sum", "{0} + {1}"), ("max", "nl.maximum({0}, {1})")])
        acc = self.fresh((self.block, 1), "float32", kind == "max", 4.0 * length)
        body.append(Line(f"{acc.name} = nl.full(({self.block}, 1), -1.0)"))
        part = self.fresh((self.block, step), "float32")
        inner = (
            Line(f"{part.name} = nl.load({name}[r : r + {self.block}, {index} : {index} + {step}])"),
            Line(f"{acc.name} = " + fold.format(acc.name, f"nl.{kind}({part.name}, axis=1, keepdims=True)")),
        )
        body.append(Line(f"for {index} in nl.range(0, {length}, {step}):", (inner,)))
        self.assign(
            body, visible, f"{acc.name} * 0.0625", replace(self.fresh((self.block, 1), "float32", False), bound=16.0)
        )

    def branch(self, body: list[Line], visible: list[Var], depth: int) -> None:
        a = self.pick(visible, lambda v: v.dtype in FLOATS and v.bound <= 64)
        if a is None:
            return
        result = self.assign(body, visible, f"{a.name} * 1.0", self.fresh(a.shape, a.dtype, a.exact, a.bound))
        if self.rng.random() < 0.5:
            name = self.input((3,), "float32")
            test = f"nl.load({name}[{self.rng.choice(['0', '2', 'r % 3'])}]) > 0.0"
        else:
            test = self.rng.choice(["r % 2 == 0", "r > 4", f"(r < {self.block}) | (r > 20)"])
        sides: list[tuple[Line, ...]] = []
        for text in ("nl.tanh({0})", "{0} * 0.25 - 1.0"):
            side: list[Line] = []
            seen = list(visible)
            if self.rng.random() < 0.5:
                self.statement(side, seen, depth + 1)
            side.append(Line(f"{result.name} = {text.format(result.name)}"))
            sides.append(tuple(side))
        if self.rng.random() < 0.3:
            sides = sides[:1]
        body.append(Line(f"if {test}:", tuple(sides)))
        visible[visible.index(result)] = replace(result, exact=False, bound=result.bound + 1)

    def chosen(self, body: list[Line], visible: list[Var], depth: int) -> None:
        a = self.pick(visible, lambda v: v.dtype in FLOATS)
        if a is None:
            return
        text = f"{a.name} if r >= {self.block} else -{a.name}"
        self.assign(body, visible, text, self.fresh(a.shape, a.dtype, a.exact, a.bound))

    def unrolled(self, body: list[Line], visible: list[Var], depth: int) -> None:
        a = self.pick(visible, lambda v: v.dtype in FLOATS and v.bound <= 64)
        if a is None:
            return
        self.count += 1
        index, acc = f"k{self.count}", self.fresh(a.shape, a.dtype, False, a.bound * 4)
        body.append(Line(f"{acc.name} = {a.name}"))
        body.append(Line(f"for {index} in nl.static_range(3):", ((Line(f"{acc.name} = {acc.name} * 0.5 + {index}"),),)))
        visible.append(acc)

    def product(self, body: list[Line], visible: list[Var], depth: int) -> None:
        """A matrix product with a loaded operand, any of the four orientations."""
        a = self.pick(visible, lambda v: len(v.shape) == 2 and v.dtype in FLOATS and v.bound <= 16)
        if a is None:
            return
        flip_a, flip_b = self.rng.random() < 0.3, self.rng.random() < 0.5
        m, k = a.shape[::-1] if flip_a else a.shape
        n = self.rng.choice([1, 8, 16, 17])
        name = self.input((n, k) if flip_b else (k, n), a.dtype)
        text = f"nl.dot({a.name}{'.T' if flip_a else ''}, nl.load({name}){'.T' if flip_b else ''}"
        c = self.pick(visible, lambda v: v.shape == (m, n) and v.dtype == "float32")
        if c is not None:
            text += f", {c.name}"
        var = self.assign(body, visible, text + ")", self.fresh((m, n), "float32", False, 1e9))
        self.assign(body, visible, f"nl.tanh({var.name} * {0.1 / k})", self.fresh((m, n), "float32", False, 1.0))


def _spelled(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """A smaller program that still fails. One that cannot run at all does not count."""
    found = True
    while found:
        found = False
        for smaller in program.simpler():
            try:
                found = fails(smaller)
            except Exception:  # a removed statement may leave a program that means nothing
                continue
            if found:
                program = smaller
                break
    return program


#: Largest difference of two executions that round in other places, relative to 1 + the value. A program chains some
#: twenty operations, each with an error of a few units in the last place of its dtype: 2**-23, 2**-10, 2**-7.
TOLERANCE = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}


def same(got: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    """Whether two results agree: exactly for integers and masks, within the dtype's tolerance for floats."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        return False
    if expected.dtype.name not in TOLERANCE:
        return np.array_equal(got, expected)
    limit = TOLERANCE[expected.dtype.name]
    return np.allclose(got.astype(np.float64), expected.astype(np.float64), rtol=limit, atol=limit, equal_nan=True)
