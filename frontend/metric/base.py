"""What metrics share: EvalMetric, the registry, and the metrics that are made of others or of a function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy

from .. import registry
from ..ndarray import NDArray

_ZERO = numpy.float64(0)  # a sum that begins with Python's 0.0 and takes float32 goes on in float32, from NumPy 2 on


def check_label_shapes(labels: Any, preds: Any, wrap: bool = False, shape: bool = False) -> tuple[Any, Any]:
    """Labels and predictions, whose number (or shape, with `shape`) must agree; with `wrap` an array becomes a list.

    ValueError when they do not agree.
    """
    found = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if found[0] != found[1]:
        raise ValueError(f"Shape of labels {found[0]} does not match shape of predictions {found[1]}")
    if wrap:
        labels, preds = ([x] if isinstance(x, NDArray) else x for x in (labels, preds))
    return labels, preds


class EvalMetric:
    """A sum over instances and their number, since `reset` (global) and since `reset_local`.

    Subclasses say `update(labels, preds)`, lists of arrays, and hand what they found to `_add`.
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
        found = {name: plain(value) for name, value in self.get_name_value()}
        return f"EvalMetric: {found}"

    def get_config(self) -> dict[str, Any]:
        """What `create` makes an equal metric of."""
        own = {"metric": type(self).__name__, "name": self.name}
        return {**self._kwargs, **own, "output_names": self.output_names, "label_names": self.label_names}

    def update_dict(self, label: Mapping[str, NDArray], pred: Mapping[str, NDArray]) -> None:
        """Update by arrays with names: those of `label_names` and `output_names`, or all."""
        self.update(_chosen(label, self.label_names), _chosen(pred, self.output_names))

    def update(self, labels: Any, preds: Any) -> None:
        """Take a batch into account."""
        raise NotImplementedError(f"{type(self).__name__} has no update")

    def _add(self, amount: Any, instances: Any) -> None:
        self.sum_metric += amount
        self.global_sum_metric += amount
        self.num_inst += instances
        self.global_num_inst += instances

    def reset(self) -> None:
        """Forget everything."""
        self.num_inst: Any = 0
        self.sum_metric: Any = _ZERO
        self.global_num_inst: Any = 0
        self.global_sum_metric: Any = _ZERO

    def reset_local(self) -> None:
        """Begin a new local count; the global one goes on."""
        self.num_inst = 0
        self.sum_metric = _ZERO

    def get(self) -> tuple[Any, Any]:
        """Name and value since the last reset; NaN when there was no instance."""
        return self.name, _mean(self.sum_metric, self.num_inst)

    def get_global(self) -> tuple[Any, Any]:
        """As `get`, whatever `reset_local` did."""
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
    """A number of NumPy's as Python's, whose text is the same in every version of NumPy."""
    return value.item() if isinstance(value, numpy.generic) else value


def _pairs(found: tuple[Any, Any]) -> list[tuple[str, Any]]:
    names, values = (x if isinstance(x, list) else [x] for x in found)
    return list(zip(names, values, strict=False))


def _chosen(arrays: Mapping[str, NDArray], names: list[str] | None) -> list[NDArray]:
    return list(arrays.values()) if names is None else [arrays[name] for name in names]


register = registry.get_register_func(EvalMetric, "metric")
alias = registry.get_alias_func(EvalMetric, "metric")
_create = registry.get_create_func(EvalMetric, "metric")


def create(metric: Any, *args: Any, **kwargs: Any) -> Any:
    """A metric from its name, a function of (label, prediction), a list of these, or a metric itself.

    ValueError for a name that is not registered.
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
    """Several metrics as one, with lists of names and values."""

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
        """Add a metric, or what `create` makes one of."""
        self.metrics.append(create(metric))

    def get_metric(self, index: int) -> Any:
        """The metric at a position. MXNet returns its error instead of raising it; callers may test for that."""
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


def _flattened(found: Iterator[tuple[Any, Any]]) -> tuple[list[str], list[Any]]:
    names: list[str] = []
    values: list[Any] = []
    for name, value in found:
        names.extend(name if isinstance(name, list | tuple) else [name])
        values.extend(value if isinstance(value, list | tuple) else [value])
    return names, values


@register
class CustomMetric(EvalMetric):
    """A function of two NumPy arrays, label and prediction, that gives a value or (sum, instances)."""

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
    """A metric of a function on NumPy arrays."""

    def feval(label: Any, pred: Any) -> Any:
        return numpy_feval(label, pred)

    feval.__name__ = numpy_feval.__name__  # type: ignore[attr-defined]
    return CustomMetric(feval, name, allow_extra_outputs)
