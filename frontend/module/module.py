"""Module: a symbol with parameters, bound to shapes of data."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ..context import Context, cpu
from ..initializer import InitDesc, Uniform
from ..io import DataBatch, DataDesc
from ..model import load_checkpoint
from ..ndarray import NDArray, zeros
from ..symbol import Symbol
from .base_module import BaseModule, _check_input_names, _parse_data_desc
from .executor_group import DataParallelExecutorGroup


class Module(BaseModule):
    """A symbol on one or more contexts; arguments that are neither data nor labels are its parameters."""

    def __init__(
        self,
        symbol: Symbol,
        data_names: Sequence[str] | None = ("data",),
        label_names: Sequence[str] | None = ("softmax_label",),
        logger: Any = logging,
        context: Context | Sequence[Context] | None = None,
        work_load_list: Any = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Any = None,
    ) -> None:
        super().__init__(logger=logger)
        context = cpu() if context is None else context
        self._context = [context] if isinstance(context, Context) else list(context)
        self._symbol = symbol
        self._data_names, self._label_names = list(data_names or []), list(label_names or [])
        self._state_names, self._fixed_param_names = list(state_names or []), list(fixed_param_names or [])
        _check_input_names(symbol, self._data_names, "data", True)
        _check_input_names(symbol, self._label_names, "label", False)
        _check_input_names(symbol, self._state_names, "state", True)
        _check_input_names(symbol, self._fixed_param_names, "fixed_param", True)
        inputs = {*self._data_names, *self._label_names, *self._state_names}
        self._param_names = [name for name in symbol.list_arguments() if name not in inputs]
        self._aux_names = symbol.list_auxiliary_states()
        self._output_names = symbol.list_outputs()
        self._arg_params: dict[str, NDArray] | None = None
        self._aux_params: dict[str, NDArray] | None = None
        self._params_dirty = False
        self._exec_group: DataParallelExecutorGroup | None = None
        self._data_shapes: list[DataDesc] = []
        self._label_shapes: list[DataDesc] | None = None

    @staticmethod
    def load(prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any) -> Module:
        """The module of a checkpoint; its parameters are used when it is bound."""
        symbol, arguments, states = load_checkpoint(prefix, epoch)
        module = Module(symbol, **kwargs)
        module._arg_params, module._aux_params = arguments, states
        module.params_initialized = True
        return module

    def save_checkpoint(
        self, prefix: str, epoch: int, save_optimizer_states: bool = False, remove_amp_cast: bool = True
    ) -> None:
        """Write `PREFIX-symbol.json` and `PREFIX-EPOCH.params`."""
        if save_optimizer_states:
            raise AssertionError("save_optimizer_states: the module has no optimizer")
        self._symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
        self.save_params(f"{prefix}-{epoch:04d}.params")
        logging.info('Saved checkpoint to "%s-%04d.params"', prefix, epoch)

    # --- what it is -------------------------------------------------------------------------------------------------

    @property
    def data_names(self) -> list[str]:
        return self._data_names

    @property
    def label_names(self) -> list[str]:
        return self._label_names

    @property
    def output_names(self) -> list[str]:
        return self._output_names

    @property
    def data_shapes(self) -> list[DataDesc]:
        self._group()
        return self._data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        self._group()
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        return self._group().get_output_shapes()

    def _group(self) -> DataParallelExecutorGroup:
        if self._exec_group is None:
            raise AssertionError("the module is not bound: call bind first")
        return self._exec_group

    # --- binding ----------------------------------------------------------------------------------------------------

    def bind(  # type: ignore[override]
        self,
        data_shapes: Any,
        label_shapes: Any = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Module | None = None,
        grad_req: Any = "write",
    ) -> None:
        """Make executors for these shapes: pairs of name and shape, or DataDesc."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._grad_req = self._requests(grad_req)
        self._make_group(data_shapes, label_shapes, None if shared_module is None else shared_module._group())
        self.binded = True
        if shared_module is not None:
            self.params_initialized = shared_module.params_initialized
            self._arg_params, self._aux_params = shared_module._arg_params, shared_module._aux_params
        elif self.params_initialized and self._arg_params is not None:
            self._group().set_params(self._arg_params, self._aux_params or {})

    def _requests(self, grad_req: Any) -> Any:
        """Gradients of parameters that are trained, and of data when asked for."""
        if not self.for_training:
            return "null"
        if not isinstance(grad_req, str):
            return grad_req
        wanted = {n: grad_req for n in self._param_names if n not in self._fixed_param_names}
        return {**wanted, **{n: grad_req for n in self._data_names if self.inputs_need_grad}}

    def _make_group(self, data_shapes: Any, label_shapes: Any, shared: DataParallelExecutorGroup | None) -> None:
        data, label = _parse_data_desc(self._data_names, self._label_names, data_shapes, label_shapes)
        names = self._param_names
        self._exec_group = DataParallelExecutorGroup(
            self._symbol, self._context, data, label, names, self._grad_req, shared
        )
        self._data_shapes, self._label_shapes = (
            data,
            label,
        )  # shapes that do not fit change nothing

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Bind to other shapes with the same parameters."""
        self._make_group(data_shapes, label_shapes, self._group())

    # --- parameters -------------------------------------------------------------------------------------------------

    def init_params(  # type: ignore[override]
        self,
        initializer: Any = None,
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Fill all parameters: from dictionaries, and by the initializer (Uniform(0.01)) where `allow_missing`."""
        if self.params_initialized and not force_init:
            warnings.warn(
                "Parameters already initialized and force_init=False. init_params call ignored.", stacklevel=2
            )
            return
        group = self._group()
        given = arg_params is not None or aux_params is not None
        if initializer is None and not given:
            initializer = Uniform(0.01)
        attrs = self._symbol.attr_dict()
        self._arg_params = {n: _new_like(a[0]) for n, a in zip(self._param_names, group.param_arrays, strict=True)}
        self._aux_params = {n: _new_like(a[0]) for n, a in zip(self._aux_names, group.aux_arrays, strict=True)}
        for own, source in ((self._arg_params, arg_params), (self._aux_params, aux_params)):
            for name, array in sorted(own.items()):
                _fill(InitDesc(name, attrs.get(name)), array, source, initializer, allow_missing)
        if not allow_extra:
            self._check_extra(arg_params or {}, aux_params or {})
        group.set_params(self._arg_params, self._aux_params)
        self.params_initialized = True
        self._params_dirty = False

    def _check_extra(self, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray]) -> None:
        known = {*self._symbol.list_arguments(), *self._aux_names}
        extra = [name for name in (*arg_params, *aux_params) if name not in known]
        if extra:
            raise ValueError(f'Find name "{extra[0]}" that is not in the arguments')

    def set_params(
        self,
        arg_params: dict[str, NDArray],
        aux_params: dict[str, NDArray],
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Take over parameters; with `allow_missing` those that are not given stay as they are."""
        if not allow_missing:
            super().set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
            return
        if self.params_initialized and not force_init:
            warnings.warn("Parameters already initialized and force_init=False. set_params call ignored.", stacklevel=2)
            return
        group = self._group()
        group.set_params(arg_params, aux_params, allow_extra=allow_extra)
        if self._arg_params is None or self._aux_params is None:
            self._arg_params = {n: _new_like(a[0]) for n, a in zip(self._param_names, group.param_arrays, strict=True)}
            self._aux_params = {n: _new_like(a[0]) for n, a in zip(self._aux_names, group.aux_arrays, strict=True)}
        self._params_dirty = True
        self.params_initialized = True

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Parameters and auxiliary states by name."""
        if not self.params_initialized or self._arg_params is None or self._aux_params is None:
            raise AssertionError("the parameters are not initialized: call init_params or set_params first")
        if self._params_dirty:
            self._group().get_params(self._arg_params, self._aux_params)
            self._params_dirty = False
        return self._arg_params, self._aux_params

    # --- running ----------------------------------------------------------------------------------------------------

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Run on a batch; other shapes than those bound bind anew. `is_train` is by default what bind said."""
        self._check_ready()
        shapes = tuple(tuple(a.shape) for a in data_batch.data)
        if shapes != tuple(tuple(d.shape) for d in self._data_shapes):
            self.reshape(*self._shapes_of(data_batch))
        training = self.for_training if is_train is None else is_train
        self._group().forward(data_batch, training)
        if training and self._aux_names:
            self._params_dirty = True

    def _shapes_of(self, batch: DataBatch) -> tuple[Any, Any]:
        data = batch.provide_data or _reshaped(self._data_shapes, batch.data)
        labels = batch.provide_label
        if not labels and batch.label and self._label_shapes:
            labels = _reshaped(self._label_shapes, batch.label)
        return data, labels

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """The outputs of the last forward."""
        self._check_ready()
        return self._group().get_outputs(merge_multi_context)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric by the outputs of the last forward."""
        eval_metric.update(labels, self.get_outputs())


def _reshaped(descs: Sequence[DataDesc], arrays: Sequence[NDArray]) -> list[DataDesc]:
    return [DataDesc(d.name, a.shape, d.dtype, d.layout) for d, a in zip(descs, arrays, strict=True)]


def _new_like(array: NDArray) -> NDArray:
    return zeros(array.shape, dtype=array.dtype)


def _fill(
    desc: InitDesc, array: NDArray, source: Mapping[str, NDArray] | None, initializer: Any, allow_missing: bool
) -> None:
    """One parameter's values: from `source` when there is one, else from the initializer."""
    if source is not None and str(desc) in source:
        source[str(desc)].copyto(array)
        return
    if source is not None and not allow_missing:
        raise RuntimeError(f"{desc} is not presented")
    if initializer is not None:
        initializer(desc, array)
