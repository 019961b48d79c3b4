"""The handler that ends a training whose metric no longer improves, and how metrics are compared."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable
from typing import Any

from ....metric import CompositeEvalMetric, EvalMetric
from .events import EpochEnd, TrainBegin, TrainEnd

Comparison = Callable[[float, float], bool]


def comparison(monitor: EvalMetric, mode: str, handler: str) -> Comparison:
    """The function of (value, best) that is True if a value is better, by mode "min", "max" or "auto".

    "auto" is "max" for every metric, as in MXNet, and warns. `handler` names the handler in the warning about an
    unknown mode, which is "auto" too.
    """
    if mode == "min":
        return operator.lt
    if mode == "max":
        return operator.gt
    if mode != "auto":
        warnings.warn(
            f"{handler} mode {mode} is unknown, fallback to auto mode. CheckpointHandler will use max mode for f1 and "
            "accuracy metric comparison and use min mode other wise",
            RuntimeWarning,
            stacklevel=3,
        )
    warnings.warn(
        f"`greater` operator will be used to determine if {monitor.get()[0]} has improved. Please specify `mode='min'` "
        "to use the `less` operator. Specify `mode='max' to disable this warning.`",
        stacklevel=3,
    )
    return operator.gt


def worst(better: Comparison) -> float:
    """The value that every other is better than."""
    return math.inf if better(0, 1) else -math.inf


class EarlyStoppingHandler(TrainBegin, EpochEnd, TrainEnd):
    """Ends the training if `monitor` did not improve for `patience` epochs.

    Args:
        monitor: One of the estimator's metrics.
        min_delta: A smaller change is no improvement.
        patience: Number of epochs without an improvement that end the training.
        mode: "min" if smaller values are better, "max" or "auto" if greater ones are.
        baseline: The value that the first epoch must exceed; None for any.
    """

    def __init__(
        self,
        monitor: EvalMetric,
        min_delta: float = 0,
        patience: int = 0,
        mode: str = "auto",
        baseline: float | None = None,
    ) -> None:
        if not isinstance(monitor, EvalMetric):
            raise ValueError(
                "Please provide one of the metric objects from estimator.train_metrics and estimator.val_metrics as "
                "monitor."
            )
        if isinstance(monitor, CompositeEvalMetric):
            raise ValueError(
                "CompositeEvalMetric is not supported for EarlyStoppingHandler, please specify a simple metric instead."
            )
        self.monitor = monitor
        self.baseline = baseline
        self.patience = patience
        self.monitor_op = comparison(monitor, mode, "EarlyStopping")
        self.min_delta = min_delta if self.monitor_op is operator.gt else -min_delta
        self.wait = 0
        self.stopped_epoch = 0
        self.current_epoch = 0
        self.stop_training = False

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        self.wait = 0
        self.stopped_epoch = 0
        self.current_epoch = 0
        self.stop_training = False
        self.best = worst(self.monitor_op) if self.baseline is None else self.baseline

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool:
        name, value = self.monitor.get()
        if math.isnan(value):
            warnings.warn(
                f"{name} is not updated, make sure you pass one of the metric objects from estimator.train_metrics and "
                "estimator.val_metrics as monitor.",
                RuntimeWarning,
                stacklevel=2,
            )
        elif self.monitor_op(value - self.min_delta, self.best):
            self.best = value
            self.wait = 0
        else:
            self.wait += 1
            if self.wait >= self.patience:
                self.stopped_epoch = self.current_epoch
                self.stop_training = True
        self.current_epoch += 1
        return self.stop_training

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        if self.stopped_epoch > 0:
            text = "[Epoch %d] EarlyStoppingHanlder: early stopping due to %s not improving"  # MXNet's spelling
            estimator.logger.info(text, self.stopped_epoch, self.monitor.get()[0])
