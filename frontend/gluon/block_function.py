"""A hybridized block's symbol as a function of data.

The parameters are taken from the block. A call whose signature was used before takes a fast path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...ir.caches import Cache
from ...ir.graph import GraphError
from ...ir.types import TensorType
from ...runtime.device import BoundCall, DeviceError
from ...runtime.function import SIGNATURES
from ...runtime.host.device import HOST
from ...runtime.modes import hooks, modes
from ...runtime.parameter_version import ParameterVersion
from ...runtime.writes import clock
from ..executor import storages
from ..memory import allocate
from ..monitored import Monitored
from ..ndarray import NDArray
from ..ndarray.recorded_calls import OnTape, RecordedCalls
from ..symbol.flags import parse_flags
from ..symbol.function import SymbolFunction, SymbolSpecialization
from .structure import regroup

if TYPE_CHECKING:
    from ..context import Context
    from ..symbol import Symbol
    from .parameter import Parameter


class BlockFunction:
    """The function of a block.

    `slots` has an entry for each input of the symbol: (True, position among the data) or (False, parameter). `formats`
    are those of the block's arguments and outputs (`structure.flatten`).
    """

    def __init__(
        self,
        symbol: Symbol,
        slots: Sequence[tuple[bool, Any]],
        formats: tuple[Any, Any],
        flags: Sequence[tuple[str, Any]] = (),
        name: str = "",
    ) -> None:
        names = symbol.list_inputs()
        self.slots = tuple(slots)
        parameters = [n for n, (is_data, _) in zip(names, slots, strict=True) if not is_data]
        self.function = SymbolFunction(symbol, parameters, name, parse_flags(flags))
        in_format, self._out_format = formats
        self._arguments = len(in_format)
        self._takes_arrays = in_format == [0] * self._arguments
        self._by_context: dict[Context, _ContextParameters] = {}
        self._fast_path_cache: Cache[Any, Callable[..., Any]] = Cache("fast paths", SIGNATURES)
        self._fast_paths = self._fast_path_cache.recent
        self._recorded_path_cache: Cache[Any, Callable[..., Any]] = Cache("fast paths", SIGNATURES)
        self._recorded_paths = self._recorded_path_cache.recent
        self._hook: _OpHook | None = None

    def register_op_hook(self, callback: Callable[..., Any], monitor_all: bool) -> None:
        """Call `callback(name, operator, array)` for each operator's results in every later call."""
        self._hook = _OpHook(self.function.symbol, self.function, callback, monitor_all)
        self._forget_fast_paths()

    def __call__(self, data: Sequence[NDArray]) -> list[NDArray]:
        """Run the function on `data`. Returns the outputs in the symbol's order."""
        parameters = self._parameters_on(data[0]._context)
        arrays = parameters.arrays(data)
        if self._hook is not None:
            found = self._hook.function.specialization_for(arrays)
            return self._hook.report(arrays, found.call(arrays, parameters.version.stamp))
        found = self.function.specialization_for(arrays)
        if len(found.types) == 1 and found.device is HOST and self._takes_arrays:
            self._remember(data, parameters, found)
        return found.call(arrays, parameters.version.stamp)

    def _remember(self, data: Sequence[NDArray], parameters: _ContextParameters, found: SymbolSpecialization) -> None:
        """Cache a fast path for calls with this signature. It is valid until the parameters' types change."""
        key = _key_of_one(data[0], modes.training) if len(data) == 1 else _key_of_many(data, modes.training)
        if modes.recording:
            make, cache = parameters.recorded_path, self._recorded_path_cache
        elif not (self.function.calls_python or found.state or found.random):  # asking for the state compiles it
            make, cache = parameters.fast_path, self._fast_path_cache
        else:
            return
        cache.get(key, lambda: self._structured(make(found, self._call_again)))

    def _structured(self, path: Callable[..., NDArray]) -> Callable[..., Any]:
        """A fast path that returns what the block does: an array, or nested lists with one array."""
        form = self._out_format
        return path if form == 0 else lambda *data: regroup([path(*data)], form)

    def _call_again(self, *data: NDArray) -> NDArray:
        """Handle a call after the parameters' types changed: all fast paths are invalid."""
        self._forget_fast_paths()
        return self(data)[0]

    def _forget_fast_paths(self) -> None:
        self._fast_path_cache.clear()
        self._recorded_path_cache.clear()

    def fast(self, args: tuple[Any, ...]) -> Any:
        """The block's result by a fast path; None if the call has none.

        A fast path requires that every argument is an array and that there is one result.
        """
        paths = self._fast_paths
        if hooks.watched:
            if hooks.intercepted or not modes.recording:
                return None
            paths = self._recorded_paths
        if len(args) == 1:
            x = args[0]
            if x.__class__ is not NDArray:
                return None
            call = paths.get((x._shape, x._dtype, x._context.device_id, modes.training))
        elif all([x.__class__ is NDArray for x in args]):
            call = paths.get(_key_of_many(args, modes.training))
        else:
            return None
        if call is None:
            return None
        try:
            return call(*args)
        except DeviceError:  # the cache's key does not distinguish kinds of devices
            return None

    def _parameters_on(self, context: Context) -> _ContextParameters:
        found = self._by_context.get(context)
        if found is None:
            found = self._by_context[context] = _ContextParameters(self.slots, self._arguments, context)
        return found


class _OpHook(Monitored):
    """A block's graph with every operator's results as outputs, for a hook that also receives the operator's name."""

    callback: Callable[..., Any]

    def report(self, arrays: Sequence[NDArray], found: Sequence[NDArray]) -> list[NDArray]:
        """Pass inputs and outputs to the callback under MXNet's names: outputs that are read, and in recorded calls the
        hidden ones, which gradients read. Returns the results of the symbol."""
        from ...ir.dialects.mx.monitored_names import NAMED_OUTPUTS, monitored_names

        read = {(e.node, e.index) for e in self.heads} | {(e.node, e.index) for n in self.nodes for e in n.inputs}
        for node in self.nodes:
            operator = node.op.encode()
            names = monitored_names(node.operator, len(node.inputs)) if self.operands else ()
            for name, entry in zip(names, node.inputs, strict=False):
                variable = entry.node.is_variable
                value = arrays[self.places[entry.node]] if variable else found[self.numbers[entry.node, entry.index]]
                self.callback(f"{node.name}_{name}".encode(), operator, value)
            for i in range(node.num_outputs if modes.recording else node.visible_outputs):
                if i >= node.visible_outputs or (node, i) in read:
                    name = node.output_name(i) if node.op in NAMED_OUTPUTS else f"{node.name}_{i}"
                    self.callback(name.encode(), operator, found[self.numbers[node, i]])
        return list(found[len(found) - len(self.heads) :])


def _key_of_one(x: NDArray, training: bool) -> Any:
    return x._shape, x._dtype, x._context.device_id, training


def _key_of_many(data: Sequence[NDArray], training: bool) -> Any:
    return training, *[(x._shape, x._dtype, x._context.device_id) for x in data]


class _ContextParameters:
    """The parameters on one context, with their version."""

    def __init__(self, slots: Sequence[tuple[bool, Any]], arguments: int, context: Context) -> None:
        """`arguments` is the number of the block's arguments, of which the symbol can ignore some."""
        self.context, self._arguments = context, arguments
        self.version = ParameterVersion()
        self.types: tuple[Any, ...] = ()
        self._data = [(i, which) for i, (is_data, which) in enumerate(slots) if is_data]
        self._params: list[tuple[int, Parameter]] = [(i, p) for i, (is_data, p) in enumerate(slots) if not is_data]
        self._arrays: list[Any] = [None] * len(slots)
        self._addresses: list[int] = [0] * len(slots)
        self._entries: list[Any] | None = None
        self._on_tape: OnTape = (), ()

    def arrays(self, data: Sequence[NDArray]) -> list[NDArray]:
        """All inputs of the symbol, in its order: `data` and the current parameters."""
        if not self.version.is_current():
            self.refresh()
        arrays = self._arrays.copy()
        for i, which in self._data:
            arrays[i] = data[which]
        return arrays

    def refresh(self) -> None:
        """Read the parameters' current arrays."""
        params = [p.data(self.context) for _, p in self._params]
        arrays: list[Any] = [None] * len(self._arrays)
        addresses = [0] * len(arrays)
        for (i, _), array in zip(self._params, params, strict=True):
            arrays[i], addresses[i] = array, array._address
        self._arrays, self._addresses = arrays, addresses
        types = tuple([(a._shape, a._dtype) for a in params])
        self.types = self.types if types == self.types else types
        self.version.refresh(storages(params))

    def fast_path(self, found: SymbolSpecialization, slow_path: Callable[..., NDArray]) -> Callable[..., NDArray]:
        """A specialization with one result as a function of the data.

        The function calls `slow_path` if the parameters no longer have the types that it was compiled for.
        """
        if self._arguments == len(self._data) == 1:
            run = found.executable.bound_call(self._data[0][0], lambda: self._addresses)
            if run is not None:
                return self._bound_path(run, found.types[0], slow_path)
        version, context, types, places = self.version, self.context, self.types, tuple(self._data)
        type, run, new = found.types[0], found.executable.run, object.__new__
        shape, dtype, nbytes = type.shape, type.dtype, type.nbytes

        def call(*data: NDArray) -> NDArray:
            if not version.is_current():
                self.refresh()
            if self.types is not types:
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

    def _bound_path(
        self, run: BoundCall, type: TensorType, slow_path: Callable[..., NDArray]
    ) -> Callable[[NDArray], NDArray]:
        """`fast_path` of a short program of one array."""
        version, context, types, new = self.version, self.context, self.types, object.__new__
        shape, dtype, nbytes = type.shape, type.dtype, type.nbytes

        def call(x: NDArray) -> NDArray:
            if version.checked != clock.now:
                self.refresh()
            if self.types is not types:
                return slow_path(x)
            storage = allocate(nbytes)
            result = new(NDArray)
            result._storage = storage
            result._address = address = storage.address
            result._shape = shape
            result._dtype = dtype
            result._context = context
            run(x._address, address, version.stamp)
            return result

        return call

    def recorded_path(self, found: SymbolSpecialization, slow_path: Callable[..., NDArray]) -> Callable[..., NDArray]:
        """As `fast_path`, for calls that a tape records."""
        version, types, places = self.version, self.types, tuple(self._data)
        calls = RecordedCalls(lambda: found.differentiable, found.signature, 1)

        def call(*data: NDArray) -> NDArray:
            if not version.is_current():
                self.refresh()
            if self.types is not types:
                return slow_path(*data)
            arrays = self._arrays.copy()
            recorded = False
            for place, which in places:
                arrays[place] = x = data[which]
                recorded = recorded or getattr(x, "_entry", None) is not None
            on_tape = None if recorded else self._parameters_on_tape(calls, arrays)
            try:
                results = calls(arrays, version.stamp, on_tape)
            except GraphError:
                results = None
            return found.call(arrays, version.stamp)[0] if results is None else results[0]

        return call

    def _parameters_on_tape(self, calls: RecordedCalls, arrays: Sequence[NDArray]) -> OnTape:
        """The parameters that are on the tape; the other arrays are not."""
        entries = [getattr(arrays[i], "_entry", None) for i, _ in self._params]
        if entries != self._entries:
            self._entries, self._on_tape = entries, calls.on_tape(arrays)
        return self._on_tape
