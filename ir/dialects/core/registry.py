"""The closed set of core's primitives, by name."""

from __future__ import annotations

from collections.abc import Iterator

from . import (
    contraction,
    control,
    conv_weight_gradient,
    creation,
    factorization,
    host_callback,
    indexing,
    ordering,
    pointwise,
    reduction,
    scan,
    shape,
    sparse,
    window,
)
from .primitive import Primitive

_MODULES = (
    *(pointwise, shape, indexing, reduction, window, contraction, conv_weight_gradient, factorization, creation),
    *(ordering, sparse, control, scan, host_callback),
)


def _primitives() -> Iterator[type[Primitive]]:
    """The primitives that the modules define."""
    for module in _MODULES:
        for value in vars(module).values():
            if isinstance(value, type) and issubclass(value, Primitive) and value.__module__ == module.__name__:
                yield value


PRIMITIVES: dict[str, type[Primitive]] = {p.name: p for p in _primitives()}
