"""The seed of random operators, and the draws under `mx.random`.

Random operators are pure functions of a key of four words: (seed, seed, number of the call, draw inside of the call). A
compiled graph counts a call for each of its operators that draw, so it gives what the same operators give one by one.
The numbers differ from MXNet's for the same seed; that a seed repeats them, and that calls differ, holds as there.
"""

from __future__ import annotations

import os
from typing import Any

from ..ir.locks import ForkSafeLock
from .base import check_call, integer_types
from .context import Context, as_context

__all__ = ["check_call", "next_key", "seed"]

_MASK = 0xFFFFFFFF


class _Stream:
    """A seed and the count of calls that drew from it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.calls = 0


class _State:
    """The streams by context; the one under None serves all others. `lock` guards the counts."""

    def __init__(self) -> None:
        self.streams: dict[Context | None, _Stream] = {None: _Stream(_entropy())}
        self.lock = ForkSafeLock()


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
    if not isinstance(seed_state, integer_types):
        raise ValueError("seed_state must be int")
    number = _mixed(int(seed_state))
    if ctx == "all":
        _state.streams = {None: _Stream(number)}
    else:
        _state.streams = {**_state.streams, as_context(ctx): _Stream(number)}


def next_key(context: Context, operators: int = 1) -> tuple[int, int, int, int]:
    """The key of the next call on `context`: four words of 32 bits. A call of several drawing operators counts as
    many."""
    streams = _state.streams
    stream = streams.get(context) or streams[None]
    with _state.lock:
        number = stream.calls
        stream.calls += operators
    return stream.seed & _MASK, stream.seed >> 32, number & _MASK, 0


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
