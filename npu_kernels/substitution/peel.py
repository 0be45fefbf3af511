"""Seeing through what does not change a value: layout, casts between floats, and operations with neutral constants."""

from __future__ import annotations

from collections.abc import Collection

from npu_kernels.graph.core import Node, Value
from npu_kernels.substitution.axes import LAYOUT, Ref, pull
from npu_kernels.substitution.fold import Folder

#: Bits of significand, the leading one included: what a cast to the dtype keeps.
SIGNIFICANT_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}


def is_float(dtype: str) -> bool:
    return dtype in SIGNIFICANT_BITS


class Peeler:
    """Peels refs of one program."""

    def __init__(self, folder: Folder | None = None) -> None:
        self.folder = folder or Folder()

    def operand(self, node: Node, position: int, ref: Ref) -> Ref:
        """Operand of an elementwise node at the index its result is read at.

        A scalar operand has no index, and a dimension of size one is not walked along: jaxprs stretch both.
        """
        value = node.operands[position]
        if value.aval.ndim != ref.value.aval.ndim:
            return Ref(value, ())
        index = (axes if size != 1 else () for size, axes in zip(value.shape, ref.index, strict=True))
        return Ref(value, tuple(index))

    def step(self, ref: Ref, *, narrowing: bool = True) -> Ref | None:
        """One neutral operation taken away, or ``None`` when there is none at the head.

        Args:
            ref: what to look at.
            narrowing: look through casts that drop significant bits too.
        """
        node = ref.value.producer
        if node is None:
            return None
        if node.op in LAYOUT:
            index = pull(node, ref.index)
            return Ref(node.operands[0], index) if index is not None else None
        if node.op == "convert":
            source, target = node.operands[0].dtype, ref.value.dtype
            if source == target:
                return Ref(node.operands[0], ref.index)
            if is_float(source) and is_float(target):
                widens = SIGNIFICANT_BITS[source] <= SIGNIFICANT_BITS[target]
                if widens or narrowing:
                    return Ref(node.operands[0], ref.index)
            return None
        kept = self._kept(node)
        return self.operand(node, kept, ref) if kept is not None else None

    def _kept(self, node: Node) -> int | None:
        """Position of the operand an operation with a neutral constant returns."""
        if node.op == "select":
            pred = self.folder.splat(node.operands[0])
            return None if pred is None else (1 if bool(pred) else 2)
        neutral = {
            "add": (0.0, 0.0), "subtract": (None, 0.0), "multiply": (1.0, 1.0), "divide": (None, 1.0),
            "maximum": (float("-inf"),) * 2, "minimum": (float("inf"),) * 2,
        }.get(node.op)  # fmt: skip
        if neutral is None or not is_float(node.results[0].dtype):
            return None
        left, right = (self.folder.scalar(v) for v in node.operands)
        if right is not None and right == neutral[1]:
            return 0
        if left is not None and left == neutral[0]:
            return 1
        return None

    def peel(self, ref: Ref, stops: Collection[Value] = ()) -> Ref:
        """Take away all neutral operations, but go no deeper than a value of ``stops``."""
        while ref.value not in stops:
            inner = self.step(ref)
            if inner is None:
                break
            ref = inner
        return ref

    def leaf(self, ref: Ref) -> Ref:
        """The value a variable should be bound to: below layout and widening casts, above the last rounding."""
        while (inner := self.step(ref, narrowing=False)) is not None:
            ref = inner
        return ref

    def scaled(self, ref: Ref) -> tuple[float, Ref]:
        """Factors that are constants, taken from the head of a value: ``(coefficient, rest)``."""
        coefficient = 1.0
        while True:
            inner = self.peel(ref)
            node = inner.value.producer
            if node is None or self.folder.splat(inner.value) is not None:
                return coefficient, ref
            if node.op == "negate":
                coefficient, ref = -coefficient, Ref(node.operands[0], inner.index)
                continue
            if node.op not in ("multiply", "divide") or not is_float(inner.value.dtype):
                return coefficient, ref
            left, right = (self.folder.scalar(v) for v in node.operands)
            if right is not None and right != 0:
                coefficient *= right if node.op == "multiply" else 1.0 / right
                ref = self.operand(node, 0, inner)
            elif left is not None and node.op == "multiply":
                coefficient *= left
                ref = self.operand(node, 1, inner)
            else:
                return coefficient, ref
