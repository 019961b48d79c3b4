"""Metrics for class labels: accuracies, likelihoods, and the correlation for many classes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..base import MXNetError
from .base import EvalMetric, alias, check_label_shapes, register

_Names = list[str] | None


@register
@alias("acc")
class Accuracy(EvalMetric):
    """The fraction of correct predictions. Predictions are the argmax along `axis`, or class indices if they have the
    labels' shape.

    Example:
        >>> accuracy = mx.metric.Accuracy()
        >>> accuracy.update([mx.nd.array([0, 1])], [mx.nd.array([[0.9, 0.1], [0.8, 0.2]])])
        >>> accuracy.get()
        ('accuracy', 0.5)
    """

    def __init__(
        self, axis: int = 1, name: str = "accuracy", output_names: _Names = None, label_names: _Names = None
    ) -> None:
        super().__init__(name, axis=axis, output_names=output_names, label_names=label_names, has_global_stats=True)
        self.axis = axis

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds, strict=False):
            predicted = pred.asnumpy()
            if predicted.shape != label.shape:
                if not -predicted.ndim <= self.axis < predicted.ndim:
                    raise MXNetError(f"{self.name}: predictions {predicted.shape} have no axis {self.axis}")
                predicted = np.argmax(predicted, axis=self.axis)
            predicted, true = predicted.astype("int32").ravel(), label.asnumpy().astype("int32").ravel()
            check_label_shapes(true, predicted)
            self._add((predicted == true).sum(), len(predicted))


@register
@alias("top_k_accuracy", "top_k_acc")
class TopKAccuracy(EvalMetric):
    """The fraction of labels that are among the `top_k` largest predictions (n, classes).

    Example:
        >>> top = mx.metric.TopKAccuracy(top_k=2)
        >>> top.update([mx.nd.array([2])], [mx.nd.array([[0.5, 0.1, 0.4]])])
        >>> top.get()
        ('top_k_accuracy_2', 1.0)
    """

    def __init__(
        self, top_k: int = 1, name: str = "top_k_accuracy", output_names: _Names = None, label_names: _Names = None
    ) -> None:
        super().__init__(name, top_k=top_k, output_names=output_names, label_names=label_names, has_global_stats=True)
        self.top_k = top_k
        if top_k <= 1:
            raise AssertionError("Please use Accuracy if top_k is no more than 1")
        self.name += f"_{top_k}"

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds, strict=False):
            if len(pred.shape) > 2:
                raise AssertionError("Predictions should be no more than 2 dims")
            order = np.argpartition(pred.asnumpy().astype("float32"), -self.top_k)
            true = label.asnumpy().astype("int32")
            check_label_shapes(true, order)
            if order.ndim == 1:
                self.sum_metric += (order == true.ravel()).sum()
                correct = 0
            else:
                correct = (order[:, -min(self.top_k, order.shape[1]) :] == true.reshape(-1, 1)).sum()
            self._add(correct, order.shape[0])


@register
class Perplexity(EvalMetric):
    """exp(mean(-log(probability of the label))). Samples with the label `ignore_label` are ignored."""

    def __init__(
        self,
        ignore_label: int | None,
        axis: int = -1,
        name: str = "perplexity",
        output_names: _Names = None,
        label_names: _Names = None,
    ) -> None:
        options = {"ignore_label": ignore_label, "has_global_stats": True}
        super().__init__(name, output_names=output_names, label_names=label_names, **options)
        self.ignore_label = ignore_label
        self.axis = axis

    def update(self, labels: Any, preds: Any) -> None:
        if len(labels) != len(preds):
            raise AssertionError(f"{len(labels)} labels for {len(preds)} predictions")
        loss, instances = 0.0, 0
        for label, pred in zip(labels, preds, strict=True):
            if label.size != pred.size / pred.shape[-1]:
                raise AssertionError(f"shape mismatch: {label.shape} vs. {pred.shape}")
            classes = label.as_in_context(pred.context).reshape((label.size,))
            probabilities = pred.pick(classes.astype("int32"), axis=self.axis).asnumpy().ravel()
            if self.ignore_label is not None:
                probabilities = probabilities[classes.asnumpy() != self.ignore_label]
            loss -= float(np.log(np.maximum(probabilities, 1e-10)).sum())
            instances += probabilities.size
        self._add(loss, instances)

    def get(self) -> tuple[str, float]:
        return self.name, _exponential(self.sum_metric, self.num_inst)

    def get_global(self) -> tuple[str, float]:
        return self.name, _exponential(self.global_sum_metric, self.global_num_inst)


def _exponential(amount: float, instances: int) -> float:
    return math.exp(amount / instances) if instances else float("nan")


class _Likelihood(EvalMetric):
    """The mean of -log(probability of the label + eps)."""

    def __init__(
        self, eps: float = 1e-12, name: str = "", output_names: _Names = None, label_names: _Names = None
    ) -> None:
        super().__init__(name, eps=eps, output_names=output_names, label_names=label_names, has_global_stats=True)
        self.eps = eps

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds, strict=False):
            true, predicted = label.asnumpy().ravel(), pred.asnumpy()
            if true.shape[0] != predicted.shape[0]:
                raise AssertionError(f"{true.shape[0]} labels for {predicted.shape[0]} predictions")
            probabilities = predicted[np.arange(true.shape[0]), true.astype(np.int64)]
            self._add((-np.log(probabilities + self.eps)).sum(), true.shape[0])


@register
@alias("ce")
class CrossEntropy(_Likelihood):
    """The mean cross entropy of labels (n,) and probabilities (n, classes)."""

    def __init__(
        self,
        eps: float = 1e-12,
        name: str = "cross-entropy",
        output_names: _Names = None,
        label_names: _Names = None,
    ) -> None:
        super().__init__(eps, name, output_names, label_names)


@register
@alias("nll_loss")
class NegativeLogLikelihood(_Likelihood):
    """The mean negative log-likelihood of labels (n,) under probabilities (n, classes)."""

    def __init__(
        self, eps: float = 1e-12, name: str = "nll-loss", output_names: _Names = None, label_names: _Names = None
    ) -> None:
        super().__init__(eps, name, output_names, label_names)


@register
class PCC(EvalMetric):
    """The Matthews correlation coefficient for any number of classes, from the confusion matrix (Gorodkin 2004)."""

    def __init__(
        self,
        name: str = "pcc",
        output_names: _Names = None,
        label_names: _Names = None,
        has_global_stats: bool = True,
    ) -> None:
        self.k = 2
        super().__init__(name, output_names=output_names, label_names=label_names, has_global_stats=has_global_stats)

    def _grow(self, inc: int) -> None:
        self.lcm, self.gcm = (np.pad(m, ((0, inc), (0, inc))) for m in (self.lcm, self.gcm))
        self.k += inc

    def _calc_mcc(self, cmat: np.ndarray) -> float:
        n = cmat.sum()
        rows, columns = cmat.sum(axis=1), cmat.sum(axis=0)
        cov_rows, cov_columns = (rows * (n - rows)).sum(), (columns * (n - columns)).sum()
        if cov_rows == 0 or cov_columns == 0:
            return float("nan")
        return (cmat.diagonal() * n - rows * columns).sum() / (cov_rows * cov_columns) ** 0.5

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds, strict=False):
            true, predicted = label.asnumpy().astype("int32"), pred.asnumpy()
            predicted = predicted.argmax(axis=1) if predicted.shape != true.shape else predicted.astype("int32")
            true, predicted = true.ravel(), predicted.ravel()
            check_label_shapes(true, predicted)
            largest = int(max(predicted.max(), true.max()))
            if largest >= self.k:
                self._grow(largest + 1 - self.k)
            batch = np.zeros((self.k, self.k))
            np.add.at(batch, (predicted, true), 1)
            self.lcm += batch
            self.gcm += batch
        self.num_inst += 1
        self.global_num_inst += 1

    @property
    def sum_metric(self) -> float:  # type: ignore[override]
        return self._calc_mcc(self.lcm) * self.num_inst

    @property
    def global_sum_metric(self) -> float:  # type: ignore[override]
        return self._calc_mcc(self.gcm) * self.global_num_inst

    def reset(self) -> None:
        self.global_num_inst = 0.0
        self.gcm = np.zeros((self.k, self.k))
        self.reset_local()

    def reset_local(self) -> None:
        self.num_inst = 0.0
        self.lcm = np.zeros((self.k, self.k))
