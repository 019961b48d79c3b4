"""Operators with their parameters as functions of arrays, compiled for each signature.

OperatorFunction        an operator without values of its scalar parameters
OperatorSpecialization  an OperatorFunction compiled for operands of certain types
BoundOperator           an OperatorFunction with values of its scalar parameters
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.caches import Cache
from ...ir.graph import Effect, GraphError
from ...ir.once import once
from ...ir.types import DType, Shape, TensorType
from ...runtime.device import Device, DeviceError, Runnable
from ...runtime.devices import HOST
from ...runtime.function import Call, Function, LazySpecialization, after_call, before_call
from ...runtime.modes import hooks, modes
from ...runtime.scalars import ScalarBlock, checks_scalars
from ...runtime.storage import Storage
from ...runtime.writes import written
from ..base import MXNetError
from ..context import GPU, Context, device_of, usable
from ..dtypes import from_memory
from ..memory import OutOfMemory
from ..tracebacks import cause_of
from ..util import is_np_shape
from .array_classes import array_class, empty_array, number_class, number_on
from .family_calls import FamilyCalls
from .fast_paths import FastPath, Form, arguments, as_path, direct_call, fast_path, new_results, with_key
from .operator_graph import compiled, eager_options, operator_graph, refusal, symbolic_graph
from .recorded_calls import recorded_path
from .tape import call_recorded, is_recorded, record_without_gradient, require_writable
from .traced_calls import TracedCall

if TYPE_CHECKING:
    from ...ir.computation import Computation
    from ...ir.dialects.mx.operator import Operator
    from ...runtime.derivative import Differentiable
    from ...runtime.shape_family import ShapeFamily
    from .ndarray import NDArray

SIGNATURES = 4096
"""The number of cached specializations of one operator."""

Out = Any  # an NDArray, a sequence of them, or None


class OperatorFunction(Function["OperatorSpecialization"]):
    """An operator with all parameters except the scalar ones, which are arguments of a call. Profiles show `name`. With
    `numpy` its arrays are those of `mx.np`."""

    def __init__(self, operator: Operator, name: str = "", numpy: bool = False) -> None:
        super().__init__("operators", SIGNATURES, ages=True)
        self.operator, self.numpy = operator, numpy
        self.array = array_class("numpy") if numpy else None
        self.name = name or operator.mx_name()
        self.extents = _extents_of(operator)
        self._first = _families_of(operator, numpy) if self.extents else _new_families()
        self._weights: dict[int, tuple[int, ...]] = {}  # positions of operands named so, by the number of operands
        self._seen: Cache[Any, bool] = Cache("signatures of one call", SIGNATURES, ages=True)

    def specialise(
        self, types: tuple[TensorType, ...], training: bool, device: Device = HOST
    ) -> OperatorSpecialization:
        """The first signature of a family is compiled for its shapes; the others run programs for any shapes."""
        key = (training, device, *self._kinds(_operands_of(types)))
        first = self._first.find(key)
        further = first is not None and (first.operands, first.function.extents) != (_operands_of(types), self.extents)
        if first is not None and further and first.family is not None:
            return OperatorSpecialization(self, types, training, device, first)
        specialization = OperatorSpecialization(self, types, training, device)
        self._first.add(key, specialization)
        return specialization

    def first_call(self, arrays: Sequence[NDArray], device: Device) -> FamilyCalls | None:
        """What makes the first call of a further signature of a family on a device; None for all other calls."""
        if hooks.intercepted or not (arrays or self.extents):
            return None
        operands = [(a._dtype, a._shape) for a in arrays]
        mode = modes.training, device
        key = (*mode, *operands)
        if key in self._seen.recent or key in self.known.recent:
            return None
        first = self._first.recent.get((*mode, *self._kinds(operands)))
        if first is None or self.known.find(key) is not None or self._seen.find(key) is not None:
            return None
        if any([0 in shape for _, shape in operands]):
            return None
        if first.family is None or (first.operands, first.function.extents) == (operands, self.extents):
            return None
        self._seen.add(key, True)
        return FamilyCalls(first, self)

    def computation(self, types: tuple[TensorType, ...], training: bool, own_gradients: bool = False) -> Computation:
        """The operator on inputs of any extents."""
        from ...ir.computation import Computation
        from ...ir.dialects.mx.extents import rest_of
        from ...ir.hashing import structural_hash

        operator, operands = self.operator, _operands_of(types)
        kinds = self._kinds(operands)
        family = structural_hash(operator.name, rest_of(operator), kinds, training, own_gradients, is_np_shape())
        names = operator.input_names(len(types))
        build = partial(symbolic_graph, operator, training=training, own_gradients=own_gradients)
        return Computation(
            self.with_extents(types), build, family, (*names, operator.mx_name()), self._windows(operands)
        )

    def with_extents(self, types: tuple[TensorType, ...]) -> tuple[TensorType, ...]:
        """The types of operands, and one whose shape is the extents among the operator's parameters: programs for any
        shapes depend on them as on those of operands."""
        return (*types, TensorType(self.extents, DType.I8)) if self.extents else types

    def _kinds(self, operands: Sequence[tuple[DType, Shape]]) -> tuple[object, ...]:
        """What the types of operands in one family have in common: their dtypes, and ranks or the shapes of weights
        with a window."""
        windows = self._windows(operands)
        if not windows:
            return tuple([(dtype, len(shape)) for dtype, shape in operands])
        return tuple([(d, shape if i in windows else len(shape)) for i, (d, shape) in enumerate(operands)])

    def _windows(self, operands: Sequence[tuple[DType, Shape]]) -> frozenset[int]:
        """The positions of the operands that are weights with a window."""
        count = len(operands)
        weights = self._weights.get(count)
        if weights is None:
            names = self.operator.input_names(count)[:count]
            weights = self._weights[count] = tuple([i for i, name in enumerate(names) if name == "weight"])
        return frozenset([i for i in weights if len(operands[i][1]) > 2]) if weights else _NO_POSITIONS


_NO_POSITIONS = frozenset[int]()
_with_extents: Cache[Any, Cache[Any, OperatorSpecialization]] = Cache("operators with extents")


def _extents_of(operator: Operator) -> tuple[int, ...]:
    from ...ir.dialects.mx.extents import extents_of

    return extents_of(operator) if operator.extent_parameters else ()


def _new_families() -> Cache[Any, OperatorSpecialization]:
    return Cache("families of operators", SIGNATURES)


def _families_of(operator: Operator, numpy: bool) -> Cache[Any, OperatorSpecialization]:
    """The families of all operators that differ from this one in extents alone."""
    from ...ir.dialects.mx.extents import rest_of

    return _with_extents.get((type(operator), rest_of(operator), numpy, is_np_shape()), _new_families)


def _operands_of(types: Sequence[TensorType]) -> list[tuple[DType, Shape]]:
    return [(t.dtype, t.shape) for t in types]


class BoundOperator:
    """An operator with all parameters: a function and the scalar parameters of its calls."""

    __slots__ = ("function", "operator", "scalars")

    def __init__(self, function: OperatorFunction, operator: Operator, scalars: Sequence[float] = ()) -> None:
        self.function, self.operator, self.scalars = function, operator, scalars

    def specialization(
        self, arrays: Sequence[NDArray], out: Out = None, context: Context | None = None
    ) -> OperatorSpecialization:
        """The function compiled for operands like these. A call without operands runs on its `call_context`.
        MXNetError if the scalar parameters are invalid for them.
        """
        if modes.tracer is not None:
            return TracedCall(self)  # type: ignore[return-value]
        device = None if arrays else device_of(call_context(arrays, out, context))
        specialization = self.function.specialization(arrays, None, device)
        self._check(arrays)
        return specialization

    def caller(
        self, arrays: Sequence[NDArray], out: Out = None, context: Context | None = None
    ) -> OperatorSpecialization | FamilyCalls:
        """What makes a call on these operands; see `specialization`."""
        if modes.tracer is not None:
            return TracedCall(self)  # type: ignore[return-value]
        device = arrays[0]._storage.device if arrays else device_of(call_context(arrays, out, context))
        first = self.function.first_call(arrays, device)
        if first is None:
            return self.specialization(arrays, out, context)
        self._check(arrays)
        return first

    def _check(self, arrays: Sequence[NDArray]) -> None:
        if self.scalars and checks_scalars(type(self.operator)):
            self._require(arrays)

    def _require(self, arrays: Sequence[NDArray]) -> None:
        try:
            self.operator.require_shapes([a._type() for a in arrays])
        except ValueError as error:
            raise MXNetError(str(error)) from cause_of(error)


class OperatorSpecialization(LazySpecialization):
    """An operator compiled for operands of certain types.

    `modal` is True if the operator depends on training mode. `simple` is True if a call only runs the program. `count`
    is the number of results, `numbers` are the types of the inputs after the operands: scalar parameters, and a random
    key.
    """

    def __init__(
        self,
        function: OperatorFunction,
        types: tuple[TensorType, ...],
        training: bool,
        device: Device,
        first: OperatorSpecialization | None = None,
    ) -> None:
        """`first` is the first signature of the family, if that has programs for any shapes."""
        operator = function.operator
        self.function, self.operator, self.signature = function, operator, (types, training)
        self.operands = _operands_of(types)
        self._first = first
        self.checks_results, self.checks_operands = operator.checks_results(), operator.checks_operands()
        if first is not None:
            super().__init__(self._dynamic, None, function.name, first.layers, device)
            self.modal, self.scalars, self.simple = first.modal, first.scalars, first.simple
            self.count, self.numbers = first.count, first.numbers
            return
        graph, self.modal = operator_graph(operator, types, training)
        executable = compiled(graph, operator, device)
        super().__init__(lambda: executable, executable.outputs, function.name, graph.names(), device)
        self.scalars = ScalarBlock.of(operator, device)
        plain = not (self.state or self.random or self.scalars.count)
        self.simple = plain and not (self.checks_results or self.checks_operands)
        self.count, self.numbers = len(self.types), executable.inputs[len(types) :]

    def _dynamic(self) -> Runnable:
        """The program of a further signature. MXNetError for operands that do not fit."""
        assert self._first is not None and self._first.family is not None
        types, training = self.signature
        source = partial(self.function.computation, types, training)
        try:
            return self._first.family.executable(self.function.with_extents(types), eager_options(), source)
        except GraphError as error:
            raise MXNetError(refusal(self.operator, types, error)) from cause_of(error)

    def call(
        self, arrays: Sequence[NDArray], out: Out = None, context: Context | None = None, scalars: Sequence[float] = ()
    ) -> Any:
        """Apply to `arrays`, whose types are those of the specialization.

        Returns the visible output, or a list of several; if `out` is passed, it receives them.
        """
        context = arrays[0]._context if arrays and context is None else call_context(arrays, out, context)
        try:
            if not hooks.watched:
                results = self._results(arrays, out, context, scalars)
            elif is_recorded(arrays) and type(self.operator).has_gradient:
                results = self._recorded(arrays, out, context, scalars)
            else:
                call = Call(self.function, self, arrays, scalars)
                before_call(call)
                results = self._results(arrays, out, context, scalars)
                after_call(call, results)
                if is_recorded(arrays):
                    record_without_gradient(self.operator, arrays, results)
        except DeviceError:
            return self.on_device_of_arrays(arrays, out, scalars)
        if out is not None:
            return out
        return results[0] if len(results) == 1 else results

    def _recorded(
        self, arrays: Sequence[NDArray], out: Out, context: Context, scalars: Sequence[float]
    ) -> Sequence[NDArray]:
        """A call on the tape, which observers see too."""
        targets = [] if out is None else _as_outputs(out, self)
        for array in targets:
            require_writable(array)
        call = Call(self.function, self, arrays, scalars)
        before_call(call)
        if self.checks_operands:
            self._check_operands(arrays)
        numbers = self.scalar_arrays(scalars, context)
        try:
            results = call_recorded(self.differentiable, [*arrays, *numbers], self.count, 0, self.function.array)
        except GraphError as error:
            raise MXNetError(self._refusal(arrays, str(error))) from cause_of(error)
        after_call(call, results)
        for target, result in zip(targets, results, strict=False):
            result.copyto(target)
            target._entry = result._entry
        return targets or results

    def scalar_arrays(self, scalars: Sequence[float], context: Context) -> list[NDArray]:
        """The scalar parameters of a call as arrays."""
        return [_number(value, t, context) for value, t in zip(scalars, self.numbers, strict=False)]

    @once
    def differentiable(self) -> Differentiable:
        """The operator as a graph that can be differentiated."""
        from ...runtime.derivative import Differentiable

        types, training = self.signature
        options, origin = eager_options(training), (self.operator, len(types))
        if self._first is not None and self._first.family is not None:
            source = partial(self.function.computation, types, training, own_gradients=True)
            return self._first.family.differentiable(self.function.with_extents(types), options, source, origin)
        graph, _ = operator_graph(self.operator, types, training, own_gradients=True)
        return Differentiable(graph, options, self.device, origin)

    @once
    def family(self) -> ShapeFamily | None:
        """The further signatures of a first one; None if each is compiled for its shapes. Eager calls of other devices
        share the code of kernels by classes of sizes."""
        from ...runtime.shape_family import ShapeFamily

        types, _ = self.signature
        target = self.device.target.dynamic
        if target is None or not target.compiles_fast:
            return None
        if not (any(t.shape for t in types) or self.function.extents) or Effect.PYTHON in self.operator.effects():
            return None
        return ShapeFamily(self.name, self.layers, self.device)

    def on_device_of_arrays(self, arrays: Sequence[NDArray], out: Out = None, scalars: Sequence[float] = ()) -> Any:
        """The call on the arrays' device, which is not part of a fast path's key. MXNetError for several devices."""
        arrays = on_one_device(arrays)
        specialization = self.function.specialization(arrays)
        if specialization is self:
            contexts = ", ".join(dict.fromkeys(str(a._context) for a in arrays))
            raise MXNetError(self._refusal(arrays, f"the arrays are on different devices: {contexts}"))
        return specialization.call(arrays, out, None, scalars)

    def _results(
        self, arrays: Sequence[NDArray], out: Out, context: Context, scalars: Sequence[float]
    ) -> Sequence[NDArray]:
        if out is None and self.simple:
            results = self._new(context)
            self.executable.run([a._address for a in arrays], [r._address for r in results])
            return results
        if self.checks_operands:
            self._check_operands(arrays)
        results = self._new(context) if out is None else _as_outputs(out, self)
        before = [a.asnumpy() for a in arrays] if self.checks_results else []
        self._run_to(arrays, results, out is None, context, scalars)
        if self.checks_results:
            self._check_results(arrays, before, results)
        return results

    def _run_to(
        self,
        arrays: Sequence[NDArray],
        results: Sequence[NDArray],
        fresh: bool,
        context: Context,
        scalars: Sequence[float],
    ) -> None:
        """Run with these arrays as results: they are new if `fresh`, else they can overlap operands."""
        targets, copies = ([r._address for r in results], []) if fresh else self._targets(arrays, results)
        block = self.scalars.filled(scalars)
        self.run(arrays, targets, context, 0, block.addresses)
        self.scalars.free.append(block)
        for target, source, nbytes in copies:
            self.device.copy(target, source.address, nbytes)
        if not fresh:
            for array in results:
                written(array._storage)

    def _check_results(self, arrays: Sequence[NDArray], before: list[np.ndarray], results: Sequence[NDArray]) -> None:
        """MXNetError if the results are invalid for the operands `before` the run."""
        reason = self.operator.results_problem(before, [r.asnumpy() for r in results])
        if reason is not None:
            raise MXNetError(self._refusal(arrays, reason))

    def _check_operands(self, arrays: Sequence[NDArray]) -> None:
        """MXNetError or IndexError if the elements of the operands are invalid."""
        reason = self.operator.operands_problem([from_memory(a._memory(), a._dtype) for a in arrays])
        if reason is not None:
            error_class = IndexError if type(self.operator).index_errors else MXNetError
            raise error_class(self._refusal(arrays, reason))

    def _refusal(self, arrays: Sequence[NDArray], reason: str) -> str:
        return refusal(self.operator, [a._type() for a in arrays], reason)

    def _new(self, context: Context) -> list[NDArray]:
        try:
            return [empty_array(t.shape, t.dtype, context, self.function.array) for t in self.types]
        except OutOfMemory as error:
            raise error.of(self.operator.mx_name()) from None

    def _targets(
        self, arrays: Sequence[NDArray], results: Sequence[NDArray]
    ) -> tuple[list[int], list[tuple[int, Storage, int]]]:
        """The address of each output for the program, and the copies (target, source, bytes) to make afterwards. An
        output that overlaps an operand is computed in a temporary unless it may overwrite the operand.
        """
        targets: list[int] = []
        copies: list[tuple[int, Storage, int]] = []
        for number, array in enumerate(results):
            if self._may_write(number, array, arrays):
                targets.append(array._address)
                continue
            temporary = self.device.allocate(array._nbytes())
            targets.append(temporary.address)
            copies.append((array._address, temporary, array._nbytes()))
        return targets, copies

    def _may_write(self, output: int, target: NDArray, arrays: Sequence[NDArray]) -> bool:
        for i, array in enumerate(arrays):
            if array._storage is not target._storage or not _overlap(array, target):
                continue
            same = array._address == target._address and array._shape == target._shape
            if not same or not self.executable.may_overwrite(output, i):
                return False
        return True

    @property
    def has_checks(self) -> bool:
        """True if the values of operands or results are checked in each call."""
        return self.checks_results or self.checks_operands

    def fast(self) -> FastPath:
        """The fast path of a call without numbers, as a function of the operands."""
        if self.has_checks:
            return as_path(lambda *arrays: self.call(arrays), self.device)
        form = self.form(new_results(self.types))
        call = fast_path(form, self, run=direct_call(self))
        return as_path(call, self.device, self.fast_recorded())

    def form(self, results: tuple[str, ...], keywords: bool = False) -> Form:
        """The form of calls with these results: new ones, or operands. States and operands that are overwritten share
        memory with no other operand."""
        names = arguments(len(self.signature[0]))
        changed = {*(names[i] for i in self.state), *results} & set(names)
        disjoint = [(x, y) for x, y in combinations(names, 2) if x in changed or y in changed]
        operands = with_key([*names, *["number"] * self.scalars.count], self)
        replaced = tuple([names[i] for i in self.state])
        numpy = self.function.numpy
        return Form(len(names), operands, results, len(results), replaced, tuple(disjoint), keywords, numpy=numpy)

    def fast_recorded(self) -> FastPath:
        """The fast path of a call that a tape records, in the mode of this specialization."""
        types = self.signature[0]
        slow = lambda *arrays: self.call(arrays)  # noqa: E731
        slowly = self.scalars.count or self.has_checks
        if slowly:
            return as_path(slow, self.device)
        numpy = self.function.numpy
        return as_path(recorded_path(lambda: self.differentiable, types, self.count, slow, numpy), self.device)

    @property
    def may_write_first(self) -> bool:
        """True if a call can overwrite its first operand without a temporary."""
        same = self.types[0] == self.executable.inputs[0]
        return self.simple and same and self.executable.may_overwrite(0, 0)

    def fast_in_place(self) -> FastPath:
        """The fast path of a call that overwrites its first operand; the others share no memory with it or are the same
        array."""
        form = self.form(("x0",))._replace(disjoint=())
        return as_path(fast_path(form, self, run=direct_call(self)), self.device)


def _number(value: float, type: TensorType, context: Context) -> NDArray:
    """A scalar parameter as an array."""
    number = empty_array((), type.dtype, context)
    number._write(value)
    return number


def call_context(arrays: Sequence[NDArray], out: Out, context: Context | None) -> Context:
    """The context of a call: `context` if passed, else that of the first operand or output, else the current one."""
    placed = [*arrays[:1], *(out[:1] if isinstance(out, list | tuple) else (out,))]
    first = next((a for a in placed if a is not None), None)
    return usable(context) if first is None or context is not None else first._context


def on_one_device(arrays: Sequence[NDArray]) -> list[NDArray]:
    """The arrays, with operands that are numbers copied to the device of the other operands."""
    device = next((a._context for a in arrays if a._context.device_typeid == GPU), None)
    if device is None:
        return list(arrays)
    return [number_on(a, device) if a.__class__ is number_class() else a for a in arrays]


def _overlap(x: NDArray, y: NDArray) -> bool:
    return x._address < y._address + y._nbytes() and y._address < x._address + x._nbytes()


def _as_outputs(out: Out, specialization: OperatorSpecialization) -> list[NDArray]:
    """The arrays of `out`. MXNetError if their number or types do not fit."""
    outputs = list(out) if isinstance(out, list | tuple) else [out]
    name = specialization.operator.mx_name()
    if len(outputs) != len(specialization.types):
        raise MXNetError(f"{name} has {len(specialization.types)} outputs, out has {len(outputs)}")
    for array, type in zip(outputs, specialization.types, strict=True):
        if array._shape != type.shape or array._dtype is not type.dtype:
            raise MXNetError(f"{name} returns {type.description}, out is {array._type().description}")
    return outputs
