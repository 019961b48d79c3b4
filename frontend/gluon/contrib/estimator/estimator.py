"""Estimator: a training loop whose steps are event handlers."""

from __future__ import annotations

import copy
import logging
import sys
import warnings
from typing import Any

from ....context import Context, cpu, gpu, num_gpus
from ....metric import Loss as metric_loss
from ...data import DataLoader
from ...loss import Loss as gluon_loss
from ...trainer import Trainer
from ...utils import split_and_load
from .batch_processor import BatchProcessor
from .event_handler import GradientUpdateHandler, LoggingHandler, MetricHandler, StoppingHandler, ValidationHandler
from .events import (
    BatchBegin,
    BatchEnd,
    EpochBegin,
    EpochEnd,
    EventHandler,
    TrainBegin,
    TrainEnd,
    _check_event_handlers,
)
from .utils import _check_handler_metric_ref, _check_metrics, _suggest_metric_for_loss

__all__ = ["Estimator"]

Handlers = list[Any]


class Estimator:
    """Trains and evaluates a network.

    Args:
        net: The network.
        loss: The loss of the training.
        train_metrics: The metrics of the training: a metric or a list of metrics. By default they are the loss and, for
            SoftmaxCrossEntropyLoss, the accuracy.
        val_metrics: The metrics of the validation; by default those of the training.
        initializer: Initializes parameters that are not initialized yet.
        trainer: Updates the parameters; by default SGD with learning rate 0.001.
        context: A context or a list of contexts, among which each batch is divided.
        val_net: The network of the validation, which usually shares parameters with `net`; by default `net`.
        val_loss: The loss of the validation; by default `loss`.
        batch_processor: Computes one batch: an object with the methods of BatchProcessor.
    """

    logger: Any = None
    """The Logger of the estimator and of its handlers. Each estimator has its own, which writes to the standard
    output."""

    def __init__(
        self,
        net: Any,
        loss: gluon_loss,
        train_metrics: Any = None,
        val_metrics: Any = None,
        initializer: Any = None,
        trainer: Trainer | None = None,
        context: Context | list[Context] | None = None,
        val_net: Any = None,
        val_loss: gluon_loss | None = None,
        batch_processor: Any = None,
    ) -> None:
        self.net = net
        self.loss = self._check_loss(loss)
        self._train_metrics = _check_metrics(train_metrics)
        self._val_metrics = _check_metrics(val_metrics)
        self._add_default_training_metrics()
        self._add_validation_metrics()
        self.val_loss = self.loss if val_loss is None else self._check_loss(val_loss)
        self.val_net = net if val_net is None else val_net
        self.logger = logging.Logger(name="Estimator", level=logging.INFO)
        self.logger.addHandler(logging.StreamHandler(sys.stdout))
        self.context = self._check_context(context)
        self._initialize(initializer)
        self.trainer = self._check_trainer(trainer)
        self.batch_processor = self._check_batch_processor(batch_processor)
        self.max_epoch: int | None = None
        self.max_batch: int | None = None
        self.batch_axis = 0

    def _check_loss(self, loss: Any) -> gluon_loss:
        if not isinstance(loss, gluon_loss):
            raise ValueError(f"loss must be a Loss, refer to gluon.loss.Loss:{loss}")
        return loss

    def _check_context(self, context: Any) -> list[Context]:
        """A list of contexts; by default the first GPU, or the CPU if there is none."""
        gpus = [gpu(i) for i in range(num_gpus())]
        if not context:
            if len(gpus) > 1:
                warnings.warn(
                    "You have multiple GPUs, gpu(0) will be used by default. To utilize all your GPUs, specify context "
                    "as a list of gpus, e.g. context=[mx.gpu(0), mx.gpu(1)] ",
                    stacklevel=3,
                )
            return gpus[:1] or [cpu()]
        contexts = [context] if isinstance(context, Context) else context
        if not isinstance(contexts, list) or not all(isinstance(c, Context) for c in contexts):
            raise ValueError(
                "context must be a Context or a list of Context, for example mx.cpu() or [mx.gpu(0), mx.gpu(1)], refer "
                f"to mxnet.Context:{context}"
            )
        for ctx in contexts:
            assert ctx in gpus or str(ctx).startswith("cpu"), (
                f"{ctx} is not available, please make sure your context is in one of: mx.cpu(), "
                f"{', '.join(map(str, gpus))}"
            )
        return contexts

    def _check_batch_processor(self, batch_processor: Any) -> Any:
        if batch_processor is None:
            return BatchProcessor()
        if not all(callable(getattr(batch_processor, name, None)) for name in ("fit_batch", "evaluate_batch")):
            raise ValueError("Customized Batch Processor must contain fit_batch() and evaluate_batch() methods")
        return batch_processor

    def _initialize(self, initializer: Any) -> None:
        """Initialize parameters that are not initialized yet."""
        if not self._is_initialized():
            options = {"init": initializer} if initializer else {}
            self.net.initialize(ctx=self.context, **options)
        elif initializer:
            warnings.warn(
                "Network already fully initialized, skipping initialization. You don't need to pass initializer if you "
                "already initialized your net. You can use net.initialize(init=your_initializer, force_reinit=True) to "
                "force re-initialize.",
                stacklevel=3,
            )

    def _check_trainer(self, trainer: Any) -> Trainer:
        if not trainer:
            warnings.warn("No trainer specified, default SGD optimizer with learning rate 0.001 is used.", stacklevel=3)
            return Trainer(self.net.collect_params(), "sgd", {"learning_rate": 0.001})
        if not isinstance(trainer, Trainer):
            raise ValueError(f"Trainer must be a Gluon Trainer instance, refer to gluon.Trainer:{trainer}")
        return trainer

    def _is_initialized(self) -> bool:
        try:
            for param in self.net.collect_params().values():
                param.list_ctx()
        except RuntimeError:
            return False
        return True

    def _get_data_and_label(self, batch: Any, ctx: list[Context], batch_axis: int = 0) -> tuple[list[Any], list[Any]]:
        data, label = (split_and_load(batch[i], ctx_list=ctx, batch_axis=batch_axis) for i in range(2))
        return data, label

    def _add_default_training_metrics(self) -> None:
        """Choose metrics if there are none, and mark the names of all as those of the training."""
        if not self._train_metrics:
            suggested = _suggest_metric_for_loss(self.loss)
            loss = metric_loss(self.loss.name.rstrip("1234567890"))
            self._train_metrics = [suggested, loss] if suggested else [loss]
        for metric in self._train_metrics:
            metric.name = f"training {metric.name}"

    def _add_validation_metrics(self) -> None:
        """Copy the metrics of the training if there are none, and mark the names of all as those of the validation."""
        if not self._val_metrics:
            self._val_metrics = [copy.deepcopy(metric) for metric in self._train_metrics]
        for metric in self._val_metrics:
            if "training" in metric.name:
                metric.name = metric.name.replace("training", "validation")
            else:
                metric.name = f"validation {metric.name}"

    @property
    def train_metrics(self) -> list[Any]:
        return self._train_metrics

    @property
    def val_metrics(self) -> list[Any]:
        return self._val_metrics

    def evaluate(self, val_data: DataLoader, batch_axis: int = 0, event_handlers: Any = None) -> None:
        """Compute the validation metrics of all batches.

        Args:
            val_data: The batches of data and labels.
            batch_axis: The axis along which a batch is divided among the contexts.
            event_handlers: A handler or a list of handlers. A MetricHandler and a LoggingHandler are added if missing.
        """
        _require_loader(val_data, "gluon.data.DataLoader")
        for metric in self.val_metrics:
            metric.reset()
        handlers = self._prepare_default_validation_handlers(event_handlers)
        _, epoch_begin, batch_begin, batch_end, epoch_end, _ = self._categorize_handlers(handlers)
        for handler in epoch_begin:
            handler.epoch_begin(self)
        for batch in val_data:
            for handler in batch_begin:
                handler.batch_begin(self, batch=batch)
            _, label, pred, loss = self.batch_processor.evaluate_batch(self, batch, batch_axis)
            for handler in batch_end:
                handler.batch_end(self, batch=batch, pred=pred, label=label, loss=loss)
        for handler in epoch_end:
            handler.epoch_end(self)

    def fit(
        self,
        train_data: DataLoader,
        val_data: DataLoader | None = None,
        epochs: int | None = None,
        event_handlers: Any = None,
        batches: int | None = None,
        batch_axis: int = 0,
    ) -> None:
        """Train for a number of epochs or of batches, of which one is given.

        Args:
            train_data: The batches of data and labels.
            val_data: Validation data; the estimator is evaluated after each epoch.
            epochs: The number of epochs.
            event_handlers: A handler or a list of handlers. Handlers that stop, update, measure, validate and log are
                added if missing.
            batches: The number of batches.
            batch_axis: The axis along which a batch is divided among the contexts.
        """
        _require_loader(train_data, "gluon.data.dataloader")
        if bool(epochs) == bool(batches):
            raise ValueError(
                "Fit only support exactly one type of iteration, train by number of epochs or number of batches. "
                "Please specify one and only one of: epochs or batches."
            )
        self.max_epoch = epochs
        self.max_batch = batches
        self.batch_axis = batch_axis
        handlers = self._prepare_default_handlers(val_data, event_handlers)
        train_begin, epoch_begin, batch_begin, batch_end, epoch_end, train_end = self._categorize_handlers(handlers)
        for handler in train_begin:
            handler.train_begin(self)
        stop = False
        while not stop:
            for handler in epoch_begin:
                handler.epoch_begin(self)
            for batch in train_data:
                for handler in batch_begin:
                    handler.batch_begin(self, batch=batch)
                _, label, pred, loss = self.batch_processor.fit_batch(self, batch, batch_axis)
                if any([h.batch_end(self, batch=batch, pred=pred, label=label, loss=loss) for h in batch_end]):
                    break
            stop = any([handler.epoch_end(self) for handler in epoch_end])
        for handler in train_end:
            handler.train_end(self)

    def _prepare_default_handlers(self, val_data: Any, event_handlers: Any) -> Handlers:
        """All handlers of a training, by priority."""
        handlers = _check_event_handlers(event_handlers)
        added: Handlers = [StoppingHandler(self.max_epoch, self.max_batch)]
        if not _has(handlers, GradientUpdateHandler):
            added.append(GradientUpdateHandler())
        if not _has(handlers, MetricHandler):
            added.append(MetricHandler(metrics=self.train_metrics))
        if not _has(handlers, ValidationHandler) and val_data:
            added.append(ValidationHandler(val_data=val_data, eval_fn=self.evaluate))
        if not _has(handlers, LoggingHandler):
            added.append(LoggingHandler(metrics=self.train_metrics))
        return _joined(handlers, added, {*self.train_metrics, *self.val_metrics})

    def _prepare_default_validation_handlers(self, event_handlers: Any) -> Handlers:
        """All handlers of a validation, by priority."""
        handlers = _check_event_handlers(event_handlers)
        added: Handlers = []
        if not _has(handlers, MetricHandler):
            added.append(MetricHandler(metrics=self.val_metrics))
        if not _has(handlers, LoggingHandler):
            added.append(LoggingHandler(metrics=self.val_metrics))
        return _joined(handlers, added, set(self.val_metrics))

    def _categorize_handlers(self, event_handlers: Handlers) -> tuple[Handlers, ...]:
        """The handlers of each event: of the beginnings of training, epoch and batch, and of the ends of batch, epoch
        and training."""
        events = (TrainBegin, EpochBegin, BatchBegin, BatchEnd, EpochEnd, TrainEnd)
        return tuple([handler for handler in event_handlers if isinstance(handler, event)] for event in events)


def _require_loader(data: Any, name: str) -> None:
    if not isinstance(data, DataLoader):
        raise ValueError(
            "Estimator only support input as Gluon DataLoader. Alternatively, you can transform your DataIter or any "
            f"NDArray into Gluon DataLoader. Refer to {name}"
        )


def _has(handlers: Handlers, cls: type[EventHandler]) -> bool:
    return any(isinstance(handler, cls) for handler in handlers)


def _joined(own: Handlers, added: Handlers, metrics: set[Any]) -> Handlers:
    """All handlers by priority. If both kinds are there, ValueError for a handler with a metric that is unknown."""
    handlers = [*own, *added]
    if own and added:
        for handler in handlers:
            _check_handler_metric_ref(handler, metrics)
    return sorted(handlers, key=lambda handler: getattr(handler, "priority", 0))
