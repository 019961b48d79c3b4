"""A hybridized block's symbol as a function of data: its parameters are taken from the block, and calls that were made
before take a fast path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...ir.caches import Cache
from ...runtime.device import DeviceError
from ...runtime.function import SIGNATURES
from ...runtime.host_device import HOST
from ...runtime.modes import hooks, modes
from ...runtime.parameter_version import ParameterVersion
from ..executor import Monitored, storages
from ..memory import allocate
from ..ndarray import NDArray
from ..symbol.flags import parse_flags
from ..symbol.function import SymbolFunction, SymbolSpecialization

if TYPE_CHECKING:
    from ..context import Context
    from ..symbol import Symbol
    from .parameter import Parameter

_FLAT = [0] * 64  # the format of arguments that are arrays, not lists of arrays


class BlockFunction:
    """The function of a block.

    `slots` has an entry for each input of the symbol: (True, position among the data) or (False, parameter).
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
        parameters = [n for n, (is_data, _) in zip(names, slots, strict=True) if not is_data]
        self.function = SymbolFunction(symbol, parameters, name, parse_flags(flags))
        self._places: dict[Context, _Placed] = {}
        self._known: Cache[Any, Callable[..., Any]] = Cache("fast paths", SIGNATURES)
        self._fast_paths = self._known.recent
        self._hook: _OpHook | None = None

    def register_op_hook(self, callback: Callable[..., Any], monitor_all: bool) -> None:
        """Have `callback(name, operator, array)` called for each operator's results in every call from now on."""
        self._hook = _OpHook(self.function.symbol, self.function, callback, monitor_all)
        self._known.clear()

    def __call__(self, data: Sequence[NDArray]) -> list[NDArray]:
        """The outputs for these data, in the order of the symbol's."""
        placed = self._placed(data[0]._context)
        arrays = placed.arrays(data)
        if self._hook is not None:
            found = self._hook.function.specialization_for(arrays)
            return self._hook.report(arrays, found.call(arrays, placed.version.stamp))
        found = self.function.specialization_for(arrays)
        if len(found.types) == 1 and not found.state and not found.random and found.device is HOST:
            self._remember(data, placed, found)
        return found.call(arrays, placed.version.stamp)

    def _remember(self, data: Sequence[NDArray], placed: _Placed, found: SymbolSpecialization) -> None:
        """Make the fast path of calls like this one, which is valid until parameters get other types."""
        key = _key_of_one(data[0], modes.training) if len(data) == 1 else _key_of_many(data, modes.training)
        self._known.get(key, lambda: placed.fast_path(found, self._call_again))

    def _call_again(self, *data: NDArray) -> NDArray:
        """A call after the parameters got other types: no fast path is valid."""
        self._known.clear()
        return self(data)[0]

    def fast(self, args: tuple[Any, ...], in_format: Any, out_format: Any) -> Any:
        """The result of a call with arrays alone and one result that has a fast path; None if it has none."""
        if hooks.watched or in_format != _FLAT[: len(args)]:
            return None
        if len(args) == 1:
            x = args[0]
            if x.__class__ is not NDArray:
                return None
            call = self._fast_paths.get((x._shape, x._dtype, x._context.device_id, modes.training))
        elif all([x.__class__ is NDArray for x in args]):
            call = self._fast_paths.get(_key_of_many(args, modes.training))
        else:
            return None
        if call is None:
            return None
        try:
            return call(*args) if out_format.__class__ is int else [call(*args)]
        except DeviceError:  # fast paths are found by dtypes and shapes, whatever the device
            return None

    def _placed(self, context: Context) -> _Placed:
        found = self._places.get(context)
        if found is None:
            found = self._places[context] = _Placed(self.slots, context)
        return found


class _OpHook(Monitored):
    """A block's graph in which each operator's results come out, for a hook that also hears the operator's name."""

    callback: Callable[..., Any]

    def report(self, arrays: Sequence[NDArray], found: Sequence[NDArray]) -> list[NDArray]:
        for node in self.nodes:
            operator = node.op.encode()
            for name, entry in zip(node.input_names(), node.inputs, strict=True) if self.operands else ():
                variable = entry.node.is_variable
                value = arrays[self.places[entry.node]] if variable else found[self.numbers[entry.node, entry.index]]
                self.callback(f"{node.name}_{name}".encode(), operator, value)
            for i in range(node.visible_outputs):
                self.callback(node.output_name(i).encode(), operator, found[self.numbers[node, i]])
        return list(found[len(found) - len(self.heads) :])


def _key_of_one(x: NDArray, training: bool) -> Any:
    return x._shape, x._dtype, x._context.device_id, training


def _key_of_many(data: Sequence[NDArray], training: bool) -> Any:
    return training, *[(x._shape, x._dtype, x._context.device_id) for x in data]


class _Placed:
    """The parameters on one context, with their version."""

    def __init__(self, slots: Sequence[tuple[bool, Any]], context: Context) -> None:
        self.context = context
        self.version = ParameterVersion()
        self.types: tuple[Any, ...] = ()
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
        self.types = tuple([(a._shape, a._dtype) for a in params])
        self.version.refresh(storages(params))

    def fast_path(self, found: SymbolSpecialization, slow_path: Callable[..., NDArray]) -> Callable[..., NDArray]:
        """A specialization of one result as a function of the data.

        It takes `slow_path` when the parameters no longer have the types that it was compiled for.
        """
        version, context, types, places = self.version, self.context, self.types, tuple(self._data)
        type, run, new = found.types[0], found.executable.run, object.__new__
        shape, dtype, nbytes = type.shape, type.dtype, type.nbytes

        def call(*data: NDArray) -> NDArray:
            if not version.is_current():
                self.refresh()
            if self.types is not types and self.types != types:
                return slow_path(*data)
            inputs = self._addresses.copy()
            for place, which in places:
                inputs[place] = data[which]._address
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
