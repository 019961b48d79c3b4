"""BucketingModule: one symbol per bucket of inputs, for example per sequence length, with shared parameters."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..context import Context, cpu
from ..io import DataBatch
from ..model import load_params
from ..name import NameManager
from ..ndarray import NDArray, array
from ..ndarray import load as load_arrays
from ..ndarray import save as save_arrays
from ..symbol import Symbol
from ..symbol import load as load_symbol
from .base_module import _DEFAULT_INITIALIZER, BaseModule, _check_input_names
from .module import Module

SymGen = Callable[[Any], tuple[Symbol, Sequence[str] | None, Sequence[str] | None]]


class BucketingModule(BaseModule):
    """One Module per bucket key. `sym_gen(key)` returns its symbol, data names and label names.

    All modules share the parameters of the default bucket and the memory of their inputs.
    """

    def __init__(
        self,
        sym_gen: SymGen,
        default_bucket_key: Any = None,
        logger: Any = logging,
        context: Context | Sequence[Context] | None = None,
        work_load_list: Any = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Any = None,
    ) -> None:
        super().__init__(logger=logger)
        if default_bucket_key is None:
            raise AssertionError("BucketingModule requires a default_bucket_key")
        self._default_bucket_key, self._sym_gen = default_bucket_key, sym_gen
        self._fixed_param_names, self._state_names = list(fixed_param_names or []), list(state_names or [])
        self._options: dict[str, Any] = {
            "logger": logger,
            "context": cpu() if context is None else context,
            "work_load_list": work_load_list,
            "fixed_param_names": self._fixed_param_names,
            "state_names": self._state_names,
            "group2ctxs": group2ctxs,
            "compression_params": compression_params,
        }
        symbol, data_names, label_names = self._call_sym_gen(default_bucket_key)
        _check_input_names(symbol, list(data_names or []), "data", True)
        _check_input_names(symbol, list(label_names or []), "label", False)
        _check_input_names(symbol, self._state_names, "state", True)
        _check_input_names(symbol, self._fixed_param_names, "fixed_param", True)
        self._buckets: dict[Any, Module] = {}
        self._curr_module: Module | None = None
        self._curr_bucket_key: Any = None
        self._params_dirty = False
        self._monitor: Any = None
        self._grad_req: Any = None

    def _call_sym_gen(self, *args: Any, **kwargs: Any) -> tuple[Symbol, Any, Any]:
        """Call `sym_gen` with new counters of automatic names, so that all buckets get the same names."""
        with NameManager():
            return self._sym_gen(*args, **kwargs)

    def _reset_bind(self) -> None:
        self.binded = False
        self._buckets = {}
        self._curr_module = self._curr_bucket_key = None

    def _current(self) -> Module:
        if not self.binded or self._curr_module is None:
            raise AssertionError("the module is not bound: call bind first")
        return self._curr_module

    def _ready(self) -> Module:
        self._check_ready()
        return self._current()

    # --- attributes -------------------------------------------------------------------------------------------------

    @property
    def data_names(self) -> Any:
        return self._current().data_names if self.binded else self._call_sym_gen(self._default_bucket_key)[1]

    @property
    def output_names(self) -> list[str]:
        if self.binded:
            return self._current().output_names
        return self._call_sym_gen(self._default_bucket_key)[0].list_outputs()

    @property
    def data_shapes(self) -> list[Any]:
        return self._current().data_shapes

    @property
    def label_shapes(self) -> list[Any] | None:
        return self._current().label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        return self._current().output_shapes

    @property
    def symbol(self) -> Symbol | None:
        return self._current().symbol

    # --- parameters -------------------------------------------------------------------------------------------------

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Parameters and auxiliary states by name."""
        if not self.params_initialized or self._curr_module is None:
            raise AssertionError("the parameters are not initialized: call init_params or set_params first")
        self._curr_module._params_dirty |= self._params_dirty
        parameters = self._curr_module.get_params()
        self._params_dirty = False
        return parameters

    def set_params(
        self,
        arg_params: dict[str, NDArray],
        aux_params: dict[str, NDArray],
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Set parameters from dictionaries. With `allow_missing`, missing ones are left unchanged."""
        if not allow_missing:
            super().set_params(arg_params, aux_params, allow_missing, force_init)
            return
        if self.params_initialized and not force_init:
            warnings.warn("Parameters already initialized and force_init=False. set_params call ignored.", stacklevel=2)
            return
        self._current().set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
        self._params_dirty = True
        self.params_initialized = True

    def init_params(
        self,
        initializer: Any = _DEFAULT_INITIALIZER,
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Initialize the parameters of the current bucket, which all buckets share."""
        if self.params_initialized and not force_init:
            return
        self._current().init_params(initializer, arg_params, aux_params, allow_missing, force_init, allow_extra)
        self._params_dirty = False
        self.params_initialized = True

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """The states of the current bucket."""
        return self._ready().get_states(merge_multi_context)

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states of the current bucket."""
        self._ready().set_states(states, value)

    # --- binding ----------------------------------------------------------------------------------------------------

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
        """Bind the default bucket. Other buckets are bound at their first use."""
        params = self.get_params() if self.params_initialized else None
        if force_rebind:
            self._reset_bind()
        if self.binded:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if shared_module is not None:
            raise AssertionError("shared_module for BucketingModule is not supported")
        self.for_training, self.inputs_need_grad, self._grad_req = for_training, inputs_need_grad, grad_req
        key = self._default_bucket_key
        module = self._buckets.get(key) or self._new_module(key)
        module.bind(data_shapes, label_shapes, for_training, inputs_need_grad, grad_req=grad_req)
        self._curr_module, self._curr_bucket_key, self._buckets[key] = module, key, module
        self.binded = True
        if params is not None:
            self.set_params(*params)

    def _new_module(self, key: Any) -> Module:
        return Module(*self._call_sym_gen(key), **self._options)

    def switch_bucket(self, bucket_key: Any, data_shapes: Any, label_shapes: Any = None) -> None:
        """Make a bucket the current one. A new bucket is bound to these shapes."""
        current = self._current()
        module = self._buckets.get(bucket_key) or self._new_module(bucket_key)
        if not module.binded:
            module.bind(
                data_shapes,
                label_shapes,
                current.for_training,
                current.inputs_need_grad,
                shared_module=self._buckets[self._default_bucket_key],
                grad_req=self._grad_req,
            )
            if self._monitor is not None:
                module.install_monitor(self._monitor)
            if self.optimizer_initialized:
                module.borrow_optimizer(current)
        self._buckets[bucket_key] = module
        self._curr_module, self._curr_bucket_key = module, bucket_key

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Install an optimizer in the current bucket and share it with all others."""
        current = self._ready()
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        current.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        for module in self._buckets.values():
            if module is not current:
                module.borrow_optimizer(current)
        self.optimizer_initialized = True

    # --- running ----------------------------------------------------------------------------------------------------

    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: Any = None) -> None:
        """Bind the batch's bucket, without changing the current one."""
        self._check_ready()
        before = self._curr_bucket_key
        self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._current().prepare(data_batch, sparse_row_id_fn=sparse_row_id_fn)
        self.switch_bucket(before, None, None)

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Run on a batch. Its `bucket_key` selects the bucket."""
        self._check_ready()
        self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._current().forward(data_batch, is_train=is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients of the last forward."""
        self._ready().backward(out_grads)

    def update(self) -> None:
        """Update the parameters, which all buckets share."""
        self._params_dirty = True
        self._ready().update()

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """The gradients by the data of the current bucket."""
        return self._ready().get_input_grads(merge_multi_context)

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """The outputs of the last forward."""
        return self._ready().get_outputs(merge_multi_context)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with the outputs of the last forward."""
        self._ready().update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        """Install a Monitor in all buckets, also in buckets that are bound later."""
        self._current()
        self._monitor = mon
        for module in self._buckets.values():
            if module.binded:
                module.install_monitor(mon)

    # --- files ------------------------------------------------------------------------------------------------------

    def save_checkpoint(self, prefix: str, epoch: int, remove_amp_cast: bool = False) -> None:
        """Write `PREFIX-EPOCH.params`, `PREFIX-KEY-symbol.json` for each bucket, and `PREFIX.buckets` with the keys.
        Keys must be integers."""
        if not self._buckets:
            raise AssertionError("Empty BucketingModule cannot be saved")
        self.save_params(f"{prefix}-{epoch:04d}.params")
        for key in self._buckets:
            symbol, _, _ = self._call_sym_gen(key)
            symbol.save(f"{prefix}-{key}-symbol.json", remove_amp_cast=remove_amp_cast)
        save_arrays(f"{prefix}.buckets", array(list(self._buckets), dtype=np.int32))

    @staticmethod
    def load(
        prefix: str, epoch: int, sym_gen: SymGen | None = None, default_bucket_key: Any = None, **kwargs: Any
    ) -> BucketingModule:
        """Load the module of a checkpoint. `sym_gen` returns the input names of each bucket."""
        if sym_gen is None or default_bucket_key is None:
            raise AssertionError("sym_gen and default_bucket_key are required for loading BucketingModule")
        keys = load_arrays(f"{prefix}.buckets")[0].asnumpy().astype("int32").tolist()  # type: ignore[index]
        symbols = {key: load_symbol(f"{prefix}-{key}-symbol.json") for key in keys}
        names = {key: sym_gen(key)[1:] for key in keys}
        return _assemble(symbols, names, sym_gen, default_bucket_key, *load_params(prefix, epoch), **kwargs)

    @staticmethod
    def load_dict(
        sym_dict: Mapping[Any, Symbol] | None = None,
        sym_gen: SymGen | None = None,
        default_bucket_key: Any = None,
        arg_params: dict[str, NDArray] | None = None,
        aux_params: dict[str, NDArray] | None = None,
        **kwargs: Any,
    ) -> BucketingModule:
        """Create a module from symbols by bucket key, and parameters."""
        if sym_dict is None or arg_params is None or aux_params is None or default_bucket_key is None:
            raise AssertionError(
                "sym_dict, arg_params, aux_params and default_bucket_key need to be provided for "
                "BucketingModule.load_dict"
            )
        if sym_gen is None:
            raise AssertionError("sym_gen needs to be provided for BucketingModule.load_dict")
        names = dict.fromkeys(sym_dict, sym_gen(default_bucket_key)[1:])
        return _assemble(sym_dict, names, sym_gen, default_bucket_key, arg_params, aux_params, **kwargs)


def _assemble(
    symbols: Mapping[Any, Symbol],
    names: Mapping[Any, Any],
    sym_gen: SymGen,
    default_bucket_key: Any,
    arg_params: dict[str, NDArray],
    aux_params: dict[str, NDArray],
    **kwargs: Any,
) -> BucketingModule:
    """A module with these buckets. The parameters are used when it is bound."""
    module = BucketingModule(sym_gen, default_bucket_key, **kwargs)
    module._buckets = {key: Module(symbol, *names[key], **kwargs) for key, symbol in symbols.items()}
    if default_bucket_key not in module._buckets:
        raise ValueError(f"the default bucket {default_bucket_key!r} is not among {list(module._buckets)}")
    default = module._curr_module = module._buckets[default_bucket_key]
    default._arg_params, default._aux_params = arg_params, aux_params
    default.params_initialized = module.params_initialized = True
    return module
