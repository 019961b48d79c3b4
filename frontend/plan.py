"""Runs symbols on arrays: compiles a symbol once for each signature of its inputs, and makes the outputs."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from ..ir.graph import Graph, GraphError
from ..ir.types import TensorType
from ..passes.manager import Options
from ..runtime.executable import Version
from ..runtime.idle import add_owner
from ..runtime.shared_state import copy_shared_state, write_back
from ..runtime.storage import Storage
from ..runtime.writes import Watch, clock, written
from .base import MXNetError
from .bounded import Bounded
from .context import Context
from .memory import OutOfMemory, allocate
from .random import next_key

if TYPE_CHECKING:
    from .ndarray import NDArray
    from .symbol import Symbol

PROGRAMS = 64
"""How many signatures of one symbol stay compiled; the one used longest ago gives way."""

_numbers = itertools.count(1)


class CompiledSymbol:
    """A symbol and its programs, one for each signature of inputs and for training or not.

    Inputs are arrays in the order of `names`, which is that of `list_inputs`. What depends on `parameters` alone is
    computed when they change and kept.
    """

    def __init__(self, symbol: Symbol, parameters: Iterable[str] = (), name: str = "") -> None:
        self.symbol = symbol
        self.names = symbol.list_inputs()
        self.parameters = frozenset(parameters)
        self.name = name
        self._plans: Bounded[Any, Plan] = Bounded(PROGRAMS)

    def plan(self, arrays: Sequence[NDArray], training: bool) -> Plan:
        """The program for inputs like these; with sparse ones the operators run one by one."""
        try:
            key = (training, *[(a._shape, a._dtype) for a in arrays])
        except AttributeError:  # a sparse array has no _dtype
            from .sparse_plan import SparsePlan

            return cast("Plan", SparsePlan(self.symbol, training))
        return self._plans.get(key, lambda: self._make(arrays, training))

    def _make(self, arrays: Sequence[NDArray], training: bool) -> Plan:
        from .symbol.to_graph import symbol_to_graph

        types = {n: TensorType(a._shape, a._dtype) for n, a in zip(self.names, arrays, strict=True)}
        graph = symbol_to_graph(self.symbol, types, self.parameters, self.name)
        return Plan(graph, Options(training=training))


class Plan:
    """A graph compiled for one signature. The program's inputs are the graph's, then a key if it draws random
    numbers."""

    def __init__(self, graph: Graph, options: Options) -> None:
        from ..runtime.compile import executable_for

        try:
            self.executable = executable_for(graph, options)
        except GraphError as error:
            raise MXNetError(str(error)) from error
        except OutOfMemory as error:
            raise error.of(f"{graph.name}: what it computes on the way") from error
        self.types = self.executable.outputs
        self.state = self.executable.state
        self.random = self.executable.random

    def run(self, arrays: Sequence[NDArray], version: Hashable) -> list[NDArray]:
        """Run on arrays of the plan's signature; `version` tells apart the values that parameters have had."""
        from .ndarray.ndarray import empty_array

        context = arrays[0]._context if arrays else _default_context()
        outputs = [empty_array(t.shape, t.dtype, context) for t in self.types]
        self.run_into(arrays, outputs, version, context)
        return outputs

    def run_into(
        self, arrays: Sequence[NDArray], outputs: Sequence[NDArray], version: Hashable, context: Context
    ) -> None:
        """As `run`, with the results written to arrays of the right types that overlap no input."""
        inputs = [a._address for a in arrays]
        key = key_storage(context, self.random.draws) if self.random else None
        if key is not None:
            inputs.append(key.address)
        if not self.state:
            self.executable.run(inputs, [o._address for o in outputs], version)
            return
        copies = copy_shared_state(inputs, self.executable.inputs, self.state)
        self.executable.run(inputs, [o._address for o in outputs], version)
        write_back(copies)
        for i in self.state:
            written(arrays[i]._storage)


class ParameterVersion:
    """A number that differs whenever parameters have other values or other memory than before.

    `refresh` takes the arrays as they are now; `is_current` is the cheap question whether anything may have changed
    since.
    """

    __slots__ = ("__weakref__", "_owner", "_versions", "_watch", "checked", "stamp")

    def __init__(self) -> None:
        self.checked = -1
        self._owner = next(_numbers)
        add_owner(self._owner, self)
        self.stamp = Version(self._owner, 0)
        self._watch: Watch | None = None
        self._versions: tuple[int, ...] = ()

    def is_current(self) -> bool:
        return self.checked == clock.now

    def refresh(self, arrays: Sequence[NDArray]) -> Version:
        """The version of these arrays."""
        now = clock.now  # read first: a write during the check is seen by the next one
        storages = tuple([a._storage for a in arrays if not a._is_sparse])
        watch = self._watch
        same = watch is not None and len(watch.storages) == len(storages)
        if not same or any(a is not b for a, b in zip(watch.storages, storages, strict=True)):  # type: ignore[union-attr]
            watch, self._versions = Watch(storages), ()
        versions = watch.versions()  # type: ignore[union-attr]
        if versions != self._versions or not self.stamp.number:
            self._watch, self._versions, self.stamp = watch, versions, Version(self._owner, next(_numbers))
        self.checked = now
        return self.stamp


def key_storage(context: Context, operators: int) -> Storage:
    """The key of one run of a graph in which so many operators draw random numbers, in memory."""
    storage = allocate(16)
    (ctypes.c_uint32 * 4).from_address(storage.address)[:] = next_key(context, operators)
    return storage


def _default_context() -> Context:
    from .context import current_context

    return current_context()
