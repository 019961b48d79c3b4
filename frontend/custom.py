"""Runs users' operators in Python (`mx.operator.CustomOp`) in graphs: the description of one use, and its functions.

`custom_calls.py` runs them on arrays, one call at a time.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.caches import Cache
from ..ir.dialects.core.host_callback import HostFunction, HostGradient
from ..ir.types import DType, Shape, TensorType
from ..runtime.modes import hooks, modes, set_recording, set_training
from ..runtime.storage import wrap_numpy
from .base import MXNetError
from .context import GPU, Context, current_context
from .custom_calls import apply, unread
from .shapes import from_mxnet
from .type_flags import DTYPE_FLAGS

if TYPE_CHECKING:
    from ..ir.dialects.mx.custom import Custom, CustomUse
    from ..ir.dialects.mx.shapes import PartialShape
    from .operator import CustomOp, CustomOpProp

Array = np.ndarray[Any, Any]
_RUNS = 4096


class PythonKind:
    """Adapts a CustomOpProp to the interface of the operator `Custom`; see `ir.dialects.mx.custom.CustomKind`.

    `name` is the name under which the property is registered. `reads` are the positions of the results' gradients, the
    arguments and the results that `backward` reads.
    """

    def __init__(self, name: str, prop: CustomOpProp) -> None:
        self.name, self.prop = name, prop
        self.arguments = tuple(prop.list_arguments())
        self.results = tuple(prop.list_outputs())
        self.states = tuple(prop.list_auxiliary_states())
        self.reads = self._read_by_backward()

    def _read_by_backward(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Call `declare_backward_dependency` with numbers for all arrays, as MXNet does."""
        count, last = len(self.results), len(self.results) + len(self.arguments)
        numbers = range(count), range(count, last), range(last, last + count)
        dependencies = self.prop.declare_backward_dependency(*map(list, numbers))
        first, second, third = (tuple(n - r.start for n in r if n in set(dependencies)) for r in numbers)
        return first, second, third

    # --- inference --------------------------------------------------------------------------------------------------

    def shapes(
        self, inputs: Sequence[Shape | None]
    ) -> tuple[list[PartialShape], list[PartialShape], list[PartialShape]]:
        """Call the property's `infer_shape`. An unknown input shape is passed as an empty list, as in MXNet.

        Returns the shapes of arguments, results and states. If all input shapes are known, an extent of 0 in the
        result is a size, otherwise it is unknown.
        """

        def read(shape: Any) -> PartialShape:
            extents = tuple(int(n) for n in shape)
            return from_mxnet(extents) if None in inputs else extents

        inferred = self.prop.infer_shape([[] if shape is None else list(shape) for shape in inputs])
        parts = self._parts("infer_shape", inferred)
        arguments, results, states = ([read(shape) for shape in part] for part in parts)
        return arguments, results, states

    def dtypes(self, inputs: Sequence[DType]) -> tuple[list[DType], list[DType], list[DType]]:
        """Call the property's `infer_type` with NumPy types. Returns the dtypes of arguments, results and states."""
        inferred = self.prop.infer_type([_numpy_type(d) for d in inputs])
        parts = self._parts("infer_type", inferred)
        arguments, results, states = ([DType.from_numpy(np.dtype(t)) for t in part] for part in parts)
        return arguments, results, states

    def storage_types(self, inputs: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
        """Call the property's `infer_storage_type`. Returns the storage types of arguments, results and states."""
        inferred = self.invoke(self.prop.infer_storage_type, list(inputs))
        arguments, results, states = map(list, self.invoke(self._parts, "infer_storage_type", inferred))
        return arguments, results, states

    def _parts(self, method: str, inferred: Any) -> list[Sequence[Any]]:
        """Split a method's result into parts for arguments, results and states. Raises AssertionError for a wrong
        number of elements."""
        if len(inferred) not in (2, 3):
            raise AssertionError(f"{method} must return 2 or 3 lists, it returned {len(inferred)}")
        parts = [*inferred] if len(inferred) == 3 else [*inferred, ()]
        names = (self.arguments, self.results, self.states)
        for part, expected, what in zip(parts, names, ("arguments", "outputs", "auxiliary states"), strict=True):
            if len(part) != len(expected):
                raise AssertionError(
                    f"{method} returned {len(part)} {what}, but there are {len(expected)}: {', '.join(expected)}"
                )
        return parts

    # --- the user's operator ----------------------------------------------------------------------------------------

    def invoke(self, method: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Call a user's method. Its exceptions are converted to MXNetError, as in MXNet, with the original as cause."""
        try:
            return method(*args, **named)
        except Exception as error:
            where = f"{type(self.prop).__name__}: {getattr(method, '__name__', method)}"
            raise MXNetError(f"{where} raised {type(error).__name__}: {error}") from error

    def create(self, context: Context, types: Sequence[TensorType]) -> CustomOp:
        """Create the operator for operands of these types. As in MXNet it gets numbers for dtypes."""
        shapes, dtypes = [list(t.shape) for t in types], [DTYPE_FLAGS[t.dtype.full_name] for t in types]
        return self.invoke(self.prop.create_operator, context, shapes, dtypes)

    def forward(self, used: CustomOp, context: Context, training: bool, **named: Any) -> None:
        """Call `forward`, which is not recorded."""
        with hooks.in_python(self.name), _modes(context, training):
            self.invoke(used.forward, is_train=int(training), **named)

    def backward(self, used: CustomOp, context: Context, training: bool, **named: Any) -> None:
        """Call `backward`, which is not recorded."""
        with hooks.in_python(f"_backward_{self.name}"), _modes(context, training):
            self.invoke(used.backward, **named)

    def apply(self, operator: Custom, arrays: Sequence[Any], out: Any, context: Context | None) -> Any:
        """Call the operator on arrays of any storage types."""
        return apply(self, operator, arrays, out, context)

    def call(self, use: CustomUse) -> tuple[HostFunction, HostGradient | None]:
        """The operator as a function of NumPy arrays, and its gradient."""
        for stype in self.storage_types(["default"] * len(self.arguments))[1]:
            if stype != "default":
                raise MXNetError(f"{type(self.prop).__name__}: an output of type {stype} in a graph of dense arrays")
        calls = _GraphCalls(self, use)
        if not use.differentiable:
            return calls.forward, None
        count, states = len(self.arguments), len(self.states)
        grads, arguments, results = self.reads
        wrt = tuple(i for i in range(count) if use.operands[i].dtype.has_cotangent)
        seeds = tuple(i for i in grads if use.results[i].dtype.has_cotangent)
        operands = (*arguments, *range(count, count + states))
        return calls.forward, HostGradient(calls.backward, wrt, operands, (*results, len(self.results)), seeds)


class _GraphCalls:
    """The functions of one use in a graph. Each run has a number, by which the gradient finds the operator that ran."""

    def __init__(self, kind: PythonKind, use: CustomUse) -> None:
        self.kind, self.use = kind, use
        self._numbers = itertools.count()
        self._operators: Cache[int, CustomOp] = Cache("runs of custom operators", _RUNS)

    def _take(self, context: Context) -> CustomOp:
        """The operator of a run."""
        use, types = self.use, self.use.operands
        if use.kept is None:
            return self.kind.create(context, types)
        return use.kept.take((types, context), use.differentiable, lambda: self.kind.create(context, types))

    def _give(self, context: Context, used: CustomOp) -> None:
        if self.use.kept is not None:
            self.use.kept.give((self.use.operands, context), self.use.differentiable, used)

    def forward(self, *arrays: Array) -> list[Array]:
        """The results and the number of the run. States are changed in place."""
        context, use, count = current_context(), self.use, len(self.kind.arguments)
        used, number = self._take(context), next(self._numbers)
        if use.differentiable:
            self._operators.add(number, used)
        operands = _Arrays(arrays, use.operands, context)
        results = _Arrays([np.zeros(t.shape, _numpy_type(t.dtype)) for t in use.results], use.results, context)
        self.kind.forward(
            used,
            context,
            use.training,
            req=["write"] * len(results.passed),
            in_data=operands.passed[:count],
            out_data=results.passed,
            aux=operands.passed[count:],
        )
        if not use.differentiable:
            self._give(context, used)
        operands.read_back()
        return [*results.read_back(), np.array(number, np.int64)]

    def backward(self, wrt: tuple[int, ...]) -> HostFunction:
        """The gradient by the arguments at `wrt`, as a function of what `HostGradient` reads."""
        return lambda *arrays: self._backward(wrt, list(arrays))

    def _backward(self, wrt: tuple[int, ...], arrays: list[Array]) -> list[Array]:
        custom, use, context = self.kind, self.use, current_context()
        grads, arguments, results = custom.reads
        count = len(custom.arguments)

        def taken(positions: Sequence[int], types: Sequence[TensorType]) -> _Arrays:
            read = [arrays.pop(0) if i in positions else None for i in range(len(types))]
            return _Arrays(read, types, context)

        in_data, aux = taken(arguments, use.operands[:count]), taken(range(len(custom.states)), use.operands[count:])
        out_data = taken(results, use.results)
        used = self._operators.find(int(arrays.pop(0)))
        if used is None:
            raise MXNetError(f"{type(custom.prop).__name__}: too many calls were recorded before this backward")
        out_grad = _Arrays(self._seeds(grads, arrays), use.results, context)
        types = use.operands[:count]
        in_grad = _Arrays([np.zeros(t.shape, _numpy_type(t.dtype)) for t in types], types, context)
        custom.backward(
            used,
            context,
            use.training,
            req=[self._request(i, wrt) for i in range(count)],
            out_grad=out_grad.passed,
            in_data=in_data.passed,
            out_data=out_data.passed,
            in_grad=in_grad.passed,
            aux=aux.passed,
        )
        self._give(context, used)
        for changed in (in_data, aux):
            changed.read_back()
        gradients = in_grad.read_back()
        return [gradients[i] for i in wrt]

    def _seeds(self, positions: Sequence[int], arrays: list[Array]) -> list[Array | None]:
        """The gradients of the results that `backward` reads; zeros for results of dtypes without gradients."""
        types = self.use.results
        seeds: list[Array | None] = [None] * len(types)
        for i in positions:
            seeds[i] = (
                arrays.pop(0) if types[i].dtype.has_cotangent else np.zeros(types[i].shape, _numpy_type(types[i].dtype))
            )
        return seeds

    def _request(self, argument: int, wrt: Sequence[int]) -> str:
        if argument not in wrt:
            return "null"
        return "add" if self.use.inputs.get(argument, -1) in modes.added else "write"


class _Arrays:
    """NumPy arrays as the NDArrays that a user's method gets: `passed`. They share memory if they can. What is not
    read is an array of shape (), where MXNet passes an array without memory."""

    def __init__(self, arrays: Sequence[Array | None], types: Sequence[TensorType], context: Context) -> None:
        self._arrays = arrays
        self.passed = [
            unread(context) if a is None else _as_ndarray(a, t, context) for a, t in zip(arrays, types, strict=True)
        ]

    def read_back(self) -> list[Array]:
        """The arrays, with what the method wrote."""
        for array, passed in zip(self._arrays, self.passed, strict=True):
            if array is not None and getattr(passed._storage, "array", None) is not array:
                array[...] = passed.asnumpy()
        return [a for a in self._arrays if a is not None]


def _as_ndarray(values: Array, type: TensorType, context: Context) -> Any:
    from .ndarray import array
    from .ndarray.array_classes import array_at, empty_array

    if not type.size:
        return empty_array(type.shape, type.dtype, context)
    if context.device_typeid == GPU or type.dtype is DType.BF16 or not values.flags.c_contiguous:
        return array(values, context, "bfloat16" if type.dtype is DType.BF16 else values.dtype)
    storage = wrap_numpy(values)
    return array_at(storage, storage.address, type.shape, type.dtype, context)


@contextmanager
def _modes(context: Context, training: bool) -> Generator[None]:
    """The context and the modes of a user's method: it is not recorded."""
    recording, before = set_recording(False), set_training(training)
    try:
        with context:
            yield
    finally:
        set_training(before)
        set_recording(recording)


def make_kind(name: str, prop_class: type[CustomOpProp], parameters: Mapping[str, str]) -> PythonKind:
    """The kind of one use of a registered class. Raises TypeError if the constructor does not accept the parameters."""
    constructor: Any = prop_class  # the base class takes a bool, its subclasses take strings
    try:
        prop = constructor(**parameters)
    except TypeError:
        _check_parameters(prop_class, parameters)
        raise
    return PythonKind(name, prop)


def _check_parameters(prop_class: type[CustomOpProp], parameters: Mapping[str, str]) -> None:
    """TypeError that names the class if its constructor does not accept the parameters."""
    try:
        inspect.signature(prop_class).bind(**parameters)
    except TypeError as error:
        raise TypeError(f"{prop_class.__name__}: {error}") from None


def _numpy_type(dtype: DType) -> Any:
    return np.float32 if dtype is DType.BF16 else dtype.numpy.type
