"""The base of core's primitives, and the checks that their type rules share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from ...graph import Attribute, Graph, Node, Op, Value
from ...types import DType, TensorType

if TYPE_CHECKING:
    from .builder import CoreBuilder

Array = np.ndarray[Any, Any]
Arrays = tuple[Array, ...]
Types = tuple[TensorType, ...]
Gradients = Sequence[Value | None]


class Primitive(Op):
    """A core operation with its rules in one class: types (`infer`), NumPy semantics (`evaluate`), gradient (`vjp`).

    Subclasses are frozen dataclasses; their fields are the parameters.
    """

    @abstractmethod
    def evaluate(self, *arrays: Array) -> Arrays:
        """The results for these operands.

        Floats are accumulated in float64 and rounded once. A bfloat16 tensor is a float32 array; `interpret`, which
        knows the types, rounds the result.
        """

    @abstractmethod
    def vjp(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value]) -> Gradients:
        """The cotangents of the node's operands, built from core; None for an operand without gradient.

        `cotangents` has one value per result, zeros for unused results. GraphError: there is no gradient rule.
        """

    def pull(self, b: CoreBuilder, node: Node, cotangents: Sequence[Value | None], needed: Sequence[int]) -> Gradients:
        """`vjp` from the cotangents of results, None for an unused one; only those of operands at `needed` are read."""
        return self.vjp(b, node, zeros_for_unused(b, node, cotangents))

    def expand(self, b: CoreBuilder, *operands: Value) -> Value | None:
        """The only result, computed by primitives that have kernels; None if this primitive has a kernel itself."""
        return None

    def differentiable(self, operands: int) -> Sequence[int]:
        """Positions of the operands, out of `operands` of them, that can have a cotangent."""
        return range(operands)

    def vanishes(self, node: Node, zero: Sequence[bool]) -> bool:
        """True if all results are zero because the operands with `zero` are."""
        return bool(zero) and all(zero)

    def has_own_cotangents(self, node: Node) -> bool:
        """True if the cotangents of operands can differ from zero though those of all results are zero: a loss."""
        return False

    def with_regions(self, graphs: Sequence[Graph]) -> Self:
        """The same op with other nested graphs, in the order of `regions`."""
        names = [name for name in _field_names(type(self)) if isinstance(getattr(self, name), Graph)]
        return replace(cast("Any", self), **dict(zip(names, graphs, strict=True)))

    def attributes(self) -> Mapping[str, Attribute]:
        """The fields in order, without graphs. Enumerations are replaced by mnemonics, nested tuples are flattened."""
        return {
            name: value for name in _field_names(type(self)) if (value := _attribute(getattr(self, name))) is not None
        }


@cache
def _field_names(cls: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(cls))


def _attribute(value: object) -> Attribute | None:
    if value is None or isinstance(value, Graph):
        return None
    if isinstance(value, Enum) and not isinstance(value, DType):
        return str(value.value)
    if isinstance(value, tuple):
        return _flat(cast("tuple[object, ...]", value))
    return cast("Attribute", value)


def _flat(items: tuple[object, ...]) -> tuple[int, ...]:
    flat: list[Any] = []
    for item in items:
        if isinstance(item, tuple):
            flat.extend(cast("tuple[object, ...]", item))
        else:
            flat.append(item)
    return tuple(flat)


def zeros_for_unused(b: CoreBuilder, node: Node, cotangents: Sequence[Value | None]) -> list[Value]:
    """The cotangents of a node's results, zeros for unused results."""
    return [b.full_like(v, 0) if g is None else g for g, v in zip(cotangents, node.outputs, strict=True)]


def storage(dtype: DType) -> np.dtype[Any]:
    """The NumPy dtype of arrays that hold tensors of `dtype`: float32 for BF16."""
    return np.dtype(np.float32) if dtype is DType.BF16 else dtype.numpy


def accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which sums of `dtype` are accumulated: float64 for floats, the dtype itself for integers."""
    return np.dtype(np.float64) if dtype.kind == "f" else dtype


def operands(types: Types, count: int) -> Types:
    """`types`; TypeError unless there are `count` of them."""
    if len(types) != count:
        raise TypeError(f"takes {count} operand{'s' * (count != 1)}, got {len(types)}")
    return types


def check_axes(axes: Sequence[int], rank: int, what: str = "axes") -> None:
    """ValueError unless `axes` are distinct axes of a tensor of `rank`."""
    if len(set(axes)) != len(axes):
        raise ValueError(f"{what} {tuple(axes)} contain an axis twice")
    for axis in axes:
        if not 0 <= axis < rank:
            raise ValueError(f"{what} {tuple(axes)} are out of range for rank {rank}")


def check_lengths(rank: int, **parameters: Sequence[object]) -> None:
    """ValueError unless each parameter has one entry per axis, `rank` in total."""
    for name, value in parameters.items():
        if len(value) != rank:
            raise ValueError(f"{name} has {len(value)} entries for {rank} axes")


def check_positive(**parameters: Sequence[int]) -> None:
    """ValueError unless all entries are at least 1."""
    for name, value in parameters.items():
        if any(n < 1 for n in value):
            raise ValueError(f"{name} {tuple(value)} must be positive")


def check_same_dtype(*types: TensorType) -> None:
    """TypeError unless all dtypes agree."""
    if len({t.dtype for t in types}) > 1:
        raise TypeError(f"operands differ in dtype: {', '.join(t.dtype.full_name for t in types)}")
