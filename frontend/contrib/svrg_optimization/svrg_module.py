"""SVRGModule: a Module that trains with stochastic variance reduced gradients.

Every `update_freq` epochs the gradients over all data are computed at the current weights, which an auxiliary module
keeps. A batch's gradient is then corrected: its own, minus the auxiliary module's, plus the one over all data.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from ... import ndarray as nd
from ... import optimizer as optimizers
from ...context import Context
from ...io import DataBatch
from ...metric import EvalMetric
from ...module import Module
from ...ndarray import NDArray
from ...parameter_updates import _create_kvstore, numbered_names, total_batch_size
from .svrg_optimizer import _SVRGOptimizer


class SVRGModule(Module):
    """A Module whose gradients over all data are computed every `update_freq` epochs."""

    def __init__(
        self,
        symbol: Any,
        data_names: Sequence[str] | None = ("data",),
        label_names: Sequence[str] | None = ("softmax_label",),
        logger: Any = logging,
        context: Context | Sequence[Context] | None = None,
        work_load_list: Any = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Any = None,
        update_freq: int | None = None,
    ) -> None:
        options = (
            data_names, label_names, logger, context, work_load_list, fixed_param_names, state_names, group2ctxs,
            compression_params,
        )  # fmt: skip
        super().__init__(symbol, *options)
        if not isinstance(update_freq, int):
            raise TypeError(f"update_freq in SVRGModule must be an integer, a number of epochs, not {update_freq!r}")
        if update_freq <= 0:
            raise ValueError(f"update_freq in SVRGModule must be a positive integer, not {update_freq}")
        self.update_freq = update_freq
        self._mod_aux = Module(symbol, *options)
        self._ctx_len = len(self._context)
        self._param_dict: list[dict[str, NDArray]] = []  # for each context, the gradients over all data

    def _reset_bind(self) -> None:
        super()._reset_bind()
        self._mod_aux._reset_bind()

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
        """Create the executors of both modules. With `shared_module`, this one shares its parameters."""
        options = data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind
        super().bind(*options, shared_module, grad_req)
        if for_training:
            self._mod_aux.bind(*options, None, grad_req)

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Bind both modules to other shapes."""
        super().reshape(data_shapes, label_shapes)
        self._mod_aux.reshape(data_shapes, label_shapes)

    def prepare(self, data_batch: DataBatch, sparse_row_id_fn: Any = None) -> None:
        """Called before each batch."""
        super().prepare(data_batch, sparse_row_id_fn)
        self._mod_aux.prepare(data_batch, sparse_row_id_fn)

    # --- optimizer --------------------------------------------------------------------------------------------------

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Install an optimizer. A KVStore also sums the gradients over all data, under keys that end in `_full`."""
        parameters = self.get_params()[0]
        self._param_dict = [
            {name: nd.zeros(array.shape, ctx=context) for name, array in parameters.items()}
            for context in self._context
        ]
        created = self._create_optimizer(_SVRGOptimizer.__name__, optimizer, kvstore, optimizer_params)
        super().init_optimizer(kvstore, created, optimizer_params, force_init)
        if self._kvstore:
            for name in self._group().param_names:
                self._kvstore.init(f"{name}_full", nd.zeros(parameters[name].shape))

    def _create_optimizer(self, optimizer: str, default_opt: Any, kvstore: Any, optimizer_params: Any) -> Any:
        """An optimizer of weights and of gradients over all data."""
        group = self._group()
        store, on_store = _create_kvstore(kvstore, self._ctx_len, self._arg_params or {})
        names = numbered_names(group.param_names, 1 if on_store else self._ctx_len)
        names |= enumerate((f"{name}_full" for name in self._param_dict[0]), max(names, default=-1) + 1)
        options = {"rescale_grad": 1.0 / total_batch_size(group.batch_size or 1, store), **dict(optimizer_params)}
        return optimizers.create(optimizer, default_optimizer=default_opt, param_idx2name=names, **options)

    # --- running ----------------------------------------------------------------------------------------------------

    def forward(self, data_batch: DataBatch | list[DataBatch], is_train: bool | None = None) -> None:
        """Run on a batch; both modules if `is_train` is True."""
        super().forward(data_batch, is_train)
        if is_train:
            self._mod_aux.forward(data_batch, is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients of the last forward of both modules."""
        super().backward(out_grads)
        if self._mod_aux.binded:
            self._mod_aux.backward(out_grads)

    def update(self) -> None:
        """Update the parameters with the corrected gradients of the last backward."""
        self._update_svrg_gradients()
        super().update()

    def update_full_grads(self, train_data: Any) -> None:
        """Compute the gradients over all data at the current weights. As in MXNet, they are added to the last ones
        before they are divided by the number of batches."""
        self._mod_aux.set_params(*self.get_params())
        train_data.reset()
        count, padding = 0, 0
        for batch in train_data:
            self._mod_aux.forward(batch, is_train=True)
            self._mod_aux.backward()
            count, padding = count + 1, batch.pad or 0
            for name, context, grad in self._gradients(self._mod_aux):
                self._param_dict[context][name] += grad
        for name in self._param_dict[0]:
            sums = [of_context[name] for of_context in self._param_dict]
            for array in sums:
                array /= count - padding / train_data.batch_size
            if self._kvstore:
                self._accumulate_kvstore(name, sums)

    def _gradients(self, module: Module) -> list[tuple[str, int, NDArray]]:
        """(name, context, gradient) of all parameters that are trained."""
        group = module._group()
        named = zip(group.param_names, group.grad_arrays or [], strict=True)
        return [(name, i, grad) for name, grads in named for i, grad in enumerate(grads) if grad is not None]

    def _accumulate_kvstore(self, key: str, value: list[NDArray]) -> None:
        """Sum a gradient over all data in the store."""
        self._kvstore.push(f"{key}_full", value)
        self._kvstore._barrier()
        self._kvstore.pull(f"{key}_full", value)
        self._allocate_gradients(key, value)

    def _allocate_gradients(self, key: str, value: list[NDArray]) -> None:
        """Store the mean of a gradient over the contexts. Further arrays are ignored."""
        for of_context, array in zip(self._param_dict, value, strict=False):
            of_context[key] = array / self._ctx_len

    def _update_svrg_gradients(self) -> None:
        """Correct the gradients of the last backward, in place."""
        pairs = zip(self._gradients(self), self._gradients(self._mod_aux), strict=True)
        for (name, context, grad), (_, _, special) in pairs:
            self._svrg_grads_update_rule(grad, special, self._param_dict[context][name])

    def _svrg_grads_update_rule(
        self,
        g_curr_batch_curr_weight: NDArray,
        g_curr_batch_special_weight: NDArray,
        g_special_weight_all_batch: NDArray,
    ) -> NDArray:
        """The batch's gradient at the current weights, minus that at the kept ones, plus that of all data there."""
        g_curr_batch_curr_weight -= g_curr_batch_special_weight
        g_curr_batch_curr_weight += g_special_weight_all_batch
        return g_curr_batch_curr_weight

    # --- fit --------------------------------------------------------------------------------------------------------

    def _fit_epoch(self, epoch: int, eval_metric: EvalMetric, options: dict[str, Any]) -> list[tuple[str, Any]]:
        train_data = options["train_data"]
        if epoch % self.update_freq == 0:
            self.update_full_grads(train_data)
        train_data.reset()
        return super()._fit_epoch(epoch, eval_metric, options)

    def _end_epoch(self, train_data: Any) -> None:
        """The next epoch resets the data."""
