"""Gradients of loops and branches: a node that also returns residuals, and one that reads them and runs backwards.

A `Splitter` selects the residuals of each nested graph; `recompute` saves only the operands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ...graph import Graph, GraphError, Node, Value
from ...lazy_dataclass import dataclass
from ...types import DType, TensorType
from .control import Cond, While
from .gradient import active_values, cotangent_positions
from .primitive import Gradients
from .scan import Scan
from .split import Source, Split, Splitter, recompute

if TYPE_CHECKING:
    from .builder import CoreBuilder


@dataclass(frozen=True)
class Pulled:
    """The result of differentiating a node.

    `cotangents` belong to the node's operands. The nodes `saving` replace the node: they compute its `results` and the
    residuals.
    """

    cotangents: Gradients
    saving: Sequence[Node]
    results: Sequence[Value]


def _placed(count: int, positions: Sequence[int], values: Sequence[Value]) -> Gradients:
    """A list of length `count` with `values` at `positions` and None elsewhere."""
    by_position = dict(zip(positions, values, strict=True))
    return [by_position.get(i) for i in range(count)]


PullBack = Callable[["CoreBuilder", Node, Sequence[Value | None], Sequence[int], Splitter], Pulled]


def recomputing(pull_back: PullBack, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
    """The cotangents of all operands that have one, by one of the functions below, with only operands as residuals."""
    have = set(cotangent_positions(node.outputs))
    existing = [g if i in have else None for i, g in enumerate(cotangents)]
    return pull_back(b, node, existing, cotangent_positions(node.inputs), recompute).cotangents


# -- scans


def pull_back_scan(
    b: CoreBuilder, node: Node, cotangents: Sequence[Value | None], needed: Sequence[int], split: Splitter
) -> Pulled:
    """A scan that repeats the loop and stacks residuals, and a scan in the opposite order.

    The second scan carries the cotangents of the carries and the sums of the invariants' cotangents.
    """
    assert isinstance(node.op, Scan)
    return _ScanGradient(node.op, node, cotangents, needed).pull_back(b, split)


class _ScanGradient:
    """The values of a scan that have cotangents: positions of operands, in `stacks` positions of results."""

    def __init__(self, op: Scan, node: Node, cotangents: Sequence[Value | None], needed: Sequence[int]) -> None:
        first, self.last = op.carries, op.carries + op.scanned
        self.op, self.node, self.cotangents = op, node, cotangents
        self.carries = _active_carries(op, needed)
        self.slices = [i for i in needed if first <= i < self.last]
        self.invariants = [i for i in needed if i >= self.last]
        self.stacks = [i for i in range(first, len(cotangents)) if cotangents[i] is not None]

    def pull_back(self, b: CoreBuilder, split: Splitter) -> Pulled:
        op, node, body = self.op, self.node, self.op.body
        wrt, seeds = self.carries + self.slices + self.invariants, self.carries + self.stacks
        kept_inputs, kept_outputs = range(op.carries, len(body.inputs)), range(op.carries, len(body.outputs))
        parts = split(body, wrt, seeds, kept_inputs, kept_outputs)
        saving = b.node(replace(op, body=parts.forward), *node.inputs, name=node.name, location=node.location)
        results = self._backward(b, parts, saving)
        cotangents = _placed(len(node.inputs), self.carries + self.invariants + self.slices, results)
        return Pulled(cotangents, [saving], saving.outputs[: len(node.outputs)])

    def _backward(self, b: CoreBuilder, parts: Split, saving: Node) -> Sequence[Value]:
        """The cotangents of carries, invariants and scanned operands."""
        operands = self.node.inputs
        kept = [operands[s.position] if s.is_input else saving.outputs[s.position] for s in parts.residuals]
        fixed = [self._is_fixed(s) for s in parts.residuals]
        start = [self._start(b, i) for i in self.carries] + [b.full_like(operands[i], 0) for i in self.invariants]
        moving = [v for v, f in zip(kept, fixed, strict=True) if not f]
        moving += [g for g in (self.cotangents[i] for i in self.stacks) if g is not None]
        rest = [v for v, f in zip(kept, fixed, strict=True) if f]
        body = self._step(parts, fixed)
        return b.scan(body, start, moving, rest, self.op.length, reverse=not self.op.reverse)

    def _is_fixed(self, source: Source) -> bool:
        return source.is_input and source.position >= self.last

    def _start(self, b: CoreBuilder, carry: int) -> Value:
        cotangent = self.cotangents[carry]
        return cotangent if cotangent is not None else b.full_like(self.node.outputs[carry], 0)

    def _step(self, parts: Split, fixed: Sequence[bool]) -> Graph:
        """One backward step.

        Carries: cotangents of carries, sums for invariants; slices: residuals, cotangents of stacks; invariants:
        invariants that are residuals.
        """
        from .builder import CoreBuilder

        inputs = self.op.body.inputs
        b = CoreBuilder(f"{self.op.body.name}_backward")
        state = [b.input(inputs[i].type, inputs[i].name) for i in self.carries + self.invariants]
        count = len(self.carries)
        kept = list(zip(parts.backward.inputs, fixed, strict=False))
        own: dict[Value, Value] = {v: b.input(v.type, v.name) for v, f in kept if not f}
        seeds = [b.input(self.op.body.outputs[i].type) for i in self.stacks]
        own.update({v: b.input(v.type, v.name) for v, f in kept if f})
        results = b.inline(parts.backward, [*(own[v] for v, _ in kept), *state[:count], *seeds])
        carries, slices = results[:count], results[count : count + len(self.slices)]
        sums = [b.add(s, g) for s, g in zip(state[count:], results[count + len(slices) :], strict=True)]
        return b.build([*carries, *sums, *slices])


def _active_carries(op: Scan, needed: Sequence[int]) -> list[int]:
    """The carries that have a cotangent: those in `needed` and those that depend on needed values after some steps."""
    body = op.body
    active = {i for i in needed if i < op.carries}
    others = [body.inputs[i] for i in needed if i >= op.carries]
    while True:
        reached = active_values(body.nodes, [*(body.inputs[i] for i in active), *others])
        grown = active | {i for i in range(op.carries) if body.outputs[i] in reached}
        if grown == active:
            return sorted(active)
        active = grown


# -- loops of bounded length


def pull_back_while(
    b: CoreBuilder, node: Node, cotangents_of_results: Sequence[Value | None], needed: Sequence[int], split: Splitter
) -> Pulled:
    """The gradient of a scan with as many steps as the loop can take; steps after the loop's exit change nothing."""
    op, first = node.op, len(b.nodes)
    assert isinstance(op, While)
    if op.limit is None:
        raise GraphError(f"{node.describe()} has no gradient: its number of steps is unbounded; use a scan")
    count = len(node.inputs)
    fixed = [i for i in range(count) if op.body.outputs[i] is op.body.inputs[i]]
    order = [i for i in range(count) if i not in fixed] + fixed  # changing values are carried, the others are invariant
    (goes_on,) = b.inline(op.cond, node.inputs)
    scan = Scan(_guarded_step(op, order, len(fixed)), op.limit, 1 + count - len(fixed), 0)
    operands = (goes_on, *(node.inputs[i] for i in order))
    loop = Node(scan, operands, scan.infer(*(v.type for v in operands)), node.name, node.location)
    before = b.nodes[first:]
    moving = order[: count - len(fixed)]
    pulled = pull_back_scan(
        b, loop, [None, *(cotangents_of_results[i] for i in moving)], [1 + order.index(i) for i in needed], split
    )
    cotangents = dict(zip(order, pulled.cotangents[1:], strict=True))
    cotangents.update({i: _sum(b, cotangents[i], cotangents_of_results[i]) for i in fixed})
    results = {**dict(enumerate(node.inputs)), **dict(zip(moving, pulled.results[1:], strict=True))}
    return Pulled([cotangents[i] for i in range(count)], [*before, *pulled.saving], [results[i] for i in range(count)])


def _sum(b: CoreBuilder, x: Value | None, y: Value | None) -> Value | None:
    """The sum of two cotangents; None is zero."""
    if x is None or y is None:
        return y if x is None else x
    return b.add(x, y)


def _guarded_step(op: While, order: Sequence[int], fixed: int) -> Graph:
    """A step that does nothing after the loop's exit: (continue, *state in `order`) -> continue, changed state.

    The last `fixed` values of the state are invariant.
    """
    from .builder import CoreBuilder

    types = [op.body.input_types()[i] for i in order]
    moving = len(order) - fixed
    taken, idle, step = (CoreBuilder(f"{op.body.name}_{part}") for part in ("taken", "idle", "step"))
    own = dict(zip(order, [taken.input(t) for t in types], strict=True))
    state = taken.inline(op.body, [own[i] for i in range(len(order))])
    then = taken.build([*taken.inline(op.cond, state), *(state[i] for i in order[:moving])])
    same = [idle.input(t) for t in types]
    otherwise = idle.build([idle.full((), 0, DType.BOOL), *same[:moving]])
    goes_on = step.input(TensorType((), DType.BOOL))
    return step.build(step.cond(goes_on, then, otherwise, *(step.input(t) for t in types)))


# -- branches


def pull_back_cond(
    b: CoreBuilder, node: Node, cotangents: Sequence[Value | None], needed: Sequence[int], split: Splitter
) -> Pulled:
    """The branch, which also returns the residuals of both branches (zeros for the other one), and its gradient."""
    op, (predicate, *operands) = node.op, node.inputs
    assert isinstance(op, Cond)
    wrt, seeds = [i - 1 for i in needed], [i for i, g in enumerate(cotangents) if g is not None]
    everything = range(len(operands)), range(len(node.outputs))
    parts = [split(g, wrt, seeds, *everything) for g in op.regions()]
    slots = _Slots([_own_residuals(p, len(node.outputs)) for p in parts])
    forward = [slots.extend(p.forward, k) for k, p in enumerate(parts)]
    saving = b.node(Cond(*forward), *node.inputs, name=node.name, location=node.location)
    places = [slots.places(p, k, len(operands), len(node.outputs)) for k, p in enumerate(parts)]
    used = sorted({place for each in places for place in each})
    values = [*operands, *saving.outputs]
    read = [*(values[i] for i in used), *(g for g in cotangents if g is not None)]
    types = [v.type for v in read]
    then, otherwise = (_on(types, p.backward, [used.index(i) for i in at]) for p, at in zip(parts, places, strict=True))
    results = b.cond(predicate, then, otherwise, *read)
    return Pulled(_placed(len(node.inputs), needed, results), [saving], saving.outputs[: len(node.outputs)])


def _on(types: Sequence[TensorType], graph: Graph, first: Sequence[int]) -> Graph:
    """The graph on operands of these types: its first inputs are the operands at positions `first`, its other inputs
    the last operands."""
    from .builder import CoreBuilder

    b = CoreBuilder(graph.name)
    values = [b.input(t) for t in types]
    others = len(graph.inputs) - len(first)
    return b.build(b.inline(graph, [*(values[i] for i in first), *values[len(values) - others :]]))


def _own_residuals(parts: Split, outputs: int) -> list[TensorType]:
    """The types of the results of a forward graph after the first `outputs`."""
    return [v.type for v in parts.forward.outputs[outputs:]]


class _Slots:
    """Results that hold the residuals of two branches: residuals of equal type share a slot."""

    def __init__(self, residuals: Sequence[Sequence[TensorType]]) -> None:
        self.types: list[TensorType] = []
        self.of: list[list[int]] = [self._assign(types) for types in residuals]

    def _assign(self, types: Sequence[TensorType]) -> list[int]:
        taken: list[int] = []
        for t in types:
            free = (i for i, s in enumerate(self.types) if s == t and i not in taken)
            slot = next(free, len(self.types))
            if slot == len(self.types):
                self.types.append(t)
            taken.append(slot)
        return taken

    def extend(self, forward: Graph, branch: int) -> Graph:
        """The forward graph of a branch with a result per slot; zeros in slots that it does not use."""
        from .builder import CoreBuilder

        own = self.of[branch]
        outputs = len(forward.outputs) - len(own)
        b = CoreBuilder(forward.name)
        b.inputs, b.nodes = list(forward.inputs), list(forward.nodes)
        filled = dict(zip(own, forward.outputs[outputs:], strict=True))
        slots = [filled[i] if i in filled else b.full(t.shape, 0, t.dtype) for i, t in enumerate(self.types)]
        return b.build([*forward.outputs[:outputs], *slots])

    def places(self, parts: Split, branch: int, operands: int, outputs: int) -> list[int]:
        """The positions of a branch's residuals in the list of operands, results and slots."""
        results = [*range(outputs), *(outputs + slot for slot in self.of[branch])]
        return [s.position if s.is_input else operands + results[s.position] for s in parts.residuals]
