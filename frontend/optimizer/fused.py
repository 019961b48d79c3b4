"""Updates of all weights of a device in one native call.

The programs of the weights' rules run in parallel (`ir/program_combination.py`). Weights with equal numbers (learning
rate, decay, count of updates, ...) share them: other rates are other numbers in memory, and compile nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from operator import is_
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from ...ir.caches import Cache
from ...ir.program_combination import Use, parallel
from ...ir.types import DType, TensorType
from ...runtime.compile import load_joined
from ...runtime.device import BoundCall, Device, DeviceError, number_of
from ...runtime.devices import HOST
from ...runtime.function import Call, Function, Specialization, after_call, before_call
from ...runtime.modes import hooks, modes
from ...runtime.random_keys import key_in_memory
from ...runtime.scalars import ScalarBlock
from ...runtime.storage import Storage
from ...runtime.writes import WrittenTogether
from ..ndarray import NDArray
from .base import Optimizer, state_arrays
from .functions import UpdateSpecialization, update_function
from .shared_numbers import SharedNumbers

if TYPE_CHECKING:
    from ...ir.program import Program

_HOOKS = frozenset(
    (
        *("update", "update_multi_precision", "_update_impl", "_get_lars", "_update_count"),
        *("_count_and_compute", "_numbers", "_gradient_numbers"),
        *("_get_lr", "_get_lrs", "_get_wd", "_get_wds", "_factors", "_rule_of", "_gradient", "learning_rate"),
    )
)
"""The parts of an optimizer that users override to change updates."""

_PATTERNS = 16
"""The number of cached programs for the same weights: which of them share numbers can change."""

_NUMBER = TensorType((), DType.F32)
_KEY = TensorType((4,), DType.U32)


@cache
def _is_built_in(cls: type[Optimizer]) -> bool:
    """True if an optimizer has a rule, and no class of a user replaces a part of its updates."""
    hooks = [getattr(cls, name) for name in _HOOKS if hasattr(cls, name)]
    parts = [getattr(part, "fget", part) for part in hooks]
    return bool(cls._rule) and all(part.__globals__.get("__package__") == __package__ for part in parts)


def can_fuse(optimizer: Optimizer) -> bool:
    """True if the weights of an optimizer can be updated together, in the mode of this thread."""
    own = _is_built_in(type(optimizer)) and _HOOKS.isdisjoint(optimizer.__dict__)
    return own and optimizer._updates_at_once and not modes.recording


class _Update(NamedTuple):
    """The update of one weight: its arrays in the order of the rule, and the compiled rule."""

    arrays: tuple[NDArray, ...]
    rule: UpdateSpecialization
    program: Program


def fused_update(
    optimizer: Optimizer, indices: Sequence[Any], weights: Sequence[Any], grads: Sequence[Any], states: Sequence[Any]
) -> FusedUpdate | None:
    """The update of these weights; None if all of them must be updated one by one."""
    together: list[int] = []
    updates: list[_Update] = []
    for i, one in enumerate(zip(indices, weights, grads, states, strict=True)):
        one_update = _update_of(optimizer, *one)
        if one_update is not None:
            together.append(i)
            updates.append(one_update)
    devices = {a._storage.device for update in updates for a in update.arrays}
    if len(together) < 2 or len(devices) > 1 or _overlap(updates):
        return None
    return FusedUpdate(optimizer, (tuple(indices), tuple(weights), tuple(grads), tuple(states)), together, updates)


def _update_of(optimizer: Optimizer, index: Any, weight: Any, grad: Any, state: Any) -> _Update | None:
    if not isinstance(weight, NDArray) or not isinstance(grad, NDArray):
        return None
    mixed = optimizer._has_copy(weight)
    inner, *copy = optimizer._parted(state) if mixed else (state,)
    states = state_arrays(inner)
    arrays = (weight, grad, *states, *copy)
    if not all(isinstance(a, NDArray) and not a._is_sparse for a in arrays):
        return None
    rule = update_function(optimizer._rule_of(index, states), mixed).specialization(arrays, False)
    program = rule.program
    return None if program is None else _Update(arrays, rule, program)


def _overlap(updates: Sequence[_Update]) -> bool:
    """True if an array that an update changes shares memory with any other array."""
    arrays = [(number_of(a._address), a._nbytes(), i != 1) for update in updates for i, a in enumerate(update.arrays)]
    spans = sorted((begin, begin + nbytes, changes) for begin, nbytes, changes in arrays)
    end, changed = 0, False
    for begin, last, changes in spans:
        if begin < end and (changes or changed):
            return True
        end, changed = (last, changes) if last > end else (end, changed or changes)
    return False


class _Run(NamedTuple):
    """The program of all updates for one pattern of numbers."""

    specialization: Specialization
    call: BoundCall
    block: ScalarBlock
    draws: list[int]


class FusedUpdate:
    """The update of some weights of an optimizer by some gradients. A call counts an update of each, and updates it.

    `operands` are the indices, the weights, the gradients and the states. Those at the positions `together` have the
    `updates` that run as one program. All others, such as weights with sparse gradients, are updated one by one.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        operands: tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]],
        together: Sequence[int],
        updates: Sequence[_Update],
    ) -> None:
        self.optimizer = optimizer
        self._indices, self._weights, self._grads, self._states = operands
        self._updates = updates
        self._arrays = [a for update in updates for a in update.arrays]
        self._device = self._arrays[0]._storage.device
        self._written = WrittenTogether(a._storage for u in updates for i, a in enumerate(u.arrays) if i != 1)
        indices, names = tuple(self._indices[i] for i in together), [u.rule.function.numbers for u in updates]
        self._numbers = SharedNumbers(optimizer, indices, names)
        self._runs: Cache[tuple[int, ...], _Run] = Cache("fused updates", _PATTERNS)
        self._alone = [one for i, one in enumerate(zip(*operands, strict=True)) if i not in set(together)]

    def serves(
        self,
        optimizer: Optimizer,
        indices: Sequence[Any],
        weights: Sequence[Any],
        grads: Sequence[Any],
        states: Sequence[Any],
    ) -> bool:
        """True if a call updates these weights by these gradients."""
        if self.optimizer is not optimizer or self._indices != tuple(indices):
            return False
        if self._weights is not weights and not all(map(is_, self._weights, weights)):
            return False
        return all(map(is_, self._grads, grads)) and all(map(is_, self._states, states))

    def __call__(self) -> None:
        numbers = self._numbers.next()
        pattern = self._numbers.pattern
        run = self._runs.recent.get(pattern) or self._runs.get(pattern, lambda: self._combined(pattern))
        call = Call(_FUSED, run.specialization, self._arrays, numbers) if hooks.watched else None
        if call is not None:
            before_call(call)
        block = run.block.filled(numbers)
        free, keys = block.addresses, [self._key(draws) for draws in run.draws] if run.draws else []
        if keys:
            free = [*free, *[key.address for key in keys]]
        try:
            run.call.run(*free)
        except DeviceError:  # launches are observed
            run.specialization.executable.run([*[a._address for a in self._arrays], *free], ())
        run.block.free.append(block)
        if call is not None:
            after_call(call, ())
        self._written()
        for one in self._alone:
            self.optimizer.update_multi_precision(*one)

    def _combined(self, pattern: Sequence[int]) -> _Run:
        """The program for weights that share numbers in this way. Its inputs are the arrays, the numbers by row, and
        the keys of random draws."""
        inputs = [t for u in self._updates for t in u.program.inputs[: len(u.arrays)]]
        rows: dict[int, range] = {}
        for row, update in zip(pattern, self._updates, strict=True):
            if row not in rows:
                rows[row] = range(len(inputs), len(inputs) + len(update.rule.function.numbers))
                inputs += [_NUMBER] * len(rows[row])
        count = len(inputs) - len(self._arrays)
        uses: list[Use] = []
        draws: list[int] = []
        first = 0
        for row, update in zip(pattern, self._updates, strict=True):
            positions = [*range(first, first + len(update.arrays)), *rows[row]]
            first += len(update.arrays)
            key = update.program.random
            if key is not None:
                positions.insert(key.input, len(inputs))
                inputs.append(_KEY)
                draws.append(key.draws)
            uses.append(Use(update.program, tuple(positions)))
        name = self._updates[0].rule.name
        executable = load_joined(parallel(name, inputs, uses), self._device)
        specialization = Specialization(executable, name, (), self._device)
        call = specialization.executable.bound_call({i: a._address for i, a in enumerate(self._arrays)})
        return _Run(specialization, call, ScalarBlock("f" * count, self._device), draws)

    def _key(self, draws: int) -> Storage:
        return key_in_memory(self._arrays[0]._context, draws, self._device)


class _Fused(Function[Specialization]):
    """The function that observers of fused updates see."""

    def specialise(self, types: tuple[TensorType, ...], training: bool, device: Device = HOST) -> NoReturn:
        raise NotImplementedError("fused updates are made of compiled programs")


_FUSED = _Fused("fused updates", 1)
