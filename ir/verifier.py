"""Verifies graphs and programs: every use of a value, every type and every place is checked against the definitions.

`verify_kernel` is defined in `kernel_verifier`. All raise GraphError, which names the node, the kernel's stage or the
launch.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

from .graph import Graph, GraphError, Node, Value
from .kernel_verifier import verify_kernel
from .program import (
    Computation,
    Copy,
    Fill,
    HostCall,
    Launch,
    Place,
    Program,
    Space,
    Step,
    own_places,
    walk,
)
from .program_printer import place_text
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


def verify_program(program: Program, symbols: Collection[str] | None = None) -> None:
    """GraphError unless all places of the program are inside their spaces and its launches and copies are valid. Its
    numbers are not symbolic: conditions on symbols would become guards.

    `symbols` are the symbols that the program's code defines; None skips the check of the launches' symbols. Launches
    that prepare must read no input except parameters, and write no output.
    """
    _ProgramVerifier(program).run(symbols)


class _ProgramVerifier:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.counts: tuple[int, ...] = ()  # of the loops around the step
        self.tensors = {Space.INPUT: program.inputs, Space.OUTPUT: program.outputs}
        self.sizes = {
            Space.ARENA: program.arena_bytes,
            Space.PREPARED: program.prepared_bytes,
            Space.CONSTANT: len(program.constants),
        }

    def fail(self, message: str) -> NoReturn:
        raise GraphError(f"program {self.program.name!r}: {message}")

    def run(self, symbols: Collection[str] | None) -> None:
        program = self.program
        if not all(0 <= i < len(program.inputs) for i in program.parameters):
            self.fail(f"parameters {sorted(program.parameters)} are out of range for {len(program.inputs)} inputs")
        for prepared, steps in ((True, program.prepare), (False, program.steps)):
            for step, self.counts in walk(steps):
                self.step(step, symbols, prepared=prepared)
        if not 0 <= program.scratch_bytes <= program.arena_bytes:
            self.fail(f"{program.scratch_bytes} bytes of scratch memory in an arena of {program.arena_bytes}")
        if program.groups and (sum(program.groups) != len(program.steps) or min(program.groups) < 1):
            self.fail(f"groups {program.groups} do not divide {len(program.steps)} steps")
        if not all(0 <= i < len(program.inputs) for i in program.state):
            self.fail(f"state {program.state} is out of range for {len(program.inputs)} inputs")
        key = program.random
        if key is not None and not 0 <= key.input < len(program.inputs):
            self.fail(f"the random key is input {key.input} of {len(program.inputs)}")

    def step(self, step: Step, symbols: Collection[str] | None, *, prepared: bool) -> None:
        match step:
            case Copy():
                what = f"copy of {place_text(step.source)} to {place_text(step.target)}"
                self.place(step.source, what, step.nbytes)
                self.target(step.target, what, step.nbytes, prepared=prepared)
            case Fill():
                self.target(step.target, f"zeros at {place_text(step.target)}", step.nbytes, prepared=prepared)
            case _:
                self.computation(step, symbols, prepared=prepared)

    def target(self, place: Place, what: str, nbytes: int, *, prepared: bool) -> None:
        self.place(place, what, nbytes)
        replaced = place.space is Space.INPUT and place.index in self.program.state
        own = (Space.PREPARED, Space.ARENA) if prepared else (Space.OUTPUT, Space.ARENA)
        if not replaced and place.space not in own:
            self.fail(f"{what}: the target is neither an output nor state")

    def computation(self, step: Computation, symbols: Collection[str] | None, *, prepared: bool) -> None:
        if not all(0 <= i < len(self.program.names) for i in step.layers):
            self.fail(f"{_described(step)}: layers {step.layers} of {len(self.program.names)} names")
        what = f"{_described(step)} ({self.program.label(step)})"
        is_run = True
        if step.count < 0 or step.grain < 1:
            self.fail(f"{what}: invalid count {step.count} or grain {step.grain}")
        if isinstance(step, Launch):
            if symbols is not None and step.symbol not in symbols:
                self.fail(f"{what}: no code defines the symbol")
            is_run = step.count > 0
        elif isinstance(step, HostCall) and not 0 <= step.function < len(self.program.functions):
            self.fail(f"{what}: there are {len(self.program.functions)} functions")
        for place in own_places(step):
            self.place(place, what, accessed=is_run)
            if prepared and self.changes(place):
                self.fail(f"{what}: {place_text(place)} is not a parameter, but the step is in `prepare`")

    def changes(self, place: Place) -> bool:
        is_input = place.space is Space.INPUT
        return place.space is Space.OUTPUT or (is_input and place.index not in self.program.parameters)

    def place(self, place: Place, what: str, nbytes: int = 0, accessed: bool = True) -> None:
        tensors = self.tensors.get(place.space)
        if tensors is not None and not 0 <= place.index < len(tensors):
            self.fail(f"{what}: {place.space.value} {place.index} does not exist")
        size = self.sizes[place.space] if tensors is None else tensors[place.index].nbytes
        if not accessed or 0 in self.counts:
            return
        first, last = place.reach(self.counts)
        if not 0 <= first <= last <= size - nbytes:  # an empty tensor can be at the end of its space
            self.fail(f"{what}: {place_text(place)} is outside its space of {size} bytes")


def _described(step: Computation) -> str:
    return f"launch of {step.symbol!r}" if isinstance(step, Launch) else f"step {step.kind!r}"
