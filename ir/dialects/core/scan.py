"""The primitive that repeats a graph a known number of times, carrying values: scan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Graph, Node, Value
from ...types import TensorType
from .interpret import interpret
from .primitive import Array, Arrays, Gradients, Primitive, Types, storage

if TYPE_CHECKING:
    from .builder import CoreBuilder


@dataclass(frozen=True)
class Scan(Primitive):
    """`length` steps of a body.

    Operands: `carries` values that each step replaces, `scanned` tensors of which step i gets slice i of the leading
    axis (extent `length`), then invariants, the same in every step. The body takes carries, slices, invariants and
    gives the next carries, then values that are stacked along a new leading axis. Results: the last carries, the
    stacks.
    """

    name = "core.scan"
    body: Graph
    length: int
    carries: int
    scanned: int

    def infer(self, *types: TensorType) -> Types:
        first, last = self.carries, self.carries + self.scanned
        for t in types[first:last]:
            if t.shape[:1] != (self.length,):
                raise ValueError(f"a scanned operand {t} must have a leading axis of {self.length}")
        slices = tuple(TensorType(t.shape[1:], t.dtype) for t in types[first:last])
        given = (*types[:first], *slices, *types[last:])
        if [(t.shape, t.dtype) for t in self.body.input_types()] != [(t.shape, t.dtype) for t in given]:
            takes, gets = (", ".join(str(t) for t in ts) for ts in (self.body.input_types(), given))
            raise TypeError(f"the body takes ({takes}), a step gives it ({gets})")
        results = self.body.output_types()
        if results[:first] != self.body.input_types()[:first]:
            raise TypeError("the body must begin its results with carries of the operands' types")
        return results[:first] + tuple(TensorType((self.length, *t.shape), t.dtype) for t in results[first:])

    def regions(self) -> tuple[Graph, ...]:
        return (self.body,)

    def evaluate(self, *arrays: Array) -> Arrays:
        first, last = self.carries, self.carries + self.scanned
        state: Sequence[Array] = arrays[:first]
        stacks = [np.empty((self.length, *v.type.shape), storage(v.type.dtype)) for v in self.body.outputs[first:]]
        for i in range(self.length):
            results = interpret(self.body, (*state, *(a[i] for a in arrays[first:last]), *arrays[last:]))
            state = results[:first]
            for stack, value in zip(stacks, results[first:], strict=True):
                stack[i] = value
        return (*state, *stacks)

    def saved_carries(self) -> list[int] | None:
        """Positions among the results of stacks of what each carry was when a step began; None unless all are there."""
        stacked = {v: i for i, v in reversed(list(enumerate(self.body.outputs))) if i >= self.carries}
        found = [stacked.get(v) for v in self.body.inputs[: self.carries]]
        return None if None in found else [i for i in found if i is not None]

    def saving_carries(self) -> Scan:
        """The same scan with its carries stacked too, after the other results: what its gradient reads."""
        if self.saved_carries() is not None:
            return self
        return replace(self, body=replace(self.body, outputs=self.body.outputs + self.body.inputs[: self.carries]))

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        """A scan from the last step to the first on the saved carries; it carries cotangents of carries, invariants."""
        saved = self.saved_carries()
        if saved is None:
            again = self.saving_carries()
            positions, results = again.saved_carries(), b.node(again, *node.inputs).outputs
            assert positions is not None
            saved, node = positions, Node(self, node.inputs, [v.type for v in node.outputs])
        else:
            results = node.outputs
        return _Backward(self, node).build(b, [results[i] for i in saved], cotangents)


class _Backward:
    """The reverse scan of one scan: which of its values are floats, and the body that pulls one step back."""

    def __init__(self, op: Scan, node: Node) -> None:
        from .gradient import float_positions

        first, last = op.carries, op.carries + op.scanned
        self.op, self.node = op, node
        floats = float_positions(op.body.inputs)
        self.carries = [i for i in floats if i < first]
        self.slices = [i for i in floats if first <= i < last]
        self.invariants = [i for i in floats if i >= last]
        self.stacks = [i for i in float_positions(op.body.outputs) if i >= first]

    def body(self) -> Graph:
        """One step back.

        Carries: cotangents of carries, sums for invariants. Scanned: saved carries, slices, cotangents of stacks.
        """
        from .builder import CoreBuilder
        from .gradient import pull_back

        inputs, outputs = self.op.body.inputs, self.op.body.outputs
        b = CoreBuilder(f"{self.op.body.name}_backward")
        sums = [b.input(inputs[i].type) for i in self.carries + self.invariants]
        last = self.op.carries + self.op.scanned
        moving = [b.input(v.type, v.name) for v in inputs[:last]]
        seeds = [b.input(outputs[i].type) for i in self.stacks]
        own = moving + [b.input(v.type, v.name) for v in inputs[last:]]
        results = b.inline(self.op.body, own)
        given: dict[Value, Value] = {}
        for i, g in zip(self.carries + self.stacks, [*sums[: len(self.carries)], *seeds], strict=True):
            given[results[i]] = b.add(given[results[i]], g) if results[i] in given else g
        wanted = [own[i] for i in self.carries + self.invariants + self.slices]
        found = pull_back(b, b.nodes, given, wanted)
        n = len(self.carries)
        totals = [b.add(s, g) for s, g in zip(sums[n:], found[n : len(sums)], strict=True)]
        return b.build([*found[:n], *totals, *found[len(sums) :]])

    def build(self, b: CoreBuilder, saved: Sequence[Value], cotangents: Sequence[Value]) -> Gradients:
        from .gradient import without_dead_nodes

        op, operands = self.op, self.node.inputs
        first, last = op.carries, op.carries + op.scanned
        start = [cotangents[i] for i in self.carries] + [b.full_like(operands[i], 0) for i in self.invariants]
        steps = [*saved, *operands[first:last], *(cotangents[i] for i in self.stacks)]
        backwards = [b.reverse(v, (0,)) for v in steps]
        body = without_dead_nodes(self.body())
        results = b.scan(body, start, backwards, operands[last:], op.length)
        found: list[Value | None] = [None] * len(operands)
        for i, value in zip(self.carries + self.invariants, results, strict=False):
            found[i] = value
        for i, value in zip(self.slices, results[len(start) :], strict=True):
            found[i] = b.reverse(value, (0,))
        return found
