"""Checks of the metrics that an Estimator and its handlers use."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ....metric import Accuracy, CompositeEvalMetric, EvalMetric
from ...loss import SoftmaxCrossEntropyLoss


def _check_metrics(metrics: Any) -> list[EvalMetric]:
    """The metrics of a metric, a composite or a list; ValueError for other elements. None is no metric."""
    if isinstance(metrics, CompositeEvalMetric):
        return [inner for metric in metrics.metrics for inner in _check_metrics(metric)]
    if isinstance(metrics, EvalMetric):
        return [metrics]
    metrics = metrics or []
    if not all(isinstance(metric, EvalMetric) for metric in metrics):
        raise ValueError(f"metrics must be a Metric or a list of Metric, refer to mxnet.metric.EvalMetric: {metrics}")
    return metrics


def _check_handler_metric_ref(handler: Any, known_metrics: Collection[Any]) -> None:
    """ValueError if an attribute of `handler` with "metric" in its name, which is no method, holds something that is
    not in `known_metrics`."""
    for attribute in dir(handler):
        value = getattr(handler, attribute) if "metric" in attribute else None
        if value and not callable(value):
            for metric in value if isinstance(value, list) else [value]:
                _check_metric_known(handler, metric, known_metrics)


def _check_metric_known(handler: Any, metric: Any, known_metrics: Collection[Any]) -> None:
    if metric not in known_metrics:
        raise ValueError(
            f"Event handler {type(handler).__name__} refers to a metric instance {metric} outside of the known "
            "training and validation metrics. Please use the metrics from estimator.train_metrics and "
            "estimator.val_metrics instead."
        )


def _suggest_metric_for_loss(loss: Any) -> EvalMetric | None:
    """The metric that an Estimator uses if none is given: accuracy for a classification, otherwise none."""
    return Accuracy() if isinstance(loss, SoftmaxCrossEntropyLoss) else None
