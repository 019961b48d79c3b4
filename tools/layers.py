"""The layers of a model: what each computes, and which launches of the program compute it."""

from __future__ import annotations

from collections import Counter, defaultdict

from ..ir.dialects.core import Call, Scan, products_of
from ..ir.dialects.mx.operator import Operator
from ..ir.graph import Graph
from ..ir.program import Program
from ..ir.target import REFERENCE
from ..passes.decompose import Decompose
from ..passes.manager import Context, Options, run_passes
from .models import Model
from .schemas.inspect import Layer


def describe_layers(model: Model, graph: Graph, program: Program) -> tuple[Layer, ...]:
    """The nodes of the graph, in order."""
    products = multiply_adds(run_passes((Decompose(),), graph, Context(REFERENCE, Options())))
    launches = _launches(program)
    counted: set[str] = set()
    layers: list[Layer] = []
    for node in graph.nodes:
        assert isinstance(node.op, Operator)
        own = [v for v in node.inputs if v.node is None and v.name in model.parameters and v.name not in counted]
        counted.update(v.name for v in own)
        layers.append(
            Layer(
                name=node.name,
                operator=node.op.mx_name(),
                output=node.outputs[0].type.shape if node.outputs else (),
                parameters=sum(v.type.size for v in own),
                multiply_adds=products[node.name],
                bytes=sum(v.type.nbytes for v in node.outputs),
                launches=tuple(launches[node.name]),
            )
        )
    return tuple(layers)


def _launches(program: Program) -> dict[str, list[int]]:
    launches: dict[str, list[int]] = defaultdict(list)
    for number, launch in enumerate(program.computations):
        for layer in launch.layers:
            launches[program.names[layer]].append(number)
    return launches


def multiply_adds(core: Graph) -> Counter[str]:
    """The products that the nodes of a core graph add up, by the names of layers: of convolutions, padding
    included, and of matrix products. Loops with a known number of steps count all of them."""
    counts: Counter[str] = Counter()
    _count(core, 1, "", counts)
    return counts


def _count(graph: Graph, times: int, layer: str, counts: Counter[str]) -> None:
    for node in graph.nodes:
        name = layer or node.name
        if isinstance(node.op, Call):
            _count(node.op.body, times, name, counts)
        elif isinstance(node.op, Scan):
            _count(node.op.body, times * node.op.length, name, counts)
        else:
            counts[name] += times * products_of(node)
