"""A hybridized block's symbol as a function of data.

The parameters are taken from the block. A call whose signature was used before takes a fast path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ...ir.caches import Cache
from ...runtime.device import BoundCall, DeviceError
from ...runtime.function import SIGNATURES, Specialization
from ...runtime.modes import hooks, modes
from ...runtime.parameter_version import ParameterVersion
from ...runtime.writes import clock, replaced
from ..executor import storages
from ..monitored import Monitored
from ..ndarray import NDArray
from ..ndarray.fast_paths import (
    FastPath,
    Form,
    as_path,
    bound_call,
    direct_call,
    fast_path,
    new_results,
    remember,
    with_key,
)
from ..ndarray.recorded_calls import path_by
from ..ndarray.tape import Entry, Variable
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
        is_direct: bool = True,
    ) -> None:
        """If `is_direct`, the block does no more than call the function: then calls take fast paths."""
        names = symbol.list_inputs()
        self.slots = tuple(slots)
        parameters = [n for n, (is_data, _) in zip(names, slots, strict=True) if not is_data]
        self.function = SymbolFunction(symbol, parameters, name, parse_flags(flags))
        self.array = self.function.array or NDArray
        """The class of the data of fast paths, and of results."""
        self.formats = in_format, self._out_format = formats
        self._arguments = len(in_format)
        self._has_paths = is_direct and in_format == [0] * self._arguments
        self._by_context: dict[Context, _ContextParameters] = {}
        self._by_mode: dict[tuple[bool, bool], Cache[Any, FastPath]] = {
            (recording, training): Cache("fast paths", SIGNATURES, ages=True)
            for recording, training in product((False, True), repeat=2)
        }
        self.paths = self._by_mode[False, False].recent
        """The fast paths of calls that are neither recorded nor in training mode, by `_key_of` the data."""
        self._hook: _OpHook | None = None

    def register_op_hook(self, callback: Callable[..., Any], monitor_all: bool) -> None:
        """Call `callback(name, operator, array)` for each operator's results in every later call."""
        self._hook = _OpHook(self.function.symbol, self.function, callback, monitor_all)
        self.forget_paths()

    def forget_paths(self) -> None:
        """Drop all fast paths."""
        for paths in self._by_mode.values():
            paths.clear()

    def inputs(self, data: Sequence[NDArray]) -> list[NDArray]:
        """All inputs of the symbol, in its order: `data` and the current parameters."""
        return self._parameters_on(data[0]._context).inputs(data)

    def __call__(self, data: Sequence[NDArray]) -> list[NDArray]:
        """Run the function on `data`. Returns the outputs in the symbol's order."""
        parameters = self._parameters_on(data[0]._context)
        arrays = parameters.inputs(data)
        if self._hook is not None:
            specialization = self._hook.function.specialization_for(arrays)
            return self._hook.report(arrays, specialization.call(arrays, parameters.version.stamp))
        specialization = self.function.specialization_for(arrays)
        if not specialization.is_stepwise and self._has_paths:
            self._remember(data, parameters, specialization)
        return specialization.call(arrays, parameters.version.stamp)

    def _remember(
        self, data: Sequence[NDArray], parameters: _ContextParameters, specialization: SymbolSpecialization
    ) -> None:
        """Keep a fast path for calls of this signature, until the parameters have other types."""
        if modes.recording:
            make = parameters.recorded_path
        elif not (self.function.calls_python or specialization.state):  # asking for the state compiles it
            make = parameters.fast_path
        else:
            return
        paths = self._by_mode[modes.recording, modes.training]
        key = _key_of(data)
        remember(
            paths, key, parameters.owner, lambda: as_path(self._structured(make(specialization)), parameters.owner)
        )

    def _structured(self, path: Callable[..., Any]) -> Callable[..., Any]:
        """A fast path that returns what the block does: an array, or nested lists."""
        form = self._out_format
        if form == 0:
            return path
        if len(self.function.symbol) == 1:
            return lambda *data: regroup([path(*data)], form)
        return lambda *data: regroup(path(*data), form)

    def fast(self, args: tuple[Any, ...]) -> Any:
        """The block's result by a fast path; None if the call has none.

        A fast path requires that every argument is an array.
        """
        if not hooks.watched:
            paths = self.paths
        elif hooks.intercepted:
            return None
        else:
            paths = self._by_mode[modes.recording, modes.training].recent
        key: tuple[Any, ...] = ()
        for x in args:
            if x.__class__ is not self.array:
                return None
            key += (x._shape, x._dtype, x._context.device_id)
        call = paths.get(key)
        if call is None:
            return None
        try:
            return call(*args)
        except DeviceError:
            return None

    def _parameters_on(self, context: Context) -> _ContextParameters:
        parameters = self._by_context.get(context)
        if parameters is None:
            parameters = self._by_context[context] = _ContextParameters(self.slots, self._arguments, context)
        return parameters


class _OpHook(Monitored):
    """A block's graph with every operator's results as outputs, for a hook that also receives the operator's name."""

    callback: Callable[..., Any]

    def report(self, arrays: Sequence[NDArray], results: Sequence[NDArray]) -> list[NDArray]:
        """Pass inputs and outputs to the callback under MXNet's names: outputs that are read, and in recorded calls the
        hidden ones, which gradients read. Returns the results of the symbol."""
        from ...ir.dialects.mx.monitored_names import NAMED_OUTPUTS, monitored_names

        read = {(e.node, e.index) for e in self.heads} | {(e.node, e.index) for n in self.nodes for e in n.inputs}
        for node in self.nodes:
            operator = node.op.encode()
            names = monitored_names(node.operator, len(node.inputs)) if self.operands else ()
            for name, entry in zip(names, node.inputs, strict=False):
                variable = entry.node.is_variable
                value = arrays[self.places[entry.node]] if variable else results[self.numbers[entry.node, entry.index]]
                self.callback(f"{node.name}_{name}".encode(), operator, value)
            for i in range(node.num_outputs if modes.recording else node.visible_outputs):
                if i >= node.visible_outputs or (node, i) in read:
                    name = node.output_name(i) if node.op in NAMED_OUTPUTS else f"{node.name}_{i}"
                    self.callback(name.encode(), operator, results[self.numbers[node, i]])
        return list(results[len(results) - len(self.heads) :])


def _key_of(data: Sequence[NDArray]) -> Any:
    """The key of a fast path; callers on fast paths do the same themselves."""
    return tuple([part for x in data for part in (x._shape, x._dtype, x._context.device_id)])


class _ContextParameters:
    """The parameters on one context, with their version.

    `arrays` has the inputs of the symbol, None for data. `owner` is another object when the parameters get other types.
    """

    def __init__(self, slots: Sequence[tuple[bool, Any]], arguments: int, context: Context) -> None:
        """`arguments` is the number of the block's arguments, of which the symbol can ignore some."""
        self.context, self._arguments = context, arguments
        self.version = ParameterVersion()
        self.owner = object()
        self.arrays: list[Any] = [None] * len(slots)
        self._operands = [f"x{which}" if is_data else f"p{i}" for i, (is_data, which) in enumerate(slots)]
        self._data = [(i, which) for i, (is_data, which) in enumerate(slots) if is_data]
        self._params: list[tuple[int, Parameter]] = [(i, p) for i, (is_data, p) in enumerate(slots) if not is_data]
        self._types: tuple[Any, ...] | None = None
        self._addresses: tuple[Any, ...] = ()
        self._read = -1  # `replaced.now` when the arrays were read
        self.differentiable: list[int] = []
        """The positions of the parameters that can have a gradient, whose arrays are `_variables`."""
        self._variables: list[NDArray] = []

    def inputs(self, data: Sequence[NDArray]) -> list[NDArray]:
        """All inputs of the symbol, in its order: `data` and the current parameters."""
        if not self.version.is_current():
            self.refresh()
        arrays = self.arrays.copy()
        for i, which in self._data:
            arrays[i] = data[which]
        return arrays

    def refresh(self) -> None:
        """Follow writes to the parameters' arrays, and other arrays."""
        if self._read == replaced.now:
            self.version.refresh()
            return
        now = replaced.now
        arrays = [p.data(self.context) for _, p in self._params]
        for (i, _), array in zip(self._params, arrays, strict=True):
            self.arrays[i] = array
        self.differentiable[:] = [i for i, _ in self._params if self.arrays[i]._dtype.has_cotangent]
        self._variables[:] = [self.arrays[i] for i in self.differentiable]
        self._addresses = tuple([a._address for a in arrays])
        types = tuple([(a._shape, a._dtype) for a in arrays])
        if types != self._types:
            self._types, self.owner = types, object()
        self.version.refresh(storages(arrays))
        self._read = now

    def refresh_for_path(self) -> None:
        """As `refresh`. DeviceError if the parameters have moved to other devices, so that the slow path runs."""
        if self._read == replaced.now:
            self.version.refresh()
            return
        try:
            self.refresh()
        except RuntimeError as error:
            raise DeviceError(str(error)) from None

    def fast_path(self, specialization: SymbolSpecialization) -> Callable[..., Any]:
        """A specialization as a function of the data."""
        operands, results = with_key(self._operands, specialization), new_results(specialization.types)
        numpy = specialization.function.array is not None
        form = Form(self._arguments, operands, results, len(results), bound=bool(self._params), numpy=numpy)
        return fast_path(
            form,
            specialization,
            **(self._bound(specialization) if self._params else {"run": direct_call(specialization)}),
        )

    def _bound(self, specialization: Specialization) -> dict[str, Any]:
        """The constants of fast paths that run a program with these parameters."""
        owner = self.owner
        places = [
            (at, int(name[1:])) for at, name in enumerate(with_key(self._operands, specialization)) if name[0] == "p"
        ]
        addresses: tuple[Any, ...] | None = None
        prepared: object = None
        call: BoundCall

        def bind() -> tuple[Callable[..., None], object, int]:
            """Bind the program to the parameters' current memory and values. Returns how it is run, their version, and
            the time of the last write that it contains. DeviceError if they have other types."""
            nonlocal addresses, prepared, call
            seen = clock.now
            if self.version.checked != seen:
                self.refresh_for_path()
            if self.owner is not owner:
                raise DeviceError("the parameters have other types")
            if self._addresses is not addresses:
                call = bound_call(specialization, {at: self.arrays[i]._address for at, i in places})
                addresses, prepared = self._addresses, None
            stamp = self.version.stamp
            if call.prepare is not None and prepared is not stamp:
                call.prepare(stamp)
                prepared = stamp
            return call.run, stamp, seen

        return {"bind": bind, "context": self.context, "parameters": self.arrays}

    def path_by(self, specialization: SymbolSpecialization, wrt: tuple[int, ...]) -> Callable[..., Any] | None:
        """The fast path of recorded calls with gradients by the inputs `wrt`; see `recorded_calls.path_by`."""
        bound = self._bound if self._params else None
        numpy = specialization.function.array is not None
        names, count = self._operands, specialization.count
        return path_by(specialization.differentiable, wrt, names, self._arguments, count, bound, numpy)

    def recorded_path(self, specialization: SymbolSpecialization) -> Callable[..., Any]:
        """As `fast_path`, for calls that a tape records."""
        version, owner, refresh, variables = self.version, self.owner, self.refresh_for_path, self._variables
        data = [(i, which) for i, which in self._data if specialization.signature[i].dtype.has_cotangent]
        paths = _RecordedPaths(self, specialization)
        known = paths.of_parameters([])

        def call(*arrays: NDArray) -> Any:
            nonlocal known
            entries: list[Entry | None] = []
            if variables:
                if version.checked != clock.now:
                    refresh()
                if self.owner is not owner:
                    raise DeviceError("the parameters have other types")
                entries = list(map(_ENTRY, variables))
            more: list[tuple[int, Entry]] = []
            for i, which in data:
                entry = getattr(arrays[which], "_entry", None)
                if entry is not None and entry[0].pull is not None:
                    more.append((i, entry))
            if more:
                path, on_tape = paths.of(more, entries)
                return path(on_tape, *arrays)
            if entries != known[0]:
                known = paths.of_parameters(entries)
            return known[1](known[2], *arrays)

        return call


class _RecordedPaths:
    """The fast paths of recorded calls of a specialization, by the inputs that a gradient is by."""

    def __init__(self, parameters: _ContextParameters, specialization: SymbolSpecialization) -> None:
        self._parameters, self._specialization = parameters, specialization
        self._paths: dict[tuple[int, ...], Callable[..., Any]] = {(): self._slow}

    def of_parameters(self, entries: Sequence[Entry | None]) -> tuple[Any, Callable[..., Any], tuple[Entry, ...]]:
        """(entries, path, operands): the path of calls whose data are not on the tape, and the entries that it takes.
        Both stay the same while the parameters have these `entries`, which are None if that is uncertain."""
        path, on_tape = self.of((), entries)
        stable = all([e is None or isinstance(e.node, Variable) for e in entries])
        return entries if stable else None, path, on_tape

    def of(
        self, data: Sequence[tuple[int, Entry]], entries: Sequence[Entry | None]
    ) -> tuple[Callable[..., Any], tuple[Entry, ...]]:
        """The path of a call and the entries that it takes, for data on the tape and the entries of the parameters."""
        chosen = list(data)
        for i, entry in zip(self._parameters.differentiable, entries, strict=False):
            if entry is not None and entry.node.pull is not None:
                chosen.append((i, entry))
        wrt: tuple[int, ...] = ()
        on_tape: tuple[Entry, ...] = ()
        for i, entry in sorted(chosen):
            wrt += (i,)
            on_tape += (entry,)
            if entry.node.rows:  # its gradient is row-sparse
                return self._slow, ()
        path = self._paths.get(wrt)
        if path is None:
            path = self._paths[wrt] = self._parameters.path_by(self._specialization, wrt) or self._slow
        return path, on_tape

    def _slow(self, _: tuple[Entry, ...], *data: NDArray) -> Any:
        """A call that has no fast path."""
        arrays = self._parameters.inputs(data)
        results = self._specialization.call(arrays, self._parameters.version.stamp)
        return results if len(results) > 1 else results[0]


_ENTRY = attrgetter("_entry")
