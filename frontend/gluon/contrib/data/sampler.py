"""Samplers of positions in a data set."""

from __future__ import annotations

from collections.abc import Iterator

from ...data import sampler

__all__ = ["IntervalSampler"]


class IntervalSampler(sampler.Sampler):
    """Every `interval`-th position below `length`. With `rollover`, all positions: those after the first, and so on."""

    def __init__(self, length: int, interval: int, rollover: bool = True) -> None:
        assert interval <= length, f"Interval {interval} must be smaller than or equal to length {length}"
        self._length = length
        self._interval = interval
        self._rollover = rollover

    def __iter__(self) -> Iterator[int]:
        for start in range(self._interval if self._rollover else 1):
            yield from range(start, self._length, self._interval)

    def __len__(self) -> int:
        return self._length  # as in MXNet, also without rollover
