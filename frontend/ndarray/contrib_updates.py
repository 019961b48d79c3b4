"""Optimizer updates of `nd.contrib`. They take lists of arrays, and the scale of the gradient as a number or an
array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _internal as _operators
from .creation import full
from .ndarray import NDArray

if TYPE_CHECKING:
    from .ndarray import NDArray

_internal: Any = _operators

__all__ = [
    "adamw_update",
    "mp_adamw_update",
    "multi_adamw_update",
    "multi_lamb_update",
    "multi_mp_adamw_update",
    "multi_mp_lamb_update",
]


def _scale(rescale_grad: Any, weight: NDArray) -> NDArray:
    """The scale as an array of one element on the device of the weight."""
    if isinstance(rescale_grad, NDArray):
        return rescale_grad.as_in_context(weight.context)
    return full((1,), rescale_grad, ctx=weight.context)


def _interleaved(*lists: Sequence[NDArray]) -> list[NDArray]:
    """The arrays of the first weight, then the arrays of the second weight, ..."""
    return [array for arrays in zip(*lists, strict=True) for array in arrays]


def adamw_update(
    weight: NDArray,
    grad: NDArray,
    mean: NDArray,
    var: NDArray,
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
) -> Any:
    """One step of AdamW: w - eta * (lr * mean / (sqrt(var) + epsilon) + wd * w).

    With g = grad * rescale_grad, `mean` and `var` are first updated in place: mean = beta1 * mean + (1 - beta1) * g and
    var = beta2 * var + (1 - beta2) * g^2. Nothing changes if `rescale_grad` is 0 or not finite.

    Args:
        weight: The weight w.
        grad: Its gradient.
        mean: Moving mean of the gradient, updated in place.
        var: Moving mean of the squared gradient, updated in place.
        rescale_grad: Factor of the gradient: a number, or an array of one element.
        lr: Learning rate.
        eta: Factor of the whole step.
        beta1: Decay of `mean`.
        beta2: Decay of `var`.
        epsilon: Added to the denominator.
        wd: Weight decay.
        clip_gradient: Limit of the elements of g; no limit if negative.
        out: An array that receives the new weight.
    """
    numbers = {"lr": lr, "eta": eta, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "wd": wd}
    scale = _scale(rescale_grad, weight)
    return _internal._adamw_update(
        weight, grad, mean, var, scale, **numbers, clip_gradient=clip_gradient, out=out, name=name, **kwargs
    )


def mp_adamw_update(
    weight: NDArray,
    grad: NDArray,
    mean: NDArray,
    var: NDArray,
    weight32: NDArray,
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
) -> Any:
    """`adamw_update` of a weight with a float32 copy `weight32`, which is updated in place."""
    numbers = {"lr": lr, "eta": eta, "beta1": beta1, "beta2": beta2, "epsilon": epsilon, "wd": wd}
    scale = _scale(rescale_grad, weight)
    return _internal._mp_adamw_update(
        weight, grad, mean, var, weight32, scale, **numbers, clip_gradient=clip_gradient, out=out, name=name, **kwargs
    )


def multi_adamw_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    rescale_grad: Any,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: Any = None,
    name: str | None = None,
    size: int = 0,
    **kwargs: Any,
) -> Any:
    """`adamw_update` of several weights; `lrs`, `wds` and `etas` hold one number for each."""
    operands = [*_interleaved(weights, grads, mean, var), _scale(rescale_grad, weights[0])]
    count = size or len(weights)
    return _internal._multi_adamw_update(
        *operands, out=out, num_weights=count, lrs=lrs, wds=wds, etas=etas, name=name, **kwargs
    )


def multi_mp_adamw_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    weights32: Sequence[NDArray],
    rescale_grad: Any,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: Any = None,
    name: str | None = None,
    size: int = 0,
    **kwargs: Any,
) -> Any:
    """`mp_adamw_update` of several weights; `lrs`, `wds` and `etas` hold one number for each."""
    operands = [*_interleaved(weights, grads, mean, var, weights32), _scale(rescale_grad, weights[0])]
    count = size or len(weights)
    return _internal._multi_mp_adamw_update(
        *operands, out=out, num_weights=count, lrs=lrs, wds=wds, etas=etas, name=name, **kwargs
    )


def multi_lamb_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: Any = None,
    num_tensors: int = 0,
    **kwargs: Any,
) -> Any:
    """One step of LAMB for several weights; `step_count` holds the number of steps of each, this one included."""
    numbers = {"step_count": step_count, "learning_rates": lrs, "wds": wds, "num_tensors": num_tensors or len(weights)}
    return _internal._multi_lamb_update(*_interleaved(weights, grads, mean, var), out=out, **numbers, **kwargs)


def multi_mp_lamb_update(
    weights: Sequence[NDArray],
    grads: Sequence[NDArray],
    mean: Sequence[NDArray],
    var: Sequence[NDArray],
    weights32: Sequence[NDArray],
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: Any = None,
    num_tensors: int = 0,
    **kwargs: Any,
) -> Any:
    """`multi_lamb_update` of weights with float32 copies `weights32`, which are updated in place."""
    numbers = {"step_count": step_count, "learning_rates": lrs, "wds": wds, "num_tensors": num_tensors or len(weights)}
    operands = _interleaved(weights, grads, mean, var, weights32)
    return _internal._multi_mp_lamb_update(*operands, out=out, **numbers, **kwargs)
