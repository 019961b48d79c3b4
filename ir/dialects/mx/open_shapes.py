"""Operators without operands whose result's shape is a parameter, in which extents can be unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...types import DType, Shape, TensorType
from .operator import Operator
from .shapes import UNKNOWN, PartialShape, is_known, unify_at


class Shaped(Operator):
    """An operator whose result has the shape `shape`; -1 is an unknown extent and None an unknown shape.

    Unknown extents follow from the consumers of the result.
    """

    if TYPE_CHECKING:  # each subclass declares it at MXNet's own place
        shape: Shape | None

    inputs = ()

    def _partial_shape(self) -> PartialShape:
        return None if self.shape is None else tuple(UNKNOWN if n < 0 else n for n in self.shape)

    @property
    def is_open(self) -> bool:
        return not is_known(self._partial_shape())

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        shape = self._partial_shape()
        if is_known(shape):
            TensorType(shape, self.output_dtypes(())[0] or DType.F32)  # ValueError if it has too many bytes
        unify_at(outputs, 0, shape)

    def resolve(self, types: Sequence[TensorType]) -> Operator:
        return self.resolved(shape=types[0].shape) if self.is_open else self

    def with_legacy_shapes(self) -> Operator:
        if self.shape is None or (self.shape and 0 not in self.shape):
            return self
        return self._with_shape(tuple(n or -1 for n in self.shape) or None)

    def _with_shape(self, shape: Shape | None) -> Operator:
        return type(self).parse({**self.attrs(), "shape": shape})

    def known_shape(self) -> Shape:
        """The shape of the result; ValueError if it is unknown."""
        shape = self._partial_shape()
        if not is_known(shape):
            raise ValueError(f"{self.mx_name()}: the shape {shape} of the result is not known")
        return shape
