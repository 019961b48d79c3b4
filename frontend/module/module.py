"""Module: a symbol with parameters, bound to data shapes."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from ..base import MXNetError
from ..context import Context, cpu
from ..initializer import InitDesc
from ..io import DataBatch, DataDesc
from ..model import load_checkpoint
from ..ndarray import NDArray, zeros
from ..symbol import Symbol
from ..tracebacks import api_boundary
from .base_module import _DEFAULT_INITIALIZER, _check_input_names, _parse_data_desc
from .executor_group import DataParallelExecutorGroup
from .installed_optimizer import ModuleWithOptimizer


class Module(ModuleWithOptimizer):
    """A symbol on one or more contexts. Arguments that are not data, labels or states are its parameters.

    Example:
        >>> net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
        >>> module = mx.mod.Module(net, label_names=None)
        >>> module.bind([("data", (1, 3))], for_training=False)
        >>> module.init_params(mx.init.One())
        >>> module.forward(mx.io.DataBatch([mx.nd.ones((1, 3))]))
        >>> module.get_outputs()[0].shape
        (1, 2)
    """

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
        self._work_load_list = [1] * len(self._context) if work_load_list is None else list(work_load_list)
        if len(self._work_load_list) != len(self._context):
            raise AssertionError(f"{len(self._work_load_list)} work loads for {len(self._context)} contexts")
        self._group2ctxs, self._compression_params = group2ctxs, compression_params
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
        self._grad_req: Any = None
        self._preload_opt_states: str | None = None
        self._exec_group: DataParallelExecutorGroup | None = None
        self._data_shapes: list[DataDesc] = []
        self._label_shapes: list[DataDesc] | None = None

    @staticmethod
    @api_boundary
    def load(prefix: str, epoch: int, load_optimizer_states: bool = False, **kwargs: Any) -> Module:
        """Load the module of a checkpoint. Its parameters are used when it is bound."""
        symbol, arguments, states = load_checkpoint(prefix, epoch)
        module = Module(symbol, **kwargs)
        module._arg_params, module._aux_params = arguments, states
        module.params_initialized = True
        if load_optimizer_states:
            module._preload_opt_states = f"{prefix}-{epoch:04d}.states"  # read by init_optimizer
        return module

    def save_checkpoint(
        self, prefix: str, epoch: int, save_optimizer_states: bool = False, remove_amp_cast: bool = True
    ) -> None:
        """Write `PREFIX-symbol.json`, `PREFIX-EPOCH.params` and, if requested, `PREFIX-EPOCH.states`.

        The parameters are written last: an epoch with parameters is complete.
        """
        self._symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
        if save_optimizer_states:
            self.save_optimizer_states(f"{prefix}-{epoch:04d}.states")
            logging.info('Saved optimizer state to "%s-%04d.states"', prefix, epoch)
        self.save_params(f"{prefix}-{epoch:04d}.params")
        logging.info('Saved checkpoint to "%s-%04d.params"', prefix, epoch)

    # --- attributes -------------------------------------------------------------------------------------------------

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

    @property
    def _total_exec_bytes(self) -> int:
        """The memory in bytes of the executors' dense arrays. Users read it to check how much buckets share."""
        bound = [a for e in self._group().execs for a in (*e.arg_arrays, *e.aux_arrays) if a.stype == "default"]
        return sum(array._nbytes() for array in {id(a._storage): a for a in bound}.values())

    def _group(self) -> DataParallelExecutorGroup:
        if self._exec_group is None:
            raise AssertionError("the module is not bound: call bind first")
        return self._exec_group

    # --- binding ----------------------------------------------------------------------------------------------------

    def _reset_bind(self) -> None:
        self.binded = False
        self._exec_group, self._data_shapes, self._label_shapes = None, [], None

    @api_boundary
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
        """Create executors for these shapes: DataDesc, or pairs of name and shape.

        With `shared_module`, parameters and input memory are shared with that module.
        """
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if inputs_need_grad and not for_training:
            raise AssertionError("inputs_need_grad requires for_training")
        shared = None if shared_module is None else self._shareable(shared_module)
        data, labels = _parse_data_desc(self._data_names, self._label_names, data_shapes, label_shapes)
        group = DataParallelExecutorGroup(
            self._symbol,
            self._context,
            self._work_load_list,
            data,
            labels,
            self._param_names,
            for_training,
            inputs_need_grad,
            None if shared is None else shared._exec_group,
            logger=self.logger,
            fixed_param_names=self._fixed_param_names,
            grad_req=grad_req,
            state_names=self._state_names,
            group2ctxs=self._group2ctxs,
        )
        self.for_training, self.inputs_need_grad, self._grad_req = for_training, inputs_need_grad, grad_req
        self._exec_group, self._data_shapes, self._label_shapes = group, data, labels
        if shared is not None:
            self.params_initialized = True
            self._arg_params, self._aux_params = shared._arg_params, shared._aux_params
        elif self.params_initialized:
            group.set_params(self._arg_params or {}, self._aux_params or {})
        else:
            self._new_params(group)
        self.binded = True

    def _shareable(self, other: Any) -> Module:
        if not (isinstance(other, Module) and other.binded and other.params_initialized):
            raise AssertionError("shared_module must be a Module that is bound and has parameters")
        if len(other._group().execs) < len(self._context):
            raise AssertionError("shared_module has fewer contexts")
        return other

    def _new_params(self, group: DataParallelExecutorGroup) -> None:
        """Create the module's arrays for all parameters and auxiliary states, filled with zeros."""
        self._arg_params = {n: _new_like(a[0]) for n, a in zip(self._param_names, group.param_arrays, strict=True)}
        self._aux_params = {n: _new_like(a[0]) for n, a in zip(self._aux_names, group.aux_arrays, strict=True)}

    @api_boundary
    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Bind to other shapes with the same parameters. Invalid shapes raise an error and change nothing."""
        group = self._group()
        data, labels = _parse_data_desc(self._data_names, self._label_names, data_shapes, label_shapes)
        group.reshape(data, labels)
        self._data_shapes, self._label_shapes = data, labels

    # --- parameters -------------------------------------------------------------------------------------------------

    def init_params(
        self,
        initializer: Any = _DEFAULT_INITIALIZER,
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Initialize all parameters from dictionaries, or with the initializer if there is no dictionary.

        A parameter that is missing in a dictionary raises RuntimeError; with `allow_missing` it is initialized with the
        initializer. Additional entries of the dictionaries are ignored.
        """
        if self.params_initialized and not force_init:
            warnings.warn(
                "Parameters already initialized and force_init=False. init_params call ignored.", stacklevel=2
            )
            return
        group = self._group()
        attrs = self._symbol.attr_dict()
        if self._arg_params is None or self._aux_params is None or self._params_differ(group):
            self._new_params(group)
        for own, source in ((self._arg_params or {}, arg_params), (self._aux_params or {}, aux_params)):
            for name, array in sorted(own.items()):
                _fill(InitDesc(name, attrs.get(name)), array, source, initializer, allow_missing)
        group.set_params(self._arg_params or {}, self._aux_params or {}, allow_extra=allow_extra)
        self.params_initialized = True
        self._params_dirty = False

    def _params_differ(self, group: DataParallelExecutorGroup) -> bool:
        """True if the names of the loaded parameters differ from the symbol's parameters."""
        own = {**(self._arg_params or {}), **(self._aux_params or {})}
        return own.keys() != {*group.param_names, *group.aux_names}

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
            super().set_params(arg_params, aux_params, allow_missing, force_init, allow_extra)
            return
        if self.params_initialized and not force_init:
            warnings.warn("Parameters already initialized and force_init=False. set_params call ignored.", stacklevel=2)
            return
        self._group().set_params(arg_params, aux_params, allow_extra=allow_extra)
        self._params_dirty = True
        self.params_initialized = True

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Parameters and auxiliary states by name."""
        if not self.params_initialized or self._arg_params is None or self._aux_params is None:
            raise AssertionError("the parameters are not initialized: call init_params or set_params first")
        if self._params_dirty:
            self._sync_params_from_devices()
        return self._arg_params, self._aux_params

    def _sync_params_from_devices(self) -> None:
        """Copy the executors' parameters to the arrays that `get_params` returns."""
        self._group().get_params(self._arg_params or {}, self._aux_params or {})
        self._params_dirty = False

    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: Any = None) -> None:
        """Called before each batch. It pulls no rows from a KVStore, because no KVStore updates parameters here."""
        self._group()
        if sparse_row_id_fn is not None:
            warnings.warn(
                UserWarning("Parameters are not updated in the KVStore. No need to call sparse_row_id_fn."),
                stacklevel=2,
            )

    # --- running ----------------------------------------------------------------------------------------------------

    @api_boundary
    def forward(self, data_batch: DataBatch | list[DataBatch], is_train: bool | None = None) -> None:
        """Run on a batch, or on a list with one batch per context. New shapes rebind the module.

        The default of `is_train` is `for_training` of `bind`.
        """
        self._check_ready()
        shapes = _batch_shapes(data_batch)
        if shapes != [tuple(d.shape) for d in self._data_shapes]:
            self.reshape(*self._shapes_of(data_batch, shapes))
        training = self.for_training if is_train is None else is_train
        self._group().forward(data_batch, training)

    @api_boundary
    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients of the last forward. `out_grads` are those of outputs that are not losses."""
        self._check_ready()
        self._group().backward(out_grads)
        if self._aux_names:
            self._params_dirty = True

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """The gradients by the data. AssertionError unless bound with `inputs_need_grad`."""
        self._check_ready()
        if not self.inputs_need_grad:
            raise AssertionError("bind with inputs_need_grad=True to get gradients of inputs")
        return self._group().get_input_grads(merge_multi_context)

    def _shapes_of(self, batch: Any, shapes: list[tuple[int, ...]]) -> tuple[Any, Any]:
        data = getattr(batch, "provide_data", None) or _with_shapes(self._data_shapes, shapes)
        labels = getattr(batch, "provide_label", None)
        arrays = getattr(batch, "label", None)
        if not labels and arrays and self._label_shapes:
            labels = _with_shapes(self._label_shapes, [a.shape for a in arrays])
        return data, labels or None

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """The outputs of the last forward."""
        self._check_ready()
        return self._group().get_outputs(merge_multi_context)

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """For each of `state_names`, its arrays on all contexts. `merge_multi_context` must be False."""
        self._check_ready()
        return self._group().get_states(merge_multi_context)

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states to arrays, or all their elements to one value."""
        self._check_ready()
        self._group().set_states(states, value)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with the outputs of the last forward. With `pre_sliced`, labels are one list per context."""
        self._group().update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        """Install a Monitor in all executors."""
        self._group().install_monitor(mon)


def _batch_shapes(batch: DataBatch | list[DataBatch]) -> list[tuple[int, ...]]:
    """The shapes of a batch's data. Batches of a list are concatenated along axis 0."""
    if not isinstance(batch, list):
        return [tuple(a.shape) for a in batch.data]
    if not batch:
        raise AssertionError("Encountered empty data batch")
    first = [tuple(a.shape) for a in batch[0].data]
    if any([tuple(a.shape) for a in other.data] != first for other in batch):
        raise AssertionError("All data batches in a list need to have the same shape")
    return [(len(batch) * shape[0], *shape[1:]) for shape in first]


def _with_shapes(descs: Sequence[DataDesc], shapes: Sequence[tuple[int, ...]]) -> list[DataDesc]:
    if len(shapes) != len(descs):
        raise ValueError(f"the batch has {len(shapes)} arrays, the module requires {[d.name for d in descs]}")
    return [DataDesc(d.name, shape, d.dtype, d.layout) for d, shape in zip(descs, shapes, strict=True)]


def _new_like(array: NDArray) -> NDArray:
    return zeros(array.shape, dtype=array.dtype, stype=array.stype)


def _fill(
    desc: InitDesc, array: NDArray, source: Mapping[str, NDArray] | None, initializer: Any, allow_missing: bool
) -> None:
    """Initialize one parameter from `source` if it contains it, else with the initializer."""
    if source is not None and str(desc) in source:
        passed = source[str(desc)]
        if passed.shape != array.shape:
            raise MXNetError(f"init_params: {desc} has the shape {array.shape}, the array passed has {passed.shape}")
        if passed is not array:
            passed.copyto(array)
        return
    if source is not None and not allow_missing:
        raise RuntimeError(f"{desc} is not presented")
    if initializer is not None:
        initializer(desc, array)
    elif source is None:
        raise TypeError(f"init_params has neither an initializer nor a value for {desc}")
