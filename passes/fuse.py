"""Groups core nodes into regions; each region becomes one kernel."""

from __future__ import annotations

from collections.abc import Container

from ..ir.dialects.core import (
    Cast,
    Conv,
    ConvWeightGradient,
    Dot,
    Gather,
    Pad,
    Pointwise,
    Relayout,
    Reverse,
    Slice,
    Transpose,
)
from ..ir.graph import Graph, Node, Value
from ..ir.lazy_dataclass import dataclass
from ..ir.symbolic import is_symbolic, known_same
from ..ir.target import REFERENCE, Capabilities
from ..ir.types import DType, TensorType
from .copies import is_cheap
from .elementwise_groups import join_elementwise
from .epilogues import join_epilogues
from .groups import MAX_RESULTS, Group, GroupGraph, find_dataflow
from .kinds import INDEX_MAPS, Kind, kind_of
from .manager import Context, Pass
from .plan_memory import find_prepared
from .product_parts import join_parts
from .regions import extract_regions
from .row_reads import Rows, reads_own_rows


@dataclass(frozen=True)
class Fuse(Pass):
    """Replace groups of nodes by Fused nodes whose bodies are the groups.

    A contraction is fused with the pointwise chain after it, except a weight gradient, which is stored transposed.
    Reductions over the same rows are fused with the pointwise work before, between and after them (softmax, layer norm:
    one region), but reductions of parameters not with work on data. Pointwise nodes and index maps are fused if the
    intermediate value has one reader; elementwise nodes of row-major values also if it has several
    (`elementwise_groups.py`). A product is fused with functions of equal pieces of its columns (`product_parts.py`), a
    convolution with what moves the parameters that are its weights.
    Broadcasts, scalars and unit reshapes are copied into every region that reads them, and so are a few simple
    operations on one operand if several reductions read their result (`copies.py`).
    A gather and the transpose that follows it, with which `take` puts the axis in its place, are one region.
    Index maps that follow each other are one region where the target moves elements faster so (`joins_moves`).
    `repeated_reads`: products are also fused with elementwise nodes that read them several times (`epilogues.py`).
    Needs: core, layouts assigned. Keeps: values, and opaque nodes (large constants, reshapes, loops).
    """

    name = "fuse"
    repeated_reads: bool = False

    def run(self, graph: Graph, context: Context) -> Graph:
        fuser = _joined(graph, context.target)
        if self.repeated_reads:
            join_epilogues(fuser.groups)
        copied = fuser.copied_nodes()
        return extract_regions(graph, {n: g for n, g in fuser.groups.of.items() if n not in copied}, copied)


def find_groups(graph: Graph, target: Capabilities = REFERENCE) -> GroupGraph:
    """The groups that become the regions of `graph`, without repeated reads."""
    return _joined(graph, target).groups


def _joined(graph: Graph, target: Capabilities) -> _Fuser:
    fuser = _Fuser(graph, target)
    fuser.join_behind()
    fuser.absorb_prologues()
    join_elementwise(fuser.groups)
    fuser.absorb_shifts()
    join_parts(fuser.groups, target)
    fuser.absorb_moves_of_weights()
    return fuser


_FIRST = {Kind.CONTRACT: 0, Kind.ROW: 1, Kind.WINDOW: 2}
"""The order in which a node tries to join the groups that it reads; other kinds are last."""


class _Fuser:
    def __init__(self, graph: Graph, target: Capabilities) -> None:
        self.graph, self.joins_moves = graph, target.joins_moves
        self.flow = find_dataflow(graph)
        self.groups = GroupGraph(self.flow)
        self.order = {n: i for i, n in enumerate(graph.nodes)}
        self.prepared = find_prepared(graph)

    def join_behind(self) -> None:
        """Join each node with the groups that it reads."""
        group_of = self.groups.of
        for node, producers in self.flow.producers.items():
            self.groups.add(node)
            for producer in sorted(producers, key=lambda n: _FIRST.get(group_of[n].kind, len(_FIRST))):
                self._try_join(producer, node)

    def _try_join(self, producer: Node, node: Node) -> None:
        before, own = self.groups.of[producer], self.groups.of[node]
        if before is own or not self._fits(before, own, producer, node):
            return
        if self.groups.closes_cycle(before, own) or not self._keeps_rows(before, own):
            return
        self.groups.merge(before, own)

    def _keeps_rows(self, before: Group, own: Group) -> bool:
        """True if the merged group would read its reductions only at their own rows."""
        rows = before.rows or own.rows
        if rows is None:
            return True
        shape = rows.shape
        symbolic = any(map(is_symbolic, shape))  # then the next line would record guards
        kept = [n for k, n in enumerate(shape) if k not in rows.axes and n != 1]
        if not symbolic and all(shape.count(n) == 1 for n in kept):  # extents distinguish the axes of reductions
            return True
        members = {*before.nodes, *own.nodes}
        between: set[Node] = set()
        stack = [v for n in members for v in n.inputs]
        while stack:
            source = stack.pop().node
            if source is not None and source not in between and kind_of(source) is Kind.VIRTUAL:
                between.add(source)
                stack.extend(source.inputs)
        return reads_own_rows(sorted(members | between, key=self.order.__getitem__), rows)

    def _fits(self, before: Group, own: Group, producer: Node, node: Node) -> bool:
        if before.kind is Kind.ROW and own.kind in (Kind.ROW, Kind.POINTWISE):
            runs_once = producer.outputs[0] in self.prepared and node.outputs[0] not in self.prepared
            return not runs_once and self._fits_rows(before, own, node)
        if not self._is_read_by(own, producer):
            return False
        same_space = _same_space(producer, node) and self._reads_directly(node, producer)
        match before.kind, own.kind:
            case Kind.POINTWISE, Kind.POINTWISE:
                return same_space or _is_index_map(node)
            case ((Kind.CONTRACT | Kind.WINDOW), Kind.POINTWISE):
                joins = isinstance(node.op, Pointwise | Cast) and not isinstance(producer.op, ConvWeightGradient)
                return same_space and joins
            case Kind.MOVE, Kind.POINTWISE:
                return same_space
            case Kind.MOVE, Kind.MOVE if isinstance(producer.op, Gather):
                return isinstance(node.op, Transpose)
            case Kind.MOVE, Kind.MOVE:
                return self.joins_moves and isinstance(producer.op, INDEX_MAPS) and _is_index_map(node)
            case Kind.POINTWISE, Kind.MOVE:
                return (
                    isinstance(node.op, INDEX_MAPS)
                    and producer.outputs[0].type.layout is None
                    and _keeps_channels(before, node)
                )
            case Kind.POINTWISE, Kind.ROW:
                return own.rows is not None and _has_rows(producer, own.rows) and not _changes_layout(before)
            case _:
                return False

    def _is_read_by(self, own: Group, producer: Node) -> bool:
        """True if only `own` reads the result of `producer`. Checks the last reader first: it is often not yet in a
        group."""
        readers = reversed(self.flow.readers[producer])
        return producer not in self.flow.leaving and all(self.groups.of.get(r) is own for r in readers)

    def _reads_directly(self, node: Node, producer: Node) -> bool:
        return any(v.node is producer for v in node.inputs)

    def _fits_rows(self, before: Group, own: Group, node: Node) -> bool:
        """Rows of one space can share a region whose results have the full space or the space of the reduced rows. In
        blocks, only rows that keep the channels write the full space."""
        rows = before.rows
        assert rows is not None
        if own.rows is not None:
            return own.rows == rows
        if _has_rows(node, rows):
            return rows.block == 1 or 1 not in rows.axes
        return _is_of_rows(node, rows)

    def absorb_prologues(self) -> None:
        """Merge each pointwise group into the region that holds all its readers. An output of the graph can join a
        region that moves no element; the region then has several results of one shape."""
        for node in reversed(self.flow.producers):
            before = self.groups.of[node]
            if before.kind is not Kind.POINTWISE or before.last is not node:
                continue
            readers = {self.groups.of[r] for r in self.flow.readers[node]}
            if len(readers) != 1:
                continue
            (own,) = readers
            if node in self.flow.leaving and not self._can_have_results(before, own):
                continue
            if own is before or not self._fits_prologue(before, own, node):
                continue
            if not self.groups.closes_cycle(before, own) and self._keeps_rows(before, own):
                self.groups.merge(before, own)

    def _fits_prologue(self, before: Group, own: Group, node: Node) -> bool:
        """True if the region of `own` can compute what `before` computes, ending with `node`: at each of its points,
        once for each of its rows, or at each point of its epilogue."""
        same_space = _same_space(node, own.last)
        match own.kind:
            case Kind.ROW:
                assert own.rows is not None
                if _is_of_rows(node, own.rows):
                    return True
                return _has_rows(node, own.rows) and not _changes_layout(before)
            case Kind.POINTWISE:
                return same_space
            case Kind.CONTRACT | Kind.WINDOW:
                simple = all(isinstance(n.op, Pointwise | Cast) for n in (*before.nodes, *self.flow.readers[node]))
                return same_space and simple
            case _:
                return False

    def absorb_shifts(self) -> None:
        """Merge what shifts elements along an axis into the pointwise group whose nodes alone read it. Before such
        groups were joined, each of these nodes was in another one."""
        for node in reversed(self.flow.producers):
            before = self.groups.of[node]
            if len(before.nodes) > 1 or not isinstance(node.op, Pad | Slice) or node in self.flow.leaving:
                continue
            readers = self.flow.readers[node]
            if len(before.readers) != 1 or not all(
                _same_space(node, r) and self._reads_directly(r, node) for r in readers
            ):
                continue
            (own,) = before.readers
            if own.kind is Kind.POINTWISE and not self.groups.closes_cycle(before, own):
                self.groups.merge(before, own)

    def copied_nodes(self) -> set[Node]:
        """The nodes of pointwise groups that all their readers compute again: rows of the same space, which then read
        one operand of that size instead of the result. The result is neither written nor kept."""
        return {
            n
            for node in self.flow.producers
            if self.groups.of[node].last is node and self._is_copied(self.groups.of[node])
            for n in self.groups.of[node].nodes
        }

    def _is_copied(self, group: Group) -> bool:
        if group.kind is not Kind.POINTWISE or len(group.readers) < 2 or not is_cheap(group):
            return False
        if any(n in self.flow.leaving or (n is not group.last and self._has_reader_outside(n)) for n in group.nodes):
            return False
        return all(
            own.kind is Kind.ROW
            and own.rows is not None
            and _has_rows(group.last, own.rows)
            and self._keeps_rows(group, own)
            for own in group.readers
        )

    def _has_reader_outside(self, node: Node) -> bool:
        return any(self.groups.of[r] is not self.groups.of[node] for r in self.flow.readers[node])

    def absorb_moves_of_weights(self) -> None:
        """Merge what moves parameters along their axes into the region of the convolution whose weights they are, and
        what rounds the weights of any contraction: weights are packed, in whichever order they are read."""
        parameters = {self.graph.inputs[i] for i in self.graph.parameters}
        for node in self.flow.producers:
            moves = self._moves_of(node.inputs[1], parameters) if isinstance(node.op, Conv) else []
            for source in moves or _rounding_of(node):
                before, own = self.groups.of[source], self.groups.of[node]
                if len(before.nodes) > 1 or not self._is_read_by(own, source) or self.groups.closes_cycle(before, own):
                    break
                self.groups.merge(before, own)

    def _moves_of(self, value: Value, parameters: Container[Value]) -> list[Node]:
        """The nodes that make `value` of a parameter, from the last to the first, if all of them move elements."""
        moves: list[Node] = []
        while value not in parameters:
            node = value.node
            if node is None or not node.inputs:
                return []
            if isinstance(node.op, Transpose | Reverse | Slice):
                moves.append(node)
            elif kind_of(node) is not Kind.VIRTUAL:
                return []
            value = node.inputs[0]
        return moves

    def _can_have_results(self, before: Group, own: Group) -> bool:
        """True if both groups together have few results, computed elementwise."""
        nodes = (*before.nodes, *own.nodes)
        flat = all(isinstance(n.op, Pointwise | Cast) for n in nodes)
        return flat and sum(n in self.flow.leaving for n in nodes) <= MAX_RESULTS


def _rounding_of(node: Node) -> list[Node]:
    """The node that rounds the weights of a contraction from the dtype of its sums to bfloat16."""
    if not isinstance(node.op, Conv | Dot):
        return []
    source = node.inputs[1].node
    if source is None or not isinstance(source.op, Cast) or source.op.dtype is not DType.BF16:
        return []
    return [source] if source.inputs[0].type.dtype is node.op.accumulator is DType.F32 else []


def _has_rows(node: Node, rows: Rows) -> bool:
    """True if a node's result has the full space of rows, in their format."""
    type = node.outputs[0].type
    return known_same(type.shape, rows.shape) and _block(type) == rows.block


def _is_of_rows(node: Node, rows: Rows) -> bool:
    """True if a node's result has one element for each row."""
    out = node.outputs[0].type
    reduced = [n for i, n in enumerate(rows.shape) if i not in rows.axes and n != 1]
    return out.layout is None and [n for n in out.shape if n != 1] == reduced


def _changes_layout(group: Group) -> bool:
    """True if a group reads an operand through a Relayout. Rows are read several times: a copy is cheaper."""
    return any(isinstance(n.op, Relayout) for n in group.nodes)


def _is_index_map(node: Node) -> bool:
    return isinstance(node.op, INDEX_MAPS)


def _same_space(a: Node, b: Node) -> bool:
    """True if the results of two nodes have the same shape and channel block, as nodes computed in one loop must."""
    own, other = a.outputs[0].type, b.outputs[0].type
    return known_same(own.shape, other.shape) and _block(own) == _block(other)


def _block(type: TensorType) -> int:
    return type.layout.block if type.layout else 1


def _keeps_channels(before: Group, node: Node) -> bool:
    """True if an index map keeps channel blocks whole: shifting or reversing an axis splits them."""
    if not isinstance(node.op, Slice | Reverse):
        return True
    return not any(v.type.layout for n in before.nodes for v in (*n.inputs, *n.outputs))
