"""Financial functions of `mx.np`: NumPy had them until version 1.19, and MXNet's list of names keeps them.

The formulas are those of NumPy 1.19. Values can be numbers, or arrays that broadcast; payments are negative where money
is paid. They have no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as onp

from .fallback import converted

_WHEN = {"begin": 1, "b": 1, "beg": 1, "start": 1, "end": 0, "e": 0, "finish": 0, 1: 1, 0: 0}


def _when(when: Any) -> Any:
    """1 for payments at the begin of a period, 0 for those at its end. ValueError for other words."""
    if isinstance(when, str | int):
        if when not in _WHEN:
            raise ValueError(f"when must be 'begin', 'end', 1 or 0, not {when!r}")
        return _WHEN[when]
    return onp.asarray(when)


def _on_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: arrays become those of NumPy, and the result one of `mx.np`."""

    @wraps(function)
    def public(*args: Any, **kwargs: Any) -> Any:
        return converted(function, args, kwargs)

    public.__module__ = "mxforge.numpy"
    return public


def _growth(rate: Any, nper: Any, when: Any) -> tuple[Any, Any]:
    """The factor by which a value grows in `nper` periods, and the sum of the growths of payments of 1."""
    growth = (1 + onp.asarray(rate, float)) ** nper
    safe = onp.where(onp.asarray(rate) == 0, 1.0, rate)
    return growth, onp.where(onp.asarray(rate) == 0, nper, (1 + safe * when) * (growth - 1) / safe)


def _payment(rate: Any, nper: Any, pv: Any, fv: Any, when: Any) -> Any:
    growth, total = _growth(rate, nper, when)
    return -(onp.asarray(fv) + onp.asarray(pv) * growth) / total


@_on_arrays
def pmt(rate: Any, nper: Any, pv: Any, fv: Any = 0, when: Any = "end") -> Any:
    """The payment of each period that takes a present value to a future value.

    Args:
        rate: The interest rate of a period.
        nper: The number of periods.
        pv: The present value.
        fv: The future value.
        when: "begin" or "end": when payments are made.
    """
    return _payment(rate, nper, pv, fv, _when(when))[()]


@_on_arrays
def ppmt(rate: Any, per: Any, nper: Any, pv: Any, fv: Any = 0, when: Any = "end") -> Any:
    """The part of the payment of period `per` that is not interest; see `pmt`."""
    timing = _when(when)
    payment = _payment(rate, nper, pv, fv, timing)
    growth, total = _growth(rate, onp.asarray(per) - 1, timing)
    interest = -(onp.asarray(pv) * growth + payment * total) * rate
    at_begin = onp.asarray(timing) == 1
    interest = onp.where(at_begin, interest / (1 + onp.asarray(rate)), interest)
    interest = onp.where(at_begin & (onp.asarray(per) == 1), 0.0, -interest)
    return (payment + interest)[()]


@_on_arrays
def pv(rate: Any, nper: Any, pmt: Any, fv: Any = 0, when: Any = "end") -> Any:
    """The present value of payments `pmt` and a future value; see `pmt`."""
    growth, total = _growth(rate, nper, _when(when))
    return (-(onp.asarray(fv) + onp.asarray(pmt) * total) / growth)[()]


@_on_arrays
def npv(rate: float, values: Any) -> Any:
    """The net present value of cash flows at the ends of periods, the first one now."""
    values = onp.atleast_1d(values)
    return (values / (1 + rate) ** onp.arange(len(values))).sum(axis=0)


@_on_arrays
def mirr(values: Any, finance_rate: float, reinvest_rate: float) -> Any:
    """The modified internal rate of return of cash flows, of which one must be positive and one negative; else NaN.

    Args:
        values: The cash flows.
        finance_rate: The interest rate that is paid on cash flows below 0.
        reinvest_rate: The interest rate that is received on cash flows above 0.
    """
    values = onp.asarray(values, float)
    count, gains, costs = values.size, values > 0, values < 0
    if not (gains.any() and costs.any()):
        return onp.nan
    periods = onp.arange(count)
    gained = abs((values * gains / (1 + reinvest_rate) ** periods).sum())
    spent = abs((values * costs / (1 + finance_rate) ** periods).sum())
    return (gained / spent) ** (1 / (count - 1)) * (1 + reinvest_rate) - 1


@_on_arrays
def rate(
    nper: Any, pmt: Any, pv: Any, fv: Any, when: Any = "end", guess: float = 0.1, tol: float = 1e-6, maxiter: int = 100
) -> Any:
    """The interest rate of a period, by Newton's method from `guess`; NaN if it does not converge. See `pmt`."""
    timing = _when(when)
    nper, pmt, pv, fv = (onp.asarray(v, float) for v in (nper, pmt, pv, fv))
    current: Any = guess
    for _ in range(maxiter):
        growth = (1 + current) ** nper
        before = (1 + current) ** (nper - 1)
        value = fv + growth * pv + pmt * (growth - 1) * (current * timing + 1) / current
        slope = nper * before * pv - pmt * (growth - 1) * (current * timing + 1) / current**2
        slope = slope + nper * pmt * before * (current * timing + 1) / current + pmt * (growth - 1) * timing / current
        following = current - value / slope
        if onp.all(abs(following - current) < tol):
            return following[()]
        current = following
    return onp.nan
