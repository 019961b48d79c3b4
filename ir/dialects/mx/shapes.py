"""Partly known shapes: an extent may be UNKNOWN, and None is a shape of unknown rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, TypeGuard, TypeVar

from ...types import Shape


class Unknown(Enum):
    """The type of UNKNOWN, an extent that inference does not know.

    Arithmetic with UNKNOWN gives UNKNOWN (0 times it is 0), so a rule computes as if all extents were known. It is no
    integer: the type checker finds a rule that compares it or takes it for a size. It prints as `?`.
    """

    UNKNOWN = -1

    def __repr__(self) -> str:
        return "?"

    __str__ = __repr__

    def __mul__(self, other: Extent) -> Extent:
        return 0 if other == 0 else self

    __rmul__ = __mul__

    def __add__(self, other: Extent) -> Extent:
        return self

    __radd__ = __sub__ = __rsub__ = __floordiv__ = __rfloordiv__ = __add__


Extent = int | Unknown
Extents = tuple[Extent, ...]
PartialShape = Extents | None

UNKNOWN: Final = Unknown.UNKNOWN

E = TypeVar("E", bound=Extent)
"""The extents that a function takes and gives: int where all are known."""

_MOST_SHOWN = 8  # operands in an error message


class ShapeConflict(ValueError):
    """The shape at one position of a list contradicts what the operator needs there."""

    def __init__(self, shapes: list[PartialShape], position: int, provided: Extents, inferred: Extents) -> None:
        super().__init__(f"should be {shape_text(inferred)}, provided is {shape_text(provided)}")
        self.shapes, self.position = shapes, position
        self.provided, self.inferred = provided, inferred


def shape_text(shape: PartialShape) -> str:
    """A shape for an error message: `(2, ?)`, where `?` is an unknown extent."""
    return "unknown" if shape is None else str(shape)


def operands_text(operands: Mapping[str, str]) -> str:
    """The line of an error message that lists operands: their types by name. Of many, the first."""
    shown = [f"{name}: {type}" for name, type in operands.items()]
    if len(shown) > _MOST_SHOWN:
        shown[_MOST_SHOWN:] = [f"and {len(shown) - _MOST_SHOWN} more"]
    return f"\n  {', '.join(shown)}" if shown else ""


def agree(m: Extent, n: Extent) -> bool:
    """Whether two extents can be one: they are equal, or one is unknown."""
    return m == n or m is UNKNOWN or n is UNKNOWN


def either(m: Extent, n: Extent) -> Extent:
    """The first of two extents, or the second if the first is unknown."""
    return n if m is UNKNOWN else m


def unify(a: PartialShape, b: PartialShape) -> PartialShape:
    """What is known from either; ValueError where they contradict each other."""
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b) or not all(map(agree, a, b)):
        raise ValueError(f"shapes {shape_text(a)} and {shape_text(b)} differ")
    return tuple(map(either, a, b))


def is_known(shape: PartialShape) -> TypeGuard[Shape]:
    """Whether rank and every dimension are known."""
    return shape is not None and UNKNOWN not in shape


def unify_at(shapes: list[PartialShape], position: int, shape: PartialShape) -> None:
    """Add what `shape` says to the shape at `position`; beyond the end of the list, nothing. ShapeConflict where they
    contradict each other."""
    if position >= len(shapes):
        return
    provided = shapes[position]
    try:
        shapes[position] = unify(provided, shape)
    except ValueError:
        assert provided is not None and shape is not None
        raise ShapeConflict(shapes, position, provided, shape) from None


def unify_some(shapes: list[PartialShape], positions: Iterable[int], common: PartialShape = None) -> PartialShape:
    """Make the shapes at `positions` one shape, of which `common` is known, and return it. ShapeConflict names the
    first that contradicts those before it."""
    chosen = tuple(positions)
    for i in chosen:
        if common is None or shapes[i] != common:
            unify_at(shapes, i, common)
            common = shapes[i]
    for i in chosen:
        shapes[i] = common
    return common


def unify_all(*lists: list[PartialShape]) -> None:
    """Make all shapes of all lists one shape: that of elementwise operators."""
    common: PartialShape = None
    for shapes in lists:
        common = unify_some(shapes, range(len(shapes)), common)
    for shapes in lists:
        shapes[:] = [common] * len(shapes)


def unify_permuted(inputs: list[PartialShape], outputs: list[PartialShape], order: Sequence[int]) -> None:
    """Add what the first input and output say about each other, where output axis i is input axis order[i]."""
    if inputs[0] is not None:
        unify_at(outputs, 0, tuple(inputs[0][axis] for axis in order))
    if outputs[0] is not None:
        extents = dict(zip(order, outputs[0], strict=True))
        unify_at(inputs, 0, tuple(extents[axis] for axis in range(len(order))))


def known_rank(*shapes: PartialShape) -> int | None:
    """The count of axes of the first shape whose count is known."""
    return next((len(shape) for shape in shapes if shape is not None), None)


def broadcast_partial(a: Extents, b: Extents) -> Extents:
    """The shape that two partly known shapes broadcast to; ValueError where they do not."""
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    return tuple(_broadcast_extent(m, n, a, b) for m, n in pairs)


def _broadcast_extent(m: Extent, n: Extent, a: Extents, b: Extents) -> Extent:
    if not agree(m, n) and 1 not in (m, n):
        raise ValueError(f"shapes {shape_text(a)} and {shape_text(b)} do not broadcast to one shape")
    if UNKNOWN in (m, n):  # an extent other than 1 decides
        known = either(m, n)
        return UNKNOWN if known == 1 else known
    return n if m == 1 else m


def check_window(name: str, rank: int, **numbers: Sequence[int]) -> None:
    """ValueError where kernel, stride, dilate or pad of a moving window has another count of numbers than `rank`, or
    numbers that are not positive (pad: negative); an empty one is a default."""
    for parameter, given in numbers.items():
        if given and len(given) != rank:
            raise ValueError(f"{name}: {parameter}={tuple(given)}: must have {rank} numbers, one for each spatial axis")
        least = 1 if parameter in ("kernel", "stride", "dilate") else 0
        if any(n < least for n in given):
            raise ValueError(f"{name}: {parameter}={tuple(given)}: must not be less than {least}")


def check_layout(name: str, layout: str | None, rank: int) -> None:
    """ValueError where a layout such as "NCHW" has not `rank` spatial axes."""
    if layout is not None and len(layout) != rank + 2:
        raise ValueError(f"{name}: layout={layout!r}: has not {rank} spatial axes as the kernel")


def normalize_axis(axis: int, rank: int) -> int:
    """The axis counted from the front; ValueError when there is no such axis."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of range for {rank} dimensions")
    return axis % rank


def distinct_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front, sorted. ValueError where one is named twice."""
    found = normalize_axes(axes, rank)
    if len(found) != len(axes):
        raise ValueError(f"axes {tuple(axes)} name an axis twice")
    return found


def normalize_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front, sorted, each once."""
    return tuple(sorted({normalize_axis(a, rank) for a in axes}))
