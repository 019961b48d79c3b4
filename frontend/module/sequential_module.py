"""SequentialModule: a chain of modules. Each module reads the outputs of the previous one."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable
from typing import Any

from ..io import DataBatch
from ..ndarray import NDArray
from .base_module import _DEFAULT_INITIALIZER, BaseModule


class SequentialModule(BaseModule):
    """A chain of modules.

    `add(module, take_labels=True)` passes the labels to a module. `auto_wiring=True` renames the outputs of the
    previous module to the names of the module's inputs.
    """

    META_TAKE_LABELS = "take_labels"
    META_AUTO_WIRING = "auto_wiring"

    def __init__(self, logger: Any = logging) -> None:
        super().__init__(logger=logger)
        self._modules: list[BaseModule] = []
        self._metas: list[dict[str, Any]] = []
        self._label_shapes: Any = None
        self._data_shapes: Any = None
        self._meta_keys = {self.META_TAKE_LABELS, self.META_AUTO_WIRING}

    def add(self, module: BaseModule, **kwargs: Any) -> SequentialModule:
        """Append a module. Returns the chain, which must be bound again."""
        for key in kwargs:
            if key not in self._meta_keys:
                raise AssertionError(f'Unknown meta "{key}", a typo?')
        self._modules.append(module)
        self._metas.append(kwargs)
        self.binded = self.params_initialized = self.optimizer_initialized = False
        return self

    def _bound(self) -> None:
        if not self.binded:
            raise AssertionError("the module is not bound: call bind first")

    @property
    def data_names(self) -> list[str]:
        return self._modules[0].data_names if self._modules else []

    @property
    def output_names(self) -> list[str]:
        return self._modules[-1].output_names if self._modules else []

    @property
    def data_shapes(self) -> list[Any]:
        self._bound()
        return self._modules[0].data_shapes

    @property
    def label_shapes(self) -> list[Any] | None:
        self._bound()
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        self._bound()
        return self._modules[-1].output_shapes

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """The parameters and auxiliary states of all modules."""
        self._check_ready()
        arguments: dict[str, NDArray] = {}
        states: dict[str, NDArray] = {}
        for module in self._modules:
            own = module.get_params()
            arguments.update(own[0])
            states.update(own[1])
        return arguments, states

    def init_params(
        self,
        initializer: Any = _DEFAULT_INITIALIZER,
        arg_params: Any = None,
        aux_params: Any = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Initialize the parameters of all modules. Raises AssertionError if two parameters have the same name."""
        if self.params_initialized and not force_init:
            return
        self._bound()
        for module in self._modules:
            module.init_params(initializer, arg_params, aux_params, allow_missing, force_init, allow_extra)
        for kind in (0, 1):
            _check_names(m.get_params()[kind] for m in self._modules)
        self.params_initialized = True

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
        """Bind each module to the output shapes of the previous one."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if shared_module is not None:
            raise AssertionError("Shared module is not supported")
        if not self._modules:
            raise AssertionError("Attempting to bind an empty SequentialModule")
        if inputs_need_grad and not for_training:
            raise AssertionError("inputs_need_grad requires for_training")
        shapes = data_shapes
        for number, (module, meta) in enumerate(zip(self._modules, self._metas, strict=True)):
            if meta.get(self.META_AUTO_WIRING, False):
                shapes = [(name, shape) for name, (_, shape) in zip(module.data_names, shapes, strict=True)]
            labels = label_shapes if meta.get(self.META_TAKE_LABELS) else None
            needs_grad = bool(inputs_need_grad or (for_training and number > 0))
            module.bind(shapes, labels, for_training, needs_grad, force_rebind, None, grad_req)
            shapes = module.output_shapes
        takes_labels = any(meta.get(self.META_TAKE_LABELS) for meta in self._metas)
        self._label_shapes = label_shapes if takes_labels else None
        self.for_training, self.inputs_need_grad, self.binded = for_training, inputs_need_grad, True

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Install an optimizer in each module."""
        self._check_ready()
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        for module in self._modules:
            module.init_optimizer(kvstore, optimizer, optimizer_params, force_init)
        self.optimizer_initialized = True

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Run all modules. The batch is not modified."""
        self._check_ready()
        batch = copy.copy(data_batch)
        for module in self._modules[:-1]:
            module.forward(batch, is_train=is_train)
            batch.data = module.get_outputs()
            names = [name for name, _ in module.output_shapes]
            batch.provide_data = [(name, out.shape) for name, out in zip(names, batch.data, strict=True)]
        self._modules[-1].forward(batch, is_train=is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Run backward through all modules, the last first."""
        self._check_ready()
        for number in range(len(self._modules) - 1, -1, -1):
            self._modules[number].backward(out_grads)
            if number:
                out_grads = self._modules[number].get_input_grads()

    def update(self) -> None:
        """Update the parameters of all modules."""
        self._check_ready()
        for module in self._modules:
            module.update()

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """The gradients by the data of the first module."""
        self._check_ready()
        return self._modules[0].get_input_grads(merge_multi_context)

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """The outputs of the last module."""
        self._check_ready()
        return self._modules[-1].get_outputs(merge_multi_context)

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric with the outputs of the modules that take labels."""
        self._check_ready()
        for module, meta in zip(self._modules, self._metas, strict=True):
            if meta.get(self.META_TAKE_LABELS):
                module.update_metric(eval_metric, labels, pre_sliced)

    def install_monitor(self, mon: Any) -> None:
        """Install a Monitor in all modules."""
        self._bound()
        for module in self._modules:
            module.install_monitor(mon)


def _check_names(layers: Iterable[dict[str, NDArray]]) -> None:
    first: dict[str, int] = {}
    for number, names in enumerate(layers):
        for name in names:
            if name in first:
                raise AssertionError(
                    f'Duplicated parameter names: name "{name}" in layer {number} is already used in layer '
                    f"{first[name]}."
                )
            first[name] = number
