"""Trainer: parameters with an optimizer. Its steps come with training."""

from __future__ import annotations

import os
from typing import Any, NoReturn

from .. import optimizer as opt
from ..artifacts import write_atomically
from ..base_errors import gradients_missing
from ..context import Context
from .parameter import Parameter
from .parameter_dict import ParameterDict

__all__ = ["Trainer"]


class Trainer:
    """Applies an optimizer to parameters, which must be initialized on the same contexts.

    `optimizer` is a name with its parameters in `optimizer_params`, or an Optimizer. How gradients of several devices
    are summed (`kvstore`, `compression_params`, `update_on_kvstore`) is kept until training reads it.
    """

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

    def _check_contexts(self) -> list[Context]:
        """The contexts of all parameters; AssertionError where they differ."""
        contexts: list[Context] | None = None
        for param in self._params:
            found = param.list_ctx()
            if contexts is not None and contexts != found:
                raise AssertionError(
                    "All Parameters must be initialized on the same set of contexts, but Parameter "
                    f"{param.name} is initialized on {found} while previous Parameters are initialized on {contexts}."
                )
            contexts = found
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
        """Forget how gradients are summed."""
        self._kv_initialized = False
        self._kvstore: Any = None
        self._distributed: bool | None = None
        self._update_on_kvstore: bool | None = None
        self._params_to_init = list(self._params)

    @property
    def learning_rate(self) -> float:
        """The optimizer's rate now."""
        return self._optimizer.learning_rate

    @property
    def optimizer(self) -> opt.Optimizer:
        return self._optimizer

    def set_learning_rate(self, lr: float) -> None:
        """Set the optimizer's rate; UserWarning is raised where a schedule sets it."""
        self._optimizer.set_learning_rate(lr)

    def step(self, batch_size: int, ignore_stale_grad: bool = False) -> NoReturn:
        """Raises MXNetError: gradients come with training."""
        raise gradients_missing("Trainer.step")

    def allreduce_grads(self) -> NoReturn:
        """Raises MXNetError: gradients come with training."""
        raise gradients_missing("Trainer.allreduce_grads")

    def update(self, batch_size: int, ignore_stale_grad: bool = False) -> NoReturn:
        """Raises MXNetError: gradients come with training."""
        raise gradients_missing("Trainer.update")

    def save_states(self, fname: str | os.PathLike[str]) -> None:
        """Write the optimizer and its states, as MXNet does."""
        write_atomically(fname, self._updaters[0].get_states(dump_optimizer=True))

    def load_states(self, fname: str | os.PathLike[str]) -> None:
        """Take the optimizer and the states from a file, which MXNet or mxforge wrote.

        UnpicklingError where the file holds anything else.
        """
        with open(fname, "rb") as file:
            states = file.read()
        for updater in self._updaters:
            updater.set_states(states)
            updater.optimizer = self._updaters[0].optimizer
        self._optimizer = self._updaters[0].optimizer
        self._optimizer.param_dict = dict(enumerate(self._params))


def _as_list(params: Any) -> list[Parameter]:
    """The parameters of a list, or of a dictionary in the order of their names."""
    if isinstance(params, dict | ParameterDict):
        params = [params[key] for key in sorted(params.keys())]
    if not isinstance(params, list | tuple):
        raise ValueError(f"First argument must be a list or dict of Parameters, got {type(params)}.")
    for param in params:
        if not isinstance(param, Parameter):
            raise ValueError(f"First argument must be a list or dict of Parameters, got list of {type(param)}.")
    return list(params)
