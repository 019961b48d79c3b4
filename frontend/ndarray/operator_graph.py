"""The core graph of one operator for operands of certain types, and its compilation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...ir.graph import GraphError
from ...ir.types import TensorType
from ..base import MXNetError
from ..tracebacks import cause_of

if TYPE_CHECKING:
    from ...ir.dialects.mx.operator import Operator
    from ...ir.graph import Graph
    from ...passes.manager import Options
    from ...runtime.device import Device, Runnable


def eager_options(training: bool = False) -> Options:
    """The options of eager calls: arrays of new shapes should not require a compilation."""
    from ...passes.manager import Options

    return Options(training=training, static_shape=False)


def operator_graph(
    operator: Operator, types: Sequence[TensorType], training: bool, own_gradients: bool = False
) -> tuple[Graph, bool]:
    """The core graph of an operator, and whether it depends on the mode. The outputs are the visible ones, then the new
    values of the states. A graph that is differentiated requires `own_gradients`."""
    names = operator.input_names(len(types))
    if len(names) != len(types):
        raise MXNetError(
            f"{operator.mx_name()} takes {len(names)} array{'s' * (len(names) != 1)} ({', '.join(names)}), "
            f"got {len(types)}"
        )
    try:
        return _build(operator, types, training, own_gradients)
    except _MISFITS as error:
        raise MXNetError(refusal(operator, types, error)) from cause_of(error)


def symbolic_graph(operator: Operator, types: Sequence[TensorType], training: bool, own_gradients: bool) -> Graph:
    """The graph of `operator_graph` for operands whose extents can be symbolic; the last type is that of
    `OperatorFunction.with_extents`. GraphError if they do not fit, or if the operator computes tables of their
    extents."""
    from ...ir.dialects.mx.extents import extents_of, with_extents

    if extents_of(operator):
        *types, extents = types
        operator = with_extents(operator, extents.shape)
    try:
        return _build(operator, types, training, own_gradients)[0]
    except (*_MISFITS, AttributeError) as error:  # the last one is what NumPy raises for symbolic numbers
        raise GraphError(str(error)) from cause_of(error)


_MISFITS = TypeError, ValueError, IndexError, NotImplementedError, GraphError


def _build(operator: Operator, types: Sequence[TensorType], training: bool, own_gradients: bool) -> tuple[Graph, bool]:
    from .observer import ObservingBuilder

    b = ObservingBuilder(operator.mx_name(), training=training, own_gradients=own_gradients)
    inputs = [b.input(t, name) for t, name in zip(types, operator.input_names(len(types)), strict=True)]
    b.scalar_inputs(operator)
    outputs = operator.results(b, *inputs)
    return b.build(outputs[: operator.visible_outputs]), b.asked


def refusal(operator: Operator, types: Sequence[TensorType], reason: object) -> str:
    """The error text of an operator for operands of these types."""
    from ...ir.dialects.mx.shapes import operands_text

    operands = zip(operator.input_names(len(types)), types, strict=False)
    listed = operands_text({name: t.description for name, t in operands})
    return f"{operator.title()}: {reason}{listed}"


def compiled(graph: Graph, operator: Operator, device: Device) -> Runnable:
    from ...runtime.compile import executable_for

    try:
        return executable_for(graph, eager_options(), device)
    except GraphError as error:
        raise MXNetError(refusal(operator, graph.input_types(), error)) from cause_of(error)
