"""Symbols as functions of arrays, compiled once for each signature."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, cast

from ...ir.graph import Graph, GraphError
from ...ir.types import TensorType
from ...passes.manager import Options
from ...runtime.device import Device, DeviceError
from ...runtime.function import Call, Function, Specialization, after_call, before_call
from ...runtime.host_device import HOST
from ...runtime.idle import keep_memory
from ...runtime.modes import hooks, modes
from ..base import MXNetError
from ..context import Context, current_context, device_of
from ..memory import OutOfMemory
from ..tracebacks import cause_of
from .flags import FunctionFlags
from .to_graph import symbol_to_graph

if TYPE_CHECKING:
    from ..ndarray import NDArray
    from .symbol import Symbol


_DEFAULT = FunctionFlags()


class SymbolFunction(Function["SymbolSpecialization"]):
    """A symbol as a function of arrays in the order of `names`, which equals `list_inputs`.

    Values that depend only on `parameters` are computed when these change, and cached.
    """

    def __init__(
        self, symbol: Symbol, parameters: Iterable[str] = (), name: str = "", flags: FunctionFlags = _DEFAULT
    ) -> None:
        super().__init__("symbols")
        self.flags = flags
        self.symbol = symbol
        self.names = symbol.list_inputs()
        self.parameters = frozenset(parameters)
        self.name = name

    def specialization_for(
        self, arrays: Sequence[NDArray], training: bool | None = None, context: Context | None = None
    ) -> SymbolSpecialization:
        """The specialization for these arrays; without arrays, for a call on `context`. `training` None is the thread's
        mode. With sparse arrays the operators run one by one.
        """
        try:
            return self.specialization(arrays, training, None if arrays else device_of(context or current_context()))
        except AttributeError:  # a sparse array has no _dtype
            if not any(a._is_sparse for a in arrays):
                raise
        from .sparse_function import SparseSpecialization

        mode = modes.training if training is None else training
        return cast("SymbolSpecialization", SparseSpecialization(self.symbol, mode))

    def specialise(self, types: tuple[TensorType, ...], training: bool, device: Device = HOST) -> SymbolSpecialization:
        return SymbolSpecialization(self, self.graph(types), Options(training=training), device)

    def graph(self, types: Sequence[TensorType]) -> Graph:
        """The graph of mx operators on inputs of these types, with parameters marked."""
        named = dict(zip(self.names, types, strict=True))
        return symbol_to_graph(self.symbol, named, self.parameters, self.name)


class SymbolSpecialization(Specialization):
    """A symbol compiled for one signature."""

    def __init__(self, function: SymbolFunction, graph: Graph, options: Options, device: Device) -> None:
        from ...runtime.compile import executable_for

        try:
            super().__init__(executable_for(graph, options, device), graph.name, graph.names(), device)
        except GraphError as error:
            raise MXNetError(str(error)) from cause_of(error)
        except OutOfMemory as error:
            raise error.of(f"{graph.name}: memory for intermediate results") from cause_of(error)
        self.function = function
        if function.flags.static_alloc:
            keep_memory(self.executable, function)

    def call(self, arrays: Sequence[NDArray], version: Hashable) -> list[NDArray]:
        """The results for arrays of the signature; `version` identifies the current values of the parameters."""
        from ..ndarray.ndarray import empty_array

        context = arrays[0]._context if arrays else current_context()
        results = [empty_array(t.shape, t.dtype, context) for t in self.types]
        self.call_into(arrays, results, version, context)
        return results

    def call_into(
        self, arrays: Sequence[NDArray], results: Sequence[NDArray], version: Hashable, context: Context
    ) -> None:
        """Same as `call`, but the results are written to arrays of the right types that overlap no operand."""
        addresses = [r._address for r in results]
        try:
            if not hooks.watched:
                self.run(arrays, addresses, context, version)
                return
            call = Call(self.function, self, arrays)
            before_call(call)
            self.run(arrays, addresses, context, version)
            after_call(call, results)
        except DeviceError:
            contexts = ", ".join(dict.fromkeys(str(a._context) for a in (*arrays, *results)))
            raise MXNetError(f"{self.name}: the arrays are on different devices: {contexts}") from None
