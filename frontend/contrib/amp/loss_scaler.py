"""The factor of losses that keeps 16-bit gradients in range."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from ... import autograd as ag
from ... import ndarray as nd

_ARRAYS = 200
"""The number of gradients that are checked in one call."""


class LossScaler:
    """Halves the scale after an overflow, and doubles it after 2000 steps without one, up to 2 ** 24.

    A new scale is used from the second step on: the scale of a step that was checked is that of its gradients.
    """

    def __init__(self) -> None:
        self._loss_scale = 2.0**16
        self._next_loss_scale = self._loss_scale
        self._max_loss_scale = 2.0**24
        self._scale_seq_len = 2000
        self._unskipped = 0

    @property
    def loss_scale(self) -> float:
        """The current scale."""
        return self._loss_scale

    def has_overflow(self, params: Iterable[Any], anywhere: Callable[[bool], bool] = bool) -> bool:
        """True if a gradient of `params` is infinite or NaN. `anywhere` returns whether this is so on one of several
        workers. Updates the scale."""
        with ag.pause():
            overflow = anywhere(not _finite([grad for param in params for grad in param._grad or ()]))
        self._loss_scale = self._next_loss_scale
        if overflow:
            self._next_loss_scale = self._loss_scale / 2.0
            self._unskipped = 0
            logging.info("AMP: decreasing loss scale to %f", self._next_loss_scale)
        else:
            self._unskipped += 1
        if self._unskipped == self._scale_seq_len:
            self._unskipped = 0
            self._next_loss_scale = min(self._max_loss_scale, self._loss_scale * 2.0)
            logging.info("AMP: increasing loss scale to %f", self._next_loss_scale)
        return overflow


def _finite(arrays: list[Any]) -> bool:
    """True if all elements of the arrays are finite."""
    by_context: dict[Any, list[Any]] = {}
    for array in arrays:
        by_context.setdefault(array.context, []).append(array)
    parts = [own[i : i + _ARRAYS] for own in by_context.values() for i in range(0, len(own), _ARRAYS)]
    verdicts = [nd.multi_all_finite(*part, num_arrays=len(part)) for part in parts]  # type: ignore[attr-defined]
    return all(verdict.asscalar() for verdict in verdicts)
