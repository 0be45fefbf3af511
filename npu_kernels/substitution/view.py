"""The canonical view of a program: the head form of any value, one level at a time.

Nothing is rewritten. A head is computed when it is asked for and names its parts as reads of values of the original
graph, so that a match knows at once where to cut.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from npu_kernels.graph.core import Node, Value
from npu_kernels.substitution.axes import Axes, Axis, Index, Ref, extent, fresh, resolve, whole
from npu_kernels.substitution.fold import Folder
from npu_kernels.substitution.heads import (
    Condition,
    Core,
    Dot,
    Factor,
    Head,
    Leaf,
    Number,
    Op,
    Product,
    Reduce,
    Select,
    Sum,
)
from npu_kernels.substitution.masks import additive, conditions
from npu_kernels.substitution.peel import Peeler, is_float

_OPAQUE = frozenset(
    {
        "constant", "iota", "concatenate", "slice", "split", "pad", "reverse", "dynamic_slice", "opaque", "gather",
        "dynamic_update_slice", "cumulative", "argmax", "argmin", "call", "while", "scan", "case", "remat",
        "shard_map", "custom_vjp", "jit", "optimization_barrier", "bitcast_convert", "clamp", "complex", "transpose",
        "reshape", "broadcast_in_dim",
    }
)  # fmt: skip
_FACTORS = frozenset({"multiply", "divide", "negate", "integer_pow", "power", "sqrt", "rsqrt", "dot_general"})
#: Comparing two different values for equal meaning gives up after this many steps down.
_SAME_DEPTH = 24
#: A value this many products below the first is a factor as it stands. A match uses up every factor, so those of an
#: example (three at most) lie fewer products down; to go on would take a chain of products apart anew at each link.
_PRODUCT_DEPTH = 8


class View:
    """Head forms of the values of one program."""

    def __init__(self, folder: Folder | None = None) -> None:
        self.peeler = Peeler(folder)
        self.folder = self.peeler.folder
        self._bound: dict[Node, tuple[Axes, ...]] = {}
        self._whole: dict[Value, Ref] = {}
        self._heads: dict[tuple[Value, Index, frozenset[Value]], Head] = {}

    def whole(self, value: Value) -> Ref:
        """The value read at axes of its own, the same ones each time."""
        return self._whole.setdefault(value, whole(value))

    # -- products ------------------------------------------------------------------------------------------------

    def product(self, ref: Ref, stops: Collection[Value] = ()) -> tuple[float, tuple[Factor, ...]]:
        """Coefficient and factors of a value; values of ``stops`` are factors whatever makes them."""
        factors: list[Factor] = []
        coefficient = self._multiply(ref, 1, factors, stops, _PRODUCT_DEPTH)
        merged: dict[tuple[Value, Index, bool], Factor] = {}
        # All are peeled before any index is taken: peeling may split an axis.
        for factor, leaf in [(factor, self.peeler.peel(factor.ref)) for factor in factors]:
            key = (leaf.value, leaf.resolved, factor.root)
            first = merged.get(key)
            merged[key] = factor if first is None else replace(first, exponent=first.exponent + factor.exponent)
        return coefficient, tuple(f for f in merged.values() if f.exponent)

    def _leaves_same(self, a: Ref, b: Ref) -> bool:
        return self.peeler.peel(a).same(self.peeler.peel(b))

    def _multiply(self, raw: Ref, exponent: int, out: list[Factor], stops: Collection[Value], depth: int) -> float:
        ref = self.peeler.peel(raw, stops)
        constant = self.folder.scalar(ref.value)
        if ref.value in stops:
            out.append(Factor(ref, exponent))
            return 1.0
        if constant is not None and is_float(ref.value.dtype) and (constant != 0 or exponent > 0):
            return float(constant**exponent)
        node = ref.value.producer
        if node is None or not is_float(ref.value.dtype):
            out.append(Factor(raw, exponent))
            return 1.0
        args = [self.peeler.operand(node, i, ref) for i in range(len(node.operands))]
        if node.op == "negate":
            return float((-1.0) ** exponent) * self._multiply(args[0], exponent, out, stops, depth)
        if node.op in ("multiply", "divide") or (node.op == "dot_general" and not node.attrs["lhs_contracting"]):
            a, b = args if node.op != "dot_general" else self._dot(node, ref.index)[:2]
            if node.op == "multiply" and self._leaves_same(a, b) and self.folder.splat(a.value) is None:
                out.append(Factor(a, 2 * exponent))
                return 1.0
            if self.folder.scalar(a.value) is None and self.folder.scalar(b.value) is None:
                if not depth:
                    out.append(Factor(raw, exponent))
                    return 1.0
                depth -= 1
            left = self._multiply(a, exponent, out, stops, depth)
            return left * self._multiply(b, -exponent if node.op == "divide" else exponent, out, stops, depth)
        if node.op == "integer_pow":
            out.append(Factor(args[0], node.attrs["y"] * exponent))
            return 1.0
        if node.op in ("sqrt", "rsqrt"):
            out.append(Factor(args[0], exponent if node.op == "sqrt" else -exponent, root=True))
            return 1.0
        if node.op == "power" and (power := self.folder.scalar(node.operands[1])) in (2.0, -1.0, 0.5, -0.5):
            assert power is not None
            whole = float(power).is_integer()
            out.append(Factor(args[0], int(power if whole else 2 * power) * exponent, root=not whole))
            return 1.0
        out.append(Factor(raw, exponent))
        if node.op in ("reduce", "dot_general"):
            return float(self._core(ref, node).coefficient ** exponent)
        return 1.0

    # -- heads ---------------------------------------------------------------------------------------------------

    def head(self, raw: Ref, stops: Collection[Value] = ()) -> Head:
        """The canonical form at the head of a value."""
        key = (raw.value, raw.resolved, frozenset(stops))
        if key not in self._heads:
            self._heads[key] = self._head(raw, stops)
        return self._heads[key]

    def _head(self, raw: Ref, stops: Collection[Value]) -> Head:
        ref = self.peeler.peel(raw, stops)
        constant = self.folder.scalar(ref.value)
        if constant is not None:
            return Head(constant, Number(), ref)
        node = ref.value.producer
        if node is None or node.op in _OPAQUE or len(node.results) != 1 or ref.value in stops:
            return Head(1.0, Leaf(ref), ref)
        if node.op in _FACTORS and is_float(ref.value.dtype):
            coefficient, factors = self.product(ref, stops)
            if not factors:
                return Head(coefficient, Number(), ref)
            if len(factors) > 1 or factors[0].exponent != 1 or factors[0].root:
                return Head(coefficient, Product(factors), ref)
            ref = self.peeler.peel(factors[0].ref, stops)
            node = ref.value.producer
            if node is None or node.op in _OPAQUE or ref.value in stops:
                return Head(coefficient, Leaf(ref), ref)
            return _mean(Head(coefficient, self._core(ref, node).core, ref))
        return _mean(self._core(ref, node))

    def _core(self, ref: Ref, node: Node) -> Head:
        args = [self.peeler.operand(node, i, ref) for i in range(len(node.operands))]
        core: Core
        if node.op == "reduce" and len(node.operands) == 1:
            bound, index = self._reduced(node, ref.index)
            body = Ref(node.operands[0], index)
            if node.attrs["kind"] != "sum":
                return Head(1.0, Reduce(node.attrs["kind"], bound, body), ref)
            coefficient, body = self.peeler.scaled(body)
            return Head(coefficient, Reduce("sum", bound, body), ref)
        if node.op == "dot_general":
            a, b, bound = self._dot(node, ref.index)
            ca, a = self.peeler.scaled(a)
            cb, b = self.peeler.scaled(b)
            return Head(ca * cb, Dot(bound, a, b), ref)
        if node.op in ("add", "subtract") and is_float(ref.value.dtype):
            return Head(1.0, self._sum(ref, node), ref)
        if node.op == "select" and is_float(ref.value.dtype):
            selected = self._select(ref, node)
            return Head(1.0, selected if selected is not None else Op("select", tuple(args)), ref)
        if node.op in _OPAQUE or node.regions or node.op == "reduce":
            return Head(1.0, Leaf(ref), ref)
        core = Op(node.op, tuple(args), {k: v for k, v in node.attrs.items() if k == "direction"})
        return Head(1.0, core, ref)

    def _sum(self, ref: Ref, node: Node) -> Core:
        constant, sign = 0.0, 1
        while node.op in ("add", "subtract"):
            left, right = node.operands
            a, b = self.folder.scalar(left), self.folder.scalar(right)
            if b is not None:
                constant += sign * (b if node.op == "add" else -b)
                ref = self.peeler.peel(self.peeler.operand(node, 0, ref))
            elif a is not None:
                constant += sign * a
                sign = sign if node.op == "add" else -sign
                ref = self.peeler.peel(self.peeler.operand(node, 1, ref))
            else:
                break
            inner = ref.value.producer
            if inner is None:
                return Sum(constant, ((sign, ref),))
            node = inner
        if node.op not in ("add", "subtract"):
            return Sum(constant, ((sign, ref),))
        left_ref, right_ref = (self.peeler.operand(node, i, ref) for i in range(2))
        if constant == 0 and sign == 1:
            masked = self._masked_sum(ref, node, left_ref, right_ref)
            if masked is not None:
                return masked
        second = sign if node.op == "add" else -sign
        return Sum(constant, ((sign, left_ref), (second, right_ref)))

    def _masked_sum(self, ref: Ref, node: Node, left: Ref, right: Ref) -> Select | None:
        if node.op == "subtract":
            return None
        for addend, body in ((right, left), (left, right)):
            found = additive(self.peeler, addend)
            if found is not None:
                return Select(found[0], body, found[1], True, ref)
        return None

    def _select(self, ref: Ref, node: Node) -> Select | None:
        pred, on_true, on_false = (self.peeler.operand(node, i, ref) for i in range(3))
        fill = self.folder.scalar(on_false.value)
        if fill is not None:
            found = conditions(self.peeler, pred)
            inner = self.head(on_true)
            core = inner.core
            if isinstance(core, Select) and (core.fill, core.additive, inner.coefficient) == (fill, False, 1.0):
                return Select(found + core.conditions, core.body, fill, False, ref)
            return Select(found, on_true, fill, False, ref)
        fill = self.folder.scalar(on_true.value)
        if fill is None:
            return None
        found = conditions(self.peeler, pred)
        if len(found) == 1:
            flipped: tuple[Condition, ...] = (replace(found[0], negated=not found[0].negated),)
        else:
            flipped = (Condition(self.peeler.peel(pred), True),)
        return Select(flipped, on_false, fill, False, ref)

    # -- bound axes ----------------------------------------------------------------------------------------------

    def _reduced(self, node: Node, index: Index) -> tuple[Axes, Index]:
        reduced = set(node.attrs["axes"])
        shape = node.operands[0].shape
        if node not in self._bound:
            self._bound[node] = fresh([shape[d] for d in sorted(reduced)])
        own, kept = iter(self._bound[node]), iter(index)
        full = tuple(next(own) if d in reduced else next(kept) for d in range(len(shape)))
        return resolve(axis for axes in self._bound[node] for axis in axes), full

    def _dot(self, node: Node, index: Index) -> tuple[Ref, Ref, Axes]:
        a, b = node.operands
        attrs = node.attrs
        if node not in self._bound:
            self._bound[node] = fresh([a.shape[d] for d in attrs["lhs_contracting"]])
        bound = self._bound[node]
        lhs: dict[int, Axes] = dict(zip(attrs["lhs_contracting"], bound, strict=True))
        rhs: dict[int, Axes] = dict(zip(attrs["rhs_contracting"], bound, strict=True))
        rest = iter(index)
        for la, rb in zip(attrs["lhs_batch"], attrs["rhs_batch"], strict=True):
            lhs[la] = rhs[rb] = next(rest)
        for d in range(a.aval.ndim):
            if d not in lhs:
                lhs[d] = next(rest)
        for d in range(b.aval.ndim):
            if d not in rhs:
                rhs[d] = next(rest)
        return (
            Ref(a, tuple(lhs[d] for d in range(a.aval.ndim))),
            Ref(b, tuple(rhs[d] for d in range(b.aval.ndim))),
            resolve(axis for axes in bound for axis in axes),
        )

    # -- equality ------------------------------------------------------------------------------------------------

    def same(self, a: Ref, b: Ref, renaming: Mapping[Axis, Axis] | None = None, depth: int = _SAME_DEPTH) -> bool:
        """Whether ``a``, its axes renamed, means what ``b`` means: one value, or values computed alike."""
        renaming = renaming or {}
        a, b = self.peeler.peel(a), self.peeler.peel(b)
        if a.value is b.value:
            return a.at(renaming).resolved == b.resolved
        ca, cb = self.folder.scalar(a.value), self.folder.scalar(b.value)
        if ca is not None or cb is not None:
            return ca == cb
        na, nb = a.value.producer, b.value.producer
        if na is None or nb is None or depth == 0:
            return False
        if na.op != nb.op or na.regions or na.op in _OPAQUE or len(na.operands) != len(nb.operands):
            return False
        if na.op in ("reduce", "dot_general"):
            return self._same_bound(a, b, na, nb, renaming, depth)
        if na.attrs != nb.attrs or a.value.dtype != b.value.dtype:
            return False
        pairs = [(self.peeler.operand(na, i, a), self.peeler.operand(nb, i, b)) for i in range(len(na.operands))]
        return all(self.same(x, y, renaming, depth - 1) for x, y in pairs)

    def _same_bound(self, a: Ref, b: Ref, na: Node, nb: Node, renaming: Mapping[Axis, Axis], depth: int) -> bool:
        if na.op == "reduce":
            if na.attrs["kind"] != nb.attrs["kind"] or len(na.operands) != 1:
                return False
            bound_a, index_a = self._reduced(na, a.index)
            bound_b, index_b = self._reduced(nb, b.index)
            pairs = [(Ref(na.operands[0], index_a), Ref(nb.operands[0], index_b))]
        else:
            xa, ya, bound_a = self._dot(na, a.index)
            xb, yb, bound_b = self._dot(nb, b.index)
            pairs = [(xa, xb), (ya, yb)]
        if [x.size for x in bound_a] != [x.size for x in bound_b]:
            return False
        inner = {**renaming, **dict(zip(bound_a, bound_b, strict=True))}
        return all(self.same(x, y, inner, depth - 1) for x, y in pairs)


def _mean(head: Head) -> Head:
    """A sum divided by the number of its terms is a mean, however it is spelled."""
    core = head.core
    if isinstance(core, Reduce) and core.kind == "sum" and abs(head.coefficient * extent(core.bound) - 1.0) < 1e-6:
        return Head(1.0, Reduce("mean", core.bound, core.body), head.ref)
    return head
