"""Runs operators that users wrote in Python (`mx.operator.CustomOp`): between their methods on NDArrays and the
compiler's functions on arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.types import DType, Shape, TensorType
from .base import MXNetError
from .context import current_context
from .shapes import from_mxnet

if TYPE_CHECKING:
    from ..ir.dialects.mx.shapes import PartialShape
    from .operator import CustomOp, CustomOpProp

Array = np.ndarray[Any, Any]


class PythonKind:
    """What a property says, in the form that the operator `Custom` reads; see `ir.dialects.mx.custom.CustomKind`."""

    def __init__(self, prop: CustomOpProp) -> None:
        self.prop = prop
        self.arguments = tuple(prop.list_arguments())
        self.results = tuple(prop.list_outputs())
        self.states = tuple(prop.list_auxiliary_states())

    def shapes(
        self, inputs: Sequence[Shape | None]
    ) -> tuple[list[PartialShape], list[PartialShape], list[PartialShape]]:
        """`infer_shape`; an unknown shape is an empty list, as in MXNet. If all inputs are known, so are the results,
        and 0 is a size."""

        def read(shape: Any) -> PartialShape:
            extents = tuple(int(n) for n in shape)
            return from_mxnet(extents) if None in inputs else extents

        found = self.prop.infer_shape([[] if shape is None else list(shape) for shape in inputs])
        parts = self._parts("infer_shape", found)
        arguments, results, states = ([read(shape) for shape in part] for part in parts)
        return arguments, results, states

    def dtypes(self, inputs: Sequence[DType]) -> tuple[list[DType], list[DType], list[DType]]:
        """`infer_type`, in NumPy's types."""
        found = self.prop.infer_type([_numpy_type(d) for d in inputs])
        parts = self._parts("infer_type", found)
        arguments, results, states = ([DType.from_numpy(np.dtype(t)) for t in part] for part in parts)
        return arguments, results, states

    def _parts(self, method: str, found: Any) -> list[Sequence[Any]]:
        """Those of arguments, results and states. AssertionError where there are too few."""
        if len(found) not in (2, 3):
            raise AssertionError(f"{method} must return 2 or 3 lists, it returned {len(found)}")
        parts = [*found] if len(found) == 3 else [*found, ()]
        names = (self.arguments, self.results, self.states)
        for part, wanted, what in zip(parts, names, ("arguments", "outputs", "auxiliary states"), strict=True):
            if len(part) != len(wanted):
                raise AssertionError(f"{method} gives {len(part)} {what}, there are {len(wanted)}: {', '.join(wanted)}")
        return parts

    def _call(self, method: Callable[..., Any], *args: Any) -> Any:
        """A user's method. MXNetError, as in MXNet, in place of what it raises, which is the cause."""
        try:
            return method(*args)
        except Exception as error:
            where = f"{type(self.prop).__name__}: {getattr(method, '__name__', method)}"
            raise MXNetError(f"{where} raised {type(error).__name__}: {error}") from error

    def function(
        self, training: bool, single: bool, inputs: Sequence[TensorType], outputs: Sequence[TensorType]
    ) -> Callable[..., Sequence[Array]]:
        """`forward` as a function of arrays. The operator is made at the first run, for `single` calls at each.

        MXNetError, whose cause is what the user's methods raise.
        """
        count = len(self.arguments)
        shapes, dtypes = [list(t.shape) for t in inputs[:count]], [_numpy_type(t.dtype) for t in inputs[:count]]
        kept: list[CustomOp] = []

        def operator() -> CustomOp:
            if kept:
                return kept[0]
            made = self._call(self.prop.create_operator, current_context(), list(shapes), list(dtypes))
            if not single:
                kept.append(made)
            return made

        def run(*arrays: Array) -> list[Array]:
            given = [_array(x, t) for x, t in zip(arrays, inputs, strict=True)]
            results = [_empty(t) for t in outputs]
            states = given[count:]
            self._call(operator().forward, training, ["write"] * len(results), given[:count], results, states)
            return [_values(x) for x in (*results, *states)]

        return run


def make_kind(prop_class: type[CustomOpProp], parameters: Mapping[str, str]) -> PythonKind:
    """One use of a registered class. TypeError where its constructor takes no such parameter."""
    try:
        inspect.signature(prop_class).bind(**parameters)
    except TypeError as error:
        raise TypeError(f"{prop_class.__name__}: {error}") from None
    maker: Any = prop_class  # the base class takes a truth value, its subclasses texts
    return PythonKind(maker(**parameters))


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

    made = empty_array(type.shape, type.dtype, current_context())
    if type.size:
        made[:] = 0
    return made


def _values(array: Any) -> Array:
    return np.asarray(array.asnumpy())
