"""Writes metrics for TensorBoard, with the package mxboard."""

from __future__ import annotations

import logging
from typing import Any

__all__ = ["LogMetricsCallback"]


class LogMetricsCallback:
    """A callback for the end of batches or epochs. It writes a metric's values to a folder for TensorBoard.

    If mxboard is not installed, the constructor logs an error.
    """

    def __init__(self, logging_dir: str, prefix: str | None = None) -> None:
        self.prefix = prefix
        try:
            from mxboard import SummaryWriter  # type: ignore[import-not-found]
        except ImportError:
            logging.error("You can install mxboard via `pip install mxboard`.")
        else:
            self.summary_writer = SummaryWriter(logging_dir)

    def __call__(self, param: Any) -> None:
        if param.eval_metric is None:
            return
        for name, value in param.eval_metric.get_name_value():
            name = name if self.prefix is None else f"{self.prefix}-{name}"
            self.summary_writer.add_scalar(name, value, global_step=param.epoch)
