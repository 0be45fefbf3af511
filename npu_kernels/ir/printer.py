"""Text of a kernel that a person can read and a test can compare."""

from __future__ import annotations

from .ops import (
    Arange,
    Binary,
    Block,
    Broadcast,
    Cast,
    Compare,
    Constant,
    Dot,
    For,
    Full,
    If,
    Kernel,
    Load,
    Narrow,
    Op,
    Reduce,
    Reshape,
    Select,
    Store,
    Unary,
    Value,
)


def print_kernel(kernel: Kernel, *, locations: bool = False) -> str:
    """The whole kernel, one operation per line; with ``locations`` each line ends with the author's line."""
    return _Printer(locations).kernel(kernel)


class _Printer:
    def __init__(self, locations: bool) -> None:
        self.locations = locations
        self.names: dict[Value, str] = {}
        self.taken: set[str] = set()
        self.lines: list[str] = []

    def kernel(self, kernel: Kernel) -> str:
        ins = ", ".join(f"{self.name(v)}: {v.type}" for v in kernel.inputs)
        outs = ", ".join(f"{self.name(v)}: {v.type}" for v in kernel.outputs)
        self.lines.append(f"kernel {kernel.name}({ins}) -> ({outs}) {{")
        self.block(kernel.body, 1)
        self.lines.append("}")
        return "\n".join(self.lines) + "\n"

    def name(self, value: Value) -> str:
        if value not in self.names:
            base = value.name or "v"
            name, n = base, 1
            while name in self.taken:
                n += 1
                name = f"{base}_{n}"
            self.taken.add(name)
            self.names[value] = f"%{name}"
        return self.names[value]

    def block(self, block: Block, depth: int) -> None:
        for op in block.ops:
            self.op(op, depth)

    def emit(self, depth: int, text: str, op: Op | None = None) -> None:
        suffix = f"  // {op.location}" if self.locations and op is not None else ""
        self.lines.append("  " * depth + text + suffix)

    def op(self, op: Op, depth: int) -> None:
        if isinstance(op, For):
            carried = ", ".join(
                f"{self.name(a)} = {self.name(i)}" for a, i in zip(op.body.args[1:], op.inits, strict=True)
            )
            head = (
                f"{op.kind} {self.name(op.body.args[0])} = {self.name(op.start)} to {self.name(op.stop)} step {op.step}"
            )
            left = f"{', '.join(map(self.name, op.results))} = " if op.results else ""
            self.emit(depth, f"{left}{head}{f' carry ({carried})' if carried else ''} {{", op)
            self.block(op.body, depth + 1)
            if op.body.yields:
                self.emit(depth + 1, f"yield {', '.join(map(self.name, op.body.yields))}")
            self.emit(depth, "}")
        elif isinstance(op, If):
            left = f"{', '.join(map(self.name, op.results))} = " if op.results else ""
            self.emit(depth, f"{left}if {self.name(op.condition)} {{", op)
            for i, block in enumerate(op.blocks):
                if i == 1:
                    if not block.ops and not block.yields:
                        continue
                    self.emit(depth, "} else {")
                self.block(block, depth + 1)
                if block.yields:
                    self.emit(depth + 1, f"yield {', '.join(map(self.name, block.yields))}")
            self.emit(depth, "}")
        else:
            text = self.simple(op)
            if op.defines:
                result = op.defines[0]
                text = f"{self.name(result)} = {text} : {result.type}{self.ragged(result)}"
            self.emit(depth, text, op)

    def ragged(self, value: Value) -> str:
        if all(e == n for e, n in zip(value.extents, value.shape, strict=False)):
            return ""
        return f" extents [{', '.join(self.extent(e) for e in value.extents)}]"

    def extent(self, extent: int | Value) -> str:
        return str(extent) if isinstance(extent, int) else self.name(extent)

    def slice(self, tensor: Value, starts: tuple[Value, ...], sizes: tuple[int | None, ...]) -> str:
        parts = [self.name(s) if n is None else f"{self.name(s)}:+{n}" for s, n in zip(starts, sizes, strict=True)]
        return f"{self.name(tensor)}[{', '.join(parts)}]"

    def simple(self, op: Op) -> str:
        n = self.name
        match op:
            case Constant():
                return f"constant {op.value!r}"
            case Unary():
                return f"{op.kind} {n(op.operand)}"
            case Binary():
                return f"{op.kind} {n(op.lhs)}, {n(op.rhs)}"
            case Compare():
                return f"compare {op.predicate} {n(op.lhs)}, {n(op.rhs)}"
            case Select():
                return f"select {n(op.condition)}, {n(op.on_true)}, {n(op.on_false)}"
            case Cast():
                return f"cast {n(op.operand)} rounding {op.rounding}"
            case Full():
                return f"full {n(op.value)}"
            case Arange():
                return f"arange {n(op.start)}"
            case Reshape() | Broadcast() | Narrow():
                return f"{op.opcode} {n(op.operand)}"
            case Reduce():
                return f"reduce {op.kind} {n(op.operand)} axis {op.axis}{' keepdims' if op.keepdims else ''}"
            case Dot():
                a = f"{n(op.a)}{'^T' if op.transpose_a else ''}"
                b = f"{n(op.b)}{'^T' if op.transpose_b else ''}"
                return f"dot {a}, {b}" + (f" + {n(op.accumulator)}" if op.accumulator is not None else "")
            case Load():
                return f"load {self.slice(op.tensor, op.starts, op.sizes)}"
            case Store():
                extents = ", ".join(self.extent(e) for e in op.extents)
                return f"store {self.slice(op.tensor, op.starts, op.sizes)} <- {n(op.value)} extents [{extents}]"
        raise TypeError(f"no printed form for {type(op).__name__}")
