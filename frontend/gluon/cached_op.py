"""CachedOp: a hybridized block's graph bound to its parameters, with a short way for calls that were made before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import autograd
from ..executor import Monitored
from ..memory import allocate
from ..ndarray import NDArray
from ..plan import PROGRAMS, CompiledSymbol, ParameterVersion, Plan

if TYPE_CHECKING:
    from ..context import Context
    from ..symbol import Symbol
    from .parameter import Parameter

_is_training = autograd.is_training
_FLAT = [0] * 64  # the format of arguments that are arrays, not lists of arrays


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
        self._places: dict[Context, _Placed] = {}
        self._ready: dict[Any, Callable[..., Any]] = {}
        self._hook: _OpHook | None = None

    def register_op_hook(self, callback: Callable[..., Any], monitor_all: bool) -> None:
        """Have `callback(name, operator, array)` called for each operator's results in every call from now on."""
        self._hook = _OpHook(self.compiled.symbol, self.compiled, callback, monitor_all)
        self._ready.clear()

    def __call__(self, data: Sequence[NDArray]) -> list[NDArray]:
        """The outputs for these data, in the order of the symbol's."""
        training = _is_training()
        placed = self._placed(data[0]._context)
        arrays = placed.arrays(data)
        if self._hook is not None:
            plan = self._hook.compiled.plan(arrays, training)
            return self._hook.report(arrays, plan.run(arrays, placed.version.stamp))
        plan = self.compiled.plan(arrays, training)
        if len(plan.types) == 1 and not plan.state and not plan.random:
            self._remember(data, training, placed, plan)
        return plan.run(arrays, placed.version.stamp)

    def _remember(self, data: Sequence[NDArray], training: bool, placed: _Placed, plan: Plan) -> None:
        """Make the short way of calls like this one; it ends when parameters get other types."""
        key = _key_of_one(data[0], training) if len(data) == 1 else _key_of_many(data, training)
        if key not in self._ready:
            if len(self._ready) >= PROGRAMS:
                self._ready.clear()
            self._ready[key] = placed.short_way(plan, self._anew)

    def _anew(self, *data: NDArray) -> NDArray:
        """A call after the parameters got other types: no short way holds any more."""
        self._ready.clear()
        return self(data)[0]

    def fast(self, args: tuple[Any, ...], in_format: Any, out_format: Any) -> Any:
        """The result of a call with arrays alone and one result that was made before; None where it was not."""
        if in_format != _FLAT[: len(args)]:
            return None
        if len(args) == 1:
            x = args[0]
            if x.__class__ is not NDArray:
                return None
            ready = self._ready.get((x._shape, x._dtype, x._context.device_id, _is_training()))
        elif all([x.__class__ is NDArray for x in args]):
            ready = self._ready.get(_key_of_many(args, _is_training()))
        else:
            return None
        if ready is None:
            return None
        return ready(*args) if out_format.__class__ is int else [ready(*args)]

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
        self.version.refresh(params)

    def short_way(self, plan: Plan, long_way: Callable[..., NDArray]) -> Callable[..., NDArray]:
        """A plan of one result as a function that does the least: patch, call, wrap.

        It takes `long_way` when the parameters no longer have the types that the plan was made for.
        """
        version, context, types, places = self.version, self.context, self.types, tuple(self._data)
        type, run, new = plan.types[0], plan.executable.run, object.__new__
        shape, dtype, nbytes = type.shape, type.dtype, type.nbytes

        def call(*data: NDArray) -> NDArray:
            if not version.is_current():
                self.refresh()
            if self.types is not types and self.types != types:
                return long_way(*data)
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
