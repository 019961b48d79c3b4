"""Runs users' operators in Python (`mx.operator.CustomOp`): adapts methods on NDArrays to functions on NumPy arrays."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.caches import Cache
from ..ir.types import DType, Shape, TensorType
from .base import MXNetError
from .context import current_context
from .shapes import from_mxnet

if TYPE_CHECKING:
    from ..ir.dialects.mx.shapes import PartialShape
    from .operator import CustomOp, CustomOpProp

Array = np.ndarray[Any, Any]
_RUNS = 4096


class PythonKind:
    """Adapts a CustomOpProp to the interface of the operator `Custom`; see `ir.dialects.mx.custom.CustomKind`."""

    def __init__(self, prop: CustomOpProp) -> None:
        self.prop = prop
        self.arguments = tuple(prop.list_arguments())
        self.results = tuple(prop.list_outputs())
        self.states = tuple(prop.list_auxiliary_states())

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

        found = self.prop.infer_shape([[] if shape is None else list(shape) for shape in inputs])
        parts = self._parts("infer_shape", found)
        arguments, results, states = ([read(shape) for shape in part] for part in parts)
        return arguments, results, states

    def dtypes(self, inputs: Sequence[DType]) -> tuple[list[DType], list[DType], list[DType]]:
        """Call the property's `infer_type` with NumPy types. Returns the dtypes of arguments, results and states."""
        found = self.prop.infer_type([_numpy_type(d) for d in inputs])
        parts = self._parts("infer_type", found)
        arguments, results, states = ([DType.from_numpy(np.dtype(t)) for t in part] for part in parts)
        return arguments, results, states

    def _parts(self, method: str, found: Any) -> list[Sequence[Any]]:
        """Split a method's result into parts for arguments, results and states. Raises AssertionError for a wrong
        number of elements."""
        if len(found) not in (2, 3):
            raise AssertionError(f"{method} must return 2 or 3 lists, it returned {len(found)}")
        parts = [*found] if len(found) == 3 else [*found, ()]
        names = (self.arguments, self.results, self.states)
        for part, expected, what in zip(parts, names, ("arguments", "outputs", "auxiliary states"), strict=True):
            if len(part) != len(expected):
                raise AssertionError(
                    f"{method} returned {len(part)} {what}, but there are {len(expected)}: {', '.join(expected)}"
                )
        return parts

    def _call(self, method: Callable[..., Any], *args: Any) -> Any:
        """Call a user's method. Its exceptions are converted to MXNetError, as in MXNet, with the original as cause."""
        try:
            return method(*args)
        except Exception as error:
            where = f"{type(self.prop).__name__}: {getattr(method, '__name__', method)}"
            raise MXNetError(f"{where} raised {type(error).__name__}: {error}") from error

    def function(
        self, training: bool, single: bool, inputs: Sequence[TensorType], outputs: Sequence[TensorType]
    ) -> Callable[..., Sequence[Array]]:
        """`forward` as a function of NumPy arrays. The operator is created at the first run, or at each run if
        `single`.

        An exception of the user's methods is raised as MXNetError, with the original as cause.
        """
        operator = self._creator(single, inputs)
        return lambda *arrays: self._forward(operator(), training, inputs, outputs, arrays)

    def with_gradient(
        self, training: bool, single: bool, inputs: Sequence[TensorType], outputs: Sequence[TensorType]
    ) -> tuple[Callable[..., Sequence[Array]], Callable[..., Sequence[Array]]]:
        """As `function`, with a last result that is the number of the run, and `backward` as a function of NumPy
        arrays: operands, results, new states, the number, and a cotangent for each float result and state.

        `backward` is called on the operator whose `forward` ran. Operators of single calls are kept for the last
        4096 runs.
        """
        operator, runs = self._creator(single, inputs), itertools.count()
        operators: Cache[int, CustomOp] = Cache("runs of custom operators", _RUNS)

        def forward(*arrays: Array) -> list[Array]:
            number, used = next(runs), operator()
            operators.add(number, used)
            return [*self._forward(used, training, inputs, outputs, arrays), np.array(number, np.int64)]

        def gradient(*arrays: Array) -> list[Array]:
            number = int(arrays[2 * len(inputs) - len(self.arguments) + len(outputs)])
            used = operators.find(number)
            if used is None:
                raise MXNetError(f"{type(self.prop).__name__}: too many calls were recorded before this backward")
            return self._backward(used, inputs, outputs, arrays)

        return forward, gradient

    def _creator(self, single: bool, inputs: Sequence[TensorType]) -> Callable[[], CustomOp]:
        """Creates the operator: for each run if `single`, otherwise once."""
        own = inputs[: len(self.arguments)]
        shapes, dtypes = [list(t.shape) for t in own], [_numpy_type(t.dtype) for t in own]

        def create() -> CustomOp:
            return self._call(self.prop.create_operator, current_context(), list(shapes), list(dtypes))

        return create if single else cache(create)

    def _forward(
        self,
        used: CustomOp,
        training: bool,
        inputs: Sequence[TensorType],
        outputs: Sequence[TensorType],
        arrays: Sequence[Array],
    ) -> list[Array]:
        count = len(self.arguments)
        operands = [_array(x, t) for x, t in zip(arrays, inputs, strict=True)]
        results = [_empty(t) for t in outputs]
        states = operands[count:]
        self._call(used.forward, training, ["write"] * len(results), operands[:count], results, states)
        return [_values(x) for x in (*results, *states)]

    def _backward(
        self, used: CustomOp, inputs: Sequence[TensorType], outputs: Sequence[TensorType], arrays: Sequence[Array]
    ) -> list[Array]:
        count, states = len(self.arguments), len(inputs) - len(self.arguments)
        operands = [_array(x, t) for x, t in zip(arrays, inputs, strict=False)]
        results = [_array(x, t) for x, t in zip(arrays[len(inputs) :], outputs, strict=False)]
        cotangents = iter(arrays[len(inputs) + len(outputs) + states + 1 :])
        seeds = [_array(next(cotangents), t) if t.dtype.has_cotangent else _empty(t) for t in outputs]
        found = [_empty(t) for t in inputs[:count]]
        self._call(used.backward, ["write"] * count, seeds, operands[:count], results, found, operands[count:])
        gradients = [_values(x) for x in found] + [np.zeros(t.shape, t.dtype.numpy) for t in inputs[count:]]
        return [g for g, t in zip(gradients, inputs, strict=True) if t.dtype.has_cotangent]


def make_kind(prop_class: type[CustomOpProp], parameters: Mapping[str, str]) -> PythonKind:
    """The kind of one use of a registered class. Raises TypeError if the constructor does not accept the parameters."""
    try:
        inspect.signature(prop_class).bind(**parameters)
    except TypeError as error:
        raise TypeError(f"{prop_class.__name__}: {error}") from None
    constructor: Any = prop_class  # the base class takes a bool, its subclasses take strings
    return PythonKind(constructor(**parameters))


def _numpy_type(dtype: DType) -> Any:
    return np.float32 if dtype is DType.BF16 else dtype.numpy.type


def _array(values: Array, type: TensorType) -> Any:
    from .ndarray import array
    from .ndarray.ndarray import empty_array

    if type.size:
        return array(values, dtype="bfloat16" if type.dtype is DType.BF16 else values.dtype)
    return empty_array(type.shape, type.dtype, current_context())


def _empty(type: TensorType) -> Any:
    from .ndarray.ndarray import empty_array

    result = empty_array(type.shape, type.dtype, current_context())
    if type.size:
        result[:] = 0
    return result


def _values(array: Any) -> Array:
    return np.asarray(array.asnumpy())
