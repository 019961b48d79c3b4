"""CachedOp: a hybridized block's graph bound to its parameters, with a short way for calls that were made before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.storage import allocate
from .. import autograd
from ..ndarray import NDArray
from ..plan import CompiledSymbol, ParameterVersion, Plan

if TYPE_CHECKING:
    from ..context import Context
    from ..symbol import Symbol
    from .parameter import Parameter

_is_training = autograd.is_training


class CachedOp:
    """Runs the graph of a block.

    `slots` says for each input of the symbol whether it is data, and which: a position among the data, or a parameter.
    """

    def __init__(
        self,
        symbol: Symbol,
        slots: Sequence[tuple[bool, Any]],
        flags: Sequence[tuple[str, Any]] = (),
        name: str = "",
    ) -> None:
        names = symbol.list_inputs()
        self.slots = tuple(slots)
        self.flags = dict(flags)
        self.compiled = CompiledSymbol(symbol, [n for n, (data, _) in zip(names, slots, strict=True) if not data], name)
        self._places: dict[Any, _Placed] = {}  # by context
        self._ready: dict[Any, Callable[[NDArray], NDArray]] = {}

    def __call__(self, data: Sequence[NDArray]) -> list[NDArray]:
        """The outputs for these data, in the order of the symbol's."""
        training = _is_training()
        placed = self._placed(data[0]._context)
        arrays = placed.arrays(data)
        plan = self.compiled.plan(arrays, training)
        if len(data) == 1 and len(plan.types) == 1 and not plan.updates and not plan.draws:
            key = (data[0]._shape, data[0]._dtype, data[0]._context.device_id, training)
            if key not in self._ready:
                self._ready[key] = placed.short_way(plan)
        return plan.run(arrays, placed.version.stamp)

    def fast(self, args: tuple[Any, ...], in_format: Any, out_format: Any) -> Any:
        """The result of a call with one array and one result that was made before; None where it was not."""
        if len(args) != 1:
            return None
        x = args[0]
        if x.__class__ is not NDArray:
            return None
        ready = self._ready.get((x._shape, x._dtype, x._context.device_id, _is_training()))
        if ready is None:
            return None
        return ready(x) if out_format.__class__ is int else [ready(x)]

    def _placed(self, context: Context) -> _Placed:
        found = self._places.get(context)
        if found is None:
            found = self._places[context] = _Placed(self.slots, context)
        return found


class _Placed:
    """The parameters on one context, with their version."""

    def __init__(self, slots: Sequence[tuple[bool, Any]], context: Context) -> None:
        self.context = context
        self.version = ParameterVersion()
        self._data = [(i, which) for i, (is_data, which) in enumerate(slots) if is_data]
        self._params: list[tuple[int, Parameter]] = [(i, p) for i, (is_data, p) in enumerate(slots) if not is_data]
        self._arrays: list[Any] = [None] * len(slots)
        self._addresses: list[int] = [0] * len(slots)

    def arrays(self, data: Sequence[NDArray]) -> list[NDArray]:
        """All inputs of the symbol."""
        if not self.version.is_current():
            self.refresh()
        made = self._arrays.copy()
        for i, which in self._data:
            made[i] = data[which]
        return made

    def refresh(self) -> None:
        """Take over the parameters' arrays as they are now."""
        params = [p.data(self.context) for _, p in self._params]
        arrays: list[Any] = [None] * len(self._arrays)
        addresses = [0] * len(arrays)
        for (i, _), array in zip(self._params, params, strict=True):
            arrays[i], addresses[i] = array, array._address
        self._arrays, self._addresses = arrays, addresses
        self.version.refresh(params)

    def short_way(self, plan: Plan) -> Callable[[NDArray], NDArray]:
        """A plan of one input and one result as a function that does the least: patch, call, wrap."""
        version, context, (place, _) = self.version, self.context, self._data[0]
        type, run, new = plan.types[0], plan.executable.run, object.__new__
        shape, dtype, nbytes = type.shape, type.dtype, type.nbytes

        def call(x: NDArray) -> NDArray:
            if not version.is_current():
                self.refresh()
            inputs = self._addresses.copy()
            inputs[place] = x._address
            storage = allocate(nbytes)
            result = new(NDArray)
            result._storage = storage
            result._address = address = storage.address
            result._shape = shape
            result._dtype = dtype
            result._context = context
            run(inputs, (address,), version.stamp)
            return result

        return call
