"""Makes layouts explicit: a tensor with its channels last in memory becomes a row-major tensor of permuted axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...ir.dialects.core import (
    Broadcast,
    Cast,
    Concat,
    Conv,
    ConvWeightGradient,
    Pad,
    Pointwise,
    Reduce,
    ReduceWindow,
    Relayout,
    Reverse,
    SelectAndScatter,
    Slice,
    Transpose,
)
from ...ir.graph import Graph, GraphBuilder, Node, Value
from ...ir.lazy_dataclass import dataclass
from ...passes.manager import Context, Pass


@dataclass(frozen=True)
class ChannelsLast(Pass):
    """Replace values (N, C, *spatial) in channels-last memory by row-major values (N, *spatial, C), and each Relayout
    by a Transpose.

    A convolution stays between transposes of its operands and of its result, which the exporter turns into its order of
    axes; its weights are in the order (*taps, C, O), in which its inner loop reads them. Needs: layouts of one block
    without halos, and row-major inputs. Keeps: values.
    """

    name = "channels-last"

    def run(self, graph: Graph, context: Context) -> Graph:
        has_convolutions = any(isinstance(node.op, Conv | ConvWeightGradient) for node in graph.nodes)
        is_stored = any(v.type.layout is not None for node in graph.nodes for v in node.outputs)
        return _Rewriter(graph).run() if has_convolutions or is_stored else graph


@dataclass(frozen=True)
class RowMajorOutputs(Pass):
    """Let the graph return all outputs row-major: none is private. Needs: nothing. Keeps: values."""

    name = "row-major-outputs"

    def run(self, graph: Graph, context: Context) -> Graph:
        return replace(graph, private=frozenset[int]()) if graph.private else graph


class _Rewriter:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.b = graph, GraphBuilder(graph.name)
        self.new: dict[Value, Value] = {v: v for v in graph.inputs}

    def run(self) -> Graph:
        for node in self.graph.nodes:
            self.b.origin, self.b.location = node.name, node.location
            results = self._rewritten(node)
            self.new.update(zip(node.outputs, results, strict=True))
        outputs = tuple([self.new[v] for v in self.graph.outputs])
        return replace(self.graph, nodes=tuple(self.b.nodes), outputs=outputs)

    def _rewritten(self, node: Node) -> Sequence[Value]:
        operands = [self.new[v] for v in node.inputs]
        stored = [_is_last(v) for v in node.inputs]
        if isinstance(node.op, Relayout):
            return [self._as(operands[0], stored[0], _is_last(node.outputs[0]))]
        if isinstance(node.op, Conv | ConvWeightGradient):
            return [self._convolved(node, operands, stored)]
        if not _is_last(node.outputs[0]):
            return self._in_rows(node, operands, stored)
        rank = node.outputs[0].type.rank
        operands = [
            self._as(v, last, True) if v.type.rank == rank else v for v, last in zip(operands, stored, strict=True)
        ]
        return self.b.node(_PERMUTED[type(node.op)](node.op, rank), *operands).outputs

    def _convolved(self, node: Node, operands: Sequence[Value], stored: Sequence[bool]) -> Value:
        is_last = _is_last(node.outputs[0])
        if is_last:  # few channels are second in memory
            operands, stored = [self._as(operands[0], stored[0], True), operands[1]], [True, stored[1]]
        x, w = (self._as(v, last, False) for v, last in zip(operands, stored, strict=True))
        if isinstance(node.op, Conv):
            order = (*range(2, w.type.rank), 1, 0)
            w = self.b.add_node(Transpose(_inverse(order)), self.b.add_node(Transpose(order), w))
        return self._as(self.b.add_node(node.op, x, w), False, is_last)

    def _in_rows(self, node: Node, operands: Sequence[Value], stored: Sequence[bool]) -> Sequence[Value]:
        if not any(stored):
            return self.b.node(node.op, *operands).outputs
        if isinstance(node.op, Reduce):
            rank = node.inputs[0].type.rank
            result = self.b.add_node(replace(node.op, axes=_axes(node.op.axes, rank)), operands[0])
            kept = [k for k in to_last(rank) if k not in node.op.axes]
            order = tuple(sorted(range(len(kept)), key=kept.__getitem__))
            return [result if order == (*range(len(kept)),) else self.b.add_node(Transpose(order), result)]
        operands = [self._as(v, last, False) for v, last in zip(operands, stored, strict=True)]
        return self.b.node(node.op, *operands).outputs

    def _as(self, value: Value, is_last: bool, last: bool) -> Value:
        """A value with its channels last, or second."""
        if is_last == last:
            return value
        rank, source = value.type.rank, value.node
        if last and source is not None and isinstance(source.op, Broadcast):
            axes = [to_last(rank).index(k) for k in source.op.axes]
            if axes == sorted(axes):
                shape = tuple(source.op.shape[k] for k in to_last(rank))
                return self.b.add_node(Broadcast(shape, tuple(axes)), *source.inputs)
        return self.b.add_node(Transpose(to_last(rank) if last else _inverse(to_last(rank))), value)


def to_last(rank: int) -> tuple[int, ...]:
    """The permutation from (N, C, *spatial) to (N, *spatial, C)."""
    return (0, *range(2, rank), 1)


def _inverse(permutation: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(permutation)), key=permutation.__getitem__))


def _is_last(value: Value) -> bool:
    return value.type.layout is not None


def _axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Where axes are when the channels are last, in order."""
    return tuple(sorted(to_last(rank).index(k) for k in axes))


def _same(op: Any, rank: int) -> Any:
    return op


def _with_sequences(*names: str) -> Callable[[Any, int], Any]:
    """A function that permutes attributes with an entry for each axis."""

    def permuted(op: Any, rank: int) -> Any:
        return replace(op, **{name: tuple(getattr(op, name)[k] for k in to_last(rank)) for name in names})

    return permuted


_PERMUTED: dict[type[Any], Callable[[Any, int], Any]] = {
    Cast: _same,
    Concat: lambda op, rank: replace(op, axis=to_last(rank).index(op.axis)),
    Pad: _with_sequences("low", "high", "interior"),
    Pointwise: _same,
    ReduceWindow: _with_sequences("window", "strides", "padding", "dilation"),
    Reverse: lambda op, rank: replace(op, axes=_axes(op.axes, rank)),
    SelectAndScatter: _with_sequences("window", "strides", "padding"),
    Slice: _with_sequences("start", "stop", "step"),
}
"""Primitives that compute channels-last results from channels-last operands: the operation on permuted axes."""
