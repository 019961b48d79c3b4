"""Traces Python code on arrays into a symbol: each call of an operator becomes a node, and nothing is computed.

Values that Python reads (`float(x.sum())`, `print(x)`) are computed from the arrays of the call, in prediction mode.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.types import DType, TensorType
from ...runtime.modes import hooks, modes, set_modes, untraced
from ..base import MXNetError
from ..context import Context, usable
from ..dtypes import from_memory
from ..generated_functions import NUMPY_PREFIXES
from ..name import NameManager, current_manager
from ..ndarray.array_classes import array_class, empty_array, number_class
from ..ndarray.eager import apply_bound
from ..ndarray.operator_graph import operator_graph
from ..ndarray.sparse_arithmetic import OF_NUMBERS
from ..ndarray.traced_arrays import IN_PLACE, Traced, TracedArray, TracedLegacyArray
from ..numpy_rows import BINARY, of_number
from .compose import resolved_attrs, user_location
from .function import SymbolFunction
from .node import Entry, SymNode, update_versions
from .symbol import Symbol, symbol_class

if TYPE_CHECKING:
    from ..ndarray import NDArray
    from ..ndarray.operator_function import BoundOperator

_OUTSIDE = (
    "An array that is no input, parameter or result of the forward of a hybridized block cannot be part of its graph. "
    "Make it a gluon.Constant or a Parameter of the block"
)


class SymbolTracer:
    """Makes a symbol of the calls of operators in `running`, on arrays that `input` returns."""

    def __init__(self) -> None:
        self._values: dict[SymNode, NDArray] = {}
        self._names = NameManager()
        self._known: dict[tuple[SymNode, int], NDArray] = {}
        self._types: dict[tuple[SymNode, int], TensorType] = {}
        self._inputs: dict[str, NDArray] = {}
        self.constants: dict[str, NDArray] = {}
        """The arrays that the code made of numbers, by the names of their variables."""
        self._was_read = False

    @contextmanager
    def running(self) -> Generator[None]:
        """Trace the calls of this thread. Nothing is recorded for gradients."""
        before = modes.recording, modes.training
        set_modes(False, before[1])
        modes.tracer = self
        hooks.add(self)
        try:
            with self._names:
                yield
        finally:
            hooks.remove(self)
            modes.tracer = None
            set_modes(*before)

    # An observer prevents fast paths; what other threads call is of no interest.

    def before_call(self, call: Any) -> None:
        """Ignores a call."""

    def after_call(self, call: Any, results: Any) -> None:
        """Ignores the results of a call."""

    # --- arrays -------------------------------------------------------------------------------------------------------

    def input(self, variable: Symbol, array: NDArray) -> Any:
        """A traced array for an input of the graph, with the value `array`."""
        entry = variable._entries[0]
        self._values[entry.node] = self._inputs[entry.node.name] = array
        return self.array_at(entry, array._shape, array._dtype, array._context, array._class is not None)

    def array_at(self, place: Entry, shape: tuple[int, ...], dtype: DType, context: Context, numpy: bool) -> Any:
        """A traced array for a place in the graph."""
        array: Any = object.__new__(TracedArray if numpy else TracedLegacyArray)
        self._types[place.node, place.index] = TensorType(shape, dtype)
        array._graph, array._place = self, place
        array._shape, array._dtype, array._context = shape, dtype, context
        return array

    def constant(self, values: np.ndarray, dtype: DType, context: Context) -> Any:
        """A traced array of mx.np with these elements, in the dtype of the memory of `dtype`. MXNetError after a traced
        value was read: the numbers could come from it."""
        if self._was_read:
            raise MXNetError(
                "The forward of a hybridized block made an array of numbers after it had read elements of an array: "
                "such numbers would stay those of the first call. Compute them by functions of mx.np"
            )
        array = empty_array(values.shape, dtype, context, array_class("numpy"))
        array._write(values)
        name = current_manager().get(None, "constant")
        self.constants[name] = array
        return self.input(symbol_class(True)([Entry(SymNode("null", name, {}))]), array)

    def symbol_of(self, array: NDArray) -> Symbol:
        """The symbol of an array. MXNetError for one that is not part of the graph."""
        return symbol_class(array._class is not None)([self._entry_of(array)])

    def _entry_of(self, array: NDArray) -> Entry:
        if isinstance(array, Traced) and array._graph is self:
            return array._place
        raise MXNetError(f"{_OUTSIDE}: it has the shape {array.shape}")

    # --- calls --------------------------------------------------------------------------------------------------------

    def apply(self, bound: BoundOperator, arrays: Sequence[Any], out: Any = None, context: Any = None) -> Any:
        """The results of an operator: a new node of the graph. MXNetError for operands that do not fit, and for `out`
        and sparse arrays."""
        if out is not None:
            raise MXNetError(IN_PLACE)
        if any(a._is_sparse for a in arrays):
            raise MXNetError("the forward of a hybridized block cannot be traced on sparse arrays")
        operator, numpy = bound.operator, bound.function.numpy
        place = arrays[0]._context if arrays else usable(context)
        name, attributes, operands = _with_numbers(bound, arrays)
        if any(isinstance(a, number_class()) for a in operands):
            operands = [self._array_of_number(a, place, numpy) for a in operands]
        node = SymNode(name, current_manager().get(None, _hint(name)), {**resolved_attrs(None), **attributes})
        node.location = user_location()
        node.inputs = [self._entry_of(a) for a in operands]
        update_versions(node)
        if operator.sized_by_values:
            return self._sized_by_values(bound, arrays, node)
        types = self._types_of_results(bound, arrays)
        results = [self.array_at(Entry(node, i), t.shape, t.dtype, place, numpy) for i, t in enumerate(types)]
        return results[0] if len(results) == 1 else results

    def _types_of_results(self, bound: BoundOperator, arrays: Sequence[Any]) -> Sequence[TensorType]:
        graph, _ = operator_graph(bound.operator, [a._type() for a in arrays], modes.training)
        return graph.output_types()[: bound.operator.visible_outputs]

    def _array_of_number(self, array: Any, context: Context, numpy: bool) -> Any:
        if not isinstance(array, number_class()):
            return array
        attributes = {"shape": "()", "value": repr(_number(array)), "dtype": array._dtype.full_name}
        node = SymNode("_npi_full", current_manager().get(None, "full"), {**resolved_attrs(None), **attributes})
        return self.array_at(Entry(node), (), array._dtype, context, numpy)

    def _sized_by_values(self, bound: BoundOperator, arrays: Sequence[Any], node: SymNode) -> Any:
        """The results of an operator whose extents depend on values: these are computed at once."""
        values = [self._value(a) for a in arrays]
        with untraced():
            computed = apply_bound(bound, values)
        listed = computed if isinstance(computed, list | tuple) else [computed]
        results: list[Any] = []
        for i, value in enumerate(listed):
            entry = Entry(node, i)
            self._known[entry.node, entry.index] = value
            results.append(self.array_at(entry, value._shape, value._dtype, value._context, value._class is not None))
        return results if isinstance(computed, list | tuple) else results[0]

    # --- loops and branches -------------------------------------------------------------------------------------------

    def control_flow(
        self, name: str, functions: Sequence[Callable[..., Any]], arrays: Sequence[Any], options: dict[str, Any]
    ) -> Any:
        """The results of `foreach`, `while_loop` or `cond`, whose functions take and return arrays: they are traced as
        subgraphs. `arrays` are the arguments beside the functions."""
        from . import control_flow

        symbols = [_mapped(self.symbol_of, a) for a in arrays]
        apply = getattr(control_flow, name)
        if name == "cond":
            return self._results(apply(*symbols, *[self._on_symbols(f, ()) for f in functions]))
        variables = [_mapped(_FirstSlice, arrays[0]), arrays[1]] if name == "foreach" else list(arrays[0])
        return self._results(apply(*[self._on_symbols(f, variables) for f in functions], *symbols, **options))

    def _on_symbols(self, function: Callable[..., Any], like: Sequence[Any]) -> Callable[..., Any]:
        """A function of symbols of the types of the arrays `like`."""

        def apply(*symbols: Any) -> Any:
            arrays = [_mapped(self._like, s, a) for s, a in zip(symbols, like, strict=True)]
            return _mapped(self.symbol_of, function(*arrays))

        return apply

    def _like(self, symbol: Symbol, array: Any) -> Any:
        return self.array_at(symbol._entries[0], array._shape, array._dtype, array._context, True)

    def _results(self, symbols: Any) -> Any:
        """The arrays of the results of a loop or branch."""
        first = symbols
        while isinstance(first, list | tuple):
            first = next(s for s in first if not isinstance(s, list | tuple) or s)
        node = first._entries[0].node
        types = [self._type_of(e) for e in node.inputs]
        graph, _ = operator_graph(node.operator, types, modes.training)
        listed, context = graph.output_types(), usable(None)

        def array(symbol: Symbol) -> Any:
            (entry,) = symbol._entries
            return self.array_at(entry, listed[entry.index].shape, listed[entry.index].dtype, context, True)

        return _mapped(array, symbols)

    def _type_of(self, entry: Entry) -> TensorType:
        known = self._types.get((entry.node, entry.index))
        return self._inputs[entry.node.name]._type() if known is None else known

    # --- values -------------------------------------------------------------------------------------------------------

    def value_of(self, array: Any) -> NDArray:
        """The value of a traced array for the inputs of this call, which Python reads."""
        self._was_read = True
        return self._value(array)

    def _value(self, array: Any) -> NDArray:
        if not isinstance(array, Traced):
            return array
        entry: Entry = array._place
        known = self._known.get((entry.node, entry.index))
        if known is None:
            known = self._known[entry.node, entry.index] = self._computed(entry, array._class is not None)
        return known

    def _computed(self, entry: Entry, numpy: bool) -> NDArray:
        if entry.node in self._values:
            return self._values[entry.node]
        function = SymbolFunction(symbol_class(numpy)([entry]))
        variables = function.symbol._variables()[0]
        with untraced():
            arrays = [self._values[n] if n in self._values else self._inputs[n.name] for n in variables]
            return function.specialization_for(arrays).call(arrays, object())[0]


def _mapped(function: Callable[..., Any], *nested: Any) -> Any:
    """A function of the elements of nested lists of one structure."""
    if isinstance(nested[0], list | tuple):
        return [_mapped(function, *parts) for parts in zip(*nested, strict=True)]
    return function(*nested)


class _FirstSlice:
    """The type of x[0]."""

    def __init__(self, array: Any) -> None:
        self._shape, self._dtype, self._context = array._shape[1:], array._dtype, array._context


_OF_TWO = frozenset(own or name for name, _, own in (text.partition("=") for text in BINARY.split()))
"""The functions of two arrays with operators of an array and a number."""


def _hint(name: str) -> str:
    prefix = next((p for p in NUMPY_PREFIXES if name.startswith(p)), "")
    return name.removeprefix(prefix).lower().lstrip("_")


def _number(array: NDArray) -> float | int:
    """The value of a number, with as few digits as its dtype needs."""
    value = from_memory(array._memory(), array._dtype)[()]
    return int(value) if value.dtype.kind in "iub" else float(str(value))


def _with_numbers(bound: BoundOperator, arrays: Sequence[Any]) -> tuple[str, dict[str, str], Sequence[Any]]:
    """The name of an operator, its parameters and operands. For an array and a number it is the operator of these."""
    operator = bound.operator
    name = operator.mx_name()
    numbers = [i for i, a in enumerate(arrays) if a.__class__ is number_class()]
    if len(numbers) != 1 or len(arrays) != 2:
        return name, operator.attrs(), arrays
    (position,) = numbers
    value = _number(arrays[position])
    if name in OF_NUMBERS:
        return OF_NUMBERS[name][0 if position else 1], {"scalar": repr(float(value))}, [arrays[1 - position]]
    if name.removeprefix("_npi_") not in _OF_TWO:
        return name, operator.attrs(), arrays
    attributes = {"scalar": repr(float(value)), "is_int": str(isinstance(value, int))}
    return of_number(name.removeprefix("_npi_"), bool(position)), attributes, [arrays[1 - position]]
