"""The graph IR: operations on tensors in single-assignment form.

    graph = Graph(name, inputs, nodes, outputs, parameters)     nodes in topological order
    node  = Node(op, inputs, outputs, name, location)           one use of an operation
    value = Value(type, node, index)                            one result of a node, or an input of the graph
    op    = an Op: an mx operator or a core primitive together with its parameters, compared by value

Values and nodes are compared by identity. A graph is immutable, so graphs can share nodes. A fused region or the body
of a loop is a nested graph, stored in a field of its op.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum
from itertools import chain
from typing import ClassVar, Final, NamedTuple

import numpy as np

from .lazy_dataclass import dataclass
from .types import DType, TensorType

Attribute = (
    bool | int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...] | DType | TensorType | np.ndarray
)


class GraphError(Exception):
    """A graph or a node is malformed. The message names the node; `reason` is the message without that name."""

    def __init__(self, text: str, reason: str = "") -> None:
        super().__init__(text)
        self.reason = reason or text


class Effect(Enum):
    """What an op can do beyond computing its results."""

    PYTHON = "python"
    """It calls a user's function, which can have state and return other values in each call. The order of such calls is
    that of the graph (`core.host_callback`), and programs with them are not shared."""


_NO_EFFECTS: Final = frozenset[Effect]()


class Op:
    """The operation of a node. Subclasses are frozen and compared by value; `name` is `dialect.mnemonic`.

    It is no ABC: passes test the class of every node, and such a test of an ABC takes three times as long."""

    name: ClassVar[str]
    reads_strided: ClassVar[bool] = False
    """True if generated code can read operands with any strides. Other ops require contiguous operands."""

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        """Types of the results for operands of these types; TypeError or ValueError if they do not fit the op."""
        raise NotImplementedError(f"{type(self).__name__} does not define infer")

    def attributes(self) -> Mapping[str, Attribute]:
        """The parameters as they are printed and hashed, in a fixed order. Nested graphs are in `regions` instead."""
        raise NotImplementedError(f"{type(self).__name__} does not define attributes")

    def regions(self) -> tuple[Graph, ...]:
        """Nested graphs: loop bodies and fused regions."""
        return ()

    def effects(self) -> frozenset[Effect]:
        """What the op does beyond computing its results: by default what the nodes of its regions do. Nodes with
        effects are neither merged with equal ones nor computed ahead of a run."""
        regions = self.regions()
        return _NO_EFFECTS.union(*[region.effects() for region in regions]) if regions else _NO_EFFECTS


class Value:
    """One tensor of a graph. `node` is None for an input of the graph; `index` is the position among the node's results
    or the graph's inputs.
    """

    __slots__ = ("index", "name", "node", "type")

    def __init__(self, type: TensorType, node: Node | None, index: int, name: str = "") -> None:
        self.type: Final = type
        self.node: Final = node
        self.index = index
        self.name = name

    def __repr__(self) -> str:
        owner = self.name or (self.node.op.name if self.node else "input")
        return f"<Value {owner}#{self.index}: {self.type}>"


class Node:
    """One use of an operation. `name` is the user's name for it, `location` the user's line; both can be empty."""

    __slots__ = ("inputs", "location", "name", "op", "outputs")

    def __init__(
        self, op: Op, inputs: Sequence[Value], types: Iterable[TensorType], name: str = "", location: str = ""
    ) -> None:
        self.op = op
        self.inputs = tuple(inputs)
        self.name = name
        self.location = location
        self.outputs = tuple([Value(t, self, i, name) for i, t in enumerate(types)])

    def __repr__(self) -> str:
        return f"<Node {self.op.name} {self.name}>"

    def on(self, operands: Sequence[Value]) -> Node:
        """A new node with the same op, name and location on other operands of the same types."""
        return Node(self.op, operands, [v.type for v in self.outputs], self.name, self.location)

    def describe(self) -> str:
        """The node's op, name and location, as error messages show it."""
        where = f" at {self.location}" if self.location else ""
        called = f" '{self.name}'" if self.name else ""
        return f"{self.op.name}{called}{where}"


@dataclass(frozen=True, slots=True)
class RandomKey:
    """The input that takes the random key of a run (u32[4]), and the number of operators that draw from it.

    Each run advances the caller's draw counter by `draws`.
    """

    input: int
    draws: int


class Check(NamedTuple):
    """A condition on values. A run that does not satisfy it raises `message`: as an IndexError if `is_index`."""

    message: str
    is_index: bool = False


@dataclass(frozen=True, eq=False)
class Graph:
    """A function on tensors.

    `parameters` are positions of inputs that change rarely (weights): values that depend only on them and on constants
    are computed once and cached. `updates` are positions of the inputs that the last `len(updates)` outputs replace
    after a run (moving statistics): the graph is functional, and the program writes the state back. `random` is the
    input that takes a random key; None if no operator draws random numbers.

    `checks` belong to the last outputs before those of `updates`: each is a BOOL of shape () that is true if the
    condition holds. Callers of the program do not see these outputs.
    """

    name: str
    inputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Value, ...]
    parameters: frozenset[int] = field(default_factory=frozenset[int])
    updates: tuple[int, ...] = ()
    random: RandomKey | None = None
    late: frozenset[int] = field(default_factory=frozenset[int])
    """Those of `updates` that belong to the backward pass once the graph is differentiated: moving statistics."""
    private: frozenset[int] = field(default_factory=frozenset[int])
    """Positions of outputs that only other programs read (residuals): they can have any layout."""
    checks: tuple[Check, ...] = ()

    @property
    def num_results(self) -> int:
        """The number of outputs that callers see: all but those of `checks` and `updates`."""
        return len(self.outputs) - len(self.checks) - len(self.updates)

    def users(self) -> dict[Value, list[tuple[Node, int]]]:
        """The users of each value: (node, operand position) pairs in order. Outputs of the graph are not users."""
        users: dict[Value, list[tuple[Node, int]]] = {v: [] for v in self.inputs}
        for node in self.nodes:
            for i, v in enumerate(node.inputs):
                users[v].append((node, i))
            for v in node.outputs:
                users[v] = []
        return users

    def read_once(self) -> set[Value]:
        """The values with one user that are no outputs."""
        reads = Counter(chain.from_iterable([node.inputs for node in self.nodes]))
        return {v for v, count in reads.items() if count == 1}.difference(self.outputs)

    def names(self) -> tuple[str, ...]:
        """The distinct non-empty names of inputs and nodes, including nested graphs, in order."""
        names = dict.fromkeys(v.name for v in self.inputs)
        for node in self.nodes:
            names[node.name] = None
            for region in node.op.regions():
                names.update(dict.fromkeys(region.names()))
        return tuple(name for name in names if name)

    def effects(self) -> frozenset[Effect]:
        """The effects of the nodes."""
        return _NO_EFFECTS.union(*{node.op.effects() for node in self.nodes})

    def calls_python(self) -> bool:
        """True if a run calls a user's Python function."""
        return Effect.PYTHON in self.effects()

    def input_types(self) -> tuple[TensorType, ...]:
        return tuple(v.type for v in self.inputs)

    def output_types(self) -> tuple[TensorType, ...]:
        return tuple(v.type for v in self.outputs)

    def __str__(self) -> str:
        from .printer import print_graph

        return print_graph(self)


class GraphBuilder:
    """Builds a graph node by node and infers the types of each node as it is added.

    Nodes that are added without a name or a location get `origin` and `location`.
    """

    def __init__(self, name: str = "main") -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.nodes: list[Node] = []
        self.parameters: set[int] = set()
        self.updates: tuple[int, ...] = ()
        self.random: RandomKey | None = None
        self.late: frozenset[int] = frozenset()
        self.private: frozenset[int] = frozenset()
        self.checks: tuple[Check, ...] = ()
        self.origin = ""
        self.location = ""

    def input(self, type: TensorType, name: str = "", *, parameter: bool = False) -> Value:
        """A new input of the graph."""
        value = Value(type, None, len(self.inputs), name)
        if parameter:
            self.parameters.add(len(self.inputs))
        self.inputs.append(value)
        return value

    def node(self, op: Op, *inputs: Value, name: str = "", location: str = "") -> Node:
        """Add a use of `op`; GraphError names the node if its operands do not fit."""
        try:
            types = op.infer(*(v.type for v in inputs))
        except (TypeError, ValueError) as error:
            at = f" at {location or self.location}" if location or self.location else ""
            operands = ", ".join(str(v.type) for v in inputs)
            named = f" {name!r}" if name else ""
            raise GraphError(f"{op.name}{named}{at} on ({operands}): {error}", str(error)) from error
        node = Node(op, inputs, types, name or self.origin, location or self.location)
        self.nodes.append(node)
        return node

    def add_node(self, op: Op, *inputs: Value, name: str = "", location: str = "") -> Value:
        """Add a use of an op with one result, and return the result."""
        return self.node(op, *inputs, name=name, location=location).outputs[0]

    def append(self, node: Node) -> None:
        """Add an existing node unchanged: its operands must already belong to this graph."""
        self.nodes.append(node)

    def build(self, outputs: Sequence[Value]) -> Graph:
        return Graph(
            self.name,
            tuple(self.inputs),
            tuple(self.nodes),
            tuple(outputs),
            frozenset(self.parameters),
            self.updates,
            self.random,
            self.late,
            self.private,
            self.checks,
        )
