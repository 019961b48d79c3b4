"""Partly known shapes: an extent can be UNKNOWN, and None is a shape of unknown rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from math import prod
from typing import Final, TypeGuard, TypeVar

from ...types import Shape


class Unknown(Enum):
    """The type of UNKNOWN, an extent that inference does not know.

    Arithmetic with UNKNOWN returns UNKNOWN (multiplied by 0 it is 0), so a rule computes as if all extents were known.
    It is not an integer: the type checker finds rules that compare it or use it as a size. It prints as `?`.
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
"""The extents that a function takes and returns: int if all are known."""

_MAX_SHOWN = 8  # operands in an error message


class ShapeConflict(ValueError):
    """The shape at one position of a list contradicts the shape that the operator requires."""

    def __init__(self, shapes: list[PartialShape], position: int, provided: Extents, inferred: Extents) -> None:
        super().__init__(f"should be {shape_text(inferred)}, provided is {shape_text(provided)}")
        self.shapes, self.position = shapes, position
        self.provided, self.inferred = provided, inferred


def shape_text(shape: PartialShape) -> str:
    """A shape for an error message: `(2, ?)`, where `?` is an unknown extent."""
    return "unknown" if shape is None else str(shape)


def operands_text(operands: Mapping[str, str]) -> str:
    """The line of an error message with the operands' types by name; only the first ones if there are many."""
    shown = [f"{name}: {type}" for name, type in operands.items()]
    if len(shown) > _MAX_SHOWN:
        shown[_MAX_SHOWN:] = [f"and {len(shown) - _MAX_SHOWN} more"]
    return f"\n  {', '.join(shown)}" if shown else ""


def agree(m: Extent, n: Extent) -> bool:
    """True if two extents can be the same: they are equal, or one is unknown."""
    return m == n or m is UNKNOWN or n is UNKNOWN


def either(m: Extent, n: Extent) -> Extent:
    """The first of two extents, or the second if the first is unknown."""
    return n if m is UNKNOWN else m


def unify(a: PartialShape, b: PartialShape) -> PartialShape:
    """The combined knowledge of both shapes; ValueError if they contradict each other."""
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b) or not all(map(agree, a, b)):
        raise ValueError(f"shapes {shape_text(a)} and {shape_text(b)} differ")
    return tuple(map(either, a, b))


def is_known(shape: PartialShape) -> TypeGuard[Shape]:
    """True if rank and every extent are known."""
    return shape is not None and UNKNOWN not in shape


def unify_at(shapes: list[PartialShape], position: int, shape: PartialShape) -> None:
    """Unify the shape at `position` with `shape`, in place; ignore a position beyond the end of the list. ShapeConflict
    if they contradict each other."""
    if position >= len(shapes):
        return
    provided = shapes[position]
    try:
        shapes[position] = unify(provided, shape)
    except ValueError:
        assert provided is not None and shape is not None
        raise ShapeConflict(shapes, position, provided, shape) from None


def unify_some(shapes: list[PartialShape], positions: Iterable[int], common: PartialShape = None) -> PartialShape:
    """Unify the shapes at `positions` with each other and with `common`, and return the result. ShapeConflict names the
    first shape that contradicts the earlier ones."""
    chosen = tuple(positions)
    for i in chosen:
        if common is None or shapes[i] != common:
            unify_at(shapes, i, common)
            common = shapes[i]
    for i in chosen:
        shapes[i] = common
    return common


def unify_all(*lists: list[PartialShape]) -> None:
    """Unify all shapes of all lists: the rule of elementwise operators."""
    common: PartialShape = None
    for shapes in lists:
        common = unify_some(shapes, range(len(shapes)), common)
    for shapes in lists:
        shapes[:] = [common] * len(shapes)


def unify_permuted(inputs: list[PartialShape], outputs: list[PartialShape], order: Sequence[int]) -> None:
    """Unify the first input and output, where output axis i is input axis order[i]."""
    if inputs[0] is not None:
        unify_at(outputs, 0, tuple(inputs[0][axis] for axis in order))
    if outputs[0] is not None:
        extents = dict(zip(order, outputs[0], strict=True))
        unify_at(inputs, 0, tuple(extents[axis] for axis in range(len(order))))


def known_rank(*shapes: PartialShape) -> int | None:
    """The rank of the first shape with a known rank; None if there is none."""
    return next((len(shape) for shape in shapes if shape is not None), None)


def broadcast_partial(a: Extents, b: Extents) -> Extents:
    """The shape to which two partly known shapes broadcast; ValueError if they are incompatible."""
    rank = max(len(a), len(b))
    pairs = zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True)
    return tuple(_broadcast_extent(m, n, a, b) for m, n in pairs)


def _broadcast_extent(m: Extent, n: Extent, a: Extents, b: Extents) -> Extent:
    if not agree(m, n) and 1 not in (m, n):
        raise ValueError(f"shapes {shape_text(a)} and {shape_text(b)} do not broadcast to one shape")
    if UNKNOWN in (m, n):  # a known extent other than 1 is the result's
        known = either(m, n)
        return UNKNOWN if known == 1 else known
    return n if m == 1 else m


def check_window(name: str, rank: int, **numbers: Sequence[int]) -> None:
    """ValueError if kernel, stride, dilate or pad of a window does not have `rank` numbers, or has numbers that are not
    positive (pad: negative); an empty one is a default."""
    for parameter, values in numbers.items():
        if values and len(values) != rank:
            raise ValueError(
                f"{name}: {parameter}={tuple(values)}: must have {rank} numbers, one for each spatial axis"
            )
        least = 1 if parameter in ("kernel", "stride", "dilate") else 0
        if any(n < least for n in values):
            raise ValueError(f"{name}: {parameter}={tuple(values)}: must not be less than {least}")


def check_layout(name: str, layout: str | None, rank: int) -> None:
    """ValueError if a layout such as "NCHW" does not have `rank` spatial axes."""
    if layout is not None and len(layout) != rank + 2:
        raise ValueError(f"{name}: layout={layout!r}: must have {rank} spatial axes like the kernel")


def normalize_axis(axis: int, rank: int) -> int:
    """The axis counted from the front; ValueError if it is out of range."""
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of range for {rank} dimensions")
    return axis % rank


def distinct_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front, sorted. ValueError if an axis occurs twice."""
    normalized = normalize_axes(axes, rank)
    if len(normalized) != len(axes):
        raise ValueError(f"axes {tuple(axes)} name an axis twice")
    return normalized


def normalize_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front, sorted, without duplicates."""
    return tuple(sorted({normalize_axis(a, rank) for a in axes}))


def inferred(shape: Shape, target: Shape) -> Shape:
    """The shape `target`, with an extent -1 inferred from the number of elements. ValueError if it does not fit."""
    size = prod(shape)
    if prod(target) == size and min(target, default=0) >= 0:
        return target
    known = prod(n for n in target if n != -1)
    if any(n < -1 for n in target) or target.count(-1) > 1:
        raise ValueError(f"the new shape {target} must have at most one negative extent, which is -1")
    fits = (known != 0 and size % known == 0) if -1 in target else size == known
    if not fits:
        raise ValueError(f"cannot reshape array of size {size} into shape {target}")
    return tuple([size // known if n == -1 else n for n in target])
