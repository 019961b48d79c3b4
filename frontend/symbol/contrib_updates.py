"""The optimizer updates of `sym.contrib`."""

from __future__ import annotations

from typing import Any

from .creation import full
from .operators import internal
from .symbol import Symbol


def adamw_update(
    weight: Symbol,
    grad: Symbol,
    mean: Symbol,
    var: Symbol,
    rescale_grad: Any,
    lr: float,
    eta: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    wd: float = 0,
    clip_gradient: float = -1,
    out: Any = None,
    name: str | None = None,
    **kwargs: Any,
) -> Symbol:
    """One step of AdamW: w - eta * (lr * mean / (sqrt(var) + epsilon) + wd * w), with a symbol or number
    `rescale_grad`; see `nd.contrib.adamw_update`."""
    numbers = {"lr": lr, "eta": eta, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "wd": wd}
    operands = (weight, grad, mean, var, _scale(rescale_grad))
    return internal("_adamw_update", *operands, **numbers, clip_gradient=clip_gradient, out=out, name=name, **kwargs)


def mp_adamw_update(
    weight: Symbol,
    grad: Symbol,
    mean: Symbol,
    var: Symbol,
    weight32: Symbol,
    rescale_grad: Any,
    lr: float,
    eta: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    wd: float = 0,
    clip_gradient: float = -1,
    out: Any = None,
    name: str | None = None,
    **kwargs: Any,
) -> Symbol:
    """`adamw_update` of a weight with a float32 copy `weight32`."""
    numbers = {"lr": lr, "eta": eta, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "wd": wd}
    operands = (weight, grad, mean, var, weight32, _scale(rescale_grad))
    return internal("_mp_adamw_update", *operands, **numbers, clip_gradient=clip_gradient, out=out, name=name, **kwargs)


def _scale(rescale_grad: Any) -> Symbol:
    return rescale_grad if isinstance(rescale_grad, Symbol) else full((1,), rescale_grad)
