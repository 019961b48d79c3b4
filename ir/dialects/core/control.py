"""Primitives with nested graphs: fused regions, calls, branches and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...graph import Graph, GraphError, Node, Value
from ...hashing import structural_hash
from ...lazy_dataclass import dataclass
from ...once import once
from ...types import DType, TensorType
from .interpret import interpret
from .primitive import Array, Arrays, Gradients, Primitive, Types, check_axes
from .vanishing import contains_own_cotangents, zero_values

if TYPE_CHECKING:
    from .builder import CoreBuilder


def _check_body(graph: Graph, types: Sequence[TensorType], what: str) -> None:
    """TypeError unless the nested graph takes operands of these types (layouts are ignored)."""
    expected = [(t.shape, t.dtype) for t in graph.input_types()]
    if expected != [(t.shape, t.dtype) for t in types]:
        takes, gets = (", ".join(str(t) for t in ts) for ts in (graph.input_types(), types))
        raise TypeError(f"{what} takes ({takes}), got ({gets})")


def _same_types(left: Sequence[TensorType], right: Sequence[TensorType]) -> bool:
    return [(t.shape, t.dtype) for t in left] == [(t.shape, t.dtype) for t in right]


def _place(count: int, positions: Sequence[int], values: Sequence[Value]) -> Gradients:
    """A list of length `count` with `values` at `positions` and None elsewhere."""
    by_position = dict(zip(positions, values, strict=True))
    return [by_position.get(i) for i in range(count)]


def _body_vjp(b: CoreBuilder, body: Graph, node: Node, cotangents: Sequence[Value]) -> Gradients:
    """A call of the body's gradient, which recomputes the values of the body that it reads."""
    from .gradient import cotangent_positions, gradient_graph

    wrt, seeds = cotangent_positions(node.inputs), cotangent_positions(node.outputs)
    gradient = gradient_graph(body, wrt, seeds)
    return _place(len(node.inputs), wrt, b.call(gradient, *node.inputs, *(cotangents[i] for i in seeds)))


@dataclass(frozen=True)
class Fused(Primitive):
    """A region that is compiled to one kernel of this kind."""

    name = "core.fused"
    reads_strided = True  # a kernel's buffers have strides
    body: Graph
    kind: str

    def infer(self, *types: TensorType) -> Types:
        _check_body(self.body, types, "the region")
        return self.body.output_types()

    def regions(self) -> tuple[Graph, ...]:
        return (self.body,)

    def evaluate(self, *arrays: Array) -> Arrays:
        return tuple(interpret(self.body, arrays))

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        return False

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        return _body_vjp(b, self.body, node, cotangents)


@dataclass(frozen=True, eq=False)
class Call(Primitive):
    """Calls the body on the operands.

    `gradient`, if present, replaces the derivative of the body: it takes the operands, the results and one cotangent
    per float result, and returns one cotangent per operand in `wrt` (all float operands if None); other operands have
    none. Calls are equal if their graphs are structurally equal.
    """

    name = "core.call"
    body: Graph
    gradient: Graph | None = None
    wrt: tuple[int, ...] | None = None

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Call) and self._structure == other._structure)

    def __hash__(self) -> int:
        return hash(self._structure)

    @once
    def _structure(self) -> str:
        return structural_hash(self)

    def infer(self, *types: TensorType) -> Types:
        _check_body(self.body, types, "the body")
        results = self.body.output_types()
        if self.gradient is None:
            if self.wrt is not None:
                raise TypeError("wrt requires a gradient")
            return results
        _check_body(self.gradient, (*types, *results, *(t for t in results if t.dtype.has_cotangent)), "the gradient")
        check_axes(self.wrt or (), len(types), "wrt")
        if not _same_types(self.gradient.output_types(), [types[i] for i in self._positions(types)]):
            raise TypeError("the gradient must return one cotangent for each operand in wrt")
        return results

    def _positions(self, types: Sequence[TensorType]) -> Sequence[int]:
        """The operands for which the gradient returns cotangents."""
        return self.wrt if self.wrt is not None else [i for i, t in enumerate(types) if t.dtype.has_cotangent]

    def differentiable(self, operands: int) -> Sequence[int]:
        return range(operands) if self.wrt is None else self.wrt

    def regions(self) -> tuple[Graph, ...]:
        return (self.body,) if self.gradient is None else (self.body, self.gradient)

    def evaluate(self, *arrays: Array) -> Arrays:
        return tuple(interpret(self.body, arrays))

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        zeros = [v for v, is_zero in zip(self.body.inputs, zero, strict=True) if is_zero]
        return zero_values(self.body, zeros).issuperset(self.body.outputs)

    def has_own_cotangents(self, node: Node) -> bool:
        if self.gradient is None:
            return contains_own_cotangents(self.body)
        seeds = self.gradient.inputs[len(node.inputs) + len(node.outputs) :]
        return not zero_values(self.gradient, seeds).issuperset(self.gradient.outputs)

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        if self.gradient is None:
            return _body_vjp(b, self.body, node, cotangents)
        from .gradient import cotangent_positions

        seeds = [cotangents[i] for i in cotangent_positions(node.outputs)]
        # differentiated again, the results of a loss have the derivative of its body, not its own gradient once more
        results = b.inline(self.body, node.inputs) if self.has_own_cotangents(node) else node.outputs
        gradients = b.inline(self.gradient, [*node.inputs, *results, *seeds])
        return _place(len(node.inputs), self._positions([v.type for v in node.inputs]), gradients)


@dataclass(frozen=True)
class Cond(Primitive):
    """predicate (BOOL scalar), operands... -> the results of `then` or `otherwise` on the operands."""

    name = "core.cond"
    then: Graph
    otherwise: Graph

    def infer(self, *types: TensorType) -> Types:
        if not types or types[0].shape or types[0].dtype is not DType.BOOL:
            raise TypeError("the first operand must be a tensor<i1>")
        _check_body(self.then, types[1:], "then")
        _check_body(self.otherwise, types[1:], "otherwise")
        if not _same_types(self.then.output_types(), self.otherwise.output_types()):
            raise TypeError("the branches return results of different types")
        return self.then.output_types()

    def regions(self) -> tuple[Graph, ...]:
        return (self.then, self.otherwise)

    def evaluate(self, *arrays: Array) -> Arrays:
        return tuple(interpret(self.then if arrays[0] else self.otherwise, arrays[1:]))

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        return False

    def has_own_cotangents(self, node: Node) -> bool:
        return any(map(contains_own_cotangents, self.regions()))

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        from .control_gradient import pull_back_cond, recomputing

        return recomputing(pull_back_cond, b, node, cotangents)


@dataclass(frozen=True)
class While(Primitive):
    """operands... -> the operands after `body` was applied to all of them while `cond` of them, a BOOL scalar, is true.

    `limit`, if present, is an upper bound of the number of steps; a loop without it has no gradient.
    """

    name = "core.while"
    cond: Graph
    body: Graph
    limit: int | None = None

    def infer(self, *types: TensorType) -> Types:
        _check_body(self.cond, types, "the condition")
        _check_body(self.body, types, "the body")
        if not _same_types(self.cond.output_types(), [TensorType((), DType.BOOL)]):
            raise TypeError("the condition must return one tensor<i1>")
        if not _same_types(self.body.output_types(), types):
            raise TypeError("the body must return results of the operands' types")
        return self.body.output_types()

    def regions(self) -> tuple[Graph, ...]:
        return (self.cond, self.body)

    def evaluate(self, *arrays: Array) -> Arrays:
        state: Sequence[Array] = arrays
        steps = 0
        while interpret(self.cond, state)[0]:
            if steps == self.limit:
                raise GraphError(f"core.while takes more than {self.limit} steps, its limit")
            state, steps = interpret(self.body, state), steps + 1
        return tuple(state)

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        return False

    def has_own_cotangents(self, node: Node) -> bool:
        return self.limit is not None and any(map(contains_own_cotangents, self.regions()))

    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        from .control_gradient import pull_back_while, recomputing

        return recomputing(pull_back_while, b, node, cotangents)
