"""Metrics for two classes: F1 and the Matthews correlation coefficient, computed from the confusion matrix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .base import EvalMetric, check_label_shapes, register

_COUNTS = ("true_positives", "false_negatives", "false_positives", "true_negatives")


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


class _BinaryClassificationMetrics:
    """The four entries of the confusion matrix, since `local_reset_stats` and since `reset_stats` (`global_*`)."""

    true_positives: Any
    false_negatives: Any
    false_positives: Any
    true_negatives: Any

    def __init__(self) -> None:
        self.reset_stats()

    def reset_stats(self) -> None:
        for name in _COUNTS:
            setattr(self, f"global_{name}", 0)
        self.local_reset_stats()

    def local_reset_stats(self) -> None:
        for name in _COUNTS:
            setattr(self, name, 0)

    def update_binary_stats(self, label: Any, pred: Any) -> None:
        """Add a batch: probabilities `pred` (n, 2), and `label` (n,) of 0 and 1. Raises ValueError for more classes."""
        pred, label = pred.asnumpy(), label.asnumpy().astype("int32")
        check_label_shapes(label, pred)
        if len(np.unique(label)) > 2:
            raise ValueError(f"{type(self).__name__} currently only supports binary classification.")
        predicted, true = np.argmax(pred, axis=1) == 1, label == 1
        counts = (predicted & true, ~predicted & true, predicted & ~true, ~predicted & ~true)
        for name, count in zip(_COUNTS, counts, strict=True):
            setattr(self, name, getattr(self, name) + count.sum())
            setattr(self, f"global_{name}", getattr(self, f"global_{name}") + count.sum())

    def _confusion(self, prefix: str) -> tuple[float, float, float, float]:
        """The counts (TP, FN, FP, TN). `prefix` is "" or "global_"."""
        tp, fn, fp, tn = (float(getattr(self, prefix + name)) for name in _COUNTS)
        return tp, fn, fp, tn

    def _precision(self, prefix: str = "") -> float:
        tp, _, fp, _ = self._confusion(prefix)
        return _ratio(tp, tp + fp)

    def _recall(self, prefix: str = "") -> float:
        tp, fn, _, _ = self._confusion(prefix)
        return _ratio(tp, tp + fn)

    def _fscore(self, prefix: str = "") -> float:
        precision, recall = self._precision(prefix), self._recall(prefix)
        return _ratio(2 * precision * recall, precision + recall)

    precision = property(_precision)
    recall = property(_recall)
    fscore = property(_fscore)
    global_precision = property(lambda self: self._precision("global_"))
    global_recall = property(lambda self: self._recall("global_"))
    global_fscore = property(lambda self: self._fscore("global_"))

    def matthewscc(self, use_global: bool = False) -> float:
        """The Matthews correlation coefficient. Factors of the denominator that are 0 are omitted."""
        tp, fn, fp, tn = self._confusion("global_" if use_global else "")
        if not tp + fn + fp + tn:
            return 0.0
        factors = [f for f in (tp + fp, tp + fn, tn + fp, tn + fn) if f != 0]
        return (tp * tn - fp * fn) / math.sqrt(math.prod(factors))

    @property
    def total_examples(self) -> Any:
        return sum(getattr(self, name) for name in _COUNTS)

    @property
    def global_total_examples(self) -> Any:
        return sum(getattr(self, f"global_{name}") for name in _COUNTS)


class _BinaryMetric(EvalMetric):
    """A function of the confusion matrix: its mean over batches ("macro"), or its value for all samples ("micro").

    A subclass defines the kind of average, the counts and the function. It uses no closure over the counts, because a
    copy of the metric would share them with the original.
    """

    def _average_kind(self) -> str:
        raise NotImplementedError

    def _counts(self) -> _BinaryClassificationMetrics:
        raise NotImplementedError

    def _value(self, use_global: bool) -> float:
        raise NotImplementedError

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        counts = self._counts()
        for label, pred in zip(labels, preds, strict=False):
            counts.update_binary_stats(label, pred)
        if self._average_kind() == "macro":
            self.sum_metric += self._value(False)
            self.global_sum_metric += self._value(True)
            self.num_inst += 1
            self.global_num_inst += 1
            counts.reset_stats()
            return
        self.num_inst, self.global_num_inst = counts.total_examples, counts.global_total_examples
        self.sum_metric = self._value(False) * self.num_inst
        self.global_sum_metric = self._value(True) * self.global_num_inst

    def reset(self) -> None:
        super().reset()
        self._counts().reset_stats()

    def reset_local(self) -> None:
        super().reset_local()
        self._counts().local_reset_stats()


@register
class F1(_BinaryMetric):
    """The harmonic mean of precision and recall.

    Example:
        >>> f1 = mx.metric.F1()
        >>> f1.update([mx.nd.array([1, 1, 0])], [mx.nd.array([[0, 1], [1, 0], [1, 0]])])
        >>> round(f1.get()[1], 3)
        0.667
    """

    def __init__(
        self,
        name: str = "f1",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
        average: str = "macro",
    ) -> None:
        self.average = average
        self.metrics = _BinaryClassificationMetrics()
        super().__init__(name, output_names=output_names, label_names=label_names, has_global_stats=True)

    def _average_kind(self) -> str:
        return self.average

    def _counts(self) -> _BinaryClassificationMetrics:
        return self.metrics

    def _value(self, use_global: bool) -> float:
        return self.metrics.global_fscore if use_global else self.metrics.fscore


@register
class MCC(_BinaryMetric):
    """The Matthews correlation coefficient for two classes. PCC supports more classes."""

    def __init__(
        self,
        name: str = "mcc",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
        average: str = "macro",
    ) -> None:
        self._average = average
        self._metrics = _BinaryClassificationMetrics()
        super().__init__(name, output_names=output_names, label_names=label_names, has_global_stats=True)

    def _average_kind(self) -> str:
        return self._average

    def _counts(self) -> _BinaryClassificationMetrics:
        return self._metrics

    def _value(self, use_global: bool) -> float:
        return self._metrics.matthewscc(use_global)
