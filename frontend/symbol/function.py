"""Symbols as functions of arrays: the first signature is compiled for its shapes, others run dynamic programs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, cast

from ...ir.caches import Cache
from ...ir.collection import collection_paused
from ...ir.graph import Effect, Graph, GraphError
from ...ir.once import once
from ...ir.types import DType, TensorType
from ...passes.manager import Options
from ...runtime.device import Device, DeviceError, Runnable
from ...runtime.devices import HOST
from ...runtime.function import SIGNATURES, Call, Function, LazySpecialization, after_call, before_call
from ...runtime.idle import keep_memory
from ...runtime.modes import hooks, modes
from ..base import MXNetError
from ..context import Context, current_context, device_of
from ..memory import OutOfMemory
from ..ndarray.array_classes import array_class
from ..ndarray.tape import call_recorded, is_recorded
from ..tracebacks import cause_of
from .flags import FunctionFlags
from .kept_operators import KeptOperators
from .node import SymNode, depth_first
from .shape_function import ShapeFunction
from .stored_symbols import StoredSymbol, read_stored, store, symbol_key
from .to_graph import symbol_to_graph

if TYPE_CHECKING:
    from ...runtime.derivative import Derivative, Differentiable
    from ...runtime.shape_family import ShapeFamily
    from ..ndarray import NDArray
    from .stepwise import StepwiseSpecialization
    from .symbol import Symbol


_DEFAULT = FunctionFlags()


class SymbolFunction(Function["SymbolSpecialization"]):
    """A symbol as a function of arrays in the order of `names`, which equals `list_inputs`. `arguments` and `states`
    are those of `list_arguments` and `list_auxiliary_states`.

    Values that depend only on `parameters` are computed when these change, and cached. Signatures that differ only in
    the extents of other inputs are a family. The first signature of a family is specialised, and with `static_shape`
    all of them are; the others run programs for dynamic shapes. A signature that is evicted and returns gets the same
    results bit for bit.
    """

    def __init__(
        self, symbol: Symbol, parameters: Iterable[str] = (), name: str = "", flags: FunctionFlags = _DEFAULT
    ) -> None:
        super().__init__("symbols", ages=not flags.static_alloc)
        self.flags = flags
        self.symbol = symbol
        self.array = array_class("numpy") if symbol._class else None
        variables, states = symbol._variables()
        self.names = [node.name for node in variables]
        self.arguments = [node.name for node in variables if node not in states]
        self.states = [node.name for node in variables if node in states]
        self.parameters = frozenset(parameters)
        self.name = name
        self.title = name or symbol.name or "group"
        self.is_stepwise = any(n.operator.sized_by_values for n in depth_first(symbol._entries) if not n.is_variable)
        self._steps: dict[bool, StepwiseSpecialization] = {}
        self._first: Cache[Hashable, SymbolSpecialization] = Cache("families of signatures", SIGNATURES)
        self.kept_operators: dict[SymNode, KeptOperators] = {}
        self.shapes_for = ShapeFunction(symbol)
        self._calls_python: bool | None = None

    @property
    def calls_python(self) -> bool:
        """True if the symbol has operators in Python."""
        if self._calls_python is None:
            nodes = depth_first(self.symbol._entries)
            self._calls_python = any(Effect.PYTHON in n.operator.effects() for n in nodes if not n.is_variable)
        return self._calls_python

    def specialization_for(
        self, arrays: Sequence[NDArray], training: bool | None = None, context: Context | None = None
    ) -> SymbolSpecialization:
        """The specialization for these arrays; without arrays, for a call on `context`. `training` None is the thread's
        mode. With sparse arrays, and if extents depend on values, the operators run one by one.
        """
        if self.is_stepwise:
            return self._stepwise(modes.training if training is None else training)
        try:
            return self.specialization(arrays, training, None if arrays else device_of(context or current_context()))
        except AttributeError:  # a sparse array has no _dtype
            if not any(a._is_sparse for a in arrays):
                raise
        return self._stepwise(modes.training if training is None else training)

    def _stepwise(self, training: bool) -> SymbolSpecialization:
        """The operators, to be run one by one."""
        from .stepwise import StepwiseSpecialization

        specialization = self._steps.get(training)
        if specialization is None:
            specialization = self._steps[training] = StepwiseSpecialization(self.symbol, training)
        return cast("SymbolSpecialization", specialization)

    def specialise(self, types: tuple[TensorType, ...], training: bool, device: Device = HOST) -> SymbolSpecialization:
        """Infers shapes. The program is compiled when it first runs: recorded calls run the derivative's programs. The
        programs of a further signature of a family know the types of results, so no graph is built."""
        key = self._family_of(types, training, device)
        first = self._first.find(key)
        if first is None or self.flags.static_shape:
            specialization = self._specialised(types, training, device)
            return self._first.add(key, specialization) if first is None else specialization
        if types == first.signature:
            return first
        graph = partial(self.graph, types)
        make = partial(self._dynamic, first.family, types, self.options(training), graph)
        return SymbolSpecialization(self, make, types, None, first.family, training, graph)

    def _specialised(self, types: tuple[TensorType, ...], training: bool, device: Device) -> SymbolSpecialization:
        """A specialization whose program is compiled for its shapes."""
        from ...runtime.shape_family import ShapeFamily

        options = self.options(training)
        stored_key = symbol_key(self, types, options, device)
        stored = stored_key and read_stored(stored_key)
        if stored:
            family = ShapeFamily(self.title, stored.program.names, device)
            make = partial(self._stored, stored, types, options, device)
            return SymbolSpecialization(self, make, types, stored.types, family, training, partial(self.graph, types))
        with _user_errors(self.title), collection_paused():
            graph = self.graph(types)
        family = ShapeFamily(self.title, graph.names(), device)
        make = partial(self._program, graph, options, device, stored_key)
        return SymbolSpecialization(self, make, types, tuple(graph.output_types()), family, training, lambda: graph)

    def options(self, training: bool) -> Options:
        """The options of the programs for calls that are not recorded."""
        weights = DType.F32 if training else self.flags.weights
        return Options(training=training, weights=weights, precision=self.flags.mode_of_products)

    def _stored(
        self, stored: StoredSymbol, types: tuple[TensorType, ...], options: Options, device: Device
    ) -> Runnable:
        """The program on disk; compiled if it is no longer there."""
        from ...runtime.compile import load_stored

        known = load_stored(stored.program, device)
        if known is not None:
            return known
        with _user_errors(self.title):
            return self._program(self.graph(types), options, device)

    def _program(self, graph: Graph, options: Options, device: Device, key: str | None = None) -> Runnable:
        """The program for the shapes of a graph. What is known of it is stored on disk under `key`."""
        from ...runtime.compile import executable_for

        with _user_errors(self.title):
            executable = executable_for(graph, options, device)
            if key is not None:
                store(key, graph, options, device)
            return executable

    def _dynamic(
        self, family: ShapeFamily, types: tuple[TensorType, ...], options: Options, graph: Callable[[], Graph]
    ) -> Runnable:
        """The program for a further signature of a family."""
        with _user_errors(self.title):
            return family.executable(types, options, graph)

    def _family_of(self, types: Sequence[TensorType], training: bool, device: Device) -> Hashable:
        kinds = [t if n in self.parameters else (t.rank, t.dtype) for n, t in zip(self.names, types, strict=True)]
        return training, device, *kinds

    def graph(self, types: Sequence[TensorType]) -> Graph:
        """The graph of mx operators on inputs of these types, with parameters marked."""
        named = dict(zip(self.names, types, strict=True))
        keeps = self.flags.is_bound or self.flags.static_shape
        return symbol_to_graph(self.symbol, named, self.parameters, self.title, self._keep if keeps else None)

    def _keep(self, node: SymNode) -> KeptOperators:
        """Where a node in Python keeps its operators."""
        return self.kept_operators.setdefault(node, KeptOperators(self.flags.is_bound))


@contextmanager
def _user_errors(title: str) -> Generator[None]:
    """Raise the errors of the compiler as those of the frontend."""
    try:
        yield
    except GraphError as error:
        raise MXNetError(str(error)) from cause_of(error)
    except OutOfMemory as error:
        raise error.of(f"{title}: memory for intermediate results") from cause_of(error)


class SymbolSpecialization(LazySpecialization):
    """A symbol compiled for one signature. `count` is the number of results."""

    is_stepwise = False

    def __init__(
        self,
        function: SymbolFunction,
        make: Callable[[], Runnable],
        signature: tuple[TensorType, ...],
        types: tuple[TensorType, ...] | None,
        family: ShapeFamily,
        training: bool,
        graph: Callable[[], Graph],
    ) -> None:
        """`make` compiles the program, whose operands and results have the types `signature` and `types`; None if the
        program of a further signature of `family` knows them. `graph` returns the graph, or builds it."""
        super().__init__(make, types, function.title, family.layers, family.device)
        self.function, self.signature, self.training, self._graph = function, signature, training, graph
        self.count = len(function.symbol)
        self.family, self._is_dynamic = family, types is None

    def _use(self, executable: Runnable) -> None:
        super()._use(executable)
        if self.function.flags.static_alloc:
            for holder in executable.holders:
                keep_memory(holder, self.function)

    def call(self, arrays: Sequence[NDArray], version: Hashable) -> list[NDArray]:
        """The results for arrays of the signature; `version` identifies the current values of the parameters."""
        from ..ndarray.ndarray import empty_array

        if is_recorded(arrays):
            return self._recorded(arrays, version)
        context = arrays[0]._context if arrays else current_context()
        results = [empty_array(t.shape, t.dtype, context, self.function.array) for t in self.types]
        self.call_into(arrays, results, version, context)
        return results

    def _recorded(self, arrays: Sequence[NDArray], version: Hashable) -> list[NDArray]:
        """A call on the tape, which observers see too."""
        call = Call(self.function, self, arrays)
        before_call(call)
        try:
            results = call_recorded(self.differentiable, arrays, self.count, version, self.function.array)
        except GraphError as error:
            raise MXNetError(str(error)) from cause_of(error)
        after_call(call, results)
        return results

    @once
    def differentiable(self) -> Differentiable:
        """The symbol as a graph that can be differentiated."""
        from ...runtime.derivative import Differentiable

        flags, origin = self.function.flags, (self.function.symbol, len(self.signature))
        options = Options(self.training, residual_bytes=flags.residual_bytes, precision=flags.mode_of_products)
        if not self._is_dynamic:
            return Differentiable(self._graph, options, self.device, origin)
        return self.family.differentiable(self.signature, options, self._graph, origin)

    def derivative(self, wrt: Sequence[int], rows: Sequence[int] = ()) -> Derivative:
        """Same as `Differentiable.derivative`. MXNetError names an operator that has none."""
        try:
            return self.differentiable.derivative(wrt, rows)
        except GraphError as error:
            raise MXNetError(str(error)) from cause_of(error)

    def call_into(
        self, arrays: Sequence[NDArray], results: Sequence[NDArray], version: Hashable, context: Context
    ) -> None:
        """Same as `call`, but the results are written to arrays of the right types that overlap no operand."""
        if self.function.calls_python:
            with context:
                self._call_into(arrays, results, version, context)
        else:
            self._call_into(arrays, results, version, context)

    def _call_into(
        self, arrays: Sequence[NDArray], results: Sequence[NDArray], version: Hashable, context: Context
    ) -> None:
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
