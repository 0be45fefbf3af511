"""The call that takes a match's place: operands brought to the kernel's layout, the result brought back."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from npu_kernels.graph.core import Value
from npu_kernels.graph.replacement import Replacement
from npu_kernels.substitution.axes import Axes, Ref, extent, resolve
from npu_kernels.substitution.heads import Condition
from npu_kernels.substitution.pattern import Declined
from npu_kernels.substitution.peel import is_float


@dataclass(frozen=True)
class Operand:
    """A read arranged as an array of the kernel.

    Attributes:
        ref: what is read.
        groups: axes of each dimension of the arranged array.
        dtype: dtype the kernel gets; ``None`` keeps the value's own.
        sparse: a dimension none of whose axes the read has may have size one; else it is broadcast.
        condition: what is read is this condition's, and what is arranged is where it holds.
    """

    ref: Ref
    groups: tuple[Axes, ...]
    dtype: str | None = None
    sparse: bool = False
    condition: Condition | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the arranged array."""
        own = set(self.ref.axes)
        return tuple(
            1 if self.sparse and not own & set(resolve(group)) else extent(resolve(group)) for group in self.groups
        )

    def plan(self) -> Callable[[Any], Any]:
        """The function from the value to the arranged array."""
        own = [axis for dim in self.ref.resolved for axis in dim]
        wanted = [resolve(group) for group in self.groups]
        order = [axis for group in wanted for axis in group]
        if len(set(own)) != len(own) or not set(own) <= set(order):
            raise Declined("dims", "an operand has axes the kernel's layout does not have")
        present = [axis for axis in order if axis in set(own)]
        permutation = [own.index(axis) for axis in present]
        kept = [
            [(axis.size if axis in set(own) else 1) for axis in group]
            for group in wanted
        ]  # fmt: skip
        full = [[1 if self.sparse and not set(group) & set(own) else axis.size for axis in group] for group in wanted]
        flat_kept = [size for group in kept for size in group]
        flat_full = [size for group in full for size in group]
        shape = [math.prod(group) for group in full]
        dtype, condition, sizes = self.dtype, self.condition, [axis.size for axis in own]

        def arrange(x: Any) -> Any:
            x = x.reshape(sizes).transpose(permutation).reshape(flat_kept)
            if flat_kept != flat_full:
                x = jnp.broadcast_to(x, flat_full)
            x = x.reshape(shape)
            if condition is not None:
                x = condition.holds(x)
            return x if dtype is None else x.astype(dtype)

        return arrange


@dataclass(frozen=True)
class Call:
    """A kernel call and its operands.

    Attributes:
        function: takes the arranged operands by position, returns one array.
        operands: in order.
        result: axes of each dimension of the array ``function`` returns.
        root: where the result belongs.
        output: the value that is replaced: the root's, or a cast of it.
        shapes: what a report shows, one entry per operand that matters.
    """

    function: Callable[..., Any]
    operands: Sequence[Operand]
    result: tuple[Axes, ...]
    root: Ref
    output: Value
    shapes: Sequence[str]

    def replacement(self, name: str) -> Replacement:
        """The rewrite for the graph's writers."""
        inputs = list(dict.fromkeys(operand.ref.value for operand in self.operands))
        plans = [(inputs.index(operand.ref.value), operand.plan()) for operand in self.operands]
        given = [axis for group in self.result for axis in resolve(group)]
        wanted = [axis for dim in self.root.resolved for axis in dim]
        if sorted(map(id, given)) != sorted(map(id, wanted)):
            raise Declined("dims", "the kernel's result does not have the axes of the value it replaces")
        permutation = [given.index(axis) for axis in wanted]
        sizes = [axis.size for axis in given]
        shape, dtype, function = self.output.shape, self.output.dtype, self.function

        def replaced(*arrays: Any) -> tuple[Any, ...]:
            result = function(*(plan(arrays[i]) for i, plan in plans))
            return (result.reshape(sizes).transpose(permutation).reshape(shape).astype(dtype),)

        replaced.__name__ = replaced.__qualname__ = name
        return Replacement(tuple(inputs), (self.output,), replaced, name)


def result_value(root: Value) -> Value:
    """The cast of ``root`` to another float dtype when that is all the root is used for; else ``root``."""
    if root.is_output or len(root.uses) != 1:
        return root
    ((node, _),) = root.uses
    if node.op == "convert" and node.graph is root.graph and is_float(node.result.dtype):
        return node.result
    return root


def widest(dtypes: Sequence[str]) -> str:
    """The narrowest of float32, float16 and bfloat16 that holds all of them."""
    found = set(dtypes)
    return found.pop() if len(found) == 1 else "float32"
