"""Optimizers that MXNet marks as experimental: GroupAdaGrad."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ndarray
from ..ndarray import NDArray
from .base import Optimizer, nd, register

__all__ = ["GroupAdaGrad"]


@register
class GroupAdaGrad(Optimizer):
    """AdaGrad with one sum of mean squared gradients per row of a matrix. Weight decay raises AssertionError."""

    def __init__(self, eps: float = 1e-05, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> Any:
        if len(weight.shape) != 2:
            raise AssertionError(f"GroupAdaGrad requires a matrix, not shape {weight.shape}")
        return ndarray.zeros((weight.shape[0], 1), weight.context, np.float32, weight.stype)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index, weight, grad)
        if wd != 0:
            raise AssertionError("Weight decay is not supported for GroupAdaGrad")
        if grad.stype == "row_sparse":
            options = {"epsilon": self.float_stable_eps, **self._options()}
            nd.contrib.group_adagrad_update(weight, grad, state, out=weight, lr=lr, **options)
            return
        grad = self._clipped(grad * self.rescale_grad)
        state[:] += nd.mean(nd.square(grad), axis=1, keepdims=True)
        weight[:] -= lr * grad / nd.sqrt(state + self.float_stable_eps)
