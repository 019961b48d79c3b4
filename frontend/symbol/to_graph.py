"""Converts a symbol to a graph of the mx dialect, the compiler's input."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from ...ir.graph import Graph, GraphBuilder, GraphError, Value
from ...ir.types import TensorType
from ..base import MXNetError
from ..tracebacks import cause_of
from .network import Network
from .node import SymNode, execution_order

if TYPE_CHECKING:
    from ...ir.dialects.mx.custom import Custom
    from ...ir.dialects.mx.operator import Operator
    from .kept_operators import KeptOperators
    from .symbol import Symbol

    Keep = Callable[[SymNode], KeptOperators]


def symbol_to_graph(
    symbol: Symbol,
    types: Mapping[str, TensorType],
    parameters: Iterable[str] = (),
    name: str = "",
    keep: Keep | None = None,
) -> Graph:
    """The graph that computes the outputs of `symbol`.

    Its inputs are the variables in the order of `list_inputs`; `types` holds their types by name. Variables in
    `parameters` are marked as parameters. Nodes keep their names and source locations. `keep(node)` keeps the
    operators of a node in Python; without it each run creates them. MXNetError names a node with invalid operands.
    """
    network = Network(symbol._entries)
    inferred = network.infer({n: t.shape for n, t in types.items()}, {n: t.dtype for n, t in types.items()})
    operators = {use.outputs[0]: use.op for use in inferred.uses}
    builder = GraphBuilder(name or symbol.name or "group")
    marked = frozenset(parameters)
    values: dict[SymNode, Sequence[Value]] = {
        node: [builder.input(_type_of(node, types), node.name, parameter=node.name in marked)]
        for node in network.variables
    }
    for node in execution_order(symbol._entries):
        if node.is_variable:
            continue
        operands = [values[e.node][e.index] for e in node.inputs]
        try:
            op = _kept(operators[network.first[node]], node, keep)
            lowered = builder.node(op, *operands, name=node.name, location=node.location)
        except (GraphError, NotImplementedError) as error:
            reason = error.reason if isinstance(error, GraphError) else error
            raise MXNetError(f"Error in operator {node.name}: {reason}") from cause_of(error)
        values[node] = lowered.outputs
    return builder.build([values[e.node][e.index] for e in symbol._entries])


def _kept(op: Operator, node: SymNode, keep: Keep | None) -> Operator:
    """The operator of a node; if it is in Python, with the place where its instances are kept."""
    if type(op).is_shared or keep is None:
        return op
    return cast("Custom", op).with_kept(keep(node))


def _type_of(node: SymNode, types: Mapping[str, TensorType]) -> TensorType:
    type = types.get(node.name)
    if type is None:
        raise MXNetError(f"the type of the variable {node.name!r} is missing")
    return type
