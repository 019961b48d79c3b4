"""The graph of a program for a reader: its steps, the inputs of the model that are no parameters, and its outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ...ir.lazy_dataclass import dataclass
from ...ir.program import Computation, Copy, Program, Space
from ...ir.program_graph import dependences
from ...ir.step_accesses import Range, StepAccess, step_accesses
from ...ir.types import TensorType

if TYPE_CHECKING:
    from networkx import DiGraph

INPUT, OUTPUT, COPY, FILL = "input", "output", "copy", "fill"


@dataclass(frozen=True)
class Node:
    """An input, an output or a step. `kind` is that of the launch, or one of the above. `units` are those of parallel
    work, and `seconds` is None if the step was not measured."""

    label: str
    kind: str
    nbytes: int = 0
    kernel: str = ""
    units: int = 0
    seconds: float | None = None


@dataclass(frozen=True)
class ProgramGraph:
    """Nodes by number, in the order of the program, and the graph of their numbers (`ir/program_graph.py`)."""

    nodes: Mapping[int, Node]
    graph: DiGraph[int]


def program_graph(
    program: Program, inputs: Sequence[str], outputs: Sequence[str], seconds: Sequence[float] | None = None
) -> ProgramGraph:
    """The graph of a program whose first inputs and whose outputs have these names, and whose launches take so long.
    Inputs and outputs that no step uses are left out."""
    described = [*_inputs(program, inputs), *_steps(program, seconds), *_outputs(program, outputs)]
    graph = dependences([access for _, access in described])
    unused = [n for n, (node, _) in enumerate(described) if node.kind in (INPUT, OUTPUT) and not graph.degree(n)]
    graph.remove_nodes_from(unused)
    return ProgramGraph({n: described[n][0] for n in graph}, graph)


def _inputs(program: Program, names: Sequence[str]) -> Iterator[tuple[Node, StepAccess]]:
    """The inputs that have names and are no parameters, as steps that write them."""
    for i, (name, type) in enumerate(zip(names, program.inputs, strict=False)):
        if i not in program.parameters:
            whole = _whole(Space.INPUT, i, type)
            yield Node(name or f"input {i}", INPUT, type.nbytes), StepAccess((), (whole,))


def _steps(program: Program, seconds: Sequence[float] | None) -> Iterator[tuple[Node, StepAccess]]:
    times = iter(seconds or ())
    for step, access in zip(program.steps, step_accesses(program), strict=True):
        nbytes = sum(r.end - r.begin for r in (*access.reads, *access.writes))
        if isinstance(step, Computation):
            label = program.label(step)
            yield Node(label, step.kind, nbytes, step.symbol, step.count, next(times, None)), access
        elif isinstance(step, Copy):
            yield Node(f"{step.source.text()} to {step.target.text()}", COPY, nbytes), access
        else:
            yield Node(f"zeros to {step.target.text()}", FILL, nbytes), access


def _outputs(program: Program, names: Sequence[str]) -> Iterator[tuple[Node, StepAccess]]:
    """The outputs, as steps that read them."""
    for i, (name, type) in enumerate(zip(names, program.results, strict=True)):
        yield Node(name, OUTPUT, type.nbytes), StepAccess((_whole(Space.OUTPUT, i, type),), ())


def _whole(space: Space, index: int, type: TensorType) -> Range:
    return Range(space, index, 0, type.nbytes)
