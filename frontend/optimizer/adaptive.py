"""Adaptive optimizers: Adam, Adamax, Nadam, AdaGrad, AdaDelta, RMSProp, FTML, Ftrl, LAMB."""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from ..ndarray import NDArray
from .base import Optimizer, check_arrays, nd, register, zeros_like


@register
class Adam(Optimizer):
    """Kingma and Ba 2014. The state is (mean, variance)."""

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

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index, weight, grad)
        t = self._index_update_count[index]
        lr *= math.sqrt(1.0 - self.beta2**t) / (1.0 - self.beta1**t)
        options = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon, "lazy_update": self.lazy_update}
        nd.adam_update(weight, grad, *state, out=weight, lr=lr, wd=wd, **options, **self._options())


@register
class Adamax(Optimizer):
    """Adam with the infinity norm of gradients instead of the variance. The state is (mean, decayed maximum)."""

    def __init__(self, learning_rate: float = 0.002, beta1: float = 0.9, beta2: float = 0.999, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1, self.beta2 = beta1, beta2

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return zeros_like(weight), zeros_like(weight)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index, weight, grad)
        lr /= 1.0 - self.beta1 ** self._index_update_count[index]
        grad = self._clipped(grad * self.rescale_grad + wd * weight)
        mean, maximum = state
        mean[:] = self.beta1 * mean + (1.0 - self.beta1) * grad
        maximum[:] = nd.maximum(self.beta2 * maximum, nd.abs(grad))
        weight[:] -= lr * mean / maximum


@register
class Nadam(Optimizer):
    """Adam with Nesterov momentum (Dozat 2016). The state is (mean, variance)."""

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

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index, weight, grad)
        t = self._index_update_count[index]
        grad = self._clipped(grad * self.rescale_grad + wd * weight)
        momentum, next_momentum = self._momentum(t), self._momentum(t + 1)
        self.m_schedule *= momentum
        mean, variance = state
        mean[:] = self.beta1 * mean + (1.0 - self.beta1) * grad
        variance[:] = self.beta2 * variance + (1.0 - self.beta2) * grad * grad
        grad_part = grad / (1.0 - self.m_schedule)
        mean_part = mean / (1.0 - self.m_schedule * next_momentum)
        step = (1.0 - momentum) * grad_part + next_momentum * mean_part
        weight[:] -= lr * step / (nd.sqrt(variance / (1.0 - pow(self.beta2, t))) + self.epsilon)


@register
class AdaGrad(Optimizer):
    """Duchi et al. 2011. The state is the sum of squared gradients."""

    def __init__(self, eps: float = 1e-07, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return zeros_like(weight, weight.stype, np.float32)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index, weight, grad)
        if grad.stype == "row_sparse":
            options = {"epsilon": self.float_stable_eps, **self._options()}
            nd.sparse.adagrad_update(weight, grad, state, out=weight, lr=lr, wd=wd, **options)
            return
        grad = self._clipped(grad * self.rescale_grad)
        state[:] += nd.square(grad)
        weight[:] += (grad / nd.sqrt(state + self.float_stable_eps) + weight * wd) * -lr


@register
class AdaDelta(Optimizer):
    """Zeiler 2012, without a learning rate. The state is (mean of squared gradients, mean of squared steps)."""

    def __init__(self, rho: float = 0.9, epsilon: float = 1e-05, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.rho, self.epsilon = rho, epsilon

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return zeros_like(weight, dtype=np.float32), zeros_like(weight, dtype=np.float32)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        _, wd = self._begin(index, weight, grad)
        grad *= self.rescale_grad  # in place, as in MXNet
        grad = self._clipped(grad)
        squares, steps = state
        squares[:] = self.rho * squares + (1.0 - self.rho) * grad * grad
        step = nd.sqrt(steps + self.epsilon) / nd.sqrt(squares + self.epsilon) * grad
        steps[:] = self.rho * steps + (1.0 - self.rho) * step * step
        weight[:] -= step + wd * weight


@register
class RMSProp(Optimizer):
    """Tieleman and Hinton 2012. `centered` selects the version of Graves 2013.

    The state is (mean of squared gradients,), or (mean of squares, mean of gradients, momentum) if `centered`.
    """

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

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index, weight, grad)
        options = {"gamma1": self.gamma1, "epsilon": self.epsilon, **self._options()}
        if self.centered:
            options["gamma2"] = self.gamma2
        if self.clip_weights:
            options["clip_weights"] = self.clip_weights
        operator = nd.rmspropalex_update if self.centered else nd.rmsprop_update
        operator(weight, grad, *state, out=weight, lr=lr, wd=wd, **options)


@register
class FTML(Optimizer):
    """Follow the moving leader (Zheng and Kwok 2017)."""

    def __init__(self, beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-08, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return zeros_like(weight), zeros_like(weight), zeros_like(weight)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index, weight, grad)
        options = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon}
        options |= {"rescale_grad": self.rescale_grad, "t": self._index_update_count[index]}
        if self.clip_gradient:
            options["clip_grad"] = self.clip_gradient
        nd.ftml_update(weight, grad, *state, out=weight, lr=lr, wd=wd, **options)


@register
class Ftrl(Optimizer):
    """Follow the regularised leader (McMahan et al. 2013). The state is (z, n)."""

    def __init__(self, lamda1: float = 0.01, learning_rate: float = 0.1, beta: float = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lamda1, self.beta = lamda1, beta
        self.lr = learning_rate

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return tuple(zeros_like(weight, weight.stype, np.float32) for _ in range(2))

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index, weight, grad)
        options = {"lamda1": self.lamda1, "beta": self.beta, **self._options()}
        nd.ftrl_update(weight, grad, *state, out=weight, lr=lr, wd=wd, **options)


@register
class LAMB(Optimizer):
    """Layer-wise adaptive moments for batches (You et al. 2019). The state is (mean, variance)."""

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

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        self._update_impl(index, weight, grad, state, multi_precision=False)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        first = weight[0] if isinstance(index, list | tuple) else weight
        self._update_impl(index, weight, grad, state, multi_precision=self._has_copy(first))

    def _update_impl(self, index: Any, weight: Any, grad: Any, state: Any, multi_precision: bool = False) -> None:
        if not isinstance(index, list | tuple):
            index, weight, grad, state = [index], [weight], [grad], [state]
        check_arrays(*weight, *grad)
        for each in zip(index, weight, grad, state, strict=True):
            self._update_one(*each, multi_precision)

    def _update_one(self, index: Any, weight: Any, grad: Any, state: Any, multi_precision: bool) -> None:
        lr, wd = self._begin(index, weight, grad)
        copy, moments = ([state[0]], state[1]) if multi_precision else ([], state)
        options = {"beta1": self.beta1, "beta2": self.beta2, "epsilon": self.epsilon, "wd": wd}
        options |= {"bias_correction": self.bias_correction, "t": self._index_update_count[index], **self._options()}
        phases = (
            (nd.mp_lamb_update_phase1, nd.mp_lamb_update_phase2)
            if multi_precision
            else (nd.lamb_update_phase1, nd.lamb_update_phase2)
        )
        step = phases[0](weight, grad, *moments, *copy, **options)
        master = copy[0] if multi_precision else weight
        limits = {"lower_bound": self.lower_bound, "upper_bound": self.upper_bound}
        limits = {name: limit for name, limit in limits.items() if limit}
        phases[1](weight, step, master.norm(), step.norm(), *copy, lr=lr, out=weight, **limits)
