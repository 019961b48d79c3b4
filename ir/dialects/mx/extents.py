"""Parameters of operators that are extents or positions, which differ from call to call as extents of operands do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from .operator import Operator

_LEAST = 2
"""Smaller numbers have other meanings, such as a whole axis or the codes of a reshape."""

_EXTENT = "extent"


def extents_of(op: Operator) -> tuple[int, ...]:
    """The extents among the parameters that an operator declares as `extent_parameters`."""
    return tuple([n for name in op.extent_parameters for n in _numbers(getattr(op, name)) if _is_extent(n)])


def rest_of(op: Operator) -> tuple[tuple[str, Any], ...]:
    """The parameters without extents and without `scalars`: what programs for any extents have in common."""
    marked = {type(op).fields()[name].name: _replaced(getattr(op, name), None) for name in op.extent_parameters}
    return tuple([(name, v) for name, v in {**op.attributes(), **marked}.items() if name not in op.scalars])


def with_extents(op: Operator, extents: Sequence[int]) -> Operator:
    """The operator with other extents, which can be symbolic."""
    rest = iter(extents)
    return op.with_values(**{name: _replaced(getattr(op, name), rest) for name in op.extent_parameters})


def _numbers(value: Any) -> Sequence[Any]:
    return cast("tuple[Any, ...]", value) if isinstance(value, tuple) else (value,)


def _is_extent(number: Any) -> bool:
    return isinstance(number, int) and number >= _LEAST


def _replaced(value: Any, extents: Iterator[int] | None) -> Any:
    """A parameter with the next numbers in the place of its extents, or with a mark."""
    if isinstance(value, tuple):
        return tuple([_replaced(n, extents) for n in _numbers(value)])
    if not _is_extent(value):
        return value
    return _EXTENT if extents is None else next(extents)
