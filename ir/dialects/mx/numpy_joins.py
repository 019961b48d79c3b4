"""Operators of `mx.np` that join and split arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...graph import Value
from ...types import Shape
from .join_ops import Concat, SplitV2, Stack
from .operator import Operator, declare, operator
from .parameters import Int
from .shapes import PartialShape

if TYPE_CHECKING:
    from .builder import MxBuilder


Extend = Callable[[Shape], Shape]


class _AtLeast(Operator):
    """Adds axes of extent 1 until there are enough.

    Args:
        arys: The arrays.
    Returns:
        The arrays with more axes.
    """

    inputs = ("arys*",)
    num_args: Int

    def output_names(self) -> tuple[str, ...]:
        return tuple(f"output{i}" for i in range(self.num_args))

    def extended(self, shape: Shape) -> Shape:
        raise NotImplementedError

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, ...]:
        return tuple(b.reshape(x, self.extended(x.type.shape)) for x in inputs)


def _three(shape: Shape) -> Shape:
    return {0: (1, 1, 1), 1: (1, *shape, 1), 2: (*shape, 1)}.get(len(shape), shape)


def _one(shape: Shape) -> Shape:
    return shape or (1,)


def _two(shape: Shape) -> Shape:
    return (1,) * (2 - len(shape)) + shape


def _declare_at_least(rank: int, extend: Extend) -> None:
    def extended(self: Operator, shape: Shape) -> Shape:
        return extend(shape)

    doc = f"Adds axes of extent 1 to arrays with fewer than {rank} axes."
    declare(f"_np_atleast_{rank}d", _AtLeast, {"__doc__": doc, "extended": extended})


for _rank, _extend in enumerate((_one, _two, _three), 1):
    _declare_at_least(_rank, _extend)


@operator("_npi_concatenate")
class Concatenate(Operator):
    """Joins arrays along an axis.

    Args:
        data: The arrays, of one shape apart from the axis.
        axis: The axis.
    Returns:
        The joined array.
    """

    inputs = ("data*",)
    num_args: Int
    axis: Int = 0

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        Concat(num_args=len(inputs), dim=self.axis).complete(inputs, outputs)

    def decompose(self, b: MxBuilder, *inputs: Value) -> Value:
        if not inputs:
            raise ValueError("need at least one array to concatenate")
        return Concat(num_args=len(inputs), dim=self.axis).decompose(b, *inputs)


declare("_npi_stack", Stack, {"__doc__": "Joins arrays of one shape along a new axis."})


class _Stacked(Operator):
    """Shared arguments of several operators.

    Args:
        data: The arrays.
        dim: Unused.
    Returns:
        The joined array.
    """

    inputs = ("data*",)
    num_args: Int


def _columns(shape: Shape) -> Shape:
    return (*(shape or (1,)), 1) if len(shape) < 2 else shape


# name, the shape of each array before it is joined, the axis by the number of axes, description, whether it has `dim`
_STACKS: tuple[tuple[str, Extend, Callable[[int], int], str, bool], ...] = (
    ("vstack", _two, lambda rank: 0, "Stacks arrays as rows.", False),
    ("hstack", _one, lambda rank: 0 if rank == 1 else 1, "Stacks arrays as columns.", True),
    ("dstack", _three, lambda rank: 2, "Stacks arrays along the third axis.", True),
    ("column_stack", _columns, lambda rank: 1, "Stacks vectors as columns of a matrix.", False),
)


def _declare_stack(name: str, extend: Extend, axis_of: Callable[[int], int], doc: str, has_dim: bool) -> None:
    def decompose(self: Operator, b: MxBuilder, *inputs: Value) -> Value:
        parts = [b.reshape(x, extend(x.type.shape)) for x in inputs]
        if not parts:
            raise ValueError("need at least one array to stack")
        axis, rank = axis_of(parts[0].type.rank), parts[0].type.rank
        others = {p.type.shape[:axis] + p.type.shape[axis + 1 :] for p in parts}
        if len(others) > 1 or any(p.type.rank != rank for p in parts):
            raise ValueError(f"the arrays do not fit: {', '.join(str(x.type.shape) for x in inputs)}")
        return b.concat(parts, axis)

    members: dict[str, Any] = {"__doc__": doc, "decompose": decompose}
    declare(f"_npi_{name}", _Stacked, members | ({"dim": 1} if has_dim else {}), (), {"dim": Int} if has_dim else {})


for _row in _STACKS:
    _declare_stack(*_row)

declare("_npi_dsplit", SplitV2, {"__doc__": "Splits an array along the third axis."})


@operator("_npi_hsplit")
class HSplit(SplitV2):
    """Splits an array along the second axis, a vector along its only one."""

    def decompose(self, b: MxBuilder, *inputs: Value) -> tuple[Value, ...]:
        along = SplitV2(indices=self.indices, axis=0 if inputs[0].type.rank == 1 else 1, sections=self.sections)
        return along.decompose(b, *inputs)
