"""Optimizers that MXNet marks as experimental: GroupAdaGrad."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import ndarray
from ..ndarray import NDArray
from .adaptive import Plain
from .base import Optimizer, register  # noqa: F401  (both are names of MXNet's module)

__all__ = ["GroupAdaGrad"]


@register
class GroupAdaGrad(Plain):
    """AdaGrad with one sum of mean squared gradients per row of a matrix. Weight decay raises AssertionError."""

    _rule = "group_adagrad"

    def __init__(self, eps: float = 1e-05, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> Any:
        if len(weight.shape) != 2:
            raise AssertionError(f"GroupAdaGrad requires a matrix, not shape {weight.shape}")
        return ndarray.zeros((weight.shape[0], 1), weight.context, np.float32, weight.stype)

    def _numbers(self, lr: float, wd: float, t: int) -> dict[str, float]:
        if wd != 0:
            raise AssertionError("Weight decay is not supported for GroupAdaGrad")
        return {**self._gradient_numbers(lr, wd), "epsilon": self.float_stable_eps}
