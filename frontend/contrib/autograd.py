"""The older interface of `mxforge.autograd`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from .. import autograd
from ..ndarray import NDArray, zeros

__all__ = [
    "TrainingStateScope", "backward", "compute_gradient", "grad", "grad_and_loss", "mark_variables", "set_is_training",
    "test_section", "train_section",
]  # fmt: skip


def set_is_training(is_train: bool) -> bool:
    """Enable or disable training mode and recording. Returns the previous recording state."""
    autograd.set_training(is_train)
    return autograd.set_recording(is_train)


class TrainingStateScope:
    """A context manager that sets training mode and recording, and restores them at its end."""

    def __init__(self, enter_state: bool) -> None:
        self._enter_state = enter_state
        self._prev = False

    def __enter__(self) -> None:
        self._prev = set_is_training(self._enter_state)

    def __exit__(self, *error: object) -> None:
        if self._prev != self._enter_state:
            set_is_training(self._prev)


def train_section() -> TrainingStateScope:
    """A scope in training mode with recording."""
    return TrainingStateScope(True)


def test_section() -> TrainingStateScope:
    """A scope in inference mode without recording."""
    return TrainingStateScope(False)


def mark_variables(variables: Sequence[NDArray], gradients: Sequence[NDArray], grad_reqs: Any = "write") -> None:
    """As `autograd.mark_variables`."""
    autograd.mark_variables(variables, gradients, grad_reqs)  # type: ignore[arg-type]


def backward(outputs: Sequence[NDArray], out_grads: Any = None, retain_graph: bool = False) -> None:
    """As `autograd.backward`."""
    if not isinstance(outputs, list | tuple):
        raise AssertionError("outputs must be a list or tuple of NDArrays")
    autograd.backward(outputs, out_grads, retain_graph)  # type: ignore[arg-type]


def compute_gradient(outputs: Sequence[NDArray]) -> None:
    """As `backward`."""
    backward(outputs)


def grad_and_loss(func: Callable[..., Any], argnum: Any = None) -> Callable[..., tuple[list[NDArray], Any]]:
    """A function that returns the gradients of `func` and its value. `argnum` selects arguments; None selects all."""

    @wraps(func)
    def wrapped(*args: Any) -> tuple[list[NDArray], Any]:
        selected = range(len(args)) if argnum is None else argnum if isinstance(argnum, list) else [argnum]
        variables = [args[i] for i in selected]
        for x in variables:
            if not isinstance(x, NDArray):
                raise AssertionError("type of autograd input should NDArray.")
        grads = [zeros(x.shape, dtype=x.dtype, ctx=x.context) for x in variables]
        mark_variables(variables, grads)
        with train_section():
            outputs = func(*args)
        compute_gradient([outputs] if isinstance(outputs, NDArray) else outputs)
        return grads, outputs

    return wrapped


def grad(func: Callable[..., Any], argnum: Any = None) -> Callable[..., list[NDArray]]:
    """A function that returns the gradients of `func`. `argnum` selects arguments; None selects all."""
    both = grad_and_loss(func, argnum)

    @wraps(both)
    def wrapped(*args: Any) -> list[NDArray]:
        return both(*args)[0]

    return wrapped
