"""Charts of metrics in notebooks, which MXNet draws with bokeh. Each class raises an error that names alternatives."""

from __future__ import annotations

from typing import Any

from ..base import MXNetError

__all__ = ["LiveBokehChart", "LiveLearningCurve", "LiveTimeSeries", "PandasLogger"]


class _Absent:
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise MXNetError(
            f"notebook.callback.{type(self).__name__} is not in mxforge: use mx.callback.Speedometer, your own "
            "callback, or mx.contrib.tensorboard.LogMetricsCallback"
        )


class PandasLogger(_Absent):
    """Raises MXNetError."""


class LiveBokehChart(_Absent):
    """Raises MXNetError."""


class LiveTimeSeries(_Absent):
    """Raises MXNetError."""


class LiveLearningCurve(_Absent):
    """Raises MXNetError."""
