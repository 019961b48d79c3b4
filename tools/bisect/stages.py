"""Interprets a graph after each pass and compares its outputs with those of the graph before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from ...ir.dialects.core import evaluate_graph
from ...ir.graph import Graph, Value
from ...passes.manager import Context, Pass, run_passes
from ...passes.narrow_weights import NarrowWeights
from .compare import Array, Difference, compare, worst
from .findings import Fault, Findings, Stage

ROUNDING = (NarrowWeights,)
"""Passes that change the numbers on purpose: what they compute is the reference of the passes after them."""


class Comparison:
    """Compares the outputs of graphs of one computation. `title` names it in the report, `given` is the tolerance.
    `noise` returns what rounding can cause in the outputs; it is asked only if outputs differ."""

    def __init__(
        self, findings: Findings, title: str, requested: float | None, noise: Callable[[], list[Array]]
    ) -> None:
        self.findings, self.title, self.requested, self.noise = findings, title, requested, cache(noise)

    def differences(
        self, values: Sequence[Value], actual: Sequence[Array], expected: Sequence[Array], which: Sequence[int] = ()
    ) -> list[Difference]:
        """The difference of each output; `which` are their positions among all outputs."""
        differences: list[Difference] = []
        for i, v, a, b in zip(which or range(len(values)), values, actual, expected, strict=True):
            name = v.name or f"output {i}"
            plain = compare(name, v.type, a, b, requested=self.requested)
            differences.append(
                compare(name, v.type, a, b, self.noise()[i], self.requested) if plain.is_wrong else plain
            )
        return differences

    def refer(self, step: str) -> None:
        """Add the stage that is the reference of those after it."""
        self.findings.stages.append(Stage(self.title, step))

    def agrees(self, step: str, differences: Sequence[Difference], fault: Fault) -> bool:
        """Add a stage; if it is wrong, the fault too. True if it is right."""
        self.findings.stages.append(Stage(self.title, step, worst(differences)))
        wrong = [d for d in differences if d.is_wrong]
        if wrong:
            self.findings.fault = Fault(fault.kind, fault.what, self.title, wrong, fault.kernel)
        return not wrong

    def passes(
        self, passes: Sequence[Pass], graph: Graph, context: Context, inputs: Sequence[Array], expected: list[Array]
    ) -> Graph | None:
        """Run the passes in order. Returns the graph after the last one, and replaces what is `expected` where a pass
        rounds on purpose; None if a pass changes the outputs."""
        for step in passes:
            changed = run_passes((step,), graph, context)
            if changed is graph:
                continue
            graph = changed
            actual = evaluate_graph(graph, inputs)
            if isinstance(step, ROUNDING):
                expected[:] = actual
                self.refer(step.name)
                continue
            differences = self.differences(graph.outputs, actual, expected)
            if not self.agrees(step.name, differences, wrong_pass(step)):
                return None
        return graph


def wrong_pass(step: Pass) -> Fault:
    """The fault that a pass changes the numbers."""
    cls = type(step)
    where = f"{cls.__module__.partition('.')[2].replace('.', '/')}.py"
    return Fault("pass", f"the pass {step.name} ({where}) changes the numbers", "")
