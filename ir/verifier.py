"""Verifies graphs and programs: every use of a value, every type and every place is checked against the definitions.

`verify_kernel` is defined in `kernel_verifier`. All raise GraphError, which names the node, the kernel's stage or the
launch.
"""

from __future__ import annotations

from typing import NoReturn

from .graph import Graph, GraphError, Node, Value
from .kernel_verifier import verify_kernel
from .program_verifier import verify_program
from .types import DType, TensorType

__all__ = ["verify_graph", "verify_kernel", "verify_program"]


def verify_graph(graph: Graph) -> None:
    """GraphError unless `graph` and its nested graphs are well formed.

    Every value is defined once and before its use, belongs to the node or graph that lists it, and has the shape and
    dtype that its op infers. Its layout can differ from the inferred one, but must fit the shape. Nested graphs use
    only their own values.
    """
    _Verifier(graph).run()


class _Verifier:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.defined: set[Value] = set()

    def fail(self, message: str) -> NoReturn:
        raise GraphError(f"graph {self.graph.name!r}: {message}")

    def run(self) -> None:
        for i, value in enumerate(self.graph.inputs):
            self.input(i, value)
        for node in self.graph.nodes:
            self.node(node)
        for i, value in enumerate(self.graph.outputs):
            if value not in self.defined:
                self.fail(f"output {i} ({value!r}) is not defined in this graph")
        self.state()

    def input(self, position: int, value: Value) -> None:
        if value.node is not None:
            self.fail(f"input {position} is a result of {value.node.describe()}")
        if value in self.defined:
            self.fail(f"input {position} {value.name!r} is listed twice as an input")
        self.type(value.type, f"input {position} {value.name!r}")
        self.defined.add(value)

    def state(self) -> None:
        """Parameters and updates must be positions of inputs; updates are the last outputs, checks those before, and
        private outputs are others."""
        graph = self.graph
        for what, positions in (("parameter", graph.parameters), ("update", graph.updates)):
            for i in positions:
                if not 0 <= i < len(graph.inputs):
                    self.fail(f"{what} {i} is out of range for {len(graph.inputs)} inputs")
        if len(set(graph.updates)) != len(graph.updates) or graph.num_results < 0:
            self.fail(f"updates {graph.updates} need distinct inputs, and like checks one output each")
        if not graph.late <= set(graph.updates):
            self.fail(f"late updates {sorted(graph.late)} are not among the updates {graph.updates}")
        if not graph.private <= set(range(graph.num_results)):
            self.fail(f"private outputs {sorted(graph.private)} are not among the outputs before checks and updates")
        news = graph.outputs[len(graph.outputs) - len(graph.updates) :]
        for i, new in zip(graph.updates, news, strict=True):
            if new.type.with_layout(None) != graph.inputs[i].type.with_layout(None):
                self.fail(f"input {i} of type {graph.inputs[i].type} is replaced by {new.type}")
        self.checks()
        self.random_key()

    def checks(self) -> None:
        """The output of a check must be a BOOL of shape ()."""
        for check, flag in zip(self.graph.checks, self.graph.outputs[self.graph.num_results :], strict=False):
            if flag.type.with_layout(None) != TensorType((), DType.BOOL):
                self.fail(f"the check {check.message!r} has an output of type {flag.type}")

    def random_key(self) -> None:
        """The random key must be the position of an input of the right type."""
        graph, key = self.graph, self.graph.random
        if key is not None and (not 0 <= key.input < len(graph.inputs) or key.draws < 1):
            self.fail(f"random key {key} requires an input and at least one draw")
        if key is not None and graph.inputs[key.input].type != TensorType((4,), DType.U32):
            self.fail(f"input {key.input} takes the random key, but has type {graph.inputs[key.input].type}")

    def node(self, node: Node) -> None:
        for i, value in enumerate(node.inputs):
            if value not in self.defined:
                self.fail(f"{node.describe()}: operand {i} ({value!r}) is not defined before its use")
        for i, value in enumerate(node.outputs):
            if value.node is not node or value.index != i:
                self.fail(f"{node.describe()}: result {i} belongs to another node")
            if value in self.defined:
                self.fail(f"{node.describe()} is listed twice")
            self.type(value.type, f"result {i} of {node.describe()}")
            self.defined.add(value)
        self.inferred(node)
        for body in node.op.regions():
            try:
                verify_graph(body)
            except GraphError as error:
                raise GraphError(f"in {node.describe()}: {error}") from error

    def inferred(self, node: Node) -> None:
        stored = [v.type for v in node.outputs]
        types = self.infer(node)
        if len(types) != len(stored):
            self.fail(f"{node.describe()} has {len(stored)} results, its op infers {len(types)}")
        for i, (mine, expected) in enumerate(zip(stored, types, strict=True)):
            if mine.shape != expected.shape or mine.dtype is not expected.dtype:
                self.fail(f"{node.describe()}: result {i} has type {mine}, its op infers {expected}")

    def infer(self, node: Node) -> tuple[TensorType, ...]:
        """Types of the op's results. Layouts of operands are ignored if the op rejects them."""
        types = [v.type for v in node.inputs]
        try:
            return node.op.infer(*types)
        except (TypeError, ValueError) as error:
            problem = error
        if any(t.layout is not None for t in types):
            try:
                return node.op.infer(*(t.with_layout(None) for t in types))
            except (TypeError, ValueError) as error:
                problem = error
        operands = ", ".join(map(str, types))
        raise GraphError(f"graph {self.graph.name!r}: {node.describe()} on ({operands}): {problem}") from problem

    def type(self, t: TensorType, what: str) -> None:
        if any(n < 0 for n in t.shape):
            self.fail(f"{what} has a negative extent: {t}")
        layout = t.layout
        if layout is None:
            return
        if len(layout.halo) != t.rank - 2:
            self.fail(f"{what}: a layout with {len(layout.halo)} spatial axes does not fit {t}")
        if layout.block < 1 or any(n < 0 for pair in layout.halo for n in pair):
            self.fail(f"{what}: a layout requires a positive block and non-negative halos: {t}")
