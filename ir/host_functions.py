"""Functions of the host that compute one primitive, for programs of targets that have no kernel for it, and their text,
which a stored program contains.
"""

from __future__ import annotations

from .dialects.core.primitive import Primitive
from .graph import GraphBuilder, GraphError, Node
from .parser import ParseError, parse_graph
from .printer import print_graph
from .program import HostFunction
from .verifier import verify_graph


def primitive_function(node: Node) -> HostFunction:
    """The function that computes a node of core by the primitive's own definition."""
    assert isinstance(node.op, Primitive)
    inputs, outputs = (tuple([v.type for v in values]) for values in (node.inputs, node.outputs))
    return HostFunction(None, inputs, outputs, node.describe(), op=node.op)


def function_text(function: HostFunction) -> str:
    """A `primitive_function` as the text of a graph with one node."""
    assert function.op is not None
    b = GraphBuilder(function.label)
    return print_graph(b.build(b.node(function.op, *(b.input(t) for t in function.inputs)).outputs))


def parse_function(text: str) -> HostFunction:
    """The function of this text. ValueError for any other text."""
    try:
        graph = parse_graph(text)
        verify_graph(graph)
    except (ParseError, GraphError) as error:
        raise ValueError(str(error)) from None
    node, *others = graph.nodes or (None,)
    if node is None or others or not isinstance(node.op, Primitive) or node.op.effects():
        raise ValueError(f"the function {graph.name!r} is not one primitive")
    if tuple(node.inputs) != tuple(graph.inputs) or tuple(node.outputs) != tuple(graph.outputs):
        raise ValueError(f"the function {graph.name!r} does not return what its primitive computes")
    return HostFunction(None, graph.input_types(), graph.output_types(), graph.name, op=node.op)
