"""Ranges of shapes: all shapes of the inputs of a model that ranges of extents describe.

Axes of the same range whose extents have to agree, such as the batches of two inputs, are one extent: the model's
inference of shapes decides. All other axes vary independently.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from typing import NamedTuple

from ..frontend.base import MXNetError
from ..ir.graph import GraphError
from ..ir.types import Shape, TensorType
from .errors import ToolError, UsageError
from .models import Model, data_types, model_graph
from .shape_grammar import Declared

MOST_SHAPES = 4096
"""The most shapes of one variant: each has a row of numbers in the folder."""

Types = dict[str, TensorType]


class _Ranged(NamedTuple):
    """An axis of an input with its range."""

    name: str
    axis: int
    extents: tuple[int, ...]

    @property
    def range(self) -> range:
        return range(self.extents[0], self.extents[-1] + 1)

    def text(self) -> str:
        return f"axis {self.axis} of {self.name!r}"


def is_fixed(declared: Declared) -> bool:
    """True without ranges."""
    return not _ranged(declared)


def best_of(declared: Declared) -> dict[str, tuple[Shape, str | None]]:
    """The shapes with the best extents; the largest where none is named."""
    extents = [axis.extents[1] for axis in _ranged(declared)]
    return _with_extents(declared, dict(zip(_ranged(declared), extents, strict=True)))


def has_best(declared: Declared) -> bool:
    """True if any range names a best extent."""
    return any(len(axis.extents) == 3 for axis in _ranged(declared))


def types_in(model: Model, declared: Declared) -> Iterator[Types]:
    """The types of the model's data for all shapes in the ranges. UsageError if these are more than `MOST_SHAPES`, and
    for extents that the model does not take."""
    axes = _ranged(declared)
    groups = _groups(axes, lambda extents: _refusal(model, _with_extents(declared, extents)) is None)
    count = prod(len(group[0].range) for group in groups)
    if count > MOST_SHAPES:
        sizes = " x ".join(f"{len(group[0].range)} ({group[0].text()})" for group in groups)
        ways = "give smaller ranges, or single shapes as variants"
        raise UsageError(f"--input-shape: {sizes} are {count:,} shapes; a folder has at most {MOST_SHAPES:,}: {ways}")
    complete = set(declared) == set(model.data_names)
    known = _types(model, best_of(declared)) if complete else {}
    for extents in itertools.product(*[group[0].range for group in groups]):
        chosen = {axis: n for group, n in zip(groups, extents, strict=True) for axis in group}
        shapes = _with_extents(declared, chosen)
        yield {n: TensorType(shapes[n][0], t.dtype) for n, t in known.items()} if complete else _types(model, shapes)


def described(types: Mapping[str, TensorType]) -> str:
    """The shapes in one line."""
    return ", ".join(f"{name}={','.join(map(str, t.shape))}" for name, t in types.items())


def _ranged(declared: Declared) -> list[_Ranged]:
    return [
        _Ranged(name, number, axis)
        for name, (axes, _) in declared.items()
        for number, axis in enumerate(axes)
        if isinstance(axis, tuple)
    ]


def _with_extents(declared: Declared, extents: Mapping[_Ranged, int]) -> dict[str, tuple[Shape, str | None]]:
    """The shapes with an extent for each range."""
    numbers = {(axis.name, axis.axis): n for axis, n in extents.items()}

    def shape(name: str, axes: Sequence[int | tuple[int, ...]]) -> Shape:
        return tuple([axis if isinstance(axis, int) else numbers[name, i] for i, axis in enumerate(axes)])

    return {name: (shape(name, axes), dtype) for name, (axes, dtype) in declared.items()}


def _types(model: Model, shapes: Mapping[str, tuple[Shape, str | None]]) -> Types:
    """The types of the data. UsageError with the shapes if the model does not take them."""
    try:
        return data_types(model, shapes)
    except (GraphError, MXNetError) as error:
        text = ", ".join(f"{name}={','.join(map(str, shape))}" for name, (shape, _) in shapes.items())
        raise UsageError(f"{text}: {error}") from error


def _refusal(model: Model, shapes: Mapping[str, tuple[Shape, str | None]]) -> str | None:
    """Why the model does not take these shapes."""
    try:
        model_graph(model, data_types(model, shapes)).output_types()
    except (GraphError, MXNetError, ToolError) as error:
        return str(error)
    return None


def _groups(axes: Sequence[_Ranged], works: Callable[[Mapping[_Ranged, int]], bool]) -> list[list[_Ranged]]:
    """The axes in groups of the same extent. `works` is true for extents that the model takes."""
    groups: list[list[_Ranged]] = []
    by_range: dict[range, list[_Ranged]] = {}
    for axis in axes:
        by_range.setdefault(axis.range, []).append(axis)
    most = {axis: axis.extents[-1] for axis in axes}
    for extents, same in by_range.items():
        rest = list(same)
        for size in (1, 2):
            for group in map(list, itertools.combinations(same, size)):
                other = {axis: extents[-2] for axis in group}
                if len(rest) > size and set(group) <= set(rest) and works({**most, **other}):
                    groups.append(group)
                    rest = [axis for axis in rest if axis not in group]
        if rest:
            groups.append(rest)
    return groups
