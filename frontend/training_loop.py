"""The training loop of FeedForward, on the executors of an executor manager."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from .checkpoint import BatchEndParam, call_all
from .context import Context
from .executor_manager import DataParallelExecutorManager
from .metric import EvalMetric
from .ndarray import NDArray
from .optimizer import Optimizer, get_updater
from .parameter_updates import _initialize_kvstore, _update_params, _update_params_on_kvstore
from .symbol import Symbol


def _train_multi_device(
    symbol: Symbol,
    ctx: Sequence[Context],
    arg_names: Sequence[str],
    param_names: Sequence[str],
    aux_names: Sequence[str],
    arg_params: dict[str, NDArray],
    aux_params: dict[str, NDArray],
    begin_epoch: int,
    end_epoch: int,
    epoch_size: int | None,
    optimizer: Optimizer,
    kvstore: Any,
    update_on_kvstore: bool,
    train_data: Any,
    eval_data: Any = None,
    eval_metric: Any = None,
    epoch_end_callback: Any = None,
    batch_end_callback: Any = None,
    logger: Any = None,
    work_load_list: list[float] | None = None,
    monitor: Any = None,
    eval_end_callback: Any = None,
    eval_batch_end_callback: Any = None,
    sym_gen: Callable[[Any], Symbol] | None = None,
) -> None:
    """Train a network on one or several contexts, epochs `begin_epoch` to `end_epoch` - 1.

    Args:
        arg_params: The parameters by name, overwritten with the trained values.
        aux_params: The auxiliary states by name, overwritten as well.
        epoch_size: The number of batches of an epoch; None for one pass over `train_data`.
        update_on_kvstore: True if the store runs the optimizer, False if the loop does.
        work_load_list: The weight of each context in the division of a batch.
        sym_gen: Creates the symbol of a bucket.
    """
    arguments = locals()
    logger = logger or logging
    executor_manager = DataParallelExecutorManager(
        symbol, ctx, train_data, arg_names, param_names, aux_names, work_load_list, logger, sym_gen
    )
    if monitor:
        executor_manager.install_monitor(monitor)
    executor_manager.set_params(arg_params, aux_params)
    if update_on_kvstore:
        kvstore.set_optimizer(optimizer)
    if kvstore:
        names = executor_manager.param_names
        _initialize_kvstore(kvstore, executor_manager.param_arrays, arg_params, names, update_on_kvstore)
    updater = None if update_on_kvstore else get_updater(optimizer)
    loop = _Loop(arguments, executor_manager, kvstore, updater, eval_metric, monitor, logger)
    train_data.reset()
    for epoch in range(begin_epoch, end_epoch):
        start = time.time()
        loop.train(epoch, train_data, epoch_size, batch_end_callback)
        logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - start)
        if epoch_end_callback or epoch + 1 == end_epoch:
            executor_manager.copy_to(arg_params, aux_params)
        call_all(epoch_end_callback, epoch, symbol, arg_params, aux_params)
        if eval_data:
            loop.evaluate(epoch, eval_data, eval_batch_end_callback, eval_end_callback)


class _Loop:
    """The batches of one training. Without an updater the store updates the parameters.

    Callbacks find the variables of the method that calls them in `BatchEndParam.locals`, and the `arguments` of
    the function that trains.
    """

    def __init__(
        self,
        arguments: dict[str, Any],
        manager: DataParallelExecutorManager,
        kvstore: Any,
        updater: Any,
        metric: EvalMetric,
        monitor: Any,
        logger: Any,
    ) -> None:
        self.arguments = {**arguments, "updater": updater}
        self.manager, self.kvstore, self.updater = manager, kvstore, updater
        self.metric, self.monitor, self.logger = metric, monitor, logger

    def train(self, epoch: int, train_data: Any, epoch_size: int | None, batch_end_callback: Any) -> None:
        """Train on `epoch_size` batches, which can be less or more than one pass over the data."""
        executor_manager = self.manager
        self.metric.reset()
        nbatch = 0
        while epoch_size is None or nbatch < epoch_size:
            for data_batch in train_data:
                self._step(data_batch)
                executor_manager.update_metric(self.metric, data_batch.label)
                nbatch += 1
                call_all(batch_end_callback, BatchEndParam(epoch, nbatch, self.metric, {**self.arguments, **locals()}))
                if nbatch == epoch_size:
                    return  # the next epoch continues with the next batch
            self.logger.info("Epoch[%d] Resetting Data Iterator", epoch)
            train_data.reset()
            if epoch_size is None:
                return

    def _step(self, batch: Any) -> None:
        manager = self.manager
        manager.load_data_batch(batch)
        if self.monitor is not None:
            self.monitor.tic()
        manager.forward(is_train=True)
        manager.backward()
        if self.updater is None:
            _update_params_on_kvstore(manager.param_arrays, manager.grad_arrays, self.kvstore, manager.param_names)
        else:
            _update_params(
                manager.param_arrays,
                manager.grad_arrays,
                self.updater,
                len(manager.ctx),
                self.kvstore,
                manager.param_names,
            )
        if self.monitor is not None:
            self.monitor.toc_print()

    def evaluate(self, epoch: int, eval_data: Any, batch_end_callback: Any, end_callback: Any) -> None:
        """Update the metric anew with all batches of `eval_data`."""
        executor_manager = self.manager
        self.metric.reset()
        eval_data.reset()
        nbatch = 0
        for eval_batch in eval_data:
            executor_manager.load_data_batch(eval_batch)
            executor_manager.forward(is_train=False)
            executor_manager.update_metric(self.metric, eval_batch.label)
            call_all(batch_end_callback, BatchEndParam(epoch, nbatch, self.metric, {**self.arguments, **locals()}))
            nbatch += 1
        call_all(end_callback, BatchEndParam(epoch, nbatch, self.metric, {**self.arguments, **locals()}))
        eval_data.reset()
