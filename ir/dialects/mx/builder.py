"""The builder that decompositions of mx operators write to: core's, with train mode, randomness and states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...graph import Graph, RandomKey, Value
from ...types import DType, TensorType
from ..core.builder import CoreBuilder
from ..core.own_gradient import OwnGradient

if TYPE_CHECKING:
    from .operator import Operator


def scalar_values(op: Operator) -> dict[tuple[str, int], float | int]:
    """The numbers that an operator declares as `scalars`, by parameter and position (0 unless it is a tuple)."""
    found: dict[tuple[str, int], float | int] = {}
    for name in op.scalars:
        value: float | tuple[float, ...] = getattr(op, name)
        found.update(((name, i), v) for i, v in enumerate(value if isinstance(value, tuple) else (value,)))
    return found


def scalar_dtype(value: float) -> DType:
    """The dtype in which a number is handed to a program."""
    return DType.I64 if isinstance(value, int) else DType.F32


class MxBuilder(CoreBuilder):
    """Builds a core graph from mx operators.

    `training` is MXNet's train mode. States that an operator changes are recorded by `update`; `build` appends their
    new values to the outputs and names the inputs they replace. `single` says that the graph is one call of one
    operator: what a user's operator keeps in itself does not last from call to call then. `own_gradients` says that the
    graph may be differentiated: without it gradients that differ from the derivative are left out.
    """

    single = False

    def __init__(self, name: str = "main", *, training: bool = False, own_gradients: bool = True) -> None:
        super().__init__(name)
        self.training, self.own_gradients = training, own_gradients
        self.updated: dict[Value, Value] = {}
        self._key: Value | None = None
        self._operators, self._draws = -1, 0
        self._begun = False
        self._scalars: dict[tuple[str, int], Value] = {}

    def scalar_inputs(self, op: Operator) -> None:
        """Make the scalars of `op`, the only operator of the graph, inputs of it, in the order of `scalar_values`."""
        for key, value in scalar_values(op).items():
            self._scalars[key] = self.input(TensorType((), scalar_dtype(value)), key[0])

    def number(self, op: Operator, name: str, position: int = 0) -> Value:
        """A scalar of an operator, of rank 0: an input of the graph, or a constant where none was made."""
        found = self._scalars.get((name, position))
        if found is not None:
            return found
        value = scalar_values(op)[name, position]
        return self.constant(value, scalar_dtype(value))

    def number_like(self, op: Operator, name: str, x: Value, position: int = 0) -> Value:
        """A scalar of an operator in the shape and dtype of x."""
        return self.spread(self.number(op, name, position), x)

    def spread(self, number: Value, x: Value) -> Value:
        """A number of rank 0 in the shape and dtype of x."""
        return self.cast(self.broadcast(number, x.type.shape, ()), x.type.dtype)

    def begin_operator(self) -> None:
        """What is drawn from now on belongs to the next operator."""
        self._begun = False

    def random_key(self) -> Value:
        """A key (u32[4]) for one draw: the graph's random key, with the operator's number among those that draw added
        to word 2 and the draw's number in the operator added to word 3. Word 2 counts calls, so a graph of several
        operators draws the numbers that they draw one by one."""
        return self.draw_keys(1)

    def draw_keys(self, count: int) -> Value:
        """The key of one draw, from which `advance_key` makes those of `count` draws of the same operator."""
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
        """The key `by` draws after another one."""
        return self.add(key, self.constant(np.array([0, 0, 0, by], np.uint32)))

    def contract(self, x: Value, y: Value, left: int, right: int) -> Value:
        """The sum of products over axis `left` of x and axis `right` of y: x's other axes, then y's."""
        return self.dot(x, y, (), (), (left,), (right,))

    def update(self, state: Value, new_value: Value) -> None:
        """The mutated input `state` of an operator becomes `new_value` after the run; a state that is not an input
        of the graph is a temporary, whose new value nobody sees."""
        if state.node is None:
            self.updated[state] = new_value

    def custom_gradient(
        self, forward: Callable[..., Value | Sequence[Value]], gradient: OwnGradient, *operands: Value
    ) -> tuple[Value, ...]:
        if self.own_gradients:
            return super().custom_gradient(forward, gradient, *operands)
        made = forward(self, *operands)
        return (made,) if isinstance(made, Value) else tuple(made)

    def nested(self, name: str) -> MxBuilder:
        return InnerBuilder(name, self)

    def adopt(self, inner: CoreBuilder, operands: Sequence[Value], states: Sequence[Value]) -> None:
        assert isinstance(inner, MxBuilder)
        for state, new_value in zip(inner.updated, states, strict=True):
            self.update(operands[state.index], new_value)

    def build(self, outputs: Sequence[Value]) -> Graph:
        positions = {value: i for i, value in enumerate(self.inputs)}
        self.updates = (*self.updates, *(positions[state] for state in self.updated))
        if self._key is not None and self._operators >= 0:
            self.random = RandomKey(positions[self._key], self._operators + 1)
        return super().build((*outputs, *self.updated.values()))


class InnerBuilder(MxBuilder):
    """Builds a graph that is called in the graph of `outer`.

    Keys and numbers of the outer graph become operands of the call; new values of states become results.
    """

    def __init__(self, name: str, outer: MxBuilder) -> None:
        super().__init__(name, training=outer.training)
        self.outer, self.single = outer, outer.single

    def _capture(self, value: Value) -> Value:
        self.captured = (*self.captured, value)
        return self.input(value.type, value.name)

    def draw_keys(self, count: int) -> Value:
        return self._capture(self.outer.draw_keys(count))

    def number(self, op: Operator, name: str, position: int = 0) -> Value:
        return self._capture(self.outer.number(op, name, position))

    def build(self, outputs: Sequence[Value]) -> Graph:
        return CoreBuilder.build(self, (*outputs, *self.updated.values()))
