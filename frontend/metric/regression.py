"""Metrics for real values: absolute and squared errors, correlation, and outputs that are losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ndarray import NDArray
from .base import EvalMetric, alias, check_label_shapes, plain, register

_Names = list[str] | None


class _Error(EvalMetric):
    """The mean over batches of a function of `label - pred`. Arrays of rank 1 are reshaped to (n, 1)."""

    def __init__(self, name: str, output_names: _Names = None, label_names: _Names = None) -> None:
        super().__init__(name, output_names=output_names, label_names=label_names, has_global_stats=True)

    @staticmethod
    def _error(difference: np.ndarray) -> Any:
        raise NotImplementedError

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds, strict=False):
            true, predicted = (a.reshape(-1, 1) if a.ndim == 1 else a for a in (label.asnumpy(), pred.asnumpy()))
            self._add(self._error(true - predicted), 1)


@register
class MAE(_Error):
    """The mean absolute error.

    Example:
        >>> error = mx.metric.MAE()
        >>> error.update([mx.nd.array([1, 2])], [mx.nd.array([1, 4])])
        >>> error.get()
        ('mae', 1.0)
    """

    def __init__(self, name: str = "mae", output_names: _Names = None, label_names: _Names = None) -> None:
        super().__init__(name, output_names, label_names)

    @staticmethod
    def _error(difference: np.ndarray) -> Any:
        return np.abs(difference).mean()


@register
class MSE(_Error):
    """The mean squared error."""

    def __init__(self, name: str = "mse", output_names: _Names = None, label_names: _Names = None) -> None:
        super().__init__(name, output_names, label_names)

    @staticmethod
    def _error(difference: np.ndarray) -> Any:
        return (difference**2.0).mean()


@register
class RMSE(_Error):
    """The mean over batches of the root mean squared error."""

    def __init__(self, name: str = "rmse", output_names: _Names = None, label_names: _Names = None) -> None:
        super().__init__(name, output_names, label_names)

    @staticmethod
    def _error(difference: np.ndarray) -> Any:
        return np.sqrt((difference**2.0).mean())


@register
@alias("pearsonr")
class PearsonCorrelation(EvalMetric):
    """Pearson's correlation: the mean over batches ("macro"), or the correlation of all values ("micro").

    The running variances are computed with Welford's algorithm (1962).
    """

    def __init__(
        self,
        name: str = "pearsonr",
        output_names: _Names = None,
        label_names: _Names = None,
        average: str = "macro",
    ) -> None:
        self.average = average
        super().__init__(name, output_names=output_names, label_names=label_names, has_global_stats=True)

    def reset_micro(self) -> None:
        """Reset the running means and variances."""
        self._sse_p = self._mean_p = self._sse_l = self._mean_l = self._conv = 0.0
        self._pred_nums = self._label_nums = 0

    def reset(self) -> None:
        super().reset()
        if self.average == "micro":
            self.reset_micro()

    def update_variance(self, new_values: np.ndarray, *aggregate: Any) -> tuple[Any, Any, Any]:
        """Add new values to the aggregate (count, mean, sum of squared deviations). Returns the new aggregate."""
        count, mean, squares = aggregate
        count += len(new_values)
        before = new_values - mean
        mean += np.sum(before / count)
        squares += np.sum(before * (new_values - mean))
        return count, mean, squares

    def update_cov(self, label: np.ndarray, pred: np.ndarray) -> None:
        """Add a batch to the running sum of products of deviations."""
        self._conv = self._conv + np.sum((label - self._mean_l) * (pred - self._mean_p))

    def update(self, labels: Any, preds: Any) -> None:
        labels, preds = check_label_shapes(labels, preds, True)
        for label, pred in zip(labels, preds, strict=False):
            check_label_shapes(label, pred, False, True)
            true, predicted = (a.asnumpy().ravel().astype(np.float64) for a in (label, pred))
            if self.average == "macro":
                self._add(np.corrcoef(predicted, true)[0, 1], 1)
                continue
            self._add(0.0, 1)
            self._label_nums, self._mean_l, self._sse_l = self.update_variance(
                true, self._label_nums, self._mean_l, self._sse_l
            )
            self.update_cov(true, predicted)
            self._pred_nums, self._mean_p, self._sse_p = self.update_variance(
                predicted, self._pred_nums, self._mean_p, self._sse_p
            )

    def get(self) -> tuple[str, Any]:
        if self.num_inst == 0 or self.average == "macro":
            return super().get()
        dof = self._label_nums - 1
        return self.name, plain(self._conv / (dof * np.sqrt(self._sse_p / dof) * np.sqrt(self._sse_l / dof)))


@register
class Loss(EvalMetric):
    """The mean of outputs that are losses."""

    def __init__(self, name: str = "loss", output_names: _Names = None, label_names: _Names = None) -> None:
        super().__init__(name, output_names=output_names, label_names=label_names, has_global_stats=True)

    def update(self, _: Any, preds: Any) -> None:  # type: ignore[override]
        for pred in [preds] if isinstance(preds, NDArray) else preds:
            self._add(pred.sum().item(), pred.size)


@register
class Torch(Loss):
    """As `Loss`, for losses computed by Torch."""

    def __init__(self, name: str = "torch", output_names: _Names = None, label_names: _Names = None) -> None:
        super().__init__(name, output_names, label_names)


@register
class Caffe(Loss):
    """As `Loss`, for losses computed by Caffe."""

    def __init__(self, name: str = "caffe", output_names: _Names = None, label_names: _Names = None) -> None:
        super().__init__(name, output_names, label_names)
