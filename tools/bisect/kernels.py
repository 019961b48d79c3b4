"""Runs a program kernel by kernel and compares each with the interpretation of its region on the same operands.

The operands of a kernel are read from the program's memory directly before it runs, so errors do not add up. A value
that has changed since its kernel computed it is a fault of the memory plan: other values overwrote it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import numpy as np

from ...codegen.compiler import Step
from ...codegen.driver import Compilation
from ...codegen.labels import layer_names
from ...codegen.llvm.emit import scheduled_kernel
from ...codegen.llvm.schedule.tuned import entry_of
from ...codegen.target import Target
from ...ir.dialects.core import Fused, HostCallback, SymmetricEigen
from ...ir.dialects.core.interpret import evaluate_node
from ...ir.graph import Graph, Node, Value
from ...ir.lazy_dataclass import dataclass
from ...ir.program import Computation
from ...ir.types import TensorType
from ...runtime.devices import HOST
from ...runtime.host.stepped_run import SteppedRun
from ...runtime.tensor_memory import read_tensor, stored
from .compare import Array, Difference, compare
from .disturb import rounding_noise
from .findings import Fault, FaultKind, Kernel

_REGION_LINES = 60
_UNDETERMINED = (HostCallback, SymmetricEigen)
"""Primitives with several right results: Python functions with state, eigenvectors of either sign."""


def is_determined(graph: Graph) -> bool:
    """True if the operands determine the results of all nodes."""
    regions = (region for node in graph.nodes for region in node.op.regions())
    return not any(isinstance(node.op, _UNDETERMINED) for node in graph.nodes) and all(map(is_determined, regions))


@dataclass(frozen=True)
class _Group:
    """Consecutive launches that compute one node of the fused graph, or several nodes of a chain; `steps` is empty for
    launches that only pack parameters of a later node."""

    launches: tuple[int, ...]
    steps: tuple[Step, ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.steps[0].nodes if self.steps else ()


class KernelCheck:
    """One run of a compiled graph. `operators` are the names of MXNet's operators by the names of layers."""

    def __init__(
        self,
        compiled: Compilation,
        target: Target,
        inputs: Sequence[Array],
        operators: Mapping[str, str],
        requested: float | None,
    ) -> None:
        self.compiled, self.target, self.operators, self.requested = compiled, target, operators, requested
        self.executable = HOST.load(compiled.program)
        self.inputs = [_memory(a, t) for a, t in zip(inputs, self.executable.inputs, strict=True)]
        self.results = [HOST.allocate_zeroed(t.nbytes) for t in self.executable.outputs]
        self.values: dict[Value, Array] = dict(zip(compiled.graph.inputs, inputs, strict=True))
        self.groups = list(_groups(compiled))
        self.ran: dict[Value, int] = {}

    @property
    def addresses(self) -> tuple[list[int], list[int]]:
        """The addresses of the operands and of the results."""
        return [a.ctypes.data for a in self.inputs], [int(r.address) for r in self.results]

    def first_fault(self) -> Fault | None:
        """Run all kernels; returns the first fault."""
        run = SteppedRun(self.executable, *self.addresses)
        for number, group in enumerate(self.groups):
            fault = self._run(run, group, number) if group.steps else None
            for launch in () if group.steps else group.launches:
                run.run(launch)
            if fault is not None:
                return fault
        run.finish()
        return None

    def computed(self) -> list[Array]:
        """The outputs of the graph as their kernels computed them."""
        return [self._value(v) for v in self.compiled.graph.outputs]

    def outputs(self) -> list[Array]:
        """The results, and the new values of the inputs that a run updates, as they are in memory."""
        addresses, results = self.addresses
        types = self.executable.inputs
        places = [
            *zip(results, self.executable.outputs, strict=True),
            *((addresses[i], types[i]) for i in self.executable.state),
        ]
        return [read_tensor(address, type)[0] for address, type in places]

    # -- one group of launches

    def _run(self, run: SteppedRun, group: _Group, number: int) -> Fault | None:
        inside = {v for node in group.nodes for v in node.outputs}
        whole = self.compiled.sharing.whole
        taken = dict.fromkeys(v for v in map(whole, _read_unpacked(group.steps)) if v not in inside)
        for value in taken:
            fault = self._overwritten(run, value, group, number)
            if fault is not None:
                return fault
        expected = self._interpreted(group.nodes)
        for launch in group.launches:
            run.run(launch)
        wrong: list[Difference] = []
        written = {whole(v) for step in group.steps for v in step.operands}
        for value in group.nodes[-1].outputs:
            if value not in written:
                continue
            actual, is_zero_outside = self._read(run, value)
            if not is_determined(Graph("kernel", (), group.nodes, ())):
                expected[value] = actual
            difference = self._compare(value, actual, expected[value], group.nodes)
            if difference.is_wrong:
                wrong.append(difference)
            elif not is_zero_outside:
                return self._fault("kernel", f"a kernel writes outside of the elements of {_shown(value)}", group)
            self.values[value] = actual
            self.ran[value] = number
        return self._fault("kernel", "a kernel computes wrong numbers", group, wrong) if wrong else None

    def _overwritten(self, run: SteppedRun, value: Value, group: _Group, number: int) -> Fault | None:
        """The fault that the memory of an operand has changed since it was computed."""
        actual, expected = self._read(run, value)[0], self._value(value)
        if np.array_equal(actual, expected, equal_nan=actual.dtype.kind == "f"):
            return None
        first = self.ran.get(value, -1) + 1
        between = [name for g in self.groups[first:number] for node in g.nodes for name in layer_names(node)]
        what = f"the memory of {_shown(value)} was overwritten before this kernel reads it, by one of these layers: "
        difference = compare(_shown(value), value.type, actual, expected)
        return self._fault("memory", what + (", ".join(dict.fromkeys(between)) or "none"), group, [difference])

    def _interpreted(self, nodes: Sequence[Node]) -> dict[Value, Array]:
        """The values that the nodes compute, by the interpreter."""
        values: dict[Value, Array] = {}
        with np.errstate(all="ignore"):
            for node in nodes:
                operands = tuple(values[v] if v in values else self._value(v) for v in node.inputs)
                values.update(zip(node.outputs, evaluate_node(node, operands), strict=True))
        return values

    def _value(self, value: Value) -> Array:
        """A value that was computed before. Constants and views have no kernel."""
        if value not in self.values:
            assert value.node is not None
            operands = tuple(self._value(v) for v in value.node.inputs)
            with np.errstate(all="ignore"):
                self.values.update(zip(value.node.outputs, evaluate_node(value.node, operands), strict=True))
        return self.values[value]

    def _read(self, run: SteppedRun, value: Value) -> tuple[Array, bool]:
        place = self.compiled.placement.place(value)
        return read_tensor(run.address(place), value.type, self.compiled.sharing.resolve(value).strides)

    def _compare(self, value: Value, actual: Array, expected: Array, nodes: Sequence[Node]) -> Difference:
        """The difference of a result, up to what rounding can cause in the nodes."""
        plain = compare(_shown(value), value.type, actual, expected, requested=self.requested)
        if not plain.is_wrong:
            return plain
        inside = {v for node in nodes for v in node.outputs}
        taken = list(dict.fromkeys(v for node in nodes for v in node.inputs if v not in inside))
        graph = Graph("kernel", tuple(taken), tuple(nodes), (value,))
        [noise] = rounding_noise(graph, [self._value(v) for v in taken], [expected])
        return compare(_shown(value), value.type, actual, expected, noise, self.requested)

    # -- what a kernel is

    def _fault(self, kind: FaultKind, what: str, group: _Group, differences: Sequence[Difference] = ()) -> Fault:
        program = self.compiled.program
        launches = [step for step in (*program.prepare, *program.steps) if isinstance(step, Computation)]
        layers = list(dict.fromkeys(name for node in group.nodes for name in layer_names(node)))
        return Fault(
            kind,
            what,
            "",
            differences,
            Kernel(
                layers or [program.name],
                list(dict.fromkeys(self.operators[name] for name in layers if name in self.operators)),
                list(group.launches),
                list(dict.fromkeys(launches[i].symbol for i in group.launches)),
                list(dict.fromkeys(self._schedule(step) for step in group.steps)),
                "\n".join(_region(node) for node in group.nodes),
            ),
        )

    def _schedule(self, step: Step) -> str:
        if step.emission.fallback:
            return f"plain loops ({step.emission.fallback})"
        if step.kernel is None:
            return "a routine"
        schedule = self.target.schedule(scheduled_kernel(step.kernel), step.parameters)
        return "loops with extents as arguments" if schedule is None else _entry(entry_of(schedule))  # type: ignore[arg-type]


def _groups(compiled: Compilation) -> Iterator[_Group]:
    """The launches of a program in the order in which they run, by what they compute."""
    steps, placement, prepared = compiled.steps, compiled.placement, compiled.placement.prepared
    numbered = enumerate((*placement.prepare, *placement.run))
    count = len(placement.prepare)

    def key(item: tuple[int, int]) -> tuple[bool, Node]:
        launch, number = item
        only_packs = launch < count and not prepared.issuperset(steps[number].node.outputs)
        return only_packs, steps[number].node

    for (only_packs, _), items in groupby(numbered, key):
        launches = list(items)
        own = () if only_packs else tuple(steps[n] for n in dict.fromkeys(n for _, n in launches))
        yield _Group(tuple(launch for launch, _ in launches), own)


def _read_unpacked(steps: Sequence[Step]) -> Iterator[Value]:
    """The operands that kernels read where they were computed: packed ones can be gone."""
    for step in steps:
        packed = {position for position, _, _ in step.packs}
        yield from (v for i, v in enumerate(step.operands) if i not in packed)


def _memory(array: Array, type: TensorType) -> Array:
    """A copy of an operand in its layout."""
    return np.array(stored(array, type))


def _shown(value: Value) -> str:
    node = value.node
    names = layer_names(node) if node is not None else []
    return value.name or " + ".join(names) or (node.op.name if node is not None else "an input")


def _region(node: Node) -> str:
    text = str(node.op.body) if isinstance(node.op, Fused) else node.describe()
    lines = text.splitlines()
    return "\n".join([*lines[:_REGION_LINES], *(["..."] if len(lines) > _REGION_LINES else [])])


def _entry(entry: Mapping[str, object]) -> str:
    numbers = " ".join(f"{name}={value}" for name, value in entry.items() if name != "kind")
    return f"{entry['kind']} {numbers}"
