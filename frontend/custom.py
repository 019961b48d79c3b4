"""Runs operators that users wrote in Python (`mx.operator.CustomOp`): between their methods on NDArrays and the
compiler's functions on arrays."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.types import DType, Shape, TensorType
from .base import MXNetError
from .context import current_context

if TYPE_CHECKING:
    from .operator import CustomOp, CustomOpProp, PythonOp

Array = np.ndarray[Any, Any]
_numbers = itertools.count()


class PythonKind:
    """What a property says, in the form that the operator `Custom` reads; see `ir.dialects.mx.custom.CustomKind`."""

    def __init__(self, prop: CustomOpProp) -> None:
        self.prop = prop
        self.arguments = tuple(prop.list_arguments())
        self.results = tuple(prop.list_outputs())
        self.states = tuple(prop.list_auxiliary_states())

    def shapes(self, inputs: Sequence[Shape | None]) -> tuple[list[Shape], list[Shape], list[Shape]]:
        """`infer_shape`; an unknown shape is an empty list, as in MXNet."""
        found = self.prop.infer_shape([[] if shape is None else list(shape) for shape in inputs])
        parts = self._parts("infer_shape", found)
        arguments, results, states = ([tuple(int(n) for n in shape) for shape in part] for part in parts)
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


def symbol_of(owner: PythonOp, on_numpy: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The symbol that uses an operator of the interfaces before CustomOp, which has no registered name: it is given
    one, under which other processes do not know it."""
    from . import symbol
    from .operator import CustomOp, CustomOpProp, register

    class Runner(CustomOp):
        """Hands the arrays to the owner."""

        def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
            if not on_numpy:
                owner.forward(in_data=in_data, out_data=out_data)
                return
            results = [x.asnumpy() for x in out_data]
            owner.forward(in_data=[x.asnumpy() for x in in_data], out_data=results)
            for target, value in zip(out_data, results, strict=True):
                target[:] = value

    class Prop(CustomOpProp):
        """Says what the owner says."""

        def list_arguments(self) -> list[str]:
            return owner.list_arguments()

        def list_outputs(self) -> list[str]:
            return owner.list_outputs()

        def infer_shape(self, in_shape: Any) -> Any:
            return owner.infer_shape(in_shape)

        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> CustomOp:
            return Runner()

    name = f"_{type(owner).__name__}{next(_numbers)}"
    register(name)(Prop)
    function: Any = getattr(symbol, "Custom")  # noqa: B009 (made when it is asked for)
    return function(*args, op_type=name, **kwargs)
