"""EvalMetric, the registry of metrics, and metrics that combine others or wrap a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy

from .. import registry
from ..ndarray import NDArray

_ZERO = numpy.float64(0)  # with NumPy 2, Python's 0.0 plus a float32 is a float32


def check_label_shapes(labels: Any, preds: Any, wrap: bool = False, shape: bool = False) -> tuple[Any, Any]:
    """Check that labels and predictions have equal length, or equal shape with `shape`. Raises ValueError otherwise.

    Returns both. With `wrap`, a single array becomes a list.
    """
    sizes = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if sizes[0] != sizes[1]:
        raise ValueError(f"Shape of labels {sizes[0]} does not match shape of predictions {sizes[1]}")
    if wrap:
        labels, preds = ([x] if isinstance(x, NDArray) else x for x in (labels, preds))
    return labels, preds


class EvalMetric:
    """A sum over samples and their number, since `reset` (global) and since `reset_local`.

    Subclasses define `update(labels, preds)` on lists of arrays, and call `_add` with the results.
    """

    def __init__(
        self, name: str, output_names: list[str] | None = None, label_names: list[str] | None = None, **kwargs: Any
    ) -> None:
        self.name = str(name)
        self.output_names = output_names
        self.label_names = label_names
        self._has_global_stats = kwargs.pop("has_global_stats", False)
        self._kwargs = kwargs
        self.reset()

    def __str__(self) -> str:
        values = {name: plain(value) for name, value in self.get_name_value()}
        return f"EvalMetric: {values}"

    def get_config(self) -> dict[str, Any]:
        """The configuration from which `create` makes an equal metric."""
        own = {"metric": type(self).__name__, "name": self.name}
        return {**self._kwargs, **own, "output_names": self.output_names, "label_names": self.label_names}

    def update_dict(self, label: Mapping[str, NDArray], pred: Mapping[str, NDArray]) -> None:
        """Update with named arrays: only `label_names` and `output_names`, or all if these are None."""
        self.update(_select(label, self.label_names), _select(pred, self.output_names))

    def update(self, labels: Any, preds: Any) -> None:
        """Add a batch to the metric."""
        raise NotImplementedError(f"{type(self).__name__} has no update")

    def _add(self, amount: Any, instances: Any) -> None:
        self.sum_metric += amount
        self.global_sum_metric += amount
        self.num_inst += instances
        self.global_num_inst += instances

    def reset(self) -> None:
        """Reset local and global sums."""
        self.num_inst: Any = 0
        self.sum_metric: Any = _ZERO
        self.global_num_inst: Any = 0
        self.global_sum_metric: Any = _ZERO

    def reset_local(self) -> None:
        """Reset only the local sum."""
        self.num_inst = 0
        self.sum_metric = _ZERO

    def get(self) -> tuple[Any, Any]:
        """Name and value since the last reset. The value is NaN without samples."""
        return self.name, _mean(self.sum_metric, self.num_inst)

    def get_global(self) -> tuple[Any, Any]:
        """As `get`, but since the last `reset`."""
        if not self._has_global_stats:
            return self.get()
        return self.name, _mean(self.global_sum_metric, self.global_num_inst)

    def get_name_value(self) -> list[tuple[str, Any]]:
        """Pairs of name and value."""
        return _pairs(self.get())

    def get_global_name_value(self) -> list[tuple[str, Any]]:
        """Pairs of name and global value."""
        return _pairs(self.get_global()) if self._has_global_stats else self.get_name_value()


def _mean(amount: Any, instances: Any) -> Any:
    return float("nan") if instances == 0 else plain(amount / instances)


def plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python number, whose text is the same in every version of NumPy."""
    return value.item() if isinstance(value, numpy.generic) else value


def _pairs(named: tuple[Any, Any]) -> list[tuple[str, Any]]:
    names, values = (x if isinstance(x, list) else [x] for x in named)
    return list(zip(names, values, strict=False))


def _select(arrays: Mapping[str, NDArray], names: list[str] | None) -> list[NDArray]:
    return list(arrays.values()) if names is None else [arrays[name] for name in names]


register = registry.get_register_func(EvalMetric, "metric")
alias = registry.get_alias_func(EvalMetric, "metric")
_create = registry.get_create_func(EvalMetric, "metric")


def create(metric: Any, *args: Any, **kwargs: Any) -> Any:
    """Create a metric from its name, a function of (label, prediction), or a list of these. A metric is returned as is.

    A name that is not registered raises ValueError.

    Example:
        >>> mx.metric.create("acc").name
        'accuracy'
        >>> mx.metric.create(["acc", "ce"]).get()[0]
        ['accuracy', 'cross-entropy']
    """
    if callable(metric):
        return CustomMetric(metric, *args, **kwargs)
    if isinstance(metric, list):
        composite = CompositeEvalMetric()
        for child in metric:
            composite.add(create(child, *args, **kwargs))
        return composite
    return _create(metric, *args, **kwargs)


@register
@alias("composite")
class CompositeEvalMetric(EvalMetric):
    """Combines several metrics. Names and values are lists.

    Example:
        >>> both = mx.metric.CompositeEvalMetric([mx.metric.MAE(), mx.metric.MSE()])
        >>> both.update([mx.nd.array([1, 2])], [mx.nd.array([1, 4])])
        >>> both.get()
        (['mae', 'mse'], [1.0, 2.0])
    """

    def __init__(
        self,
        metrics: Iterable[Any] | None = None,
        name: str = "composite",
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        self.metrics: list[Any] = [create(m) for m in metrics or ()]
        super().__init__(name, output_names=output_names, label_names=label_names, has_global_stats=True)

    def add(self, metric: Any) -> None:
        """Add a metric, or an argument of `create`."""
        self.metrics.append(create(metric))

    def get_metric(self, index: int) -> Any:
        """The metric at an index. An invalid index returns (does not raise) a ValueError, as in MXNet."""
        try:
            return self.metrics[index]
        except IndexError:
            return ValueError(f"Metric index {index} is out of range 0 and {len(self.metrics)}")

    def update_dict(self, labels: Mapping[str, NDArray], preds: Mapping[str, NDArray]) -> None:  # type: ignore[override]
        if self.label_names is not None:
            labels = {name: array for name, array in labels.items() if name in self.label_names}
        if self.output_names is not None:
            preds = {name: array for name, array in preds.items() if name in self.output_names}
        for metric in self.metrics:
            metric.update_dict(labels, preds)

    def update(self, labels: Any, preds: Any) -> None:
        for metric in self.metrics:
            metric.update(labels, preds)

    def reset(self) -> None:
        for metric in self.metrics:
            metric.reset()

    def reset_local(self) -> None:
        for metric in self.metrics:
            metric.reset_local()

    def get(self) -> tuple[list[str], list[Any]]:
        return _flattened(metric.get() for metric in self.metrics)

    def get_global(self) -> tuple[list[str], list[Any]]:
        return _flattened(metric.get_global() for metric in self.metrics)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "metrics": [metric.get_config() for metric in self.metrics]}


def _flattened(named: Iterator[tuple[Any, Any]]) -> tuple[list[str], list[Any]]:
    names: list[str] = []
    values: list[Any] = []
    for name, value in named:
        names.extend(name if isinstance(name, list | tuple) else [name])
        values.extend(value if isinstance(value, list | tuple) else [value])
    return names, values


@register
class CustomMetric(EvalMetric):
    """A metric from a function of two NumPy arrays, label and prediction. It returns a value or (sum, samples)."""

    def __init__(
        self,
        feval: Callable[..., Any],
        name: str | None = None,
        allow_extra_outputs: bool = False,
        output_names: list[str] | None = None,
        label_names: list[str] | None = None,
    ) -> None:
        if name is None:
            name = feval.__name__  # type: ignore[attr-defined]
            name = f"custom({name})" if "<" in name else name
        options = {"feval": feval, "allow_extra_outputs": allow_extra_outputs, "has_global_stats": True}
        super().__init__(name, output_names=output_names, label_names=label_names, **options)
        self._feval = feval
        self._allow_extra_outputs = allow_extra_outputs

    def update(self, labels: Any, preds: Any) -> None:
        if not self._allow_extra_outputs:
            labels, preds = check_label_shapes(labels, preds, True)
        for pred, label in zip(preds, labels, strict=False):
            value = self._feval(label.asnumpy(), pred.asnumpy())
            amount, instances = value if isinstance(value, tuple) else (value, 1)
            self._add(amount, instances)

    def get_config(self) -> dict[str, Any]:
        raise NotImplementedError("CustomMetric cannot be serialized")


def np(numpy_feval: Callable[..., Any], name: str | None = None, allow_extra_outputs: bool = False) -> CustomMetric:
    """Create a metric from a function on NumPy arrays, label and prediction."""

    def feval(label: Any, pred: Any) -> Any:
        return numpy_feval(label, pred)

    feval.__name__ = numpy_feval.__name__  # type: ignore[attr-defined]
    return CustomMetric(feval, name, allow_extra_outputs)
