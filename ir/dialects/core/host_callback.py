"""The primitive that calls a Python function, and how its gradient is another call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Attribute, Effect, GraphError, Node, Value
from ...lazy_dataclass import dataclass
from ...types import DType, TensorType
from .primitive import Array, Arrays, Gradients, Primitive, Types, storage, zeros_for_unused

if TYPE_CHECKING:
    from .builder import CoreBuilder

HostFunction = Callable[..., Sequence[Array]]

ORDER = TensorType((), DType.BOOL)
"""The type of the last result of a callback, which the next callback takes as its last operand: Python functions have
effects, so they are called in the order of the graph."""


@dataclass(frozen=True)
class HostGradient:
    """The gradient of a callback.

    It reads the operands, the results, and the cotangents of the results at these positions. `function(wrt)` is the
    function of what it reads, in this order, that returns one array for each operand at the positions `wrt`, which are
    among `differentiable`.
    """

    function: Callable[[tuple[int, ...]], HostFunction]
    differentiable: tuple[int, ...]
    operands: tuple[int, ...]
    results: tuple[int, ...]
    cotangents: tuple[int, ...]


@dataclass(frozen=True)
class HostCallback(Primitive):
    """Calls a Python function of copies of the operands, which returns arrays of types `results`.

    What the function writes to the copies of operands at the positions `writes` replaces these operands. They are
    inputs of the graph. If the callback is `ordered`, the last operand is the last result of the callback before it.
    """

    name = "core.host_callback"
    function: HostFunction
    results: tuple[TensorType, ...]
    gradient: HostGradient | None = None
    writes: tuple[int, ...] = ()
    ordered: bool = False

    def infer(self, *types: TensorType) -> Types:
        return (*self.results, ORDER)

    def attributes(self) -> Mapping[str, Attribute]:
        functions = (self.function, self.gradient and self.gradient.function)
        names = tuple(getattr(f, "__qualname__", repr(f)) for f in functions if f is not None)
        return {"functions": names, "results": tuple(str(t) for t in self.results)}

    def effects(self) -> frozenset[Effect]:
        return frozenset({Effect.PYTHON})

    def call(self, *arrays: Array) -> Arrays:
        """The results. The function can write to `arrays`. GraphError for results of other types."""
        results = tuple(np.asarray(a) for a in self.function(*arrays[: len(arrays) - self.ordered]))
        expected = [(t.shape, storage(t.dtype)) for t in self.results]
        if [(a.shape, a.dtype) for a in results] != expected:
            gave = ", ".join(f"{a.dtype}{a.shape}" for a in results)
            raise GraphError(f"the callback returned ({gave}), not ({', '.join(str(t) for t in self.results)})")
        return (*results, np.zeros((), np.bool_))

    def evaluate(self, *arrays: Array) -> Arrays:
        copies = [a.copy() for a in arrays]
        results = self.call(*copies)
        for i in self.writes:
            arrays[i][...] = copies[i]
        return results

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        return False

    def has_own_cotangents(self, node: Node) -> bool:
        return self.gradient is not None

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        return self.pull(b, node, cotangents, range(len(node.inputs)))

    def pull(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value | None], needed: Sequence[int]) -> Gradients:
        gradient = self.gradient
        if gradient is None:
            raise GraphError(f"{node.describe()} has no gradient")
        wrt = tuple(i for i in gradient.differentiable if i in needed)
        full = zeros_for_unused(b, node, cotangents)
        gradients = b.host_callback(
            gradient.function(wrt),
            [node.inputs[i].type for i in wrt],
            *(node.inputs[i] for i in gradient.operands),
            *(node.outputs[i] for i in gradient.results),
            *(full[i] for i in gradient.cotangents),
            writes=[k for k, i in enumerate(gradient.operands) if i in self.writes],
        )
        by_operand = dict(zip(wrt, gradients, strict=True))
        return [by_operand.get(i) for i in range(len(node.inputs))]

    def differentiable(self, operands: int) -> Sequence[int]:
        return range(operands) if self.gradient is None else self.gradient.differentiable
