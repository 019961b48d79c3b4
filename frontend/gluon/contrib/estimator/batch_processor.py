"""What an Estimator computes for one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .... import autograd
from ...utils import split_and_load

if TYPE_CHECKING:
    from .estimator import Estimator

__all__ = ["BatchProcessor"]

Parts = tuple[list[Any], list[Any], list[Any], list[Any]]
"""Data, labels, predictions and losses, each with one element for each context."""


class BatchProcessor:
    """The forward and backward pass of one batch. Subclasses override `fit_batch` and `evaluate_batch`."""

    def _get_data_and_label(self, batch: Any, ctx: list[Any], batch_axis: int = 0) -> tuple[list[Any], list[Any]]:
        data, label = (split_and_load(batch[i], ctx_list=ctx, batch_axis=batch_axis) for i in range(2))
        return data, label

    def evaluate_batch(self, estimator: Estimator, val_batch: Any, batch_axis: int = 0) -> Parts:
        """Predictions and losses of the validation network. `val_batch` begins with data and label."""
        data, label = self._get_data_and_label(val_batch, estimator.context, batch_axis)
        pred = [estimator.val_net(x) for x in data]
        return data, label, pred, _losses(estimator.val_loss, pred, label)

    def fit_batch(self, estimator: Estimator, train_batch: Any, batch_axis: int = 0) -> Parts:
        """Predictions, losses and the backward pass. `GradientUpdateHandler` updates the parameters later."""
        data, label = self._get_data_and_label(train_batch, estimator.context, batch_axis)
        with autograd.record():
            pred = [estimator.net(x) for x in data]
            losses = _losses(estimator.loss, pred, label)
        for loss in losses:
            loss.backward()
        return data, label, pred, losses


def _losses(loss: Any, pred: list[Any], label: list[Any]) -> list[Any]:
    return [loss(predicted, expected) for predicted, expected in zip(pred, label, strict=True)]
