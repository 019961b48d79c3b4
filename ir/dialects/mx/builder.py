"""The builder for decompositions of mx operators: CoreBuilder with training mode, random keys and states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Check, Graph, RandomKey, Value
from ...types import DType, TensorType
from ..core.builder import CoreBuilder
from ..core.own_gradient import OwnGradient

if TYPE_CHECKING:
    from .operator import Operator


def scalar_values(op: Operator) -> dict[tuple[str, int], float | int]:
    """The numbers that an operator declares as `scalars`, by parameter and position (0 if it is not a tuple)."""
    values: dict[tuple[str, int], float | int] = {}
    for name in op.scalars:
        value: float | tuple[float, ...] = getattr(op, name)
        values.update(((name, i), v) for i, v in enumerate(value if isinstance(value, tuple) else (value,)))
    return values


def scalar_dtype(value: float) -> DType:
    """The dtype in which a number is passed to a program."""
    return DType.I64 if isinstance(value, int) else DType.F32


class MxBuilder(CoreBuilder):
    """Builds a core graph from mx operators.

    `training` is MXNet's train mode. `update` records states that an operator changes; `build` appends their new values
    to the outputs and lists the inputs that they replace. `own_gradients` is true if the graph can be differentiated;
    otherwise gradients that differ from the derivative are omitted.
    """

    is_nested = False
    """True if the graph is inside an operator of another one."""

    def __init__(
        self, name: str = "main", *, training: bool = False, own_gradients: bool = True, verifies: bool = False
    ) -> None:
        super().__init__(name)
        self.training, self.own_gradients = training, own_gradients
        self.in_gradient = True
        """Whether the current operator is part of a gradient."""
        self.verifies = verifies
        """Whether the graph has the checks of its operators (`require`)."""
        self._required: list[tuple[Check, Value]] = []
        self.updated: dict[Value, Value] = {}
        self._late: set[Value] = set()
        self._key: Value | None = None
        self._operators, self._draws = -1, 0
        self._begun = False
        self._scalars: dict[tuple[str, int], Value] = {}

    def scalar_inputs(self, op: Operator) -> None:
        """Make the scalars of `op`, the graph's only operator, inputs of the graph, in the order of `scalar_values`."""
        for key, value in scalar_values(op).items():
            self._scalars[key] = self.input(TensorType((), scalar_dtype(value)), key[0])

    def number(self, op: Operator, name: str, position: int = 0) -> Value:
        """A scalar of an operator, with shape (): an input of the graph if it exists, else a constant."""
        operand = self._scalars.get((name, position))
        if operand is not None:
            return operand
        value = scalar_values(op)[name, position]
        return self.constant(value, scalar_dtype(value))

    def number_like(self, op: Operator, name: str, x: Value, position: int = 0) -> Value:
        """A scalar of an operator, broadcast to the shape and dtype of x."""
        return self.spread(self.number(op, name, position), x)

    def spread(self, number: Value, x: Value) -> Value:
        """A number of shape (), broadcast to the shape and dtype of x."""
        return self.cast(self.broadcast(number, x.type.shape, ()), x.type.dtype)

    def begin_operator(self) -> None:
        """Start the next operator: later draws belong to it."""
        self._begun = False

    def random_key(self) -> Value:
        """A key (u32[4]) for one draw. It is the graph's random key with two additions: to word 2 the operator's number
        among the operators that draw, to word 3 the draw's number in the operator. Word 2 counts calls, so a graph of
        several operators draws the same numbers as separate calls."""
        return self.draw_keys(1)

    def draw_keys(self, count: int) -> Value:
        """The key of one draw, from which `advance_key` computes the keys of `count` draws of the same operator."""
        if self._key is None:
            self._key = self.key_input()
        self._operators, self._draws = (self._operators, self._draws + 1) if self._begun else (self._operators + 1, 0)
        self._begun = True
        self._draws += count - 1
        if not self._operators and self._draws == count - 1:
            return self._key
        numbers = [0, 0, self._operators, self._draws - (count - 1)]
        return self.add(self._key, self.constant(np.array(numbers, np.uint32)))

    def key_input(self) -> Value:
        """A new input for a random key."""
        return self.input(TensorType((4,), DType.U32), "random_key")

    def advance_key(self, key: Value, by: int) -> Value:
        """The key `by` draws after `key`."""
        return self.add(key, self.constant(np.array([0, 0, 0, by], np.uint32)))

    def contract(self, x: Value, y: Value, left: int, right: int) -> Value:
        """The sum of products over axis `left` of x and axis `right` of y; result axes: x's other axes, then y's."""
        return self.dot(x, y, (), (), (left,), (right,))

    def update(self, state: Value, new_value: Value) -> None:
        """Record that the run replaces the input `state` of an operator by `new_value`. Ignores a state that is not an
        input of the graph: it is a temporary."""
        if state.node is None:
            self.updated[state] = new_value

    def update_in_backward(self, state: Value, new_value: Value) -> None:
        """The mutated input `state` becomes `new_value` in a backward pass: moving statistics, as MXNet does on CPUs.
        A graph that is not differentiated leaves it as it is, and so does an operator that no gradient passes.
        """
        if self.own_gradients and self.in_gradient:
            self.update(state, new_value)
            self._late.add(state)

    def require(self, holds: Value, message: str, *, is_index: bool = False) -> None:
        """Let a run raise `message` unless all elements of `holds` (BOOL) are true. Equal graphs of networks share a
        program, so the message names the operator and no node. Loops and branches have no checks."""
        if self.verifies:
            self._required.append((Check(message, is_index), self.all(holds)))

    def custom_gradient(
        self, forward: Callable[..., Value | Sequence[Value]], gradient: OwnGradient, *operands: Value
    ) -> tuple[Value, ...]:
        if self.own_gradients:
            return super().custom_gradient(forward, gradient, *operands)
        outputs = forward(self, *operands)
        return (outputs,) if isinstance(outputs, Value) else tuple(outputs)

    def nested(self, name: str) -> MxBuilder:
        return InnerBuilder(name, self)

    def adopt(self, inner: CoreBuilder, operands: Sequence[Value], states: Sequence[Value]) -> None:
        assert isinstance(inner, MxBuilder)
        for state, new_value in zip(inner.updated, states, strict=True):
            update = self.update_in_backward if state in inner._late else self.update
            update(operands[state.index], new_value)

    def build(self, outputs: Sequence[Value]) -> Graph:
        positions = {value: i for i, value in enumerate(self.inputs)}
        flags = [flag for _, flag in self._required]
        self.checks = (*self.checks, *(check for check, _ in self._required))
        outputs, before = outputs[: len(outputs) - len(self.updates)], outputs[len(outputs) - len(self.updates) :]
        self.updates = (*self.updates, *(positions[state] for state in self.updated))
        self.late |= {positions[state] for state in self.updated if state in self._late}
        if self._key is not None and self._operators >= 0:
            self.random = RandomKey(positions[self._key], self._operators + 1)
        return super().build((*outputs, *flags, *before, *self.updated.values()))


class InnerBuilder(MxBuilder):
    """Builds a graph that the graph of `outer` calls.

    Keys and numbers of the outer graph become operands of the call; new values of states become results.
    """

    is_nested = True

    def __init__(self, name: str, outer: MxBuilder) -> None:
        super().__init__(name, training=outer.training, own_gradients=outer.own_gradients)
        self.outer, self.in_gradient = outer, outer.in_gradient

    def _capture(self, value: Value) -> Value:
        self.captured = (*self.captured, value)
        return self.input(value.type, value.name)

    def draw_keys(self, count: int) -> Value:
        return self._capture(self.outer.draw_keys(count))

    def number(self, op: Operator, name: str, position: int = 0) -> Value:
        return self._capture(self.outer.number(op, name, position))

    def build(self, outputs: Sequence[Value]) -> Graph:
        return CoreBuilder.build(self, (*outputs, *self.updated.values()))
