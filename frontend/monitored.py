"""What the callback of a monitor is called with: the results of all operators of a symbol, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from ..runtime.modes import set_recording
from ..runtime.random_keys import positions, rewind
from .ndarray import NDArray
from .ndarray.gradients import attach
from .ndarray.tape import Recorded, calls_before, entries_of, entry_of, free, pull_back, zeros_of
from .symbol.function import SymbolFunction
from .symbol.node import Entry, SymNode, depth_first
from .symbol.stepwise import StepwiseSpecialization

if TYPE_CHECKING:
    from .symbol import Symbol

Callback = Callable[[bytes, NDArray], Any]


class Monitored:
    """A symbol compiled with the results of all its operators as outputs, and the callback that receives them.

    Gradients of operators are computed on a tape. Both runs draw the random numbers of the run that they show.
    """

    def __init__(self, symbol: Symbol, function: SymbolFunction, callback: Callback, operands: bool) -> None:
        self.symbol = symbol
        self.nodes = [n for n in depth_first(symbol._entries) if not n.is_variable]
        entries = [Entry(n, i) for n in self.nodes for i in range(n.num_outputs)]
        self.heads = symbol._entries
        everything = type(symbol)([*entries, *self.heads])
        self.function = SymbolFunction(everything, function.parameters, function.name, function.flags)
        self.function.kept_operators = function.kept_operators
        self.callback, self.operands = callback, operands
        self.numbers = {(e.node, e.index): i for i, e in enumerate(entries)}
        order = self.function.symbol._variables()[0]
        self.places = {node: i for i, node in enumerate(order)}
        self._random = positions()  # of the last forward pass

    @property
    def listens(self) -> bool:
        """False while the callback is that of a Monitor that waits for its next batch."""
        return getattr(getattr(self.callback, "__self__", None), "activated", True)

    def forward(self, arrays: Sequence[NDArray], training: bool, version: Hashable, again: bool) -> list[NDArray]:
        """Run on `arrays`; returns the results of the symbol. If it is to run `again`, the next run draws the same
        numbers from the same states."""
        self._random = positions()
        if again:
            arrays = self._without_states(arrays)
        specialization = self.function.specialization_for(arrays, training, arrays[0]._context)
        results = self.report(arrays, specialization.call(arrays, version))
        if again:
            rewind(self._random)
        return results

    def report(self, arrays: Sequence[NDArray], results: Sequence[NDArray]) -> list[NDArray]:
        """Pass the results of one run on `arrays` to the callback; returns the results of the symbol."""
        from ..ir.dialects.mx.monitored_names import monitored_names

        for node in self.nodes:
            names = monitored_names(node.operator, len(node.inputs)) if self.operands else ()
            for name, entry in zip(names, node.inputs, strict=False):
                variable = entry.node.is_variable
                value = arrays[self.places[entry.node]] if variable else results[self.numbers[entry.node, entry.index]]
                if variable:
                    self.callback(entry.node.name.encode(), value)
                self.callback(f"{node.name}_{name}".encode(), value)
            for i in range(node.num_outputs):
                self.callback(node.output_name(i).encode(), results[self.numbers[node, i]])
        return list(results[len(results) - len(self.heads) :])

    # --- gradients --------------------------------------------------------------------------------------------------

    def backward(
        self, operands: Sequence[NDArray], wrt: Sequence[int], seeds: Sequence[NDArray], training: bool
    ) -> None:
        """Pass the gradients by the inputs of all operators to the callback. `seeds` are those by the outputs."""
        nodes: dict[Recorded, SymNode] = {}

        def seen(node: SymNode, results: list[NDArray]) -> None:
            entry = entry_of(results[0])
            if entry is not None and isinstance(entry.node, Recorded):
                nodes[entry.node] = node

        outputs = self._recorded(operands, wrt, training, seen)
        pairs = zip([o for o in outputs if o._dtype.has_cotangent], seeds, strict=True)
        reached = [(o, seed) for o, seed in pairs if entry_of(o) is not None]
        entries, cotangents = entries_of([o for o, _ in reached]), [seed for _, seed in reached]
        calls = calls_before(entries)
        pull_back(
            calls,
            entries,
            cotangents,
            observe=lambda call, *gradients: self._report_gradients(call, nodes[call], *gradients),
        )
        free(calls)

    def _recorded(
        self,
        operands: Sequence[NDArray],
        wrt: Sequence[int],
        training: bool,
        seen: Callable[[SymNode, list[NDArray]], None],
    ) -> list[NDArray]:
        """Run on a tape, with the random numbers of the last forward pass. States keep their values."""
        steps = StepwiseSpecialization(self.symbol, training)
        arrays = self._without_states([a.detach() for a in operands[: len(steps.variables)]])
        for i in wrt:
            attach(arrays[i], "null", arrays[i].copy)
        now, recording = positions(), set_recording(True)
        rewind(self._random)
        try:
            return steps.call(arrays, 0, seen)
        finally:
            set_recording(recording)
            rewind(now)

    def _without_states(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        """The arrays, with copies of states: a run leaves the states as they are."""
        states = {self.places[node] for n in self.nodes for node in n.auxiliary_inputs()}
        return [a.copy() if i in states else a for i, a in enumerate(arrays)]

    def _report_gradients(
        self, call: Recorded, node: SymNode, cotangents: Sequence[NDArray | None], gradients: Sequence[NDArray | None]
    ) -> None:
        from ..ir.dialects.mx.monitored_names import monitored_gradients

        assert call.pull is not None
        origin = call.pull.origin()
        assert origin is not None
        by_input = dict(zip(origin.wrt, gradients, strict=True))
        states = set(node.operator.auxiliary.values())
        named = [(i, a) for i, a in enumerate(origin.operands) if i not in states and a is not None]
        for i, cotangent in enumerate(cotangents if self.operands else ()):
            if cotangent is not None:
                self.callback(f"{node.name}_backward_input{i}".encode(), cotangent)
        names = monitored_gradients(node.operator, [i for i, _ in named], len(origin.operands))
        for (i, array), name in zip(named, names, strict=True):
            gradient = by_input.get(i)
            value = zeros_of(array._type(), array._context) if gradient is None else gradient
            self.callback(f"{node.name}{name}".encode(), value)
