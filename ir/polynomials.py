"""Polynomials in normal form: equal ones are equal dictionaries."""

from __future__ import annotations

Polynomial = dict[tuple[str, ...], int]
"""Coefficients by monomial: the sorted names of its factors."""


def combined(operation: str, a: Polynomial | None, b: Polynomial | None) -> Polynomial | None:
    """The sum, the difference or the product of two polynomials."""
    if a is None or b is None:
        return None
    total: Polynomial = {}
    if operation == "*":
        for x, m in a.items():
            for y, n in b.items():
                monomial = tuple(sorted(x + y))
                total[monomial] = total.get(monomial, 0) + m * n
    else:
        total.update(a)
        for y, n in b.items():
            total[y] = total.get(y, 0) + (n if operation == "+" else -n)
    return {monomial: factor for monomial, factor in total.items() if factor}
