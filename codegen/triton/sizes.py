"""Sizes and strides that can depend on run-time extents: polynomials, printed as Python expressions.

An extent that is known at run time only is a name, or a symbolic number (`ir/symbolic.py`) in the compilation for any
shapes. Symbolic constants are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...ir.kernel import Extent
from ...ir.lazy_dataclass import dataclass
from ...ir.symbolic import is_symbolic
from .numbers import factors_of

Monomial = tuple[str, ...]

TYPICAL = 1024
"""The value that is assumed for a run-time extent, where nothing but speed depends on it."""


@dataclass(frozen=True, slots=True)
class Size:
    """The sum of coefficient * product(names); terms are sorted and no coefficient is 0."""

    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: Size) -> Size:
        return _collect((*self.terms, *other.terms))

    def __mul__(self, other: Size) -> Size:
        return _collect((tuple(sorted((*a, *b))), c * d) for a, c in self.terms for b, d in other.terms)

    @property
    def constant(self) -> int | None:
        """The number; None if it depends on a run-time extent."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def value(self, extents: Mapping[str, int]) -> int:
        """The number for these run-time extents. KeyError if one is missing."""
        total = 0
        for names, coefficient in self.terms:
            for name in names:
                coefficient *= extents[name]
            total += coefficient
        return total

    @property
    def typical(self) -> int:
        """The number if each run-time extent is `TYPICAL`."""
        return sum(coefficient * TYPICAL ** len(names) for names, coefficient in self.terms)

    def divisible_by(self, block: int) -> bool:
        return all(not names and c % block == 0 for names, c in self.terms)

    def __str__(self) -> str:
        if self.constant is not None:
            return str(self.constant)
        parts = [" * ".join((*names, *([str(c)] if c != 1 or not names else []))) for names, c in self.terms]
        return parts[0] if len(parts) == 1 and " " not in parts[0] else f"({' + '.join(parts)})"


def _collect(terms: Iterable[tuple[Monomial, int]]) -> Size:
    total: dict[Monomial, int] = {}
    for names, c in terms:
        total[names] = total.get(names, 0) + c
    return Size(tuple(sorted((n, c) for n, c in total.items() if c)))


def size(extent: Extent) -> Size:
    """An extent as a Size."""
    if isinstance(extent, str):
        return Size((((extent,), 1),))
    if is_symbolic(extent):
        return _collect(factors_of(extent))
    return Size((((), extent),)) if extent else Size(())


def product(sizes: Iterable[Size]) -> Size:
    total = size(1)
    for s in sizes:
        total = total * s
    return total
