"""BaseModule: the base class of modules, with methods that are implemented with bind, forward and get_outputs."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import metric
from ..checkpoint import BatchEndParam, call_all, load_arrays, save_arrays
from ..initializer import Uniform
from ..io import DataBatch, DataDesc, DataIter
from ..ndarray import NDArray, array, concatenate
from ..symbol import Symbol

_DEFAULT_INITIALIZER = Uniform(0.01)


class BaseModule:
    """A computation with data, parameters and outputs: bind, init_params or set_params, forward, get_outputs."""

    def __init__(self, logger: Any = logging) -> None:
        self.logger = logger
        self.binded = False
        self.for_training = False
        self.inputs_need_grad = False
        self.params_initialized = False
        self.optimizer_initialized = False
        self._symbol: Any = None

    @property
    def symbol(self) -> Symbol | None:
        return self._symbol

    # --- defined by subclasses --------------------------------------------------------------------------------------

    def _not_implemented(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has no {what}")

    @property
    def data_names(self) -> list[str]:
        """The names of the data inputs."""
        raise self._not_implemented("data_names")

    @property
    def output_names(self) -> list[str]:
        raise self._not_implemented("output_names")

    @property
    def data_shapes(self) -> list[Any]:
        """Pairs of name and shape."""
        raise self._not_implemented("data_shapes")

    @property
    def label_shapes(self) -> list[Any] | None:
        raise self._not_implemented("label_shapes")

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        raise self._not_implemented("output_shapes")

    def bind(
        self,
        data_shapes: Any,
        label_shapes: Any = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Any = None,
        grad_req: Any = "write",
    ) -> None:
        """Prepare the module to run on inputs of these shapes."""
        raise self._not_implemented("bind")

    def init_params(
        self,
        initializer: Any = _DEFAULT_INITIALIZER,
        arg_params: Any = None,
        aux_params: Any = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Initialize the parameters from dictionaries or with an initializer."""
        raise self._not_implemented("init_params")

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Parameters and auxiliary states by name."""
        raise self._not_implemented("get_params")

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Run on a batch."""
        raise self._not_implemented("forward")

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """The outputs of the last forward."""
        raise self._not_implemented("get_outputs")

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with the outputs of the last forward."""
        raise self._not_implemented("update_metric")

    def install_monitor(self, mon: Any) -> None:
        """Install a Monitor in all executors."""
        raise self._not_implemented("install_monitor")

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """The states on all contexts; empty for a module without states."""
        self._check_ready()
        if merge_multi_context:
            raise AssertionError("merge_multi_context=True is not supported for get_states yet.")
        return []

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states. A module without states raises AssertionError for any."""
        self._check_ready()
        if states or value:
            raise AssertionError(f"{type(self).__name__} has no states")

    # --- parameters -------------------------------------------------------------------------------------------------

    def set_params(
        self,
        arg_params: dict[str, NDArray],
        aux_params: dict[str, NDArray],
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Set the parameters and auxiliary states from dictionaries."""
        self.init_params(
            initializer=None,
            arg_params=arg_params,
            aux_params=aux_params,
            allow_missing=allow_missing,
            force_init=force_init,
            allow_extra=allow_extra,
        )

    def save_params(self, fname: str) -> None:
        """Write parameters and auxiliary states to a file."""
        save_arrays(fname, *self.get_params())

    def load_params(self, fname: str) -> None:
        """Read parameters from a file of `save_params`."""
        self.set_params(*load_arrays(fname))

    # --- prediction -------------------------------------------------------------------------------------------------

    def _check_ready(self) -> None:
        if not (self.binded and self.params_initialized):
            raise AssertionError("call bind and init_params (or set_params) first")

    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: Any = None) -> None:
        """Called before each batch. Dense parameters require no preparation."""
        if sparse_row_id_fn is not None:
            warnings.warn(UserWarning("sparse_row_id_fn is not invoked for BaseModule."), stacklevel=2)

    def iter_predict(
        self, eval_data: DataIter, num_batch: int | None = None, reset: bool = True, sparse_row_id_fn: Any = None
    ) -> Iterator[tuple[list[NDArray], int, DataBatch]]:
        """Yields (outputs without padding, batch number, batch) for each batch."""
        self._check_ready()
        if reset:
            eval_data.reset()
        for number, batch in enumerate(eval_data):
            if number == num_batch:
                break
            self.prepare(batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(batch, is_train=False)
            yield [out[0 : out.shape[0] - (batch.pad or 0)] for out in self.get_outputs()], number, batch

    def predict(
        self,
        eval_data: Any,
        num_batch: int | None = None,
        merge_batches: bool = True,
        reset: bool = True,
        always_output_list: bool = False,
        sparse_row_id_fn: Any = None,
    ) -> Any:
        """The outputs for an array, or for all batches of an iterator: concatenated, or one list per batch."""
        self._check_ready()
        if isinstance(eval_data, NDArray | np.ndarray):
            self.forward(DataBatch([array(eval_data) if isinstance(eval_data, np.ndarray) else eval_data]))
            return self.get_outputs()[0]
        if not isinstance(eval_data, DataIter):
            raise ValueError("eval_data must be of type NDArray or DataIter")
        predicted = [
            [out.copy() for out in outputs]
            for outputs, _, _ in self.iter_predict(eval_data, num_batch, reset, sparse_row_id_fn)
        ]
        if not predicted or not merge_batches:
            return predicted
        if len({len(outputs) for outputs in predicted}) != 1:
            raise AssertionError(
                "Cannot merge batches, as num of outputs is not the same in mini-batches. Maybe bucketing is used?"
            )
        merged = [concatenate(list(parts)) for parts in zip(*predicted, strict=True)]
        return merged[0] if len(merged) == 1 and not always_output_list else merged

    def score(
        self,
        eval_data: DataIter,
        eval_metric: Any,
        num_batch: int | None = None,
        batch_end_callback: Any = None,
        score_end_callback: Any = None,
        reset: bool = True,
        epoch: int = 0,
        sparse_row_id_fn: Any = None,
    ) -> list[tuple[str, Any]]:
        """Evaluate a metric (or an argument of `metric.create`) over an iterator. Returns pairs of name and value.

        Padding of the last batch is included.
        """
        self._check_ready()
        if reset:
            eval_data.reset()
        eval_metric = eval_metric if isinstance(eval_metric, metric.EvalMetric) else metric.create(eval_metric)
        eval_metric.reset()
        actual_num_batch = 0
        for nbatch, eval_batch in enumerate(eval_data):
            if nbatch == num_batch:
                break
            self.prepare(eval_batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(eval_batch, is_train=False)
            if isinstance(eval_batch, list):
                self.update_metric(eval_metric, [batch.label for batch in eval_batch], pre_sliced=True)
            else:
                self.update_metric(eval_metric, eval_batch.label)
            if batch_end_callback is not None:
                call_all(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            actual_num_batch += 1
        if score_end_callback:
            call_all(score_end_callback, BatchEndParam(epoch, actual_num_batch, eval_metric, locals()))
        return eval_metric.get_name_value()

    # --- training ---------------------------------------------------------------------------------------------------

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients of the last forward. `out_grads` are those of outputs that are not losses."""
        raise self._not_implemented("backward")

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """The gradients by the data, after a backward of a module bound with `inputs_need_grad`."""
        raise self._not_implemented("get_input_grads")

    def update(self) -> None:
        """Update the parameters with the gradients of the last backward."""
        raise self._not_implemented("update")

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Install an optimizer."""
        raise self._not_implemented("init_optimizer")

    def forward_backward(self, data_batch: DataBatch) -> None:
        """Run forward in training, then backward."""
        self.forward(data_batch, is_train=True)
        self.backward()

    def fit(
        self,
        train_data: Any,
        eval_data: DataIter | None = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        eval_end_callback: Any = None,
        eval_batch_end_callback: Any = None,
        initializer: Any = _DEFAULT_INITIALIZER,
        arg_params: Any = None,
        aux_params: Any = None,
        allow_missing: bool = False,
        force_rebind: bool = False,
        force_init: bool = False,
        begin_epoch: int = 0,
        num_epoch: int | None = None,
        validation_metric: Any = None,
        monitor: Any = None,
        sparse_row_id_fn: Any = None,
    ) -> None:
        """Bind, initialise and train the module, epochs `begin_epoch` to `num_epoch` - 1.

        Args:
            train_data: The batches of an epoch; reset after each.
            eval_data: Batches that the module is scored on after each epoch.
            eval_metric: A metric, or its name, of the training batches.
            epoch_end_callback: One or several functions (epoch, symbol, arg_params, aux_params).
            batch_end_callback: One or several functions of a BatchEndParam.
            kvstore: Sums gradients of several contexts: a KVStore or its name.
            optimizer: An Optimizer or its name, with arguments in `optimizer_params`.
            eval_end_callback: Called after each scoring.
            eval_batch_end_callback: Called after each batch of a scoring.
            initializer: Initialises parameters that `arg_params` and `aux_params` do not have.
            allow_missing: True to initialise parameters that the dictionaries lack.
            force_rebind: True to bind a module that is bound already.
            force_init: True to initialise parameters that are initialised already.
            validation_metric: The metric of `eval_data`; `eval_metric` if None.
            monitor: A Monitor of all executors.
            sparse_row_id_fn: Returns the rows of sparse parameters that a batch needs.
        """
        if num_epoch is None:
            raise AssertionError("please specify number of epochs")
        options = locals()
        self.bind(train_data.provide_data, train_data.provide_label, for_training=True, force_rebind=force_rebind)
        if monitor is not None:
            self.install_monitor(monitor)
        self.init_params(initializer, arg_params, aux_params, allow_missing, force_init)
        self.init_optimizer(kvstore, optimizer, optimizer_params)
        validation_metric = eval_metric if validation_metric is None else validation_metric
        if not isinstance(eval_metric, metric.EvalMetric):
            eval_metric = metric.create(eval_metric)
        for epoch in range(begin_epoch, num_epoch):
            start = time.time()
            metrics = self._fit_epoch(epoch, eval_metric, options)
            for name, value in metrics:
                self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
            self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - start)
            arguments, states = self.get_params()
            self.set_params(arguments, states)  # the same values on all contexts
            if epoch_end_callback is not None:
                call_all(epoch_end_callback, epoch, self.symbol, arguments, states)
            if eval_data is not None:
                scores = self.score(
                    eval_data,
                    validation_metric,
                    batch_end_callback=eval_batch_end_callback,
                    score_end_callback=eval_end_callback,
                    epoch=epoch,
                )
                for name, value in scores:
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
            self._end_epoch(train_data)

    def _end_epoch(self, train_data: Any) -> None:
        train_data.reset()

    def _fit_epoch(self, epoch: int, eval_metric: metric.EvalMetric, options: dict[str, Any]) -> list[tuple[str, Any]]:
        """Train on all batches once, with the arguments `options` to `fit`. Returns names and values of the metric.

        Callbacks find the names of MXNet in `BatchEndParam.locals`: those here, and the arguments.
        """
        monitor, batch_end_callback = options["monitor"], options["batch_end_callback"]
        eval_metric.reset()
        data_iter = iter(options["train_data"])
        data_batch: Any = next(data_iter)
        nbatch = 0
        eval_name_vals: list[tuple[str, Any]] = []
        end_of_batch = False
        while not end_of_batch:
            if monitor is not None:
                monitor.tic()
            self.forward_backward(data_batch)
            self.update()
            if isinstance(data_batch, list):
                self.update_metric(eval_metric, [part.label for part in data_batch], pre_sliced=True)
            else:
                self.update_metric(eval_metric, data_batch.label)
            next_data_batch = next(data_iter, None)
            end_of_batch = next_data_batch is None
            if next_data_batch is not None:
                self.prepare(next_data_batch, sparse_row_id_fn=options["sparse_row_id_fn"])
            if monitor is not None:
                monitor.toc_print()
            if end_of_batch:
                eval_name_vals = eval_metric.get_global_name_value()  # a callback can reset the metric
            if batch_end_callback is not None:
                call_all(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, {**options, **locals()}))
            data_batch, nbatch = next_data_batch, nbatch + 1
        return eval_name_vals


def _check_input_names(symbol: Symbol, names: Sequence[str], kind: str, throw: bool) -> None:
    """Check that every name is an argument of the symbol. Otherwise raises ValueError if `throw`, else warns."""
    arguments = symbol.list_arguments()
    for name in names:
        if name in arguments:
            continue
        candidates = [a for a in arguments if not a.endswith(("_weight", "_bias", "_gamma", "_beta"))]
        listed = "\n\t".join(candidates)
        message = (
            f"You created Module with Module(..., {kind}_names={list(names)}) but input with name '{name}' is not "
            f"found in symbol.list_arguments(). Did you mean one of:\n\t{listed}"
        )
        if throw:
            raise ValueError(message)
        warnings.warn(message, stacklevel=3)


def _parse_data_desc(
    data_names: Sequence[str], label_names: Sequence[str], data_shapes: Any, label_shapes: Any
) -> tuple[list[DataDesc], list[DataDesc] | None]:
    """The descriptions of data and labels. Raises ValueError for wrong data names; wrong label names only warn."""
    data = [d if isinstance(d, DataDesc) else DataDesc(*d) for d in data_shapes]
    labels = None if label_shapes is None else [d if isinstance(d, DataDesc) else DataDesc(*d) for d in label_shapes]
    if sorted(d.name for d in data) != sorted(data_names):
        raise ValueError(
            f"Data provided by data_shapes don't match names specified by data_names ({data_shapes} vs. {data_names})"
        )
    if sorted(d.name for d in labels or []) != sorted(label_names):
        warnings.warn(
            f"Data provided by label_shapes don't match names specified by label_names "
            f"({label_shapes or []} vs. {label_names})",
            stacklevel=4,
        )
    return data, labels
