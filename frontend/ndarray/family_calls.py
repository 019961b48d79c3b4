"""Eager calls of new shapes, which may not return: they run programs whose numbers are operands, and make nothing for
their shapes. The second call of a signature makes a specialization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...ir.types import DType, Shape
from ...runtime.device import Numbers
from ...runtime.modes import hooks
from ...runtime.shared_state import copy_shared_state, write_back
from ...runtime.writes import written
from ..context import Context, device_of, usable
from .array_classes import empty_array, zero_array
from .tape import (
    Origin,
    dense_cotangent,
    differentiable_gradients,
    is_recorded,
    key_array,
    record,
    record_without_gradient,
    variable_of,
    wrt_of,
)

if TYPE_CHECKING:
    from ...runtime.dynamic import OpenCall
    from ...runtime.dynamic_derivatives import OpenDerivative
    from .ndarray import NDArray
    from .operator_function import OperatorFunction, OperatorSpecialization


class FamilyCalls:
    """The first calls of all signatures of a family but its first one, of a function. They get no fast path, which
    would take longer than the call."""

    def __init__(self, first: OperatorSpecialization, function: OperatorFunction) -> None:
        self.first, self.function = first, function
        self.device = first.device

    def call(
        self, arrays: Sequence[NDArray], out: Any = None, context: Context | None = None, scalars: Sequence[float] = ()
    ) -> Any:
        """See `OperatorSpecialization.call`."""
        results = None
        if out is None and not hooks.intercepted:
            context = arrays[0]._context if arrays else usable(context)
            results = self._results(arrays, context, scalars)
        if results is None:
            specialization = self.function.specialization(arrays, None, self.device)
            return specialization.call(arrays, out, context, scalars)
        return results[0] if len(results) == 1 else results

    def _results(self, arrays: Sequence[NDArray], context: Context, scalars: Sequence[float]) -> list[NDArray] | None:
        """The results, on the tape if the call is recorded; None for a call that needs a specialization."""
        first, device = self.first, self.device
        if first.family is None or first.has_checks or any([a._storage.device is not device for a in arrays]):
            return None
        shapes = [a._shape for a in arrays]
        if self.function.extents:
            shapes.append(self.function.extents)
        recorded = is_recorded(arrays)
        if recorded and type(first.operator).has_gradient:
            wrt = wrt_of(arrays)
            derivative = first.family.open_derivative((wrt, ()), shapes) if wrt else None
            return None if derivative is None else self._recorded(*derivative, arrays, context, scalars)
        opened = first.family.open(shapes)
        if opened is None:
            return None
        outputs = self._of_kind(_run(*opened, self._operands(arrays, context, scalars), context))
        if recorded:
            record_without_gradient(self.function.operator, arrays, outputs)
        return outputs

    def _recorded(
        self,
        opened: OpenDerivative,
        numbers: Numbers,
        arrays: Sequence[NDArray],
        context: Context,
        scalars: Sequence[float],
    ) -> list[NDArray] | None:
        """The results of a call on the tape; None if a gradient is row-sparse."""
        wrt = opened.dynamic.wrt
        if any([getattr(variable_of(arrays[i]), "rows", False) for i in wrt]):
            return None
        operands = self._operands(arrays, context, scalars)
        outputs = _run(opened.forward, numbers, operands, context)
        kept = [(operands if s.is_input else outputs)[s.position] for s in opened.dynamic.residuals]
        results = self._of_kind(outputs[: self.first.count])
        record(operands, wrt, _OpenPullback(self, opened, numbers, operands, kept, results), results)
        return results

    def _of_kind(self, results: list[NDArray]) -> list[NDArray]:
        """The results, as arrays of `mx.np` if the function is one of them."""
        cls = self.function.array
        if cls is not None:
            for result in results:
                result.__class__ = cls
        return results

    def _operands(self, arrays: Sequence[NDArray], context: Context, scalars: Sequence[float]) -> list[NDArray]:
        """The operands of a program: the arrays, and the scalar parameters as arrays."""
        return [*arrays, *self.first.scalar_arrays(scalars, context)] if scalars else list(arrays)


def _run(call: OpenCall, numbers: Numbers, operands: list[NDArray], context: Context) -> list[NDArray]:
    """The outputs of a run, in new arrays. A random key is added to the operands."""
    device = device_of(context)
    if call.random is not None:
        operands.insert(call.random.input, key_array(context, call.random, device))
    outputs = [empty_array(s, t, context) for s, t in zip(call.shapes(numbers), call.dtypes, strict=True)]
    addresses = [a._address for a in operands]
    copies = copy_shared_state(addresses, [a._type() for a in operands], call.state, device) if call.state else ()
    call.program.run([*addresses, *[a._address for a in outputs]], numbers)
    write_back(copies)
    for i in call.state:
        written(operands[i]._storage)
    return outputs


class _OpenPullback:
    """The gradient of a call, whose backward program runs with the numbers of the forward program."""

    __slots__ = ("calls", "context", "kept", "numbers", "opened", "operands", "results")

    def __init__(
        self,
        calls: FamilyCalls,
        opened: OpenDerivative,
        numbers: Numbers,
        operands: Sequence[NDArray],
        kept: Sequence[NDArray],
        results: Sequence[NDArray],
    ) -> None:
        self.calls, self.opened, self.numbers, self.operands, self.kept = calls, opened, numbers, operands, kept
        self.context = operands[0]._context
        self.results: list[tuple[Shape, DType]] = [(r._shape, r._dtype) for r in results]

    def __call__(self, cotangents: list[NDArray | None], differentiable: bool) -> Sequence[NDArray | None]:
        dynamic = self.opened.dynamic
        if not dynamic.traits.runs(any([c is not None for c in cotangents])):
            return [None] * len(dynamic.wrt)
        seeds = [
            zero_array(shape, dtype, self.context) if c is None else dense_cotangent(c)
            for c, (shape, dtype) in zip(cotangents, self.results, strict=True)
            if dtype.has_cotangent
        ]
        if differentiable:
            calls = self.calls.function.specialization(self._arrays())
            return differentiable_gradients(calls.differentiable, dynamic.wrt, self.operands, seeds, self.context)
        gradients = _run(self.opened.backward, self.numbers, [*self.kept, *seeds], self.context)
        return [None if z else g for g, z in zip(gradients, dynamic.traits.zero, strict=True)]

    def reads_cotangent(self, position: int) -> bool:
        """See `CompiledPullback`."""
        number = sum(dtype.has_cotangent for _, dtype in self.results[:position])
        return self.opened.dynamic.traits.reads_cotangent[number]

    def origin(self) -> Origin:
        operands = self._arrays()
        return Origin(self.calls.function.operator, operands, self.opened.dynamic.wrt, self.operands[len(operands) :])

    def _arrays(self) -> Sequence[NDArray]:
        """The operands without scalar parameters."""
        types, _ = self.calls.first.signature
        return self.operands[: len(types)]
