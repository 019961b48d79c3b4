"""The graph of a program for a reader: its steps, the inputs of the model that are no parameters, and its outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ...codegen.accesses import step_accesses
from ...codegen.driver import Compilation
from ...ir.lazy_dataclass import dataclass
from ...ir.program import Computation, Copy, Space
from ...ir.program_graph import Access, Range, dependences
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
    compiled: Compilation, outputs: Sequence[str], seconds: Sequence[float] | None = None
) -> ProgramGraph:
    """The graph of a program whose outputs have these names, and whose launches take so long. Inputs and outputs that
    no step uses are left out."""
    found = [*_inputs(compiled), *_steps(compiled, seconds), *_outputs(compiled, outputs)]
    graph = dependences([access for _, access in found])
    unused = [n for n, (node, _) in enumerate(found) if node.kind in (INPUT, OUTPUT) and not graph.degree(n)]
    graph.remove_nodes_from(unused)
    return ProgramGraph({n: found[n][0] for n in graph}, graph)


def _inputs(compiled: Compilation) -> Iterator[tuple[Node, Access]]:
    """The inputs, as steps that write them."""
    for i, value in enumerate(compiled.graph.inputs):
        if i not in compiled.program.parameters:
            yield (
                Node(value.name or f"input {i}", INPUT, value.type.nbytes),
                Access((), (_whole(Space.INPUT, i, value.type),)),
            )


def _steps(compiled: Compilation, seconds: Sequence[float] | None) -> Iterator[tuple[Node, Access]]:
    program = compiled.program
    times = iter(seconds or ())
    for step, access in zip(program.steps, step_accesses(compiled), strict=True):
        nbytes = sum(r.end - r.begin for r in (*access.reads, *access.writes))
        if isinstance(step, Computation):
            label = program.label(step)
            yield Node(label, step.kind, nbytes, step.symbol, step.count, next(times, None)), access
        elif isinstance(step, Copy):
            yield Node(f"{step.source.text()} to {step.target.text()}", COPY, nbytes), access
        else:
            yield Node(f"zeros to {step.target.text()}", FILL, nbytes), access


def _outputs(compiled: Compilation, names: Sequence[str]) -> Iterator[tuple[Node, Access]]:
    """The outputs, as steps that read them."""
    for i, (name, type) in enumerate(zip(names, compiled.program.results, strict=True)):
        yield Node(name, OUTPUT, type.nbytes), Access((_whole(Space.OUTPUT, i, type),), ())


def _whole(space: Space, index: int, type: TensorType) -> Range:
    return Range(space, index, 0, type.nbytes)
