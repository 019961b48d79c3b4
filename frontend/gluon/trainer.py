"""Trainer: parameters with an optimizer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from .. import optimizer as opt
from ..artifacts import write_atomically
from ..context import Context
from ..kvstore import KVStore, KVStoreBase, create
from ..kvstore.kvstore import SharedInitially, is_shared
from ..ndarray.gradients import attachments
from ..ndarray.tape import variable_of
from ..optimizer.updater import load_states
from ..parameter_updates import _create_kvstore, _create_sparse_kvstore, exchange
from ..tracebacks import api_boundary, shorten
from .held_parameters import HeldParameters, is_fresh, require_fresh
from .parameter import Parameter
from .parameter_dict import ParameterDict

__all__ = ["Trainer"]


class Trainer:
    """Applies an optimizer to parameters, which must be initialized on the same contexts.

    `optimizer` is a name with its parameters in `optimizer_params`, or an Optimizer. How gradients of several devices
    are summed depends on `kvstore`, `compression_params` and `update_on_kvstore`.

    Example:
        >>> net = mx.gluon.nn.Dense(1, use_bias=False, in_units=1)
        >>> net.initialize(mx.init.One())
        >>> trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
        >>> with mx.autograd.record():
        ...     loss = net(mx.nd.array([[1]])) ** 2
        >>> loss.backward()
        >>> trainer.step(batch_size=1)
        >>> net.weight.data().asnumpy()
        array([[0.]], dtype=float32)
    """

    _amp_loss_scaler: Any  # of mixed precision: missing unless losses are scaled

    def __init__(
        self,
        params: Any,
        optimizer: str | opt.Optimizer,
        optimizer_params: dict[str, Any] | None = None,
        kvstore: Any = "device",
        compression_params: dict[str, Any] | None = None,
        update_on_kvstore: bool | None = None,
    ) -> None:
        self._params = _as_list(params)
        self._held: HeldParameters | None = None
        self._expected = -1  # attachments.count when `expect` was called
        self._param2idx = {param.name: i for i, param in enumerate(self._params)}
        for param in self._params:
            param._set_trainer(self)
        self._contains_sparse_weight = any(param._stype != "default" for param in self._params)
        self._contains_sparse_grad = any(param._grad_stype != "default" for param in self._params)
        self._compression_params = compression_params
        self._contexts = self._check_contexts()
        self._init_optimizer(optimizer, optimizer_params or {})
        self._scale = self._optimizer.rescale_grad
        self._kvstore_params = {"kvstore": kvstore, "update_on_kvstore": update_on_kvstore}
        self._reset_kvstore()
        if self.is_shared:
            self._share_initial_values(kvstore)

    def _share_initial_values(self, kvstore: Any) -> None:
        """Let all workers begin with the values of the worker 0, whatever their seeds: parameters that are initialized
        now, and the others when they are initialized in the first pass."""
        store = create(kvstore) if isinstance(kvstore, str) else kvstore
        self._kvstore_params["kvstore"] = store
        if store.num_workers == 1:
            return
        dense = [param for param in self._params if param._stype == "default"]
        known = [param for param in dense if not param._deferred_init]
        store.share({param.name: param.list_data() for param in known})
        for param in dense:
            param._initialized_by = SharedInitially(store)

    def _check_contexts(self) -> list[Context]:
        """The contexts of all parameters. Raises AssertionError if they differ."""
        contexts: list[Context] | None = None
        for param in self._params:
            own = param.list_ctx()
            if contexts is not None and contexts != own:
                raise AssertionError(
                    "All Parameters must be initialized on the same set of contexts, but Parameter "
                    f"{param.name} is initialized on {own} while previous Parameters are initialized on {contexts}."
                )
            contexts = own
        return contexts or []

    def _init_optimizer(self, optimizer: Any, optimizer_params: dict[str, Any]) -> None:
        params = dict(enumerate(self._params))
        if isinstance(optimizer, opt.Optimizer):
            if optimizer_params:
                raise AssertionError(
                    "optimizer_params must be None if optimizer is an instance of Optimizer instead of str"
                )
            self._optimizer = optimizer
            self._optimizer.param_dict = params
        else:
            self._optimizer = opt.create(optimizer, param_dict=params, **optimizer_params)
        self._updaters = [opt.get_updater(self._optimizer) for _ in self._contexts]

    def _reset_kvstore(self) -> None:
        """Reset the kvstore, so that it is created again."""
        self._kv_initialized = False
        self._kvstore: Any = None
        self._distributed: bool | None = None
        self._update_on_kvstore: bool | None = None
        self._params_to_init = list(self._params)

    def _forget_values(self, parameter: Parameter) -> None:
        """Drop the store if it holds values of `parameter`, which gets others. The next step makes a new store."""
        if self._kv_initialized and self._update_on_kvstore and parameter not in self._params_to_init:
            self._reset_kvstore()

    def _init_kvstore(self) -> None:
        """Create the kvstore that sums gradients, if one is required.

        Raises ValueError if the requested `update_on_kvstore` is not supported.
        """
        requested = self._kvstore_params["update_on_kvstore"]
        store, update = self._make_kvstore()
        self._distributed = store is not None and "dist" in store.type
        if store is not None and "async" in store.type and requested is False:
            raise ValueError("Please set update_on_kvstore to true when training in async mode.")
        if requested is False and self._contains_sparse_weight:
            raise ValueError("Cannot set update_on_kvstore=False when sparse weights are present.")
        if not self._contains_sparse_weight and requested is not None:
            update = requested
        if store is not None and update and not store.is_capable(KVStoreBase.OPTIMIZER):
            if requested:
                raise ValueError(f"Please set update_on_kvstore=False when training with {type(store)}")
            update = False
        if store is not None:
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)
            if update:
                store.set_optimizer(self._optimizer)
        self._kvstore, self._update_on_kvstore = store, None if store is None else update
        self._kv_initialized = True

    def _make_kvstore(self) -> tuple[Any, bool]:
        """The kvstore or None, and the default of `update_on_kvstore`."""
        kvstore = self._kvstore_params["kvstore"]
        if self._contains_sparse_weight:
            return _create_sparse_kvstore(kvstore)
        arrays = {param.name: param.data(self._contexts[0]) for param in self._params}
        store, update = _create_kvstore(kvstore, len(self._contexts), arrays)
        if not self._contains_sparse_grad:
            return store, update
        if store is not None and not isinstance(store, KVStore):
            raise ValueError(f"Cannot use {type(store)} for multi-device training with sparse gradients")
        return store, False

    def _init_params(self) -> None:
        """Write the parameters to the kvstore. Parameters with deferred initialization stay in `_params_to_init`."""
        assert self._kv_initialized, "Cannot initialize parameters in KVStore when KVStore is not initialized."
        deferred = [param for param in self._params_to_init if param._deferred_init] if self._kvstore else []
        for param in self._params_to_init if self._kvstore else []:
            if param in deferred:
                continue
            index, arrays = self._param2idx[param.name], param._check_and_get(param._data, list)
            if param._stype != "default":
                self._kvstore.init(index, arrays[0])
            else:
                self._kvstore.broadcast(index, arrays[0], arrays)
        self._params_to_init = deferred

    def _row_sparse_pull(self, parameter: Parameter, out: Any, row_id: Any, full_idx: bool = False) -> None:
        """Read rows of a sparse parameter from the kvstore into `out`. With `full_idx`, read all rows."""
        if not self._kv_initialized:
            self._init_kvstore()
        if self._params_to_init:
            self._init_params()
        index = self._param2idx[parameter.name]
        if full_idx and "dist" not in self._kvstore.type:
            assert row_id.size == out.shape[0]
            self._kvstore.pull(index, out=out, priority=-index, ignore_sparse=False)
        else:
            self._kvstore.row_sparse_pull(index, out=out, row_ids=row_id, priority=-index)

    def _check_and_rescale_grad(self, scale: float) -> None:
        """Set the factor that the optimizer applies to gradients.

        Raises UserWarning if the factor differs from the one that a distributed kvstore already uses.
        """
        fixed = self._update_on_kvstore and self._distributed and self._kv_initialized
        if fixed and self._optimizer.rescale_grad != scale:
            raise UserWarning(
                "Possible change in the `batch_size` from previous `step` detected. Optimizer gradient normalizing "
                "factor will not change w.r.t new batch_size when update_on_kvstore=True and when distributed kvstore "
                "is used."
            )
        self._optimizer.rescale_grad = scale

    @property
    def is_shared(self) -> bool:
        """True if several workers can share the store."""
        return is_shared(self._kvstore_params["kvstore"])

    @property
    def learning_rate(self) -> float:
        """The optimizer's current learning rate."""
        return self._optimizer.learning_rate

    @property
    def optimizer(self) -> opt.Optimizer:
        return self._optimizer

    def set_learning_rate(self, lr: float) -> None:
        """Set the optimizer's learning rate. Raises UserWarning if the optimizer has a learning rate schedule."""
        self._optimizer.set_learning_rate(lr)

    def step(self, batch_size: int, ignore_stale_grad: bool = False) -> None:
        """Sum the gradients of all contexts and update the parameters, outside of `autograd.record()`.

        Args:
            batch_size: Gradients are divided by it.
            ignore_stale_grad: True to skip parameters that the last backward pass did not reach. UserWarning is raised
                for them otherwise.
        """
        try:
            self._check_and_rescale_grad(self._scale / batch_size)
            if not self._kv_initialized or self._params_to_init:
                self._prepare()
            if self._update_on_kvstore and self._overflowed():  # the store updates while it sums
                return
            self._allreduce_grads()
            self._update(ignore_stale_grad)
        except Exception as error:
            shorten(error)
            raise

    def allreduce_grads(self) -> None:
        """Sum the gradients of all contexts; `update` then uses the sums. AssertionError if the store updates."""
        self._prepare()
        self._require_updates_here("allreduce_grads()")
        self._allreduce_grads()

    def update(self, batch_size: int, ignore_stale_grad: bool = False) -> None:
        """Update the parameters with gradients that are summed already; see `step`. AssertionError if the store
        updates.
        """
        self._prepare()
        self._require_updates_here("update()")
        self._check_and_rescale_grad(self._scale / batch_size)
        self._update(ignore_stale_grad)

    def _prepare(self) -> None:
        """Make the store and give it the parameters, if that was not done."""
        if not self._kv_initialized:
            self._init_kvstore()
        if self._params_to_init:
            self._init_params()

    def _require_updates_here(self, what: str) -> None:
        assert not (self._kvstore and self._update_on_kvstore), (
            f"{what} when parameters are updated on kvstore is not supported. Try setting `update_on_kvstore` to False "
            "when creating trainer."
        )

    def _allreduce_grads(self) -> None:
        if not self._kvstore:
            return
        dense: list[tuple[int, list[Any], list[Any]]] = []
        for i, param in enumerate(self._params):
            if param.grad_req == "null":
                continue
            grads = param.list_grad()
            if grads[0].stype != "default":
                self._kvstore.push(i, grads, priority=-i)
                if param._stype == "default":
                    out = param.list_data() if self._update_on_kvstore else grads
                    self._kvstore.pull(i, out, priority=-i, ignore_sparse=self._distributed)
            else:
                dense.append((i, grads, param.list_data() if self._update_on_kvstore else grads))
        self._expect([i for i, _, _ in dense])
        exchange(self._kvstore, dense)

    def _expect(self, numbers: Sequence[int]) -> None:
        """Let a shared store begin to sum these gradients in the next backward passes."""
        if self._expected == attachments.count or not is_shared(self._kvstore) or len(self._contexts) > 1:
            return
        self._expected = attachments.count
        variables = {i: variable_of(self._params[i].data()) for i in numbers}
        self._kvstore.expect({i: variable for i, variable in variables.items() if variable is not None})

    def _overflowed(self) -> bool:
        """True if losses are scaled and a gradient is infinite or NaN, on any worker: then the step is skipped. Asked
        once a step."""
        scaler = getattr(self, "_amp_loss_scaler", None)
        if scaler is None:
            return False
        if self._update_on_kvstore and is_shared(self._kvstore):
            return scaler.has_overflow(self._params, self._kvstore.overflowed)
        return scaler.has_overflow(self._params)

    def _update(self, ignore_stale_grad: bool) -> None:
        if "_amp_loss_scaler" in self.__dict__ and not self._update_on_kvstore and self._overflowed():
            return
        held = self._held
        if held is None or held.attachments != attachments.count or held.params is not self._params:
            held = self._held = HeldParameters(self._params, len(self._updaters))
        for arrays in () if ignore_stale_grad else held.arrays:
            if not all(map(is_fresh, arrays.variables)):
                require_fresh(self._params)
        if self._kvstore and self._update_on_kvstore:
            return
        for updater, arrays in zip(self._updaters, held.arrays, strict=True):
            arrays.update(updater, held.numbers)

    def save_states(self, fname: str | os.PathLike[str]) -> None:
        """Write the optimizer and its states to a file, in MXNet's format."""
        self._prepare()
        if self._update_on_kvstore:
            self._kvstore.save_optimizer_states(fname, dump_optimizer=True)
        else:
            write_atomically(fname, self._updaters[0].get_states(dump_optimizer=True))

    @api_boundary
    def load_states(self, fname: str | os.PathLike[str]) -> None:
        """Load the optimizer and its states from a file of MXNet or mxforge.

        Raises UnpicklingError if the file contains other objects.
        """
        self._prepare()
        if self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
            self._optimizer = self._kvstore._updater.optimizer
        else:
            for updater in self._updaters:
                load_states(updater, fname)
                updater.optimizer = self._updaters[0].optimizer
            self._optimizer = self._updaters[0].optimizer
        self._optimizer.param_dict = dict(enumerate(self._params))


def _as_list(params: Any) -> list[Parameter]:
    """The parameters of a list, or of a dictionary sorted by name. Raises ValueError for other types."""
    if isinstance(params, dict | ParameterDict):
        params = [params[key] for key in sorted(params.keys())]
    if not isinstance(params, list | tuple):
        raise ValueError(f"First argument must be a list or dict of Parameters, got {type(params)}.")
    for param in params:
        if not isinstance(param, Parameter):
            raise ValueError(f"First argument must be a list or dict of Parameters, got list of {type(param)}.")
    return list(params)
