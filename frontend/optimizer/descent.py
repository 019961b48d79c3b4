"""Stochastic gradient descent and its variants: SGD, NAG, Signum, SGLD, DCASGD, LBSGD, LARS."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ndarray import NDArray
from .base import Optimizer, check_arrays, nd, register, zeros_like

_UNSCALED = ("gamma", "beta", "bias")


class _Descent(Optimizer):
    """Descent with momentum. The state is the momentum, or (momentum, float32 copy). Without momentum, it is None."""

    momentum: float
    lazy_update = True

    def create_state(self, index: Any, weight: NDArray) -> Any:
        if self.momentum == 0.0:
            return None
        return zeros_like(weight, weight.stype if self.lazy_update else "default")

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        if self._has_copy(weight):
            copy = weight.astype(np.float32)
            return self.create_state(index, copy), copy
        self._warn_of_float16(weight)
        return self.create_state(index, weight)

    def _options(self) -> dict[str, float]:
        return {**super()._options(), **({"momentum": self.momentum} if self.momentum > 0 else {})}

    def _descend(self, weight: Any, grad: Any, state: Any, rates: dict[str, float], lazy: bool = False) -> None:
        """Run one update step. If the state is a pair, it is (momentum, float32 copy)."""
        options = {**self._options(), **rates, "out": weight}
        if isinstance(state, list | tuple):
            momentum, copy = state
            if momentum is not None:
                nd.mp_sgd_mom_update(weight, grad, momentum, copy, **options)
            else:
                nd.mp_sgd_update(weight, grad, copy, **_without_momentum(options))
            return
        if lazy:
            options["lazy_update"] = self.lazy_update
        if state is not None:
            nd.sgd_mom_update(weight, grad, state, **options)
        else:
            nd.sgd_update(weight, grad, **_without_momentum(options))


def _without_momentum(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "momentum"}


class _AggregatedDescent(_Descent):
    """Descent that updates one weight, or a list of weights at once."""

    def _update_impl(self, indices: Any, weights: Any, grads: Any, states: Any, multi_precision: bool = False) -> None:
        if not isinstance(indices, list | tuple):
            indices, weights, grads, states = [indices], [weights], [grads], [states]
        check_arrays(*weights, *grads)
        self._update_count(indices)
        lrs, wds = self._get_lrs(indices), self._get_wds(indices)
        lrs = self._scaled_rates(indices, weights, grads, lrs, wds)
        for weight, grad, state, lr, wd in zip(weights, grads, states, lrs, wds, strict=True):
            self._descend(weight, grad, state, {"lr": lr, "wd": wd}, lazy=True)

    def _scaled_rates(
        self,
        indices: Sequence[Any],
        weights: Sequence[Any],
        grads: Sequence[Any],
        lrs: list[float],
        wds: list[float],
    ) -> list[float]:
        """The learning rates. A subclass can scale them by functions of weights and gradients."""
        return lrs

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        self._update_impl(index, weight, grad, state, multi_precision=False)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        first = weight[0] if isinstance(index, list | tuple) else weight
        self._update_impl(index, weight, grad, state, multi_precision=self._has_copy(first))


@register
class SGD(_AggregatedDescent):
    """weight -= lr * (grad + wd * weight), with optional momentum.

    With `lazy_update`, a row-sparse gradient updates only its stored rows.
    """

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum, self.lazy_update = momentum, lazy_update
        self.aggregate_num = int(os.getenv("MXNET_OPTIMIZER_AGGREGATION_SIZE", "4"))


@register
class ccSGD(SGD):
    """SGD under the name of an older implementation."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


@register
class NAG(_Descent):
    """Nesterov accelerated gradient."""

    def __init__(self, momentum: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lazy_update = False

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index, weight, grad)
        momentum, copy = state if isinstance(state, list | tuple) else (state, None)
        if momentum is None:
            self._descend(weight, grad, state, {"lr": lr, "wd": wd})
            return
        options = {**self._options(), "lr": lr, "wd": wd, "out": weight}
        if copy is None:
            nd.nag_mom_update(weight, grad, momentum, **options)
        else:
            nd.mp_nag_mom_update(weight, grad, momentum, copy, **options)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        self.update(index, weight, grad, state)


@register
class Signum(_Descent):
    """Steps in the direction of the sign of the gradient, or of its momentum. `wd_lh` is the decoupled weight decay of
    Loshchilov and Hutter."""

    def __init__(self, learning_rate: float = 0.01, momentum: float = 0.9, wd_lh: float = 0.0, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum, self.wd_lh = momentum, wd_lh

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        return Optimizer.create_state_multi_precision(self, index, weight)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index, weight, grad)
        options = {**self._options(), "lr": lr, "wd": wd, "out": weight}
        if state is None:
            nd.signsgd_update(weight, grad, **_without_momentum(options))
            return
        if self.wd_lh:
            options["wd_lh"] = self.wd_lh
        nd.signum_update(weight, grad, state, **options)


@register
class SGLD(Optimizer):
    """Stochastic gradient Langevin dynamics: half a step of SGD plus normal noise of variance lr."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index, weight, grad)
        grad = self._clipped(grad * self.rescale_grad)
        noise = nd.random.normal(0, math.sqrt(lr), shape=weight.shape, dtype=weight.dtype, ctx=weight.context)
        weight[:] += -lr / 2 * (grad + wd * weight) + noise


@register
class DCASGD(Optimizer):
    """Delay-compensated asynchronous SGD. The state is (momentum or None, previous weight)."""

    def __init__(self, momentum: float = 0.0, lamda: float = 0.04, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum, self.lamda = momentum, lamda
        self.weight_previous: dict[Any, NDArray] = {}

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return None if self.momentum == 0.0 else zeros_like(weight), weight.copy()

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        lr, wd = self._begin(index, weight, grad)
        grad = self._clipped(grad * self.rescale_grad)
        momentum, before = state
        step = -lr * (grad + wd * weight + self.lamda * grad * grad * (weight - before))
        if momentum is not None:
            momentum[:] = momentum * self.momentum + step
            step = momentum
        before[:] = weight
        weight[:] += step


@register
class LBSGD(_Descent):
    """SGD for large batches: gradients of `batch_scale` batches are averaged, and the learning rate warms up.

    `warmup_strategy` is 'linear', 'power2', 'sqrt', or 'lars', which scales the rate by the norms of weight and
    gradient.
    """

    def __init__(
        self,
        momentum: float = 0.0,
        multi_precision: bool = False,
        warmup_strategy: str = "linear",
        warmup_epochs: int = 5,
        batch_scale: int = 1,
        updates_per_epoch: int = 32,
        begin_epoch: int = 0,
        num_epochs: int = 60,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        logging.info("Running Large-Batch SGD Algorithm")
        logging.info(
            "(Batch_scale=%f, warmup_epochs=%d, warmup_strategy=%s, updates_per_epoch=%d)",
            batch_scale,
            warmup_epochs,
            warmup_strategy,
            updates_per_epoch,
        )
        self.momentum, self.multi_precision = momentum, multi_precision
        self.warmup_strategy, self.warmup_epochs = warmup_strategy, warmup_epochs
        self.batch_scale, self.updates_per_epoch = batch_scale, updates_per_epoch
        self.init_updates = begin_epoch * updates_per_epoch
        self.num_epochs = num_epochs
        self.lbmult = 1
        self.cumgrads: dict[Any, dict[str, Any]] = {}
        self.adaptive = False
        self.admult = 1

    def create_state(self, index: Any, weight: NDArray) -> Any:
        if self._has_copy(weight):
            copy = weight.astype(np.float32)
            return super().create_state(index, copy), copy
        self._warn_of_float16(weight)
        return super().create_state(index, weight)

    def create_state_multi_precision(self, index: Any, weight: NDArray) -> Any:
        return self.create_state(index, weight)

    def _get_lbmult(self, nup: int) -> float:
        """The factor of the learning rate after `nup` batches."""
        warmup = self.warmup_epochs * self.updates_per_epoch
        maximum = float(self.batch_scale)
        if nup >= warmup:
            return maximum
        exponents = {"linear": 1.0, "power2": 2.0, "sqrt": 0.5}
        if warmup <= 1 or self.warmup_strategy not in exponents:
            return 1.0
        return 1.0 + (maximum - 1) * (nup / warmup) ** exponents[self.warmup_strategy]

    def _get_lars(self, weight: NDArray, g: NDArray, wd: float) -> float:
        """The ratio of the norms of weight and gradient, clipped to [0.01, 100]."""
        weight2, grad2 = self._l2norm(weight), self._l2norm(g)
        return min(max(math.sqrt(weight2 / (grad2 + wd * weight2 + 1e-18)), 0.01), 100)

    def _l2norm(self, v: NDArray) -> float:
        return float(nd.multiply(v, v).asnumpy().sum())

    def _cumulate_gradient(self, grad: NDArray, index: Any) -> dict[str, Any]:
        """Add a gradient to the sum since the last update. Returns the sum and the number of batches so far."""
        before = self.cumgrads.get(index)
        if before and before["num_cums"] > 0:
            total = {"cum_grad": before["cum_grad"] + grad, "num_cums": before["num_cums"] + 1}
        else:
            total = {"cum_grad": grad, "num_cums": self.init_updates + 1}
        self.cumgrads[index] = total
        return total

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        check_arrays(weight, grad)
        lr, wd = self._get_lr(index), self._get_wd(index)
        self._update_count(index)
        total = self._cumulate_gradient(grad, index)
        if total["num_cums"] % self.batch_scale:
            return
        grad = total["cum_grad"] / self.batch_scale
        lars = self.warmup_strategy == "lars"
        factor = self._get_lars(weight, grad, wd) if lars else self._get_lbmult(total["num_cums"])
        self._descend(weight, grad, state, {"lr": lr * factor, "wd": wd})
        total["cum_grad"] = 0

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        self.update(index, weight, grad, state)


@register
class LARS(_AggregatedDescent):
    """Layer-wise adaptive rates (You et al. 2017).

    The rate of a weight is multiplied by eta * |weight| / (|grad| + wd * |weight| + eps). The rates of biases, betas
    and gammas are not scaled.
    """

    _decaying = ("_weight",)

    def __init__(
        self,
        momentum: float = 0.0,
        lazy_update: bool = True,
        eta: float = 0.001,
        eps: float = 0,
        momentum_correction: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.momentum, self.lazy_update = momentum, lazy_update
        self.momentum_correction = momentum_correction
        self.aggregate_num = int(os.getenv("MXNET_OPTIMIZER_AGGREGATION_SIZE", "4"))
        self.eta, self.eps = eta, eps
        self.skip = 0
        self.last_lr: float | None = None
        self.cur_lr: float | None = None

    def _get_lrs(self, indices: Sequence[Any]) -> list[float]:
        rate = self.learning_rate
        self.last_lr = rate if self.cur_lr is None else self.cur_lr
        self.cur_lr = rate
        return super()._get_lrs(indices)

    def _options(self) -> dict[str, float]:
        options = super()._options()
        if self.momentum > 0 and self.momentum_correction and self.last_lr and self.cur_lr is not None:
            options["momentum"] = self.momentum * (self.cur_lr / self.last_lr)
        return options

    def _l2norm(self, v: NDArray, rescale: bool = False) -> float:
        v = v.astype("float32")
        return float(nd.norm(v * self.rescale_grad if rescale else v).asscalar())

    def _get_lars(self, i: Any, weight: NDArray, g: NDArray, lr: float, wd: float) -> float:
        """The scaled learning rate of one weight."""
        if str(self.idx2name.get(i, i)).endswith(_UNSCALED):
            return lr
        w_norm, g_norm = self._l2norm(weight), self._l2norm(g, rescale=True)
        if w_norm > 0.0 and g_norm > 0.0:
            return lr * (self.eta * w_norm / (g_norm + wd * w_norm + self.eps))
        return lr

    def _scaled_rates(
        self,
        indices: Sequence[Any],
        weights: Sequence[Any],
        grads: Sequence[Any],
        lrs: list[float],
        wds: list[float],
    ) -> list[float]:
        return [self._get_lars(*each) for each in zip(indices, weights, grads, lrs, wds, strict=True)]
