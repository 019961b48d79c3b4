"""What Python functions of graphs compute over a group of workers: `runtime/communicator.py` gives the group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .lazy_dataclass import dataclass

Array = np.ndarray[Any, Any]


class _Group:
    """The group of the worker that runs a program."""

    def __init__(self) -> None:
        self.add: Callable[[Array, int], Array] = _no_group


def _no_group(values: Array, members: int) -> Array:
    raise RuntimeError(f"sums over {members} workers need their group")


group = _Group()
"""`group.add(values, members)` returns the sum of the values of all workers, which are so many."""


@dataclass(frozen=True)
class GroupSums:
    """Sums of arrays over the workers of a group, in float64."""

    members: int

    def __call__(self, *arrays: Array) -> list[Array]:
        parts = [a.reshape(-1).astype(np.float64) for a in arrays]
        total = group.add(np.concatenate(parts), self.members)
        ends = np.cumsum([part.size for part in parts])[:-1]
        return [t.reshape(a.shape).astype(a.dtype) for a, t in zip(arrays, np.split(total, ends), strict=True)]


@dataclass(frozen=True)
class GroupMoments:
    """Mean and biased variance over the workers of a group, from those of each worker and its number of elements."""

    members: int

    def __call__(self, mean: Array, variance: Array, count: Array) -> Sequence[Array]:
        own, spread = mean.astype(np.float64), variance.astype(np.float64)
        n = count.reshape(1).astype(np.float64)
        total = group.add(np.concatenate((n, n * own, n * (spread + own * own))), self.members)
        (number, first, second) = total[0], *np.split(total[1:], 2)
        middle = first / number
        variance_of_all = np.maximum(second / number - middle * middle, 0)
        return [middle.astype(mean.dtype), variance_of_all.astype(variance.dtype)]
