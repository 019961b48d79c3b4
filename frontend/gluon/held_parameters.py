"""The parameters of a trainer as one update reads them."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from .. import optimizer as opt
from ..ndarray.gradients import attachments
from .parameter import Parameter

is_fresh = attrgetter("fresh")
"""True for a variable whose gradient was computed since the last update."""


class HeldParameters:
    """The numbers of the parameters with gradients, and their arrays on each context, which stay the same while
    `attachments.count` does. RuntimeError for a parameter that is not initialized."""

    def __init__(self, params: list[Parameter], contexts: int) -> None:
        self.attachments, self.params = attachments.count, params
        chosen = [(i, param) for i, param in enumerate(params) if param._grad_req != "null"]
        self.numbers = tuple(i for i, _ in chosen)
        every = [param._check_and_get(param._data, list) for _, param in chosen]
        self.arrays = [HeldArrays([data[k] for data in every]) for k in range(contexts)]


class HeldArrays:
    """Arrays of parameters on one context, and the variables of the tape that receive their gradients."""

    def __init__(self, arrays: list[Any]) -> None:
        self.arrays = tuple(arrays)
        self.variables = tuple(array._entry.node for array in arrays)
        self.grads: tuple[Any, ...] = ()

    def update(self, updater: opt.Updater, numbers: tuple[int, ...]) -> None:
        """Update the arrays whose gradients are fresh."""
        fresh = list(map(is_fresh, self.variables))
        for variable in self.variables:
            variable.fresh = False
        grads = self.grads = self.grads or tuple(variable.array for variable in self.variables)
        if all(fresh):
            updater(numbers, grads, self.arrays)
        elif any(fresh):
            updater(
                *([one for one, chosen in zip(x, fresh, strict=True) if chosen] for x in (numbers, grads, self.arrays))
            )


def require_fresh(params: list[Parameter]) -> None:
    """UserWarning for a parameter that no backward pass reached since the last update."""
    for param in params:
        for array in param._check_and_get(param._data, list) if param.grad_req != "null" else ():
            if not array._fresh_grad:
                raise UserWarning(
                    f"Gradient of Parameter `{param.name}` on context {array.context} has not been updated by backward "
                    "since last `step`. This could mean a bug in your model that made it only use a subset of the "
                    "Parameters (Blocks) for this iteration. If you are intentionally only using a subset, call step "
                    "with ignore_stale_grad=True to suppress this warning and skip updating of Parameters with stale "
                    "gradient"
                )
