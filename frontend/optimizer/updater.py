"""Updater: an optimizer with the states of its weights."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

from ..base import MXNetError
from ..context import Context
from ..ndarray import NDArray
from ..tracebacks import cause_of, shorten
from .base import Optimizer
from .fused import FusedUpdate, can_fuse, fused_update
from .states import read_states, write_states

_FUSED = 8
"""The number of lists of weights for which an updater keeps a program."""


class Updater:
    """`updater(index, grad, weight)` updates one weight or a list of weights. It stores their states by index."""

    def __init__(self, optimizer: Optimizer) -> None:
        self.optimizer = optimizer
        self.states: dict[Any, Any] = {}
        self.states_synced: dict[Any, bool] = {}
        self.aggregate_updates = optimizer.aggregate_num > 0
        self._fused: list[FusedUpdate] = []

    @property
    def can_update_together(self) -> bool:
        """True if updates of several weights by one call equal updates by one call for each weight."""
        return can_fuse(self.optimizer) and self.optimizer._shares_numbers

    def __call__(self, index: Any, grad: Any, weight: Any) -> None:
        several = isinstance(index, list | tuple)
        indices, grads, weights = (index, grad, weight) if several else ([index], [grad], [weight])
        try:
            if not indices:
                return
            if isinstance(indices[0], bytes):
                indices = [i.decode() for i in indices]
            self.optimizer._set_current_context(weights[0]._context.device_id)
            if len(indices) == 1 or not self._update_together(indices, weights, grads):
                self._update_each(indices, weights, grads)
        except Exception as error:
            shorten(error)
            raise

    def _update_each(self, indices: Sequence[Any], weights: Sequence[Any], grads: Sequence[Any]) -> None:
        for i, w in zip(indices, weights, strict=True):
            self._prepare(i, w)
        if self.aggregate_updates:
            self._update_groups(indices, weights, grads)
            return
        for i, w, g in zip(indices, weights, grads, strict=True):
            self.optimizer.update_multi_precision(i, w, g, self.states[i])

    def _update_together(self, indices: Sequence[Any], weights: Sequence[Any], grads: Sequence[Any]) -> bool:
        """Update the weights in one native call; False if they must be updated one by one."""
        if not can_fuse(self.optimizer):
            return False
        states = list(map(self.states.get, indices))
        for fused in self._fused:
            if fused.serves(self.optimizer, indices, weights, grads, states):
                fused()
                return True
        for i, w in zip(indices, weights, strict=True):
            self._prepare(i, w)
        fused = fused_update(self.optimizer, indices, weights, grads, [self.states[i] for i in indices])
        if fused is None:
            return False
        self._fused = [fused, *self._fused][:_FUSED]
        fused()
        return True

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fused": []}

    def _prepare(self, index: Any, weight: NDArray) -> None:
        """Create the weight's state if it is missing, or copy a loaded state to the weight's context.

        MXNetError if the loaded state is that of another optimizer or weight. No weight is changed then.
        """
        if index not in self.states:
            self.states[index] = self.optimizer.create_state_multi_precision(index, weight)
        elif not self.states_synced[index]:
            expected = self.optimizer.create_state_multi_precision(index, weight)
            if not _fits(self.states[index], expected):
                name, optimizer_name = self.optimizer.idx2name.get(index, index), type(self.optimizer).__name__
                raise MXNetError(
                    f"the loaded state of weight {name} is {_described(self.states[index])}, {optimizer_name} needs "
                    f"{_described(expected)}: it belongs to another optimizer or another network"
                )
            self.states[index] = self.sync_state_context(self.states[index], weight.context)
        self.states_synced[index] = True

    def _update_groups(self, indices: Sequence[Any], weights: Sequence[Any], grads: Sequence[Any]) -> None:
        """Update weights of equal dtype together, in groups of at most `aggregate_num`."""
        kinds: dict[Any, list[int]] = {}
        for position, weight in enumerate(weights):
            kinds.setdefault(weight.dtype, []).append(position)
        size = self.optimizer.aggregate_num
        for positions in kinds.values():
            for start in range(0, len(positions), size):
                chosen = positions[start : start + size]
                self.optimizer.update_multi_precision(
                    tuple(indices[p] for p in chosen),
                    tuple(weights[p] for p in chosen),
                    tuple(grads[p] for p in chosen),
                    [self.states[indices[p]] for p in chosen],
                )

    def sync_state_context(self, state: Any, context: Context) -> Any:
        """Copy all arrays of a state to a context."""
        if isinstance(state, NDArray):
            return state.as_in_context(context)
        if isinstance(state, list | tuple):
            return type(state)(self.sync_state_context(part, context) for part in state)
        return state

    def set_states(self, states: bytes) -> None:
        """Load bytes of `get_states`, MXNet's or this one. Raises UnpicklingError if they contain other objects."""
        loaded = read_states(states)
        by_index, optimizer = loaded if isinstance(loaded, tuple) and len(loaded) == 2 else (loaded, self.optimizer)
        if not isinstance(by_index, dict) or not isinstance(optimizer, Optimizer):
            raise UnpicklingError("states of an optimizer must be a dictionary, or a pair of it and the optimizer")
        if not isinstance(getattr(optimizer, "aggregate_num", None), int):
            raise UnpicklingError(f"the optimizer is incomplete: {type(optimizer).__name__} has no aggregate_num")
        self.states, self.optimizer = by_index, optimizer
        self.aggregate_updates = optimizer.aggregate_num > 0
        self.states_synced = dict.fromkeys(self.states, False)

    def get_states(self, dump_optimizer: bool = False) -> bytes:
        """All states as bytes that MXNet can read, with the optimizer if `dump_optimizer`."""
        return write_states((self.states, self.optimizer) if dump_optimizer else self.states)


def _fits(state: Any, expected: Any) -> bool:
    """Whether a loaded state has the arrays of an expected one. Either may lack an array, as without momentum."""
    if isinstance(state, list | tuple) and isinstance(expected, list | tuple):
        return len(state) == len(expected) and all(map(_fits, state, expected))
    if isinstance(state, NDArray) and isinstance(expected, NDArray):
        return state.shape == expected.shape
    return not isinstance(state, list | tuple) and not isinstance(expected, list | tuple)


def _described(state: Any) -> str:
    """The shapes of a state's arrays."""
    if isinstance(state, list | tuple):
        return f"({', '.join(map(_described, state))})"
    return f"an array {state.shape}" if isinstance(state, NDArray) else str(state)


def get_updater(optimizer: Optimizer) -> Updater:
    """Create an updater for an optimizer."""
    return Updater(optimizer)


def load_states(updater: Updater, fname: str | os.PathLike[str]) -> None:
    """Load the states in a file. Raises UnpicklingError, which names the file, if it contains other objects."""
    try:
        updater.set_states(Path(fname).read_bytes())
    except UnpicklingError as error:
        raise UnpicklingError(f"{os.fspath(fname)}: {error}") from cause_of(error)
