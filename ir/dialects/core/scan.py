"""The primitive that repeats a graph a fixed number of times and carries values: scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Graph, Node, Value
from ...lazy_dataclass import dataclass
from ...types import TensorType
from .interpret import interpret
from .primitive import Array, Arrays, Gradients, Primitive, Types, storage
from .vanishing import contains_own_cotangents

if TYPE_CHECKING:
    from .builder import CoreBuilder


@dataclass(frozen=True)
class Scan(Primitive):
    """`length` steps of a body.

    Operands: `carries` values that each step replaces; `scanned` tensors, of which step i reads slice i of the leading
    axis (extent `length`); invariants, the same in every step. The body maps carries, slices, invariants to the next
    carries, then values that are stacked along a new leading axis. Results: the last carries, the stacks. With
    `reverse` the steps run from the last slice to the first; stacks keep the order of the slices.
    """

    name = "core.scan"
    body: Graph
    length: int
    carries: int
    scanned: int
    reverse: bool = False

    def infer(self, *types: TensorType) -> Types:
        first, last = self.carries, self.carries + self.scanned
        for t in types[first:last]:
            if t.shape[:1] != (self.length,):
                raise ValueError(f"a scanned operand {t} must have a leading axis of {self.length}")
        slices = tuple(TensorType(t.shape[1:], t.dtype) for t in types[first:last])
        arguments = (*types[:first], *slices, *types[last:])
        if [(t.shape, t.dtype) for t in self.body.input_types()] != [(t.shape, t.dtype) for t in arguments]:
            takes, gets = (", ".join(str(t) for t in ts) for ts in (self.body.input_types(), arguments))
            raise TypeError(f"the body takes ({takes}), a step passes ({gets})")
        results = self.body.output_types()
        if results[:first] != self.body.input_types()[:first]:
            raise TypeError("the body's first results must be carries of the operands' types")
        return results[:first] + tuple(TensorType((self.length, *t.shape), t.dtype) for t in results[first:])

    def regions(self) -> tuple[Graph, ...]:
        return (self.body,)

    def evaluate(self, *arrays: Array) -> Arrays:
        first, last = self.carries, self.carries + self.scanned
        state: Sequence[Array] = arrays[:first]
        stacks = [np.empty((self.length, *v.type.shape), storage(v.type.dtype)) for v in self.body.outputs[first:]]
        for i in reversed(range(self.length)) if self.reverse else range(self.length):
            results = interpret(self.body, (*state, *(a[i] for a in arrays[first:last]), *arrays[last:]))
            state = results[:first]
            for stack, value in zip(stacks, results[first:], strict=True):
                stack[i] = value
        return (*state, *stacks)

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        return False

    def has_own_cotangents(self, node: Node) -> bool:
        return contains_own_cotangents(self.body)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        """Repeats the loop to get its carries, then steps back through them."""
        from .control_gradient import pull_back_scan, recomputing

        return recomputing(pull_back_scan, b, node, cotangents)
