"""Adaptive optimizers: Adam, Adamax, Nadam, AdaGrad, AdaDelta, RMSProp, FTML, Ftrl, LAMB."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.scalar import ScalarOp
from ..ndarray import NDArray
from .base import Optimizer, register, zeros_like
from .graph_numbers import GraphNumber, root
from .one_update import OneUpdate


def _correction(beta: float, t: Any) -> Any:
    """1 - beta^t in float32, as MXNet's operators compute it."""
    if isinstance(t, GraphNumber):
        power = t.apply(ScalarOp.POW, float(np.float32(beta)), t).single()
        return t.apply(ScalarOp.SUB, 1.0, power).single()
    return float(np.float32(1) - np.power(np.float32(beta), np.float32(t)))


class Plain(Optimizer):
    """An optimizer that is arithmetic on arrays in MXNet: a `clip_gradient` of 0 clips to 0."""

    def _gradient_numbers(self, lr: float, wd: float) -> dict[str, float]:
        clip = -1.0 if self.clip_gradient is None else self.clip_gradient
        return {**super()._gradient_numbers(lr, wd), "clip_gradient": clip}


@register
class Adam(Optimizer):
    """Kingma and Ba 2014. The state is (mean, variance).

    Example:
        >>> adam = mx.optimizer.Adam(learning_rate=0.1)
        >>> weight, grad = mx.nd.array([1]), mx.nd.array([5])
        >>> adam.update(0, weight, grad, adam.create_state(0, weight))
        >>> weight.asnumpy().round(3)
        array([0.9], dtype=float32)
    """

    _rule = "adam"

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        lazy_update: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon, self.lazy_update = beta1, beta2, epsilon, lazy_update

    def create_state(self, index: Any, weight: NDArray) -> Any:
        stype = weight.stype if self.lazy_update else "default"
        return zeros_like(weight, stype), zeros_like(weight, stype)

    def _numbers(self, lr: float, wd: float, t: int) -> dict[str, float]:
        lr *= root(1.0 - self.beta2**t) / (1.0 - self.beta1**t)
        own = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}
        return {**self._gradient_numbers(lr, wd), **own}


@register
class Adamax(Plain):
    """Adam with the infinity norm of gradients instead of the variance. The state is (mean, decayed maximum)."""

    _rule = "adamax"

    def __init__(self, learning_rate: float = 0.002, beta1: float = 0.9, beta2: float = 0.999, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2 = beta1, beta2

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return zeros_like(weight), zeros_like(weight)

    def _numbers(self, lr: float, wd: float, t: int) -> dict[str, float]:
        shared = self._gradient_numbers(lr / (1.0 - self.beta1**t), wd)
        return {**shared, "beta1": self.beta1, "rest1": 1.0 - self.beta1, "beta2": self.beta2}


@register
class Nadam(Plain):
    """Adam with Nesterov momentum (Dozat 2016). The state is (mean, variance)."""

    _rule = "nadam"
    _shares_numbers = False

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        schedule_decay: float = 0.004,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.schedule_decay = schedule_decay
        self.m_schedule = 1.0

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return zeros_like(weight), zeros_like(weight)

    def _momentum(self, t: int) -> float:
        """The momentum of update `t`."""
        return self.beta1 * (1.0 - 0.5 * pow(0.96, t * self.schedule_decay))

    def _numbers(self, lr: float, wd: float, t: int) -> dict[str, float]:
        momentum, next_momentum = self._momentum(t), self._momentum(t + 1)
        self.m_schedule *= momentum  # as in MXNet, each weight's update changes it for the next weight
        return {
            **self._gradient_numbers(lr, wd),
            "beta1": self.beta1,
            "rest1": 1.0 - self.beta1,
            "beta2": self.beta2,
            "rest2": 1.0 - self.beta2,
            "epsilon": self.epsilon,
            "grad_share": (1.0 - momentum) / (1.0 - self.m_schedule),
            "mean_share": next_momentum / (1.0 - self.m_schedule * next_momentum),
            "correction2": 1.0 - pow(self.beta2, t),
        }


@register
class AdaGrad(Plain):
    """Duchi et al. 2011. The state is the sum of squared gradients."""

    _rule = "adagrad"

    def __init__(self, eps: float = 1e-07, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return zeros_like(weight, weight.stype, np.float32)

    def _numbers(self, lr: float, wd: float, t: int) -> dict[str, float]:
        return {**self._gradient_numbers(lr, wd), "epsilon": self.float_stable_eps}


@register
class AdaDelta(Plain):
    """Zeiler 2012, without a learning rate. The state is (mean of squared gradients, mean of squared steps)."""

    _rule = "adadelta"

    def __init__(self, rho: float = 0.9, epsilon: float = 1e-05, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rho, self.epsilon = rho, epsilon

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return zeros_like(weight, dtype=np.float32), zeros_like(weight, dtype=np.float32)

    def _numbers(self, lr: float, wd: float, t: int) -> dict[str, float]:
        own = {"rho": self.rho, "rest": 1.0 - self.rho, "epsilon": self.epsilon}
        return {**self._gradient_numbers(lr, wd), **own}


@register
class RMSProp(Optimizer):
    """Tieleman and Hinton 2012. `centered` selects the version of Graves 2013.

    The state is (mean of squared gradients,), or (mean of squares, mean of gradients, momentum) if `centered`.
    """

    _rule = "rmsprop"

    def __init__(
        self,
        learning_rate: float = 0.001,
        gamma1: float = 0.9,
        gamma2: float = 0.9,
        epsilon: float = 1e-08,
        centered: bool = False,
        clip_weights: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1, self.gamma2, self.epsilon = gamma1, gamma2, epsilon
        self.centered, self.clip_weights = centered, clip_weights

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return tuple(zeros_like(weight, weight.stype, np.float32) for _ in range(3 if self.centered else 1))

    def _rule_of(self, index: Any, states: Sequence[NDArray]) -> str:
        return "rmspropalex" if self.centered else self._rule

    def _numbers(self, lr: float, wd: float, t: int) -> dict[str, float]:
        own = {"gamma1": self.gamma1, "gamma2": self.gamma2, "epsilon": self.epsilon}
        return {**self._gradient_numbers(lr, wd), **own, "clip_weights": self.clip_weights or -1.0}


@register
class FTML(Optimizer):
    """Follow the moving leader (Zheng and Kwok 2017)."""

    _rule = "ftml"

    def __init__(self, beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-08, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return zeros_like(weight), zeros_like(weight), zeros_like(weight)

    def _numbers(self, lr: float, wd: float, t: int) -> dict[str, float]:
        own = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}
        corrections = {"correction1": _correction(self.beta1, t), "correction2": _correction(self.beta2, t)}
        return {**self._gradient_numbers(lr, wd), **own, **corrections}


@register
class Ftrl(Optimizer):
    """Follow the regularised leader (McMahan et al. 2013). The state is (z, n)."""

    _rule = "ftrl"

    def __init__(self, lamda1: float = 0.01, learning_rate: float = 0.1, beta: float = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lamda1, self.beta = lamda1, beta
        self.lr = learning_rate

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return tuple(zeros_like(weight, weight.stype, np.float32) for _ in range(2))

    def _numbers(self, lr: float, wd: float, t: int) -> dict[str, float]:
        return {**self._gradient_numbers(lr, wd), "lamda1": self.lamda1, "beta": self.beta}


@register
class LAMB(OneUpdate):
    """Layer-wise adaptive moments for batches (You et al. 2019). The state is (mean, variance)."""

    _rule = "lamb"

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-06,
        lower_bound: float | None = None,
        upper_bound: float | None = None,
        bias_correction: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.lower_bound, self.upper_bound = lower_bound, upper_bound
        self.bias_correction = bias_correction
        self.aggregate_num = max(1, min(45, int(os.getenv("MXNET_OPTIMIZER_AGGREGATION_SIZE", "45"))))

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return zeros_like(weight, weight.stype), zeros_like(weight, weight.stype)

    def _numbers(self, lr: float, wd: float, t: int) -> dict[str, float]:
        corrected = self.bias_correction
        return {
            **self._gradient_numbers(lr, wd),
            "beta1": self.beta1,
            "beta2": self.beta2,
            "epsilon": self.epsilon,
            "correction1": _correction(self.beta1, t) if corrected else 1.0,
            "correction2": _correction(self.beta2, t) if corrected else 1.0,
            "lower_bound": self.lower_bound or -1.0,
            "upper_bound": self.upper_bound or -1.0,
        }
