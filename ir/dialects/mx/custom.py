"""The operator that runs users' Python code: `Custom`, and the table of registered operators.

The frontend registers a factory for each `op_type`; a graph stores only the operator's texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ...graph import Attribute, Value
from ...types import DType, Shape, TensorType
from .operator import Operator, Results, operator
from .parameters import Text, attribute_text
from .shapes import PartialShape, is_known, unify_at

if TYPE_CHECKING:
    from .builder import MxBuilder

Array = np.ndarray[Any, Any]


class UserCodeError(ValueError):
    """A user's method raised an exception, which is the cause."""


class CustomKind(Protocol):
    """The description of one use of a registered operator. `shapes` and `dtypes` are for arguments, results and
    states; shapes are known if all inputs' shapes are. `function` takes the arrays of arguments and states and returns
    the arrays of results and new states. `with_gradient` returns such a function that also returns an int64 number of
    the run, and its gradient: a function of the operands, all of its results and one cotangent for each float result,
    which returns one array for each float operand."""

    arguments: tuple[str, ...]
    results: tuple[str, ...]
    states: tuple[str, ...]

    def shapes(
        self, inputs: Sequence[Shape | None]
    ) -> tuple[list[PartialShape], list[PartialShape], list[PartialShape]]: ...

    def dtypes(self, inputs: Sequence[DType]) -> tuple[list[DType], list[DType], list[DType]]: ...

    def function(
        self, training: bool, single: bool, inputs: Sequence[TensorType], outputs: Sequence[TensorType]
    ) -> Callable[..., Sequence[Array]]: ...

    def with_gradient(
        self, training: bool, single: bool, inputs: Sequence[TensorType], outputs: Sequence[TensorType]
    ) -> tuple[Callable[..., Sequence[Array]], Callable[..., Sequence[Array]]]: ...


Factory = Callable[[Mapping[str, str]], CustomKind]
_factories: dict[str, Factory] = {}


_RUN = TensorType((), DType.I64)
"""The number of a run, by which its gradient finds the operator that ran."""


def _plain(type: TensorType) -> TensorType:
    """The type with plain extents: a specialization for them, because Python code receives plain shapes."""
    return replace(type, shape=tuple(int(n) for n in type.shape))


def register_custom(op_type: str, factory: Factory) -> None:
    """Register `factory`, which creates the operator `op_type` from its other parameters."""
    _factories[op_type] = factory
    _made.cache_clear()


@lru_cache(maxsize=256)
def _made(op_type: str, parameters: tuple[tuple[str, str], ...]) -> CustomKind:
    return _factories[op_type](dict(parameters))


@operator("Custom", aliases=("_npi_Custom",))
class Custom(Operator):
    """Calls an operator that a program registered with mx.operator.register.

    Args:
        data: The inputs of the operator.
        op_type: The name under which it is registered. All other parameters are passed to it as text.
    """

    unknown_parameters = "keep"
    inputs = ("data*",)
    variadic = ""
    op_type: Text

    def check(self) -> None:
        if self.op_type not in _factories:
            known = ", ".join(sorted(_factories)) or "none"
            problem = f"op_type {self.op_type!r} is not registered with mx.operator.register"
            raise ValueError(f"Custom: {problem} (registered: {known})")
        try:
            _ = self.kind
        except Exception as error:
            raise UserCodeError(f"Custom: {self.op_type} cannot be created: {type(error).__name__}: {error}") from error

    def calls_python(self) -> bool:
        return True

    @property
    def kind(self) -> CustomKind:
        return _made(self.op_type, self._texts())

    def _texts(self) -> tuple[tuple[str, str], ...]:
        return tuple((name, attribute_text(value)) for name, value in self.others.items())

    def _key(self) -> tuple[Any, ...]:
        return (type(self), self.op_type, self._texts())

    def attributes(self) -> dict[str, Attribute]:
        return {"op_type": self.op_type, **dict(self._texts())}

    def input_names(self, given: int | None = None) -> tuple[str, ...]:
        return (*self.kind.arguments, *self.kind.states)

    def output_names(self) -> tuple[str, ...]:
        return self.kind.results

    @property
    def auxiliary(self) -> dict[str, int]:
        first = len(self.kind.arguments)
        return {name: first + i for i, name in enumerate(self.kind.states)}

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        count = len(self.kind.arguments)
        given = [s if is_known(s) else None for s in inputs[:count]]
        if not any(s is not None for s in given) and count:
            return
        try:
            found = self.kind.shapes(given)
        except Exception as error:
            if all(s is not None for s in given):
                raise UserCodeError(f"{self.op_type}: infer_shape: {type(error).__name__}: {error}") from error
            return  # infer_shape requires more shapes
        for position, shape in enumerate((*found[0], *found[2])):
            unify_at(inputs, position, shape)
        for position, shape in enumerate(found[1]):
            unify_at(outputs, position, shape)

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        count = len(self.kind.arguments)
        first = next((d for d in inputs[:count] if d is not None), None)
        if first is None and count:
            return
        arguments, results, states = self._dtypes([d or first or DType.F32 for d in inputs[:count]])
        inputs[:] = [d or f for d, f in zip(inputs, (*arguments, *states), strict=True)]
        outputs[:] = [d or f for d, f in zip(outputs, results, strict=True)]

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        return self._dtypes(list(inputs[: len(self.kind.arguments)]))[1]

    def _dtypes(self, inputs: list[DType]) -> tuple[list[DType], list[DType], list[DType]]:
        try:
            return self.kind.dtypes(inputs)
        except Exception as error:
            raise UserCodeError(f"{self.op_type}: infer_type: {type(error).__name__}: {error}") from error

    def decompose(self, b: MxBuilder, *inputs: Value) -> Results:
        kind, types = self.kind, [_plain(v.type) for v in inputs]
        count = len(kind.arguments)
        shapes = kind.shapes([t.shape for t in types[:count]])[1]
        dtypes = self._dtypes([t.dtype for t in types[:count]])[1]
        outputs = [TensorType(s, d) for s, d in zip(filter(is_known, shapes), dtypes, strict=True)]
        results = [*outputs, *types[count:]]
        if b.own_gradients:
            function, gradient = kind.with_gradient(b.training, b.single, types, outputs)
            found = b.host_callback(function, [*results, _RUN], *inputs, gradient=gradient)[: len(results)]
        else:
            found = b.host_callback(kind.function(b.training, b.single, types, outputs), results, *inputs)
        for state, value in zip(inputs[count:], found[len(outputs) :], strict=True):
            b.update(state, value)
        return found[: len(outputs)]
