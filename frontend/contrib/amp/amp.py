"""Automatic mixed precision: operators compute in 16-bit floats where that is accurate enough, others in float32.

After `init`, calls of operators cast their operands. Parameters stay in float32. Losses are scaled, so that small
gradients do not vanish in float16.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ....runtime.modes import hooks
from ... import optimizer as opt
from ...dtypes import bfloat16  # noqa: F401
from ...ndarray import NDArray
from ...symbol import Symbol
from ...symbol import ops as symbol_ops
from .calls import CallCasts, cast_array
from .convert import convert_bucketing_module, convert_hybrid_block, convert_model, convert_symbol  # noqa: F401
from .loss_scaler import LossScaler
from .rules import Conditions, Defaults, Rules, require_known, target_of

__all__ = [
    "convert_hybrid_block",
    "convert_model",
    "convert_symbol",
    "init",
    "init_trainer",
    "list_conditional_fp32_ops",
    "list_fp32_ops",
    "list_loss_output_functions",
    "list_lp16_fp32_ops",
    "list_lp16_ops",
    "list_lp16_use_fp32_params",
    "list_widest_type_cast",
    "scale_loss",
    "unscale",
]

_amp_initialized = False
"""True if `init` was called. Other packages read it."""
_amp_loss_scale_initialized = False
"""True if a trainer uses `_loss_scaler`; further trainers have their own."""
_loss_scaler: LossScaler | None = None
"""The scaler of the first trainer and of output operators such as SoftmaxOutput."""


def init(
    target_dtype: Any = "float16",
    target_precision_ops: list[str] | None = None,
    conditional_fp32_ops: Conditions | None = None,
    fp32_ops: list[str] | None = None,
) -> None:
    """Cast the operands of operators from now on, in all threads. Call it before networks are made.

    A second call has no effect. The lists replace `list_lp16_ops`, `list_conditional_fp32_ops` and `list_fp32_ops`.

    Args:
        target_dtype: "float16" or "bfloat16".
        target_precision_ops: Operators to compute in the target dtype.
        conditional_fp32_ops: Operators to compute in float32 if a parameter has one of the values: (operator,
            parameter, values).
        fp32_ops: Operators to compute in float32.
    """
    if _amp_initialized:
        return
    target = target_of(target_dtype, "AMP currently supports only float16 or bfloat16 as a target_dtype")
    conditions = None if conditional_fp32_ops is None else list(conditional_fp32_ops)
    require_known([*(target_precision_ops or ()), *(fp32_ops or ()), *(c[0] for c in conditions or ())])
    logging.getLogger().info("Using AMP")
    scaler = LossScaler()
    _switch(CallCasts(Rules(target, target_precision_ops, fp32_ops, conditions), scaler), scaler)


def _switch(casts: CallCasts | None, scaler: LossScaler | None) -> None:
    """Cast the operands of calls by `casts`; None to cast nothing."""
    global _amp_initialized, _amp_loss_scale_initialized, _loss_scaler
    hooks.convert_operands(casts and casts.arrays)
    symbol_ops.convert_calls(casts and casts.symbols)
    _amp_initialized, _amp_loss_scale_initialized, _loss_scaler = casts is not None, False, scaler


def init_trainer(optimizer_or_trainer: Any) -> None:
    """Scale the losses of a Trainer; see `scale_loss`. Its steps are skipped if a gradient is infinite or NaN."""
    global _amp_loss_scale_initialized  # noqa: PLW0603 (MXNet's name)
    assert _amp_initialized, "AMP not initialized, did you forget to call amp.init()?"
    trainer = _trainer(optimizer_or_trainer)
    scaler = LossScaler() if _amp_loss_scale_initialized else _loss_scaler
    _amp_loss_scale_initialized = True
    trainer._amp_loss_scaler = scaler
    trainer._amp_original_scale = trainer._scale


@contextmanager
def scale_loss(loss: Any, optimizer_or_trainer: Any) -> Iterator[Any]:
    """The scaled loss, or list of losses, on which to call `backward`. The trainer's step divides by the scale."""
    scaler = getattr(optimizer_or_trainer, "_amp_loss_scaler", None)
    assert scaler is not None, "Loss scaler is not initialized, did you forget to call amp.init_trainer()?"
    optimizer_or_trainer._scale = optimizer_or_trainer._amp_original_scale / scaler.loss_scale
    if isinstance(loss, list | tuple):
        yield [one * scaler.loss_scale for one in loss]
    else:
        yield scaler.loss_scale * loss


def unscale(optimizer_or_trainer: Any) -> None:
    """Divide the gradients of a Trainer by the scale, before they are clipped. Its next step does not."""
    trainer = _trainer(optimizer_or_trainer)
    for param in trainer._params:
        for grad in param._grad or ():
            grad[:] *= trainer._scale
    trainer._scale = 1.0


def _trainer(trainer: Any) -> Any:
    """TypeError unless `trainer` is a Trainer."""
    from ...gluon.trainer import Trainer

    if isinstance(trainer, Trainer):
        return trainer
    if isinstance(trainer, opt.Optimizer):
        raise TypeError("AMP is currently only compatible with Gluon Trainer")
    raise TypeError(f"optimizer_or_trainer should be a Gluon Trainer or an optimizer, instead is {type(trainer)}")


def _cast_symbol_NDArray(s: Any, dtype: Any) -> Any:
    """A symbol or an array of floats, cast; other values unchanged."""
    if isinstance(s, Symbol):
        from ...symbol import op

        return op.amp_cast(s, dtype=dtype)
    return cast_array(s, np.dtype(dtype).name) if isinstance(s, NDArray) else s


def _defaults(target_dtype: Any) -> Defaults:
    return Defaults(target_of(target_dtype, "not supported type"))


def list_lp16_ops(target_dtype: Any) -> list[str]:
    """The operators that compute in the target dtype."""
    return _defaults(target_dtype).low


def list_fp32_ops(target_dtype: Any) -> list[str]:
    """The operators that compute in float32."""
    return _defaults(target_dtype).full


def list_lp16_fp32_ops(target_dtype: Any) -> list[str]:
    """The operators that compute in the dtype of their inputs."""
    return _defaults(target_dtype).own


def list_conditional_fp32_ops(target_dtype: Any) -> list[tuple[str, str, list[str]]]:
    """The operators that compute in float32 if a parameter has one of the values: (operator, parameter, values)."""
    return _defaults(target_dtype).conditional


def list_widest_type_cast(target_dtype: Any) -> list[str]:
    """The operators that compute in the widest dtype of their inputs."""
    return _defaults(target_dtype).widest


def list_loss_output_functions(target_dtype: Any) -> list[str]:
    """The output operators whose own gradients are multiplied by the loss scale."""
    return _defaults(target_dtype).losses


def list_lp16_use_fp32_params(target_dtype: Any) -> dict[str, list[str]] | None:
    """By operator, a text for each input: not empty for inputs that stay in float32. None for float16."""
    return _defaults(target_dtype).full_inputs
