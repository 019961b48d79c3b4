"""The seed of random operators, and the draws under `mx.random`.

Random operators are pure functions of a key of four words: (seed, seed, number of the draw, stream inside of the
draw). The numbers
differ from MXNet's for the same seed; that a seed repeats them, and that calls differ, holds as there.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any

from .base import MXNetError
from .context import Context

_MASK = 0xFFFFFFFF


class _State:
    """The seed and the count of draws. Reseeding replaces both at once, so a thread sees the old pair or the new
    one."""

    def __init__(self) -> None:
        self.streams: dict[Context | None, tuple[int, Iterator[int]]] = {None: (_entropy(), itertools.count())}


def _entropy() -> int:
    return int.from_bytes(os.urandom(8), "little")


def _mixed(seed: int) -> int:
    """Spreads a small seed over 64 bits (the finalizer of SplitMix64)."""
    mask = (1 << 64) - 1
    word = (seed + 0x9E3779B97F4A7C15) & mask
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
    return word ^ (word >> 31)


_state = _State()


def seed(seed_state: int, ctx: Context | str = "all") -> None:
    """Start the random numbers anew, on all devices or on one. Equal seeds give equal numbers, on one context as on
    another."""
    if not isinstance(seed_state, int) and not hasattr(seed_state, "__index__"):
        raise ValueError("sd must be int")
    number = _mixed(int(seed_state))
    if ctx == "all":
        _state.streams = {None: (number, itertools.count())}
    elif isinstance(ctx, Context):
        _state.streams = {**_state.streams, ctx: (number, itertools.count())}
    else:
        raise MXNetError(f"seed: ctx is a Context or 'all', not {ctx!r}")


def next_key(context: Context) -> tuple[int, int, int, int]:
    """The key of the next draw on `context`: four words of 32 bits."""
    streams = _state.streams
    number, draws = streams.get(context) or streams[None]
    return number & _MASK, number >> 32, next(draws) & _MASK, 0


_DRAWS = frozenset(
    """uniform normal randn poisson exponential gamma multinomial negative_binomial generalized_negative_binomial
    shuffle randint""".split()
)


def __getattr__(name: str) -> Any:
    if name not in _DRAWS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .ndarray import random

    return getattr(random, name)


def __dir__() -> list[str]:
    return sorted({"seed", "next_key", *_DRAWS})
