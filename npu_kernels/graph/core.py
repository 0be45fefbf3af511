"""One small SSA graph that both readers fill: StableHLO modules and jaxprs speak the same op names here.

Op vocabulary (operands in this order; ``attrs`` in braces; shapes and dtypes are those of the values):

* elementwise, one operand: ``abs negate sign exponential exponential_minus_one log log_plus_one sqrt rsqrt
  cbrt logistic tanh sine cosine tan floor ceil round_nearest_even round_nearest_afz is_finite not erf erfc
  erf_inv real imag popcnt count_leading_zeros``
* elementwise, two operands: ``add subtract multiply divide remainder power maximum minimum and or xor
  shift_left shift_right_logical shift_right_arithmetic atan2 complex``. A square is ``multiply(x, x)``.
* ``integer_pow(x) {y}``: an integer exponent other than 2 (jaxprs only; StableHLO spells out multiplies)
* ``compare(a, b) {direction: EQ|NE|LT|LE|GT|GE, total_order: bool}``
* ``select(pred, on_true, on_false)``, the predicate a scalar or of the operands' shape
* ``clamp(low, x, high)``
* ``convert(x)``, ``bitcast_convert(x)``, ``reduce_precision(x) {exponent_bits, mantissa_bits}``
* ``optimization_barrier(xs...)``, ``copy(x)`` (the identity)
* ``constant() {value: numpy array or None when it cannot be read}``; ``iota() {dimension}``
* ``broadcast_in_dim(x) {broadcast_dimensions}``, ``reshape(x)``, ``transpose(x) {permutation}``,
  ``reverse(x) {dimensions}``, ``concatenate(xs...) {dimension}``, ``slice(x) {start, limit, strides}``,
  ``split(x) {sizes, axis}`` (jaxprs only), ``pad(x, value) {low, high, interior}``
* ``dynamic_slice(x, starts...) {sizes}``, ``dynamic_update_slice(x, update, starts...)``
* ``gather(x, indices) {offset_dims, collapsed_slice_dims, operand_batching_dims,
  start_indices_batching_dims, start_index_map, slice_sizes, index_vector_dim}``
* ``reduce(x) {kind: sum|prod|max|min|and|or, axes}`` starting from the kind's identity; a reduction that
  starts elsewhere carries its start as a second operand.
  ``cumulative(x) {kind, axis, reverse}`` (jaxprs only);
  ``argmax(x) {axis}``, ``argmin(x) {axis}`` (jaxprs only)
* ``dot_general(a, b) {lhs_contracting, rhs_contracting, lhs_batch, rhs_batch, precision}``
* ``call(args...) {name, kind: func|jit|custom_jvp|closed_call}`` with one region, the callee: transparent, so
  :func:`npu_kernels.graph.expand.expand` replaces it by its body
* ``while(...)`` with regions cond, body; ``scan(...)``, ``case(...)``, ``remat(...)``, ``shard_map(...)``,
  ``custom_vjp(...)``, ``jit(...)`` (one with shardings or donation): opaque to the flow of values; their
  regions are graphs of their own. See the readers for how operands map to the inputs of a region.
* ``opaque(...) {name}``: everything else, by its original name (``stablehlo.sort``, ``top_k`` ...)

A node keeps the equation or operation it was read from in ``origin``, so that writers reproduce it exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

from npu_kernels.errors import GraphError

#: Attributes of ``gather`` that JAX and StableHLO name alike, as dimension numbers.
GATHER_DIMENSIONS = (
    "offset_dims",
    "collapsed_slice_dims",
    "operand_batching_dims",
    "start_indices_batching_dims",
    "start_index_map",
)
_SHORT = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "bool",
    "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "complex64": "c64", "complex128": "c128",
}  # fmt: skip


@dataclass(frozen=True)
class Aval:
    """Shape and dtype of a value.

    Attributes:
        shape: static sizes; a symbolic or dynamic size is refused by the readers.
        dtype: NumPy's name (``bfloat16`` included), or the source's own name where NumPy has none
            (``token``, ``key<fry>``).
    """

    shape: tuple[int, ...]
    dtype: str

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def numpy_dtype(self) -> np.dtype[Any] | None:
        """NumPy's dtype, or ``None`` for tokens, keys and sub-byte types NumPy lacks."""
        try:
            return np.dtype(getattr(ml_dtypes, self.dtype, self.dtype))
        except TypeError:
            return None

    def __str__(self) -> str:
        return f"{_SHORT.get(self.dtype, self.dtype)}[{','.join(map(str, self.shape))}]"


class Value:
    """One SSA value. Compared by identity.

    Attributes:
        aval: shape and dtype.
        producer: the node whose result this is; ``None`` for an input of a graph.
        index: position among the producer's results, or among the graph's inputs.
        graph: the graph that defines the value.
        uses: ``(node, operand index)``, each use once, nodes of nested regions included; the index is -1 where
            a region of the node returns the value as it is.
        origin: the jaxpr variable or MLIR value it was read from.
        aliases: in an expanded graph, the values of the graph that was read which carry this value, each with
            the call nodes one passes to reach it; empty elsewhere.
    """

    __slots__ = ("aliases", "aval", "graph", "index", "origin", "producer", "uses")

    def __init__(
        self, aval: Aval, graph: Graph, *, producer: Node | None = None, index: int = 0, origin: Any = None
    ) -> None:
        self.aval = aval
        self.graph = graph
        self.producer = producer
        self.index = index
        self.origin = origin
        self.uses: list[tuple[Node, int]] = []
        self.aliases: list[tuple[tuple[Node, ...], Value]] = []

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> str:
        return self.aval.dtype

    @property
    def users(self) -> tuple[Node, ...]:
        """The nodes that read the value, each once, in order of first use."""
        return tuple(dict.fromkeys(node for node, _ in self.uses))

    @property
    def is_output(self) -> bool:
        return any(output is self for output in self.graph.outputs)

    @property
    def constant(self) -> np.ndarray[Any, Any] | None:
        """The value itself when a readable ``constant`` node makes it, else ``None``."""
        if self.producer is not None and self.producer.op == "constant":
            value: np.ndarray[Any, Any] | None = self.producer.attrs["value"]
            return value
        return None

    def __repr__(self) -> str:
        where = self.producer.op if self.producer is not None else "input"
        return f"<Value {self.aval} {where}#{self.index}>"


class Node:
    """One operation. Compared by identity; made by :meth:`Graph.add`.

    Attributes:
        op: name from the vocabulary above.
        operands, results: SSA values.
        attrs: what the vocabulary lists for the op.
        regions: graphs of the bodies, in the order the vocabulary gives.
        location: the user's ``file:line``, when the source knows it.
        origin: equation or MLIR operation it was read from.
        path: in an expanded graph, the call nodes (of the graph that was read) the node was inlined through,
            outermost first; empty elsewhere.
        source: in an expanded graph, the node of the graph that was read; the node itself elsewhere.
    """

    __slots__ = (
        "attrs", "graph", "location", "op", "operands", "origin", "path", "regions", "results", "source",
    )  # fmt: skip

    def __init__(
        self,
        graph: Graph,
        op: str,
        operands: Sequence[Value],
        results: Sequence[tuple[Aval, Any]],
        attrs: Mapping[str, Any] | None = None,
        regions: Sequence[Graph] = (),
        location: str | None = None,
        origin: Any = None,
        path: tuple[Node, ...] = (),
        source: Node | None = None,
    ) -> None:
        self.graph = graph
        self.op = op
        self.operands = tuple(operands)
        self.attrs: dict[str, Any] = dict(attrs or {})
        self.regions = tuple(regions)
        self.location = location
        self.origin = origin
        self.path = path
        self.source = source if source is not None else self
        self.results = tuple(
            Value(aval, graph, producer=self, index=i, origin=at) for i, (aval, at) in enumerate(results)
        )
        for i, operand in enumerate(self.operands):
            operand.uses.append((self, i))
        for region in self.regions:
            region.parent = self
            for output in region.outputs:
                if output.graph is not region:
                    output.uses.append((self, -1))

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    def __repr__(self) -> str:
        return f"<Node {self.op} -> {', '.join(str(r.aval) for r in self.results)}>"


@dataclass(eq=False)
class Graph:
    """A straight list of nodes in a valid order, with inputs and outputs.

    Attributes:
        name: function or region name.
        parent: the node this graph is a region of; ``None`` at the top.
        origin: the jaxpr or MLIR block it was read from.
    """

    name: str
    inputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    parent: Node | None = None
    origin: Any = None

    def add_input(self, aval: Aval, origin: Any = None) -> Value:
        value = Value(aval, self, index=len(self.inputs), origin=origin)
        self.inputs.append(value)
        return value

    def add(
        self,
        op: str,
        operands: Sequence[Value],
        results: Sequence[tuple[Aval, Any]] | Aval,
        attrs: Mapping[str, Any] | None = None,
        regions: Sequence[Graph] = (),
        *,
        location: str | None = None,
        origin: Any = None,
        path: tuple[Node, ...] = (),
        source: Node | None = None,
    ) -> Node:
        """Append a node. ``results`` is one :class:`Aval`, or pairs of aval and origin."""
        pairs = [(results, None)] if isinstance(results, Aval) else results
        node = Node(self, op, operands, pairs, attrs, regions, location, origin, path, source)
        self.nodes.append(node)
        return node

    def walk(self) -> Iterator[Node]:
        """Every node, and those of nested regions after the node that holds them."""
        for node in self.nodes:
            yield node
            for region in node.regions:
                yield from region.walk()

    def graphs(self) -> Iterator[Graph]:
        """This graph and all nested ones, outermost first."""
        yield self
        for node in self.nodes:
            for region in node.regions:
                yield from region.graphs()

    def __str__(self) -> str:
        from npu_kernels.graph.printer import print_graph

        return print_graph(self)


def enclosing(graph: Graph, op: str) -> Node | None:
    """The innermost node of the given op that the graph is a region of, at any depth."""
    node = graph.parent
    while node is not None and node.op != op:
        node = node.graph.parent
    return node


def topological_order(nodes: Iterable[Node]) -> list[Node]:
    """Sort nodes of one graph so that producers come first; nodes keep the graph's order otherwise."""
    wanted = set(nodes)
    if not wanted:
        return []
    (graph,) = {node.graph for node in wanted}
    return [node for node in graph.nodes if node in wanted]


def captures(graph: Graph) -> list[Value]:
    """Values of enclosing graphs that the graph or its regions read, in order of first use."""
    inside = set(graph.graphs())
    seen: dict[Value, None] = {}
    for node in graph.walk():
        for operand in node.operands:
            if operand.graph not in inside:
                seen[operand] = None
    for inner in inside:
        for output in inner.outputs:
            if output.graph not in inside:
                seen[output] = None
    return list(seen)


def escaping(nodes: Iterable[Node], *, inner: Iterable[Value] | None = None) -> list[Value]:
    """Results of the nodes that something outside the set reads: outputs a replacement must provide.

    Args:
        nodes: nodes of one graph.
        inner: look at these values only.
    """
    chosen = set(nodes)
    wanted = None if inner is None else set(inner)
    found = []
    for node in topological_order(chosen):
        for value in node.results:
            if wanted is not None and value not in wanted:
                continue
            if value.is_output or any(not _inside(user, chosen) for user in value.users):
                found.append(value)
    return found


def _inside(node: Node, chosen: set[Node]) -> bool:
    current: Node | None = node
    while current is not None:
        if current in chosen:
            return True
        current = current.graph.parent
    return False


def cut(inputs: Sequence[Value], outputs: Sequence[Value]) -> list[Node]:
    """The nodes between inputs and outputs: all that the outputs need once the inputs are given.

    Returns:
        Nodes in graph order. Constants and iotas are among them, they need no input.

    Raises:
        GraphError: ``NPK-GR02`` when an output depends on a graph input that the cut does not list.
    """
    stop = set(inputs)
    seen: set[Node] = set()
    pending = [value for value in outputs if value not in stop]
    while pending:
        value = pending.pop()
        node = value.producer
        if node is None:
            raise GraphError("NPK-GR02", f"the cut depends on input {value.index} ({value.aval}) but does not list it")
        if node in seen:
            continue
        seen.add(node)
        pending.extend(operand for operand in dependencies(node) if operand not in stop)
    return topological_order(seen)


def dependencies(node: Node) -> list[Value]:
    """Operands of a node and the values of its own graph that its regions capture."""
    found = dict.fromkeys(node.operands)
    for region in node.regions:
        found.update(dict.fromkeys(captures(region)))
    return list(found)
