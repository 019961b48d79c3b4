"""Bounds of symbolic numbers that hold for all extents, so that a decision needs no guard."""

from __future__ import annotations

from typing import cast

from .polynomials import Polynomial, combined
from .symbolic import Symbol, is_symbolic


def largest(number: int) -> int | None:
    """The largest value of a number: its own, or for a symbolic one that of a constant plus the remainder of a division
    by a constant. None for other symbolic numbers."""
    if not is_symbolic(number):
        return number
    symbol = cast("Symbol", number)
    for factors, coefficient in symbol.polynomial.items():
        if coefficient < 0 and len(factors) == 1:
            bound = _remainder_bound(symbol, factors, -coefficient)
            if bound is not None:
                return bound
    return None


def _remainder_bound(symbol: Symbol, quotient: tuple[str, ...], divisor: int) -> int | None:
    """The largest value of `symbol` if it is `c + x - divisor * quotient`, where the quotient is `x // divisor`."""
    trace = symbol.trace
    operation, operands = trace.definition(cast("Symbol", trace.named(quotient[0])))
    if operation != "//" or is_symbolic(operands[1]) or operands[1] != divisor:
        return None
    dividend = _polynomial(operands[0])
    rest = combined("-", combined("+", symbol.polynomial, {quotient: divisor}), dividend)
    assert rest is not None
    return None if rest.keys() - {()} else rest.get((), 0) + divisor - 1


def _polynomial(number: int) -> Polynomial:
    return cast("Symbol", number).polynomial if is_symbolic(number) else {(): number}
