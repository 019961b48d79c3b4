"""Compiles a graph once for many shapes: a program whose numbers are functions of its inputs' extents.

The compiler runs with symbolic extents (`ir/symbolic.py`). Kernels take the numbers that depend on them as arguments of
their launches. The guards of the trace record the compiler's decisions: the program is valid for all extents that
satisfy them. For such extents it equals, number for number, the program that a dynamic compilation for them returns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..ir.code_store import NO_STORE, CodeStore
from ..ir.computation import Computation
from ..ir.dialects.core.split import Split
from ..ir.dialects.mx.infer_types import Use, infer_types
from ..ir.dialects.mx.operator import Operator
from ..ir.graph import Graph, GraphBuilder, Op, Value
from ..ir.symbolic import Trace
from ..ir.types import Shape, TensorType
from ..passes.manager import Context, Options
from ..passes.training import backward_graph, derivative_options, training_graphs
from .driver import compile_graph
from .dynamic_program import DynamicPair, DynamicProgram
from .target import Target


def compile_dynamic(
    source: Graph | Computation, target: Target, options: Options, kernels: CodeStore = NO_STORE
) -> DynamicProgram:
    """Compile a computation, with `options.dynamic`, for the extents of its inputs and for other extents. A graph has
    only mx nodes, because attributes of core nodes hold constant extents. For `kernels` see `compile_graph`."""
    trace = Trace()
    program = compile_graph(_symbolic(source, trace), target, options, kernels)
    return DynamicProgram(_parameters(source), *trace.divided_evaluator(program))


def compile_dynamic_derivative(
    source: Graph | Computation,
    wrt: Sequence[int],
    rows: Sequence[int],
    target: Target,
    options: Options,
    kernels: CodeStore,
) -> tuple[DynamicPair, Split]:
    """Compile the forward and the backward program of the gradient of a computation by the inputs `wrt`; see
    `compile_dynamic`. Returns the split graphs too, whose structure does not depend on extents. For `rows` see
    `training_graphs`."""
    trace = Trace()
    split = training_graphs(_symbolic(source, trace), wrt, Context(target, options), rows)
    first, last = derivative_options(split, options)
    forward = compile_graph(split.forward, target, first, kernels)
    backward = compile_graph(backward_graph(split, forward.results), target, last, kernels)
    return DynamicPair(_parameters(source), *trace.divided_evaluator((forward, backward))), split


def _parameters(source: Graph | Computation) -> frozenset[int]:
    return source.parameters if isinstance(source, Graph) else source.weights


def _symbolic(source: Graph | Computation, trace: Trace) -> Graph:
    """The computation on symbolic extents. Those of inputs that are not parameters are unknown. Numbers of channels of
    parameters are symbolic constants, so that layers that differ only in channels share code."""
    if isinstance(source, Computation):
        shapes = _shapes([t.shape for t in source.types], source.weights, lambda n: _unless_one(n, trace), trace)
        return source.build([replace(t, shape=shape) for t, shape in zip(source.types, shapes, strict=True)])
    shapes = _shapes([v.type.shape for v in source.inputs], source.parameters, trace.unknown, trace)
    return with_shapes(source, shapes)


def _shapes(
    shapes: Sequence[Shape], parameters: frozenset[int], unknown: Callable[[int], int], trace: Trace
) -> list[Shape]:
    return [_channels(s, trace) if i in parameters else tuple(map(unknown, s)) for i, s in enumerate(shapes)]


def _unless_one(extent: int, trace: Trace) -> int:
    """An unknown extent, which is not 1, or 1: code for axes of one element is simpler."""
    unknown = trace.unknown(extent)
    return 1 if unknown == 1 else unknown


def with_shapes(graph: Graph, shapes: Sequence[Shape]) -> Graph:
    """A graph of mx nodes for inputs of these shapes."""
    b = GraphBuilder(graph.name)
    new: dict[Value, Value] = {}
    for i, (v, shape) in enumerate(zip(graph.inputs, shapes, strict=True)):
        new[v] = b.input(TensorType(shape, v.type.dtype), v.name, parameter=i in graph.parameters)
    for node, op in zip(graph.nodes, _resolved(graph, [v.type for v in new.values()]), strict=True):
        copy = b.node(op, *(new[v] for v in node.inputs), name=node.name, location=node.location)
        new.update(zip(node.outputs, copy.outputs, strict=True))
    built = b.build([new[v] for v in graph.outputs])
    return replace(built, updates=graph.updates, late=graph.late, checks=graph.checks)


def _resolved(graph: Graph, types: Sequence[TensorType]) -> list[Op]:
    """The ops of the nodes for inputs of these types. Some have parameters that inference derives from the nodes that
    read their results."""
    ops = [node.op.unresolved for node in graph.nodes if isinstance(node.op, Operator)]
    if all(op is node.op for op, node in zip(ops, graph.nodes, strict=False)):
        return [node.op for node in graph.nodes]
    numbers = {v: i for i, v in enumerate([*graph.inputs, *(v for node in graph.nodes for v in node.outputs)])}
    uses = [
        Use(op, tuple(numbers[v] for v in node.inputs), tuple(numbers[v] for v in node.outputs), node.name)
        for node, op in zip(graph.nodes, ops, strict=True)
    ]
    shapes, dtypes = dict(enumerate(t.shape for t in types)), dict(enumerate(t.dtype for t in types))
    return [use.op for use in infer_types(uses, shapes, dtypes).uses]


def _channels(shape: Shape, trace: Trace) -> Shape:
    """The shape of a parameter: output and input channels are symbolic, the window of a convolution is not."""
    return tuple(trace.constant(n) if axis < 2 and n > 1 else n for axis, n in enumerate(shape))
