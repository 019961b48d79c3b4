"""Checkpoints, and FeedForward: a symbol with its parameters as an estimator, the predecessor of Module."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import metric, ndarray
from . import optimizer as optimizers
from .base import MXNetError, mx_real_t
from .callback import LogValidationMetricsCallback
from .checkpoint import (
    BatchEndParam,
    call_all,
    load_checkpoint,
    load_params,
    save_checkpoint,
)
from .context import Context, cpu
from .executor import Executor
from .executor_manager import _check_arguments, _load_data
from .initializer import Uniform
from .io import DataDesc, DataIter, NDArrayIter
from .ndarray import NDArray
from .parameter_updates import (
    _create_kvstore,
    _create_sparse_kvstore,
    _initialize_kvstore,
    _update_params,
    _update_params_on_kvstore,
    _update_params_on_kvstore_nccl,
    numbered_names,
    total_batch_size,
)
from .symbol import Symbol
from .training_loop import _train_multi_device

__all__ = [
    "BatchEndParam",
    "FeedForward",
    "_create_kvstore",
    "_create_sparse_kvstore",
    "_initialize_kvstore",
    "_train_multi_device",
    "_update_params",
    "_update_params_on_kvstore",
    "_update_params_on_kvstore_nccl",
    "load_checkpoint",
    "load_params",
    "save_checkpoint",
]

_multiple_callbacks = call_all
_DEFAULT_INITIALIZER = Uniform(0.01)


class FeedForward:
    """A symbol and its parameters, which predicts from arrays and iterators. Deprecated: use `mod.Module`."""

    def __init__(
        self,
        symbol: Symbol | Callable[[Any], Symbol],
        ctx: Context | Sequence[Context] | None = None,
        num_epoch: int | None = None,
        epoch_size: int | None = None,
        optimizer: Any = "sgd",
        initializer: Any = _DEFAULT_INITIALIZER,
        numpy_batch_size: int = 128,
        arg_params: dict[str, NDArray] | None = None,
        aux_params: dict[str, NDArray] | None = None,
        allow_extra_params: bool = False,
        begin_epoch: int = 0,
        **kwargs: Any,
    ) -> None:
        warnings.warn(
            "mxnet.model.FeedForward has been deprecated. Please use mxnet.mod.Module instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        self.symbol: Symbol | None = symbol if isinstance(symbol, Symbol) else None
        self.sym_gen = None if isinstance(symbol, Symbol) else symbol
        if self.sym_gen is not None and not callable(self.sym_gen):
            raise AssertionError("symbol must be a Symbol or a function that returns one")
        self.arg_params, self.aux_params = arg_params, aux_params
        self.allow_extra_params = allow_extra_params
        self.argument_checked = False
        if self.sym_gen is None:
            self._check_arguments()
        self.ctx = [cpu()] if ctx is None else [ctx] if isinstance(ctx, Context) else list(ctx)
        self.num_epoch, self.epoch_size, self.begin_epoch = num_epoch, epoch_size, begin_epoch
        self.kwargs = dict(kwargs)
        self.optimizer, self.initializer = optimizer, initializer
        self.numpy_batch_size = numpy_batch_size
        self._pred_exec: Executor | None = None

    def _check_arguments(self) -> None:
        """ValueError for duplicate names. With `allow_extra_params`, drop parameters that the symbol does not have."""
        if self.argument_checked or self.symbol is None:
            return
        self.argument_checked = True
        _check_arguments(self.symbol)
        if not self.allow_extra_params:
            return
        known, states = set(self.symbol.list_arguments()), set(self.symbol.list_auxiliary_states())
        self.arg_params = self.arg_params and {n: a for n, a in self.arg_params.items() if n in known}
        self.aux_params = self.aux_params and {n: a for n, a in self.aux_params.items() if n in states}

    @staticmethod
    def _is_data_arg(name: str) -> bool:
        return name.endswith(("data", "label"))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_pred_exec": None}

    def _known(self) -> Symbol:
        if self.symbol is None:
            raise MXNetError("FeedForward has a sym_gen and no symbol before fit: use BucketingModule")
        return self.symbol

    def _init_params(self, inputs: Any, overwrite: bool = False) -> tuple[list[str], list[str], list[str]]:
        """Initialize parameters that have no value; returns the names of arguments, parameters and states."""
        descs = [d if isinstance(d, DataDesc) else DataDesc(*d) for d in inputs]
        symbol = self._known()
        shapes, _, states = symbol.infer_shape(**{d.name: d.shape for d in descs})
        types, _, state_types = symbol.infer_type(**{d.name: d.dtype for d in descs})
        if shapes is None or states is None or types is None or state_types is None:
            raise AssertionError("the shapes and types of the inputs do not determine those of all parameters")
        arguments, auxiliary = symbol.list_arguments(), symbol.list_auxiliary_states()
        data = {d.name for d in descs}
        own = [name for name in arguments if name not in data]
        of_arguments = {n: (s, t) for n, s, t in zip(arguments, shapes, types, strict=True) if n in own}
        of_states = dict(zip(auxiliary, zip(states, state_types, strict=True), strict=True))
        self.arg_params = self._filled(of_arguments, {} if overwrite else self.arg_params or {})
        self.aux_params = self._filled(of_states, {} if overwrite else self.aux_params or {})
        return arguments, own, auxiliary

    def _filled(self, needed: dict[str, Any], known: dict[str, NDArray]) -> dict[str, NDArray]:
        arrays = {name: ndarray.zeros(shape, dtype=dtype) for name, (shape, dtype) in needed.items()}
        for name, array in arrays.items():
            if name in known:
                array[:] = known[name]
            else:
                self.initializer(name, array)
        return arrays

    # --- prediction -------------------------------------------------------------------------------------------------

    def _init_predictor(self, input_shapes: Any, type_dict: dict[str, Any] | None = None) -> Executor:
        """An executor for these inputs that holds the parameters."""
        symbol, parameters = self._known(), self.arg_params or {}
        shapes = {**{name: array.shape for name, array in parameters.items()}, **dict(input_shapes)}
        if self._pred_exec is not None:
            inferred, _, _ = symbol.infer_shape(**shapes)
            if inferred == [array.shape for array in self._pred_exec.arg_arrays]:
                return self._pred_exec
        executor = symbol.simple_bind(self.ctx[0], grad_req="null", type_dict=type_dict, **shapes)
        executor.copy_params_from(parameters, self.aux_params or {})
        self._pred_exec = executor
        return executor

    def _predictor_for(self, batches: DataIter) -> tuple[Executor, list[NDArray]]:
        """The executor for an iterator's shapes, and its data arrays."""
        data: list[Any] = batches.provide_data  # type: ignore[attr-defined]
        types = {name: array.dtype for name, array in (self.arg_params or {}).items()}
        types.update({d[0]: getattr(d, "dtype", mx_real_t) for d in data})
        executor = self._init_predictor(data, types)
        return executor, [executor.arg_dict[d[0]] for d in data]

    def _init_iter(self, X: Any, y: Any, is_train: bool) -> DataIter:
        """An iterator over arrays, or the iterator itself."""
        if not isinstance(X, np.ndarray | NDArray):
            if not isinstance(X, DataIter):
                raise TypeError("X must be DataIter, NDArray or numpy.ndarray")
            return X
        if y is None and is_train:
            raise ValueError("y must be specified when X is numpy.ndarray")
        y = np.zeros(X.shape[0]) if y is None else y
        if not isinstance(y, np.ndarray | NDArray):
            raise TypeError("y must be ndarray when X is numpy.ndarray")
        if X.shape[0] != y.shape[0]:
            raise ValueError(f"The numbers of data points and labels not equal: {X.shape[0]} and {y.shape[0]}")
        y = y.flatten() if y.ndim == 2 and y.shape[1] == 1 else y
        if y.ndim != 1:
            raise ValueError("Label must be 1D or 2D (with 2nd dimension being 1)")
        size = min(X.shape[0], self.numpy_batch_size)
        return NDArrayIter(X, y, size, shuffle=is_train, last_batch_handle="roll_over" if is_train else "pad")

    def _init_eval_iter(self, eval_data: Any) -> DataIter | None:
        """An iterator over a pair of data and labels, or the iterator itself. Arrays are shuffled, as in `fit`."""
        if eval_data is None or isinstance(eval_data, DataIter):
            return eval_data
        if not isinstance(eval_data, tuple | list) or len(eval_data) != 2:
            raise TypeError(
                "Eval data must be DataIter, or NDArray/numpy.ndarray/list pair (i.e. tuple/list of length 2)"
            )
        data, labels = (np.array(part) if isinstance(part, list) else part for part in eval_data)
        if data is None:
            raise ValueError("Eval data is NONE")
        return self._init_iter(data, labels, is_train=True)

    def predict(self, X: Any, num_batch: int | None = None, return_data: bool = False, reset: bool = True) -> Any:
        """The outputs as one NumPy array or a list, without the padding of the last batch.

        Args:
            X: An array, or a DataIter.
            num_batch: The largest number of batches; None is all.
            return_data: Return (outputs, data, labels).
            reset: Reset the iterator first.
        """
        batches = self._init_iter(X, None, is_train=False)
        if reset:
            batches.reset()
        executor, targets = self._predictor_for(batches)
        predicted: list[list[list[np.ndarray]]] = []
        for number, batch in enumerate(batches, 1):
            _load_data(batch, targets)
            outputs = executor.forward(is_train=False)
            rows = batches.batch_size - (batch.pad or 0)
            kinds = (outputs, batch.data, batch.label or []) if return_data else (outputs,)
            predicted.append([[array[0:rows].asnumpy() for array in kind] for kind in kinds])
            if number == num_batch:
                break
        merged = [[np.concatenate(parts) for parts in zip(*kind, strict=True)] for kind in zip(*predicted, strict=True)]
        listed = [kind[0] if len(kind) == 1 else kind for kind in merged]
        return tuple(listed) if return_data else listed[0]

    def score(
        self,
        X: Any,
        eval_metric: Any = "acc",
        num_batch: int | None = None,
        batch_end_callback: Any = None,
        reset: bool = True,
    ) -> Any:
        """The value of a metric over an iterator."""
        eval_metric = eval_metric if isinstance(eval_metric, metric.EvalMetric) else metric.create(eval_metric)
        batches = self._init_iter(X, None, is_train=False)
        if reset:
            batches.reset()
        executor, targets = self._predictor_for(batches)
        for number, batch in enumerate(batches):
            if number == num_batch:
                break
            _load_data(batch, targets)
            eval_metric.update(batch.label, executor.forward(is_train=False))
            if batch_end_callback is not None:
                call_all(batch_end_callback, BatchEndParam(0, number, eval_metric, locals()))
        return eval_metric.get()[1]

    # --- training ---------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        logger: Any = None,
        work_load_list: Any = None,
        monitor: Any = None,
        eval_end_callback: Any = LogValidationMetricsCallback(),  # noqa: B008
        eval_batch_end_callback: Any = None,
    ) -> None:
        """Train epochs `begin_epoch` to `num_epoch` - 1 and keep the parameters.

        Args:
            X: Training data, an array or a DataIter. Arrays are shuffled.
            y: The labels of an array.
            eval_data: A DataIter or a pair of arrays that the model is evaluated on after each epoch.
            eval_metric: A metric, or an argument of `metric.create`.
            epoch_end_callback: One or several functions (epoch, symbol, arg_params, aux_params).
            batch_end_callback: One or several functions of a BatchEndParam.
            kvstore: Sums gradients of several contexts: a KVStore or its name.
            work_load_list: The weight of each context in the division of a batch.
            monitor: A Monitor of all executors.
            eval_end_callback: One or several functions of a BatchEndParam, called after an evaluation.
            eval_batch_end_callback: The same, called after each batch of an evaluation.
        """
        if self.num_epoch is None:
            raise MXNetError("FeedForward.fit: num_epoch is None; pass the number of epochs to FeedForward")
        data: Any = self._init_iter(X, y, is_train=True)
        eval_data = self._init_eval_iter(eval_data)
        if self.sym_gen is not None:
            self.symbol = self.sym_gen(data.default_bucket_key)
            self._check_arguments()
        arguments, own, auxiliary = self._init_params([*data.provide_data, *data.provide_label])
        arg_params, aux_params = self.arg_params or {}, self.aux_params or {}
        store, on_store = _create_kvstore(kvstore, len(self.ctx), arg_params)
        eval_metric = eval_metric if isinstance(eval_metric, metric.EvalMetric) else metric.create(eval_metric)
        optimizer = self._made_optimizer(own, data.batch_size, store, on_store)
        _train_multi_device(
            self._known(), self.ctx, arguments, own, auxiliary, arg_params, aux_params, self.begin_epoch,
            self.num_epoch, self.epoch_size, optimizer, store, on_store, data, eval_data, eval_metric,
            epoch_end_callback, batch_end_callback, logger, work_load_list, monitor, eval_end_callback,
            eval_batch_end_callback, self.sym_gen,
        )  # fmt: skip
        self._pred_exec = None

    def _made_optimizer(self, names: list[str], batch_size: int, store: Any, on_store: bool) -> Any:
        """The optimizer, which knows the parameters' names. One created by name divides gradients by the batch size."""
        numbered = numbered_names(names, 1 if on_store else len(self.ctx))
        self.kwargs.update(sym=self.symbol, param_idx2name=numbered)
        if isinstance(self.optimizer, str):
            rescale = 1.0 / total_batch_size(batch_size, store)
            return optimizers.create(self.optimizer, rescale_grad=rescale, **self.kwargs)
        if not isinstance(self.optimizer, optimizers.Optimizer):
            raise MXNetError(f"FeedForward.fit: {self.optimizer!r} is neither an optimizer nor the name of one")
        if not self.optimizer.idx2name:
            self.optimizer.idx2name = numbered
        return self.optimizer

    # --- files ------------------------------------------------------------------------------------------------------

    def save(self, prefix: str, epoch: int | None = None, remove_amp_cast: bool = True) -> None:
        """Write `PREFIX-symbol.json` and `PREFIX-EPOCH.params`. `epoch` is by default `num_epoch`."""
        epoch = self.num_epoch if epoch is None else epoch
        if epoch is None:
            raise AssertionError("save needs an epoch")
        save_checkpoint(
            prefix, epoch, self.symbol, self.arg_params or {}, self.aux_params or {}, remove_amp_cast=remove_amp_cast
        )

    @staticmethod
    def load(prefix: str, epoch: int, ctx: Any = None, **kwargs: Any) -> FeedForward:
        """The estimator of a checkpoint."""
        symbol, arguments, states = load_checkpoint(prefix, epoch)
        return FeedForward(symbol, ctx=ctx, arg_params=arguments, aux_params=states, begin_epoch=epoch, **kwargs)

    @staticmethod
    def create(
        symbol: Any,
        X: Any,
        y: Any = None,
        ctx: Any = None,
        num_epoch: int | None = None,
        epoch_size: int | None = None,
        optimizer: Any = "sgd",
        initializer: Any = _DEFAULT_INITIALIZER,
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        logger: Any = None,
        work_load_list: Any = None,
        eval_end_callback: Any = LogValidationMetricsCallback(),  # noqa: B008
        eval_batch_end_callback: Any = None,
        **kwargs: Any,
    ) -> FeedForward:
        """Create an estimator and fit it."""
        model = FeedForward(
            symbol, ctx=ctx, num_epoch=num_epoch, epoch_size=epoch_size, optimizer=optimizer, initializer=initializer,
            **kwargs,
        )  # fmt: skip
        model.fit(X, y, eval_data, eval_metric, epoch_end_callback, batch_end_callback, kvstore, logger, work_load_list,
                 None, eval_end_callback, eval_batch_end_callback)  # fmt: skip
        return model


SKLEARN_INSTALLED = False
"""In MXNet, FeedForward is a subclass of scikit-learn's BaseEstimator if scikit-learn is installed; here it is not."""
