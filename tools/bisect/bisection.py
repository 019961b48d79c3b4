"""Bisects the compilation of a graph: its passes, its kernels, and the program as a whole.

    prediction   decompose, then each pass of the stages optimise and lower, then the kernels
    training     the joint graph of results and gradients, its passes and its partition, then both graphs as above

The reference of the passes is the graph directly after decompose, or after differentiate for gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...codegen.driver import compile_steps
from ...codegen.target import Target
from ...ir.code_store import NO_STORE, CodeStore
from ...ir.dialects.core import evaluate_graph
from ...ir.dialects.core.split import Split
from ...ir.dialects.mx.operator import Operator
from ...ir.graph import Graph
from ...ir.types import TensorType
from ...passes.decompose import Decompose
from ...passes.differentiate import Differentiate
from ...passes.manager import Context, Options
from ...passes.pipeline import JOINT, LOWER, OPTIMISE, TO_CORE, to_core_with_gradients
from ...passes.training import backward_graph, training_graphs
from .compare import Array, in_dtype
from .disturb import rounding_noise
from .findings import Fault, Findings, Stage
from .kernels import KernelCheck, is_determined
from .stages import Comparison, wrong_pass

KEY = np.array([1, 2, 3, 0], np.uint32)
"""The random key of graphs that draw random numbers, unless a caller has one."""


class Bisection:
    """Bisects compilations for a target. `given` is the tolerance of floats, None for that of each dtype; `kernels`
    has machine code that was compiled before. `findings` collects what was compared, up to the first fault."""

    def __init__(self, target: Target, requested: float | None = None, kernels: CodeStore = NO_STORE) -> None:
        self.target, self.requested, self.kernels = target, requested, kernels
        self.findings = Findings()
        self.operators: dict[str, str] = {}

    def prediction(self, graph: Graph, options: Options, inputs: Sequence[Array]) -> Findings:
        """Bisect the program of a graph of mx or core nodes on these inputs; BF16 arrays are float32."""
        self.operators |= operators_of(graph)
        self._program(graph.name, graph, replace(options, verifies=False), inputs)
        return self.findings

    def training(
        self, graph: Graph, wrt: Sequence[int], options: Options, inputs: Sequence[Array], rows: Sequence[int] = ()
    ) -> Findings:
        """Bisect the forward and the backward program of a graph, for random cotangents."""
        self.operators |= operators_of(graph)
        options = replace(options, verifies=False)
        joint = self.joint(graph, wrt, options, inputs, rows)
        if joint is None:
            return self.findings
        split, complete, cotangents = joint
        own = replace(options, training=False)
        results = evaluate_graph(split.forward, complete)
        types = self._program(f"{graph.name}, forward graph", split.forward, own, complete)
        if types is not None:
            residuals = _residuals(split, complete, results)
            backward = backward_graph(split, types)
            self._program(f"{graph.name}, backward graph", backward, own, [*residuals, *cotangents])
        return self.findings

    # -- a program

    def _program(
        self, title: str, graph: Graph, options: Options, inputs: Sequence[Array]
    ) -> tuple[TensorType, ...] | None:
        """Bisect one program. Returns the types of its results; None after a fault."""
        context = Context(self.target, options)
        core = lowered(graph, context)
        complete = with_key(core, inputs)
        expected = evaluate_graph(core, complete)
        compare = Comparison(self.findings, title, self.requested, noise_of(core, complete, expected))
        compare.refer(TO_CORE[-1].name)
        if compare.passes((*OPTIMISE, *LOWER), core, context, complete, expected) is None:
            return None
        return self._code(compare, graph, options, complete, expected)

    def _code(
        self, compare: Comparison, graph: Graph, options: Options, inputs: Sequence[Array], expected: Sequence[Array]
    ) -> tuple[TensorType, ...] | None:
        """Compare the kernels, and then a run of the whole program. Returns the types of the results."""
        compiled = compile_steps(graph, self.target, options, self.kernels)
        check = KernelCheck(compiled, self.target, inputs, self.operators, self.requested)
        fault = check.first_fault()
        values = compiled.graph.outputs
        if fault is not None:
            compare.agrees("kernels", fault.differences, fault)
            self.findings.fault = replace(fault, graph=compare.title)
            return None
        self.findings.kernels += len(check.groups)
        if not is_determined(compiled.graph):
            expected = check.computed()
        stepwise = Fault("memory", "a result is not what its kernel computed: other values overwrote it", "")
        if not compare.agrees("kernels", compare.differences(values, check.outputs(), expected), stepwise):
            return None
        whole = KernelCheck(compiled, self.target, inputs, self.operators, self.requested)
        whole.executable.run(*whole.addresses)
        text = "each kernel alone is right, but a run of the whole program is wrong: threads or launches interfere"
        if not compare.agrees(
            "program", compare.differences(values, whole.outputs(), expected), Fault("program", text, "")
        ):
            return None
        return compiled.program.outputs

    # -- the graphs of a training step

    def joint(
        self, graph: Graph, wrt: Sequence[int], options: Options, inputs: Sequence[Array], rows: Sequence[int]
    ) -> tuple[Split, list[Array], list[Array]] | None:
        """Bisect the stages up to partition. Returns the split, the inputs of its forward graph, and the cotangents;
        None after a fault."""
        context = Context(self.target, options)
        lowering, *passes = to_core_with_gradients(wrt)
        plain, core = Decompose().run(graph, context), lowering.run(graph, context)
        complete = with_key(plain, inputs)
        expected = evaluate_graph(core, complete)
        count = len(core.outputs) - len(core.updates)
        title = f"{graph.name}, joint graph"
        compare = Comparison(self.findings, title, self.requested, noise_of(core, complete, expected))
        compare.refer(lowering.name)
        results = compare.differences(plain.outputs[:count], evaluate_graph(plain, complete)[:count], expected[:count])
        if not compare.agrees("decompose for a prediction", results, wrong_pass(lowering)):
            return None
        changed = compare.passes(passes, core, context, complete, expected)
        if changed is None:
            return None
        core = changed
        step = Differentiate(tuple(wrt))
        joint = step.run(core, context)
        cotangents = random_values([v.type for v in joint.inputs[len(complete) :]])
        values = evaluate_graph(joint, [*complete, *cotangents])
        kept = [*range(count), *range(len(values) - len(core.updates), len(values))]
        compare = Comparison(self.findings, title, self.requested, noise_of(joint, [*complete, *cotangents], values))
        same = compare.differences([joint.outputs[i] for i in kept], [values[i] for i in kept], expected, kept)
        if not compare.agrees(step.name, same, wrong_pass(step)):
            return None
        self.findings.stages.append(Stage(compare.title, "gradients"))
        if compare.passes(JOINT, joint, context, [*complete, *cotangents], values) is None:
            return None
        split = training_graphs(graph, wrt, context, rows)
        if split.rows:  # gradients are rows here, and not sums: their programs are compared
            return split, complete, cotangents
        differences = compare.differences(joint.outputs, _composed(split, joint, complete, cotangents, count), values)
        fault = Fault("pass", "the partition (passes/partition.py) changes the numbers", "")
        return (split, complete, cotangents) if compare.agrees("partition", differences, fault) else None


def operators_of(graph: Graph) -> dict[str, str]:
    """The names of MXNet's operators by the names of layers."""
    return {node.name: node.op.mx_name() for node in graph.nodes if isinstance(node.op, Operator) and node.name}


def lowered(graph: Graph, context: Context) -> Graph:
    """The graph in core, before all other passes."""
    for step in TO_CORE:
        graph = step.run(graph, context)
    return graph


def noise_of(graph: Graph, inputs: Sequence[Array], expected: Sequence[Array]) -> Callable[[], list[Array]]:
    """A function that computes what rounding can cause in the outputs of a graph, which are `expected`."""
    own = list(expected)
    return lambda: rounding_noise(graph, inputs, own)


def with_key(core: Graph, inputs: Sequence[Array]) -> list[Array]:
    """The inputs of a graph of core, with a random key if the graph takes one more."""
    return [*inputs, KEY] if len(inputs) < len(core.inputs) else list(inputs)


def random_values(types: Sequence[TensorType]) -> list[Array]:
    """Random floats, and zeros for other dtypes, because 0 is always a valid index."""
    generator = np.random.default_rng(0)
    return [
        in_dtype(generator.standard_normal(t.shape) if t.dtype.is_float else np.zeros(t.shape), t.dtype) for t in types
    ]


def _residuals(split: Split, inputs: Sequence[Array], results: Sequence[Array]) -> list[Array]:
    return [(inputs if s.is_input else results)[s.position] for s in split.residuals]


def _composed(
    split: Split, joint: Graph, inputs: Sequence[Array], cotangents: Sequence[Array], count: int
) -> list[Array]:
    """The outputs of the joint graph, computed by the forward graph and then by the backward graph."""
    forward, backward = split.forward, split.backward
    first = evaluate_graph(forward, inputs)
    second = evaluate_graph(backward, [*_residuals(split, inputs, first), *cotangents])
    updated: Mapping[int, Array] = dict(zip(forward.updates, first[len(first) - len(forward.updates) :], strict=True))
    late = zip(backward.updates, second[len(second) - len(backward.updates) :], strict=True)
    updated = {**updated, **{split.residuals[i].position: array for i, array in late}}
    gradients = second[: len(second) - len(backward.updates)]
    return [*first[:count], *gradients, *(updated[i] for i in joint.updates)]
