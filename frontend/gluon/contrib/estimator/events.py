"""The events of a training loop. A handler inherits the class of each event that it handles."""

from __future__ import annotations

from typing import Any


class EventHandler:
    """The base of all handlers. Handlers of an event run by rising `priority`, which is 0 if a handler has none."""


def _check_event_handlers(handlers: Any) -> list[EventHandler]:
    """A new list of the handlers of a handler or a list; ValueError for other elements. None is no handler."""
    if isinstance(handlers, EventHandler):
        return [handlers]
    handlers = handlers or []
    if not all(isinstance(handler, EventHandler) for handler in handlers):
        raise ValueError(f"handlers must be an EventHandler or a list of EventHandler, got: {handlers}")
    return list(handlers)


class TrainBegin(EventHandler):
    """A handler that runs before the first epoch."""

    def train_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        pass


class TrainEnd(EventHandler):
    """A handler that runs after the last epoch."""

    def train_end(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        pass


class EpochBegin(EventHandler):
    """A handler that runs before each epoch, also before the one pass of `Estimator.evaluate`."""

    def epoch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        pass


class EpochEnd(EventHandler):
    """A handler that runs after each epoch. Training ends if it returns True."""

    def epoch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool | None:
        return False


class BatchBegin(EventHandler):
    """A handler that runs before each batch, with the keyword argument `batch`."""

    def batch_begin(self, estimator: Any, *args: Any, **kwargs: Any) -> None:
        pass


class BatchEnd(EventHandler):
    """A handler that runs after each batch, with the keyword arguments `batch`, `pred`, `label` and `loss`. The epoch
    ends if it returns True."""

    def batch_end(self, estimator: Any, *args: Any, **kwargs: Any) -> bool | None:
        return False
