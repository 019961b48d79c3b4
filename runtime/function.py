"""Functions: computations that are compiled once for each signature of their operands.

    Function         a computation; finds or compiles the specialization for operands
    Specialization   the function compiled for operands of certain types, and how one call of it runs
    Executable       the program of a specialization in memory (`runtime/host/executable.py`)

Eager operators, hybridized blocks, executors and compiled folders are adapters of these classes, which handle random
keys, state, versions of parameters and observers of calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from ..ir.caches import Cache
from ..ir.types import TensorType
from .device import Device, Runnable
from .devices import HOST
from .modes import hooks, modes
from .random_keys import key_in_memory
from .shared_state import copy_shared_state, write_back
from .tensor import Tensor
from .writes import written

SIGNATURES = 64
"""The number of specializations in a function's cache."""


class Specialization:
    """A function compiled for operands of certain types.

    Operands and results are in the memory of `device`. `types` are the types of the results; `state` lists the operands
    that a run replaces; `random` describes the random key of a run, or is None. `name` and `layers` are the names in
    profiles: they are stored here because equal graphs with different names share an executable.
    """

    def __init__(
        self, executable: Runnable, name: str = "", layers: tuple[str, ...] = (), device: Device = HOST
    ) -> None:
        self.device = device
        self.name, self.layers = name, layers
        self.types: tuple[TensorType, ...] = executable.outputs
        self._use(executable)

    def _use(self, executable: Runnable) -> None:
        self.executable = executable
        self.state = executable.state
        self.random = executable.random

    def run(
        self,
        operands: Sequence[Tensor],
        results: Sequence[int],
        context: Hashable,
        version: Hashable = 0,
        scalars: Sequence[int] = (),
    ) -> None:
        """Compute the results at these addresses; `scalars` are the addresses of numbers that follow the operands."""
        self.run_at([*[a._address for a in operands], *scalars], results, context, version)
        for i in self.state:
            written(operands[i]._storage)

    def run_at(self, addresses: list[int], results: Sequence[int], context: Hashable, version: Hashable = 0) -> None:
        """`run` on operands at `addresses`, a list that it can change."""
        if self.random is not None:
            key = key_in_memory(context, self.random.draws, self.device)
            addresses.insert(self.random.input, key.address)
        self.run_with_key(addresses, results, version)

    def run_with_key(self, addresses: list[int], results: Sequence[int], version: Hashable = 0) -> None:
        """As `run_at`, with the random key, if the program takes one, among the operands."""
        types = self.executable.inputs
        copies = copy_shared_state(addresses, types, self.state, self.device) if self.state else ()
        self.executable.run(addresses, results, version)
        write_back(copies)


class LazySpecialization(Specialization):
    """A specialization whose program is compiled when it is first needed: a recorded call runs the programs of the
    derivative instead.
    """

    def __init__(
        self,
        make: Callable[[], Runnable],
        types: tuple[TensorType, ...] | None,
        name: str,
        layers: tuple[str, ...],
        device: Device,
    ) -> None:
        """`types` is None if only the program knows the types of the results."""
        self._make = make
        self.device, self.name, self.layers = device, name, layers
        if types is not None:
            self.types = types

    def __getattr__(self, name: str) -> Any:
        """What only the program knows; Python calls this until the program is there."""
        if name not in ("executable", "state", "random", "types"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        executable = self._make()
        self.types = executable.outputs
        self._use(executable)
        return getattr(self, name)


S = TypeVar("S", bound=Specialization)


class Function(ABC, Generic[S]):
    """A computation on tensors. Subclasses compile it for operands of certain types.

    The device of the operands and the mode of the thread (training or not) are part of the signature.
    """

    def __init__(self, title: str, signatures: int = SIGNATURES, *, ages: bool = False) -> None:
        """With `ages`, specializations that were not used lately are dropped if there is much memory in programs; see
        `program_bytes.py`."""
        self.known: Cache[Hashable, S] = Cache(title, signatures, ages=ages)

    @abstractmethod
    def specialise(self, types: tuple[TensorType, ...], training: bool, device: Device = HOST) -> S:
        """Compile for operands of these types on a device."""

    def specialization(
        self, operands: Sequence[Tensor], training: bool | None = None, device: Device | None = None
    ) -> S:
        """The specialization for operands of the types of these, in the thread's mode if `training` is None. `device`
        is the device of a call without operands; None means the host.
        """
        if training is None:
            training = modes.training
        types = [(a._dtype, a._shape) for a in operands]
        device = operands[0]._storage.device if operands else device or HOST
        key = (training, device, *types)
        known = self.known.recent.get(key)
        if known is not None:
            return known
        return self.known.get(key, lambda: self.specialise(tuple([a._type() for a in operands]), training, device))


class Call(NamedTuple):
    """One call of a function, as observers see it."""

    function: Function[Any]
    specialization: Specialization
    operands: Sequence[Tensor]
    scalars: Sequence[float] = ()


def before_call(call: Call) -> None:
    """Notify observers of a call before it runs. Callers check `hooks.watched` first."""
    for observer in hooks.observers:
        observer.before_call(call)


def after_call(call: Call, results: Sequence[Tensor]) -> None:
    """Notify observers of the results of a call. Callers check `hooks.watched` first."""
    for observer in hooks.observers:
        observer.after_call(call, results)
