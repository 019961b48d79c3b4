"""Modules that compute in Python: PythonModule, and PythonLossModule, which returns its input."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from ..io import DataBatch
from ..ndarray import NDArray, array
from .base_module import _DEFAULT_INITIALIZER, BaseModule


class PythonModule(BaseModule):
    """A module without parameters. Subclasses define `_compute_output_shapes`, `forward` and `get_outputs`."""

    def __init__(
        self,
        data_names: Sequence[str],
        label_names: Sequence[str] | None,
        output_names: Sequence[str],
        logger: Any = logging,
    ) -> None:
        super().__init__(logger=logger)
        self._data_names: Any = list(data_names) if isinstance(data_names, tuple) else data_names
        self._label_names: Any = list(label_names) if isinstance(label_names, tuple) else label_names
        self._output_names: Any = output_names
        self._data_shapes: Any = None
        self._label_shapes: Any = None
        self._output_shapes: Any = None

    @property
    def data_names(self) -> list[str]:
        return self._data_names

    @property
    def output_names(self) -> list[str]:
        return self._output_names

    @property
    def data_shapes(self) -> Any:
        return self._data_shapes

    @property
    def label_shapes(self) -> Any:
        return self._label_shapes

    @property
    def output_shapes(self) -> Any:
        return self._output_shapes

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """Two empty dictionaries: the module has no parameters."""
        return {}, {}

    def init_params(
        self,
        initializer: Any = _DEFAULT_INITIALIZER,
        arg_params: Any = None,
        aux_params: Any = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Nothing to do."""

    def update(self) -> None:
        """Nothing to do."""

    def init_optimizer(
        self,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = (("learning_rate", 0.01),),
        force_init: bool = False,
    ) -> None:
        """Nothing to do."""

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Update a metric, unless the module has no labels."""
        if self._label_shapes is None:
            return
        if pre_sliced:
            raise RuntimeError("PythonModule does not support presliced labels")
        eval_metric.update(labels, self.get_outputs())

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
        """Store the shapes. Their names and order must match the module's. `binded` is not changed, as in MXNet."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if grad_req != "write":
            raise AssertionError("Python module only support write gradient")
        _check_order("data_shapes", data_shapes, self._data_names)
        if label_shapes is not None:
            _check_order("label_shapes", label_shapes, self._label_names)
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        self._data_shapes, self._label_shapes = data_shapes, label_shapes
        self._output_shapes = self._compute_output_shapes()

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        raise self._not_implemented("_compute_output_shapes")


def _check_order(what: str, shapes: Any, names: Sequence[str] | None) -> None:
    order = [shape[0] for shape in shapes]
    if order != list(names or []):
        raise AssertionError(f"{what} are for {order}, the module requires {names}")


class PythonLossModule(PythonModule):
    """A loss. Its output is its input, and its gradient is `grad_func(scores, labels)`."""

    def __init__(
        self,
        name: str = "pyloss",
        data_names: Sequence[str] = ("data",),
        label_names: Sequence[str] = ("softmax_label",),
        logger: Any = logging,
        grad_func: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(data_names, label_names, [f"{name}_output"], logger=logger)
        self._name = name
        if len(data_names) != 1 or len(label_names) != 1:
            raise AssertionError("a PythonLossModule has one input and one label")
        if grad_func is not None and not callable(grad_func):
            raise AssertionError("grad_func must be callable")
        self._scores: Any = None
        self._labels: Any = None
        self._scores_grad: Any = None
        self._grad_func = grad_func

    def _compute_output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        return [(f"{self._name}_output", self._data_shapes[0][1])]

    def forward(self, data_batch: DataBatch, is_train: bool | None = None) -> None:
        """Store the input, and in training the labels."""
        self._scores = data_batch.data[0]
        if self.for_training if is_train is None else is_train:
            self._labels = (data_batch.label or [None])[0]

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """The input of the last forward."""
        if merge_multi_context is not True:
            raise AssertionError("a PythonLossModule has one context")
        return [self._scores]

    def backward(self, out_grads: Any = None) -> None:
        """Call `grad_func` on the stored input and labels."""
        if out_grads is not None:
            raise AssertionError("For a loss module, out_grads should be None")
        if not self.for_training:
            raise AssertionError("bind with for_training=True to run backward")
        self._backward_impl()

    def _backward_impl(self) -> None:
        if self._grad_func is None:
            raise NotImplementedError(f"{type(self).__name__} has no grad_func")
        grad = self._grad_func(self._scores, self._labels)
        self._scores_grad = grad if isinstance(grad, NDArray) else array(grad)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """The last result of `grad_func`."""
        if merge_multi_context is not True:
            raise AssertionError("a PythonLossModule has one context")
        return [self._scores_grad]
