"""Stochastic gradient descent and its variants: SGD, NAG, Signum, SGLD, DCASGD, LBSGD, LARS."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Sequence
from typing import Any

from ..ndarray import NDArray
from .base import Optimizer, nd, register, zeros_like
from .one_update import AggregatedUpdate, OneUpdate

_UNSCALED = ("gamma", "beta", "bias")


class _Descent(Optimizer):
    """Descent with momentum. The state is the momentum; None without momentum."""

    _rule = "sgd"
    _momentum_rule = "sgd_mom"
    _copy_is_last = True
    momentum: float
    lazy_update = True

    def create_state(self, index: Any, weight: NDArray) -> Any:
        if self.momentum == 0.0:
            return None
        return zeros_like(weight, weight.stype if self.lazy_update else "default")

    def _rule_of(self, index: Any, states: Sequence[NDArray]) -> str:
        return self._momentum_rule if states else self._rule

    def _numbers(self, lr: float, wd: float, t: int) -> dict[str, float]:
        return {**self._gradient_numbers(lr, wd), "momentum": max(self.momentum, 0.0)}

    def _in_float32(self, weight: Any, grad: Any, state: Any) -> tuple[Any, Any, Any]:
        if self._has_copy(weight):
            grad = grad.tostype("default")  # as in MXNet, a weight with a float32 copy is not updated by rows
        return super()._in_float32(weight, grad, state)


@register
class SGD(AggregatedUpdate, _Descent):
    """weight -= lr * (grad + wd * weight), with optional momentum.

    With `lazy_update`, a row-sparse gradient updates only its stored rows.

    Example:
        >>> sgd = mx.optimizer.SGD(learning_rate=0.5, momentum=0.9)
        >>> weight, grad = mx.nd.array([1]), mx.nd.array([1])
        >>> sgd.update(0, weight, grad, sgd.create_state(0, weight))
        >>> weight.asnumpy()
        array([0.5], dtype=float32)
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
class NAG(OneUpdate, _Descent):
    """Nesterov accelerated gradient."""

    _momentum_rule = "nag_mom"

    def __init__(self, momentum: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return None if self.momentum == 0.0 else zeros_like(weight)


@register
class Signum(_Descent):
    """Steps in the direction of the sign of the gradient, or of its momentum. `wd_lh` is the decoupled weight decay of
    Loshchilov and Hutter."""

    _rule, _momentum_rule = "signsgd", "signum"
    _copy_is_last = False

    def __init__(self, learning_rate: float = 0.01, momentum: float = 0.9, wd_lh: float = 0.0, **kwargs: Any) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum, self.wd_lh = momentum, wd_lh

    def _numbers(self, lr: float, wd: float, t: int) -> dict[str, float]:
        return {**super()._numbers(lr, wd, t), "wd_lh": self.wd_lh}

    def _update_impl(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        self._apply(index, weight, grad, state)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        self._update_impl(index, weight, grad, state)


@register
class SGLD(Optimizer):
    """Stochastic gradient Langevin dynamics: half a step of SGD plus normal noise of variance lr."""

    _rule = "sgld"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    def _numbers(self, lr: float, wd: float, t: int) -> dict[str, float]:
        return {**self._gradient_numbers(lr, wd), "noise": math.sqrt(lr)}


@register
class DCASGD(Optimizer):
    """Delay-compensated asynchronous SGD. The state is (momentum or None, previous weight)."""

    _rule = "dcasgd"

    def __init__(self, momentum: float = 0.0, lamda: float = 0.04, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.momentum, self.lamda = momentum, lamda
        self.weight_previous: dict[Any, NDArray] = {}

    def create_state(self, index: Any, weight: NDArray) -> Any:
        return None if self.momentum == 0.0 else zeros_like(weight), weight.copy()

    def _rule_of(self, index: Any, states: Sequence[NDArray]) -> str:
        return "dcasgd_mom" if len(states) > 1 else self._rule

    def _numbers(self, lr: float, wd: float, t: int) -> dict[str, float]:
        return {**self._gradient_numbers(lr, wd), "momentum": self.momentum, "lamda": self.lamda}


@register
class LBSGD(_Descent):
    """SGD for large batches: gradients of `batch_scale` batches are averaged, and the learning rate warms up.

    `warmup_strategy` is 'linear', 'power2', 'sqrt', or 'lars', which scales the rate by the norms of weight and
    gradient.
    """

    _shares_numbers = False
    _copy_is_last = False

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
        logging.getLogger().info("Running Large-Batch SGD Algorithm")
        logging.getLogger().info(
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

    def _rule_of(self, index: Any, states: Sequence[NDArray]) -> str:
        rule = super()._rule_of(index, states)
        return rule.replace("sgd", "lbsgd") if self.warmup_strategy == "lars" else rule

    def _count_and_compute(self, index: Any) -> dict[str, float]:
        lr, wd = self._get_lr(index), self._get_wd(index)
        self._update_count(index)
        if self._updates_at_once:
            self._cumulate_gradient(0, index)
        factor = 1.0 if self.warmup_strategy == "lars" else self._get_lbmult(self.cumgrads[index]["num_cums"])
        return self._numbers(lr * factor, wd, self._index_update_count[index])

    @property
    def _updates_at_once(self) -> bool:
        return self.batch_scale == 1

    def _get_lars(self, weight: NDArray, g: NDArray, wd: float) -> float:
        """The factor of the rate of a weight with the strategy 'lars'."""
        weight2, grad2 = self._l2norm(weight), self._l2norm(g)
        return min(max(math.sqrt(weight2 / (grad2 + wd * weight2 + 1e-18)), 0.01), 100)

    def _l2norm(self, v: NDArray) -> float:
        """The sum of squares."""
        return nd.multiply(v, v).asnumpy().sum()

    def _adapted(
        self, index: Any, weight: Any, grad: Any, states: Sequence[NDArray], numbers: dict[str, float]
    ) -> tuple[str, dict[str, float]]:
        if self.warmup_strategy == "lars":
            numbers = {**numbers, "lr": numbers["lr"] * self._get_lars(weight, grad, numbers["wd"])}
        return super()._rule_of(index, states), numbers

    def _reset_cum_gradient(self, index: Any) -> None:
        """Begin a new sum of the gradients of a weight."""
        self.cumgrads[index]["cum_grad"] = 0

    def _get_cum_gradient(self, index: Any) -> dict[str, Any]:
        """The sum of the gradients of a weight since its last update, and the number of batches, or {}."""
        return self.cumgrads.get(index, {})

    def _put_cum_gradient(self, index: Any, cgrad: dict[str, Any]) -> None:
        """Set what `_get_cum_gradient` returns."""
        self.cumgrads[index] = cgrad

    def _cumulate_gradient(self, grad: Any, index: Any) -> dict[str, Any]:
        """Count a batch. Returns the sum of the gradients since the last update, and the number of batches."""
        total = self._get_cum_gradient(index)
        if not total or total["num_cums"] <= 0:
            total = {"cum_grad": grad, "num_cums": self.init_updates + 1}
        else:
            total = {"cum_grad": total["cum_grad"] + grad, "num_cums": total["num_cums"] + 1}
        self._put_cum_gradient(index, total)
        return total

    def _gradient(self, index: Any, grad: NDArray) -> NDArray | None:
        """The mean gradient of the last `batch_scale` batches; None if there are fewer."""
        if self._updates_at_once:
            return grad
        total = self._cumulate_gradient(grad, index)
        if total["num_cums"] % self.batch_scale:
            return None
        mean = total["cum_grad"] / self.batch_scale
        self._reset_cum_gradient(index)
        return mean


@register
class LARS(AggregatedUpdate, _Descent):
    """Layer-wise adaptive rates (You et al. 2017).

    The rate of a weight is multiplied by eta * |weight| / (|grad| + wd * |weight| + eps). The rates of biases, betas
    and gammas are not scaled. As in MXNet, a change of the rate corrects the momentum of the first `aggregate_num`
    weights alone.
    """

    _rule, _momentum_rule = "lars", "lars_mom"
    _shares_numbers = False
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

    def _get_lars(self, i: Any, weight: NDArray, g: NDArray, lr: float, wd: float) -> float:
        """The rate of a weight: `lr`, scaled unless the name is that of a bias, beta or gamma."""
        if not self._is_scaled(i):
            return lr
        w_norm, g_norm = self._l2norm(weight), self._l2norm(g, rescale=True)
        if w_norm > 0.0 and g_norm > 0.0:
            return self.eta * w_norm / (g_norm + wd * w_norm + self.eps) * lr
        return lr

    def _l2norm(self, v: NDArray, rescale: bool = False) -> float:
        v = v.astype("float32")
        return nd.norm(v * self.rescale_grad if rescale else v).asnumpy()[0]

    def _is_scaled(self, index: Any) -> bool:
        return not str(self.idx2name.get(index, index)).endswith(_UNSCALED)

    def _rule_of(self, index: Any, states: Sequence[NDArray]) -> str:
        rule = super()._rule_of(index, states)
        return rule if self._is_scaled(index) else rule.replace("lars", "sgd")

    def _adapted(
        self, index: Any, weight: Any, grad: Any, states: Sequence[NDArray], numbers: dict[str, float]
    ) -> tuple[str, dict[str, float]]:
        """As in MXNet, `_get_lars` is called for sparse arrays. The rule scales the rates of dense ones."""
        rule = self._rule_of(index, states)
        if not (weight._is_sparse or grad._is_sparse):
            return rule, numbers
        lr = self._get_lars(index, weight, grad, numbers["lr"], numbers["wd"])
        return rule.replace("lars", "sgd"), {**numbers, "lr": lr}

    def _numbers(self, lr: float, wd: float, t: int) -> dict[str, float]:
        numbers = {**super()._numbers(lr, wd, t), "eta": self.eta, "eps": self.eps}
        if self.momentum_correction and self.last_lr and self.cur_lr is not None:
            numbers["momentum"] *= self.cur_lr / self.last_lr
        return numbers
