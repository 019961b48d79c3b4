"""Optimizers whose updates are one method, `_update_impl`, that subclasses override."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .base import Optimizer


class OneUpdate(Optimizer):
    """An optimizer whose `update` and `update_multi_precision` both call `_update_impl`.

    As in MXNet, training calls `update_multi_precision` only: it does not call the `update` of a subclass.
    """

    def _update_impl(self, index: Any, weight: Any, grad: Any, state: Any, multi_precision: bool = False) -> None:
        """Update a weight and its state, or lists of both. With `multi_precision`, weights have a float32 copy."""
        self._apply(index, weight, grad, state, multi_precision)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update a weight and its state in place, or lists of both."""
        self._update_impl(index, weight, grad, state, multi_precision=False)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """As `update`. If a weight has a float32 copy, the copy is updated and then cast to the weight's dtype."""
        first = weight[0] if isinstance(index, list | tuple) else weight
        self._update_impl(index, weight, grad, state, multi_precision=self._has_copy(first))


class AggregatedUpdate(OneUpdate):
    """An optimizer that takes groups of at most `aggregate_num` weights, and computes their rates together."""

    def _update_impl(  # type: ignore[override]  # MXNet's names
        self, indices: Any, weights: Any, grads: Any, states: Any, multi_precision: bool = False
    ) -> None:
        self._apply(indices, weights, grads, states, multi_precision)

    def _count_and_compute_all(self, indices: Sequence[Any]) -> list[dict[str, float]]:
        numbers: list[dict[str, float]] = []
        size = max(self.aggregate_num, 1)
        for start in range(0, len(indices), size):
            some = indices[start : start + size]
            self._update_count(some)
            rates = zip(some, self._get_lrs(some), self._get_wds(some), strict=True)
            numbers += [self._numbers(lr, wd, self._index_update_count[i]) for i, lr, wd in rates]
        return numbers
