"""The numbers of several weights of an optimizer: computed once for all weights that have the same."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from ...ir.lazy_dataclass import dataclass
from .base import Optimizer


@dataclass
class _Row:
    """The factors, the count of updates and the names of the numbers that some weights share."""

    lr_mult: float
    wd_mult: float
    count: int
    names: tuple[str, ...]


class SharedNumbers:
    """The numbers of weights at each update.

    `pattern` has the row of each weight: weights of the same row have the same numbers. `names` are the names of the
    numbers of each weight.
    """

    def __init__(self, optimizer: Optimizer, indices: tuple[Any, ...], names: Sequence[tuple[str, ...]]) -> None:
        self.optimizer, self.indices, self.names = optimizer, indices, names
        self.pattern: tuple[int, ...] = ()
        self._rows: list[_Row] = []
        self._counts: list[int] = []
        self._multipliers: tuple[dict[Any, Any], ...] = ()
        self._params: list[Any] = []
        self._of_params: list[tuple[float, float]] = []

    def next(self) -> list[float]:
        """Count an update of each weight; returns the numbers by row."""
        optimizer = self.optimizer
        counts = optimizer._index_update_count
        before: list[Any] = list(map(counts.get, self.indices))
        by_index = (optimizer.param_dict, optimizer.lr_mult, optimizer.wd_mult, optimizer.idx2name)
        of_params = list(map(_MULTIPLIERS, self._params))
        if before != self._counts or by_index != self._multipliers or of_params != self._of_params:
            before = [optimizer.begin_num_update if n is None else n for n in before]
            ordered = optimizer.lr_scheduler is not None and len(set(before)) > 1  # then the rate changes on the way
            if ordered or not optimizer._shares_numbers:
                return self._of_each()
            self._find_rows(before)
        if len(self._rows) == 1:  # all weights have one count: without a number for each
            latest = self._rows[0].count + 1
            self._counts = [latest] * len(before)
            counts.update(dict.fromkeys(self.indices, latest))
        else:
            self._counts = list(map(_ONE_MORE, before))
            counts.update(zip(self.indices, self._counts, strict=True))
            latest = max(self._counts)
        values: list[float] = []
        optimizer.num_update = max(optimizer.num_update, latest)
        rate, decay = optimizer.learning_rate, optimizer.wd
        for row in self._rows:
            row.count += 1
            numbers = optimizer._numbers(rate * row.lr_mult, decay * row.wd_mult, row.count)
            values += map(numbers.__getitem__, row.names)
        return values

    def _find_rows(self, counts: Sequence[int]) -> None:
        """Find the weights that share numbers."""
        optimizer = self.optimizer
        rows: dict[Any, int] = {}
        pattern: list[int] = []
        for key in zip(optimizer._factors(self.indices), counts, self.names, strict=True):
            pattern.append(rows.setdefault(key, len(rows)))
        self.pattern = tuple(pattern)
        self._rows = [_Row(lr_mult, wd_mult, count, some) for (lr_mult, wd_mult), count, some in rows]
        by_index = (optimizer.param_dict, optimizer.lr_mult, optimizer.wd_mult, optimizer.idx2name)
        self._multipliers = tuple(dict(table) for table in by_index)
        self._params = [optimizer.param_dict[i] for i in self.indices if i in optimizer.param_dict]
        self._of_params = list(map(_MULTIPLIERS, self._params))

    def _of_each(self) -> list[float]:
        """Count an update of each weight, one by one; returns the numbers of each."""
        every = self.optimizer._count_and_compute_all(self.indices)
        self._counts, self.pattern = [], tuple(range(len(every)))
        return [numbers[name] for numbers, names in zip(every, self.names, strict=True) for name in names]


_MULTIPLIERS = attrgetter("lr_mult", "wd_mult")
_ONE_MORE = (1).__add__
