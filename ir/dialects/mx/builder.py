"""The builder that decompositions of mx operators write to: core's, with train mode, randomness and states."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph import Graph, Value
from ...types import DType, TensorType
from ..core.builder import CoreBuilder


class MxBuilder(CoreBuilder):
    """Builds a core graph from mx operators.

    `training` is MXNet's train mode. States that an operator changes are recorded by `update`; `build` appends their
    new values to the outputs and names the inputs they replace.
    """

    def __init__(self, name: str = "main", *, training: bool = False) -> None:
        super().__init__(name)
        self.training = training
        self.updated: dict[Value, Value] = {}
        self._key: Value | None = None
        self._draws = 0

    def random_key(self) -> Value:
        """A key (u32[4]) for one draw: the graph's input `random_key`, different for each draw of the graph."""
        if self._key is None:
            self._key = self.input(TensorType((4,), DType.U32), "random_key")
        self._draws += 1
        stream = np.array([0, 0, 0, self._draws - 1], np.uint32)
        return self._key if self._draws == 1 else self.add(self._key, self.constant(stream))

    def contract(self, x: Value, y: Value, left: int, right: int) -> Value:
        """The sum of products over axis `left` of x and axis `right` of y: x's other axes, then y's."""
        return self.dot(x, y, (), (), (left,), (right,))

    def update(self, state: Value, new_value: Value) -> None:
        """The mutated input `state` of an operator becomes `new_value` after the run; a state that is not an input
        of the graph is a temporary, whose new value nobody sees."""
        if state.node is None:
            self.updated[state] = new_value

    def build(self, outputs: Sequence[Value]) -> Graph:
        positions = {value: i for i, value in enumerate(self.inputs)}
        self.updates = (*self.updates, *(positions[state] for state in self.updated))
        return super().build((*outputs, *self.updated.values()))
