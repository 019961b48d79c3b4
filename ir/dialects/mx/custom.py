"""The operator that runs users' Python code: `Custom`, and the table of registered operators.

The frontend registers a factory for each `op_type`; a graph stores only the operator's texts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, Self

from ...graph import Attribute, Effect, Value
from ...lazy_dataclass import dataclass
from ...symbolic import is_symbolic
from ...types import DType, Shape, TensorType
from .operator import Operator, Results, operator
from .parameters import Text, attribute_text
from .shapes import PartialShape, is_known, unify_at

if TYPE_CHECKING:
    from ..core.host_callback import HostFunction, HostGradient
    from .builder import MxBuilder


class UserCodeError(ValueError):
    """A user's method raised an exception, which is the cause."""


class Kept(Protocol):
    """Keeps the user's operators of one use, by the types of operands and whether the run is recorded."""

    def take(self, types: Hashable, recorded: bool, make: Callable[[], Any]) -> Any: ...

    def give(self, types: Hashable, recorded: bool, operator: Any) -> None: ...


class CustomKind(Protocol):
    """The description of one use of a registered operator.

    `shapes` and `dtypes` are for arguments, results and states; shapes are known if all inputs' shapes are. `call`
    returns the operator's Python function and its gradient.
    """

    arguments: tuple[str, ...]
    results: tuple[str, ...]
    states: tuple[str, ...]

    def shapes(
        self, inputs: Sequence[Shape | None]
    ) -> tuple[list[PartialShape], list[PartialShape], list[PartialShape]]: ...

    def dtypes(self, inputs: Sequence[DType]) -> tuple[list[DType], list[DType], list[DType]]: ...

    def call(self, use: CustomUse) -> tuple[HostFunction, HostGradient | None]: ...

    def apply(self, operator: Custom, arrays: Sequence[Any], out: Any, context: Any) -> Any:
        """Call the operator on arrays of any storage types. Returns its output, or a list of several."""
        ...


@dataclass(frozen=True, eq=False)
class CustomUse:
    """A use of a registered operator in a graph, on operands (arguments, then states) and for results of these types.

    `inputs` maps operands to the inputs of the graph that they are. `kept` keeps the user's operators from run to run;
    without it each run creates its own. The operands of the function are those of the use; it can write to them. Its
    results are those of the use, then the number of the run.
    """

    training: bool
    differentiable: bool
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]
    inputs: Mapping[int, int]
    kept: Kept | None = None


Factory = Callable[[Mapping[str, str]], CustomKind]
_factories: dict[str, Factory] = {}


RUN = TensorType((), DType.I64)
"""The number of a run, by which its gradient finds the operator that ran."""


def _plain(type: TensorType) -> TensorType:
    """The type with plain extents: a specialization for them, because Python code receives plain shapes."""
    if not any(map(is_symbolic, type.shape)):
        return type
    return replace(type, shape=tuple(int(n) for n in type.shape))


def register_custom(op_type: str, factory: Factory) -> None:
    """Register `factory`, which creates the operator `op_type` from its other parameters."""
    _factories[op_type] = factory


@operator("Custom", aliases=("_npi_Custom",))
class Custom(Operator):
    """Calls an operator that a program registered with mx.operator.register.

    Args:
        data: The inputs of the operator.
        op_type: The name under which it is registered. All other parameters are passed to it as text.
    """

    unknown_parameters = "keep"
    is_shared = False
    inputs = ("data*",)
    variadic = ""
    op_type: Text

    def check(self) -> None:
        if self.op_type not in _factories:
            known = ", ".join(sorted(_factories)) or "none"
            problem = f"op_type {self.op_type!r} is not registered with mx.operator.register"
            raise ValueError(f"Custom: {problem} (registered: {known})")
        try:
            vars(self)["_kind"] = _factories[self.op_type](dict(self._texts()))
        except Exception as error:
            raise UserCodeError(f"Custom: {self.op_type} cannot be created: {type(error).__name__}: {error}") from error

    def effects(self) -> frozenset[Effect]:
        return frozenset({Effect.PYTHON})

    @property
    def kind(self) -> CustomKind:
        """What the user's class declares for this use. MXNet creates an instance of the class for each use."""
        return vars(self)["_kind"]

    def with_kept(self, kept: Kept) -> Self:
        """This use in a graph whose owner keeps the user's operators."""
        return self.with_values(_kept=kept)

    def _texts(self) -> tuple[tuple[str, str], ...]:
        return tuple((name, attribute_text(value)) for name, value in self.others.items())

    def _key(self) -> tuple[Any, ...]:
        return (type(self), self.op_type, self._texts())

    def attributes(self) -> dict[str, Attribute]:
        return {"op_type": self.op_type, **dict(self._texts())}

    def input_names(self, passed: int | None = None) -> tuple[str, ...]:
        return (*self.kind.arguments, *self.kind.states)

    def output_names(self) -> tuple[str, ...]:
        return self.kind.results

    @property
    def auxiliary(self) -> dict[str, int]:
        first = len(self.kind.arguments)
        return {name: first + i for i, name in enumerate(self.kind.states)}

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        count = len(self.kind.arguments)
        known = [s if is_known(s) else None for s in inputs[:count]]
        if not any(s is not None for s in known) and count:
            return
        try:
            inferred = self.kind.shapes(known)
        except Exception as error:
            if all(s is not None for s in known):
                raise UserCodeError(f"{self.op_type}: infer_shape: {type(error).__name__}: {error}") from error
            return  # infer_shape requires more shapes
        for position, shape in enumerate((*inferred[0], *inferred[2])):
            unify_at(inputs, position, shape)
        for position, shape in enumerate(inferred[1]):
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

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        self.require_inputs(len(types))
        return self._inferred(types)[0]

    def result_types(self, types: Sequence[TensorType]) -> tuple[TensorType, ...]:
        """`infer` for known operands. ValueError if the user's class infers other dtypes for them."""
        results, dtypes = self._inferred(types)
        for name, t, inferred in zip(self.input_names(), types, dtypes, strict=True):
            if t.dtype is not inferred and t.dtype is not DType.BF16:
                both = f"Provided = {t.dtype.full_name}, inferred type = {inferred.full_name}"
                raise ValueError(f"Type inconsistent for {name}, {both}")
        return results

    def _inferred(self, types: Sequence[TensorType]) -> tuple[tuple[TensorType, ...], Sequence[DType]]:
        """The types of the results, and the dtypes that the operands should have."""
        shapes: list[PartialShape] = [None] * len(self.kind.results)
        self.fill_in([_plain(t).shape for t in types], shapes)
        arguments, dtypes, states = self._dtypes([t.dtype for t in types[: len(self.kind.arguments)]])
        results = tuple(TensorType(s, d) for s, d in zip(filter(is_known, shapes), dtypes, strict=True))
        return results, [*arguments, *states]

    def decompose(self, b: MxBuilder, *inputs: Value) -> Results:
        types = tuple(_plain(v.type) for v in inputs)
        results = self.result_types(types)
        own = {} if b.is_nested else {i: v.index for i, v in enumerate(inputs) if v.node is None}
        use = CustomUse(b.training, b.own_gradients, types, results, own, vars(self).get("_kept"))
        function, gradient = self.kind.call(use)
        return b.host_callback(function, [*results, RUN], *inputs, gradient=gradient, writes=[*own])[: len(results)]
