"""The part of Module that manages its optimizer: creation, sharing between modules, saving and loading of states."""

from __future__ import annotations

import warnings
from typing import Any

from .. import optimizer as optimizers
from ..artifacts import write_atomically
from ..kvstore.kvstore import is_shared
from ..optimizer.updater import load_states
from ..parameter_updates import (
    _create_kvstore,
    _initialize_kvstore,
    _update_params,
    _update_params_on_kvstore,
    numbered_names,
    total_batch_size,
)
from ..tracebacks import api_boundary
from .base_module import BaseModule
from .executor_group import DataParallelExecutorGroup


class ModuleWithOptimizer(BaseModule):
    """A module with an optimizer, which runs in a KVStore or in the module."""

    _context: list[Any]
    _exec_group: DataParallelExecutorGroup | None
    _param_names: list[str]
    _compression_params: Any
    _preload_opt_states: str | None
    _optimizer: Any = None
    _kvstore: Any = None
    _update_on_kvstore: bool | None = None
    _params_dirty: bool
    _updater: Any = None

    @api_boundary
    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Install an optimizer.

        `optimizer` is an Optimizer, or a name with arguments in `optimizer_params`; then gradients are divided by the
        batch size.
        """
        self._check_ready()
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        arguments, _ = self.get_params()
        group = self._exec_group
        assert group is not None
        store, on_store = _create_kvstore(kvstore, len(self._context), arguments)
        self._optimizer = self._make_optimizer(
            optimizer, optimizer_params, 1.0 / total_batch_size(group.batch_size or 1, store), on_store
        )
        self._kvstore, self._update_on_kvstore = store, on_store
        if store:
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)
            if on_store:
                store.set_optimizer(self._optimizer)
            _initialize_kvstore(store, group.param_arrays, arguments, self._param_names, on_store)
        self._updater = None if on_store else optimizers.get_updater(self._optimizer)
        self.optimizer_initialized = True
        if self._preload_opt_states is not None:
            self.load_optimizer_states(self._preload_opt_states)
            self._preload_opt_states = None

    def _make_optimizer(self, optimizer: Any, parameters: Any, rescale: float, on_store: bool) -> Any:
        names = numbered_names(self._param_names, 1 if on_store else len(self._context))
        if isinstance(optimizer, str):
            options = {"rescale_grad": rescale, **dict(parameters)}
            return optimizers.create(optimizer, sym=self.symbol, param_idx2name=names, **options)
        if not isinstance(optimizer, optimizers.Optimizer):
            raise AssertionError(f"init_optimizer: {optimizer!r} is neither an optimizer nor the name of one")
        if optimizer.rescale_grad != rescale:
            warnings.warn(
                "Optimizer created manually outside Module but rescale_grad is not normalized to "
                f"1.0/batch_size/num_workers ({optimizer.rescale_grad} vs. {rescale}). Is this intended?",
                stacklevel=4,
            )
        if not optimizer.idx2name:
            optimizer.idx2name = names
        return optimizer

    def update(self) -> None:
        """Update the parameters with the gradients of the last backward."""
        self._check_optimizer("update")
        group = self._exec_group
        assert group is not None and group.grad_arrays is not None
        self._params_dirty = True
        arrays, grads, names = group.param_arrays, group.grad_arrays, group.param_names
        if is_shared(self._kvstore) and len(self._context) == 1:
            variables = group.execs[0].gradient_variables()
            self._kvstore.expect({name: variables[name] for name in names if name in variables})
        if self._update_on_kvstore:
            _update_params_on_kvstore(arrays, grads, self._kvstore, names)
        else:
            _update_params(arrays, grads, self._updater, len(self._context), self._kvstore, names)

    def borrow_optimizer(self, shared_module: ModuleWithOptimizer) -> None:
        """Use another module's optimizer and KVStore."""
        if not shared_module.optimizer_initialized:
            raise AssertionError("borrow_optimizer: the other module has no optimizer")
        self._optimizer, self._kvstore = shared_module._optimizer, shared_module._kvstore
        self._update_on_kvstore, self._updater = shared_module._update_on_kvstore, shared_module._updater
        self.optimizer_initialized = True

    def save_optimizer_states(self, fname: str) -> None:
        """Write the optimizer's states to a file, in MXNet's format."""
        self._check_optimizer("save_optimizer_states")
        if self._update_on_kvstore:
            self._kvstore.save_optimizer_states(fname)
        else:
            write_atomically(fname, self._updater.get_states())

    def load_optimizer_states(self, fname: str) -> None:
        """Load the optimizer's states from a file of `save_optimizer_states`, MXNet's or this one."""
        self._check_optimizer("load_optimizer_states")
        if self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
            return
        load_states(self._updater, fname)

    def _check_optimizer(self, what: str) -> None:
        if not self.optimizer_initialized:
            raise AssertionError(f"{what}: the module has no optimizer: call init_optimizer first")
