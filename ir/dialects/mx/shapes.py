"""Partly known shapes: a dimension of 0 is unknown, and None is a shape of unknown rank."""

from __future__ import annotations

from collections.abc import Sequence

from ...types import Shape

PartialShape = Shape | None


def unify(a: PartialShape, b: PartialShape) -> PartialShape:
    """What is known from either; ValueError where they contradict each other."""
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b) or any(m != n and m and n for m, n in zip(a, b, strict=True)):
        raise ValueError(f"incompatible shapes {a} and {b}")
    return tuple(m or n for m, n in zip(a, b, strict=True))


def is_known(shape: PartialShape) -> bool:
    """Whether rank and every dimension are known."""
    return shape is not None and 0 not in shape


def unify_at(shapes: list[PartialShape], position: int, shape: PartialShape) -> None:
    """Add what `shape` says to the shape at `position`; beyond the end of the list, nothing."""
    if position < len(shapes):
        shapes[position] = unify(shapes[position], shape)


def unify_all(*lists: list[PartialShape]) -> None:
    """Make all shapes of all lists one shape: that of elementwise operators."""
    common: PartialShape = None
    for shapes in lists:
        for shape in shapes:
            common = unify(common, shape)
    for shapes in lists:
        shapes[:] = [common] * len(shapes)


def normalize_axis(axis: int, rank: int) -> int:
    """The axis counted from the front; ValueError when there is no such axis."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of range for {rank} dimensions")
    return axis % rank


def normalize_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front, sorted, each once."""
    return tuple(sorted({normalize_axis(a, rank) for a in axes}))
