"""The base class of MXNet operators, and the registry of all of them.

An operator is one class from which everything else is derived:

    @operator("FullyConnected")
    class FullyConnected(Operator):
        '''Docstring of nd.FullyConnected and sym.FullyConnected.'''
        inputs = ("data", "weight", "bias?")          "?" optional, "*" variadic, "!" auxiliary: updated in training
        outputs = ("output",)                         names; the last `hidden` ones are not visible to users
        num_hidden: Int                               parameters: MXNet's names, order and defaults
        def has_input(self, name): ...                True if these parameters require the optional input
        def complete(self, inputs, outputs): ...      fill in unknown shapes, forwards and backwards
        def decompose(self, b, data, weight, bias=None): ...    the lowering to core

Instances are frozen and compared by value. A parameter whose name is taken (num_outputs) is `Named`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from importlib import import_module
from inspect import currentframe
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast

from ...graph import Attribute, GraphError, Op, Value
from ...suggestions import suggestion
from ...symbolic import is_symbolic
from ...types import DType, TensorType
from .declared import Declared, Field, Problem, Refused
from .families import DECLARED_NAMES, FAMILY_OF
from .parameters import attribute_text
from .shapes import PartialShape, ShapeConflict, unify_all

if TYPE_CHECKING:
    import numpy as np

    from .builder import MxBuilder

Results = Value | tuple[Value, ...]

_TOO_FEW_AXES = "an operand has too few axes"

_QUOTED = re.compile(r"'([^']+)'")


class Operator(Declared, Op):
    """An MXNet operator together with its parameters.

    Args:
        data: The input array.
        num_args: Number of inputs; by default the number of arrays.
        ctx: The device of the result; the current context by default.
        dtype: Dtype of the result.
        workspace: Accepted for MXNet's programs; unused.
        cudnn_tune: Accepted for MXNet's programs; unused.
        cudnn_off: Accepted for MXNet's programs; unused.
    """

    inputs: ClassVar[tuple[str, ...]] = ("data",)
    outputs: ClassVar[tuple[str, ...]] = ("output",)
    hidden: ClassVar[int] = 0
    """The number of last outputs that users do not see."""
    aliases: ClassVar[tuple[str, ...]] = ()
    variadic: ClassVar[str] = "num_args"
    """The parameter with the number of inputs, for an operator whose input is marked "*"."""
    own_dtypes: ClassVar[frozenset[str]] = frozenset()
    """Inputs whose dtype is independent of the other inputs (indices, lengths)."""
    floats: ClassVar[bool] = False
    """True if inputs outside `own_dtypes` must be floats: a network layer, which MXNet does not define for integers."""
    output_dtype: ClassVar[DType | None] = None
    """The dtype of every output if it does not depend on the inputs."""
    probe_extents: ClassVar[tuple[int, ...]] = (60, 120)
    """Extents that inference substitutes for an unknown extent; extents on which all results agree are known. Both have
    many divisors. An operator with special cases for small extents adds such an extent."""
    scalars: ClassVar[tuple[str, ...]] = ()
    """Numbers that change from call to call (learning rates). A program for single calls takes them as operands, so it
    serves all values. `decompose` reads them with `b.number`."""
    extent_parameters: ClassVar[tuple[str, ...]] = ()
    """Parameters that are extents or positions: integers, or tuples of integers and None. Single calls that differ in
    them share programs for any extents; `decompose` needs none of them as a plain integer."""
    sized_by_values: ClassVar[bool] = False
    """True if extents of the results depend on the operands' values: no compiled program has the operator."""
    index_errors: ClassVar[bool] = False
    """True if a problem found by `operands_problem` is an IndexError, as in MXNet, not an MXNetError."""
    is_numpy: ClassVar[bool] = False
    """True for an operator of `mx.np` or `mx.npx` alone: all its names begin with `_np`."""
    is_shared: ClassVar[bool] = True
    """False if each use of the operator has a state of its own, so that calls do not share an instance."""
    has_gradient: ClassVar[bool] = True
    """False if MXNet has no gradient of the operator: a backward pass through a recorded call raises an error."""
    gradient: ClassVar[Callable[..., Sequence[Value | None]] | None] = None
    """gradient(self, b, operands, results, cotangents) -> a value or None per input; None: the derivative in core."""

    # --- the parameters as text -------------------------------------------------------------------------------------

    @classmethod
    def mx_name(cls) -> str:
        """The canonical name in MXNet."""
        return cls.name.removeprefix("mx.")

    @classmethod
    def title(cls) -> str:
        """The name for error texts: that of the function of `mx.np` or `mx.npx`, or the one in MXNet."""
        name = cls.mx_name()
        return name.split("_", 2)[2] if name.startswith(("_np_", "_npi_", "_npx_")) else name

    @classmethod
    def parameters(cls) -> dict[str, Field]:
        """The parameters by MXNet's names, in MXNet's order."""
        return {field.name: field for field in cls.fields().values()}

    @classmethod
    def parse(cls, attrs: Mapping[str, Any]) -> Self:
        """The operator with these parameters, passed as MXNet's strings or as Python values.

        ValueError names the operator, the parameter and its valid values. As in MXNet, an operator without parameters
        ignores them, but `attrs` returns them (`zeros_like(x, dtype="int32")` has the dtype of x).
        """
        try:
            operator = cls(**attrs if cls.fields() else {})
        except Refused as error:
            raise ValueError("; ".join(_explain(cls, problem) for problem in error.problems)) from None
        operator.check()
        vars(operator)["_attribute_texts"] = {key: attribute_text(value) for key, value in attrs.items()}
        return operator

    def check(self) -> None:
        """ValueError if parameters contradict each other; called by `parse`."""

    def attrs(self) -> dict[str, str]:
        """The explicitly passed parameters as MXNet writes them into JSON, sorted by name."""
        texts: dict[str, str] | None = self.__dict__.get("_attribute_texts")
        if texts is None:
            fields = type(self).fields().items()
            texts = {f.name: str(getattr(self, name)) for name, f in fields if getattr(self, name) != f.default}
        return dict(sorted(texts.items()))

    def attributes(self) -> dict[str, Attribute]:
        """All parameters, including defaults; None is the text "None"."""
        return {field.name: _printable(getattr(self, name)) for name, field in type(self).fields().items()}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        known = self.__dict__
        return (type(self), *(known[field] for field in type(self).fields()))

    # --- inputs and outputs -----------------------------------------------------------------------------------------

    def has_input(self, name: str) -> bool:
        """True if these parameters require the optional input `name`."""
        return True

    def input_names(self, passed: int | None = None) -> tuple[str, ...]:
        """Names of the inputs; `passed` is the number of inputs of a variadic operator, if the parameters lack it."""
        names: list[str] = []
        for declared in type(self).inputs:
            plain = declared.rstrip("?*!")
            if declared.endswith("*"):
                names += self.variadic_names(self.variadic_count(passed))
            elif "?" not in declared or self.has_input(plain):
                names.append(plain)
        return tuple(names)

    def variadic_count(self, passed: int | None) -> int:
        """The number of inputs that replace the variadic one."""
        count = getattr(self, type(self).variadic, None)
        return count if passed is None and count is not None else passed or 0

    def variadic_names(self, count: int) -> list[str]:
        """Names of the inputs that replace the variadic one."""
        return [f"arg{i}" for i in range(count)]

    @property
    def auxiliary(self) -> dict[str, int]:
        """The auxiliary states among the inputs: name and position."""
        marked = {declared.rstrip("?!") for declared in type(self).inputs if "!" in declared}
        return {name: i for i, name in enumerate(self.input_names()) if name in marked}

    def output_names(self) -> tuple[str, ...]:
        """Names of all outputs, visible ones first."""
        return type(self).outputs

    @property
    def num_outputs(self) -> int:
        """The number of all outputs, including hidden ones."""
        return len(self.output_names())

    @property
    def visible_outputs(self) -> int:
        return self.num_outputs - type(self).hidden

    # --- inference --------------------------------------------------------------------------------------------------

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        """Fill in, in place, shapes that follow from the known ones (UNKNOWN: an extent, None: the rank)."""

    def fill_in(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        """`complete`; its ValueError names the argument and the expected shape."""
        try:
            self.complete(inputs, outputs)
        except ShapeConflict as error:
            names = self.input_names(len(inputs)) if error.shapes is inputs else self.output_names()
            raise ValueError(f"Shape inconsistent: {names[error.position]} {error}") from None
        except IndexError as error:
            raise ValueError(_TOO_FEW_AXES) from error

    def require_dtypes(self, types: Sequence[TensorType]) -> None:
        """TypeError if `require_one_dtype` raises it, or if a layer has an integer input."""
        for name, t in zip(self.input_names(len(types)), types, strict=True):
            if type(self).floats and name not in type(self).own_dtypes and not t.dtype.is_float:
                raise TypeError(f"{name} must have a floating dtype, got {t.dtype.full_name}")
        self.require_one_dtype([t.dtype for t in types])

    def require_one_dtype(self, dtypes: Sequence[DType | None]) -> None:
        """TypeError if known dtypes of inputs outside `own_dtypes` differ, unless the operator's own `complete_dtypes`
        defines the dtype of each input."""
        if type(self).complete_dtypes not in (Operator.complete_dtypes, Elementwise.complete_dtypes):
            return
        first: tuple[str, DType] | None = None
        for name, dtype in zip(self.input_names(len(dtypes)), dtypes, strict=False):
            if dtype is None or name in type(self).own_dtypes:
                continue
            first = first or (name, dtype)
            if dtype is not first[1]:
                expected = first[1].full_name
                raise TypeError(f"{name} should be {expected} like {first[0]}, got {dtype.full_name}")

    def require_count(self, passed: int) -> None:
        """ValueError if the parameter with the number of inputs of a variadic operator differs from `passed`."""
        count = (
            getattr(self, type(self).variadic, None) if type(self).inputs[:1] and "*" in type(self).inputs[-1] else None
        )
        if count is not None and self.variadic_count(None) != passed:
            raise ValueError(f"{type(self).variadic}={count} does not match the {passed} arrays passed")

    def require_inputs(self, passed: int) -> None:
        """ValueError unless these parameters require `passed` inputs."""
        self.require_count(passed)
        names = self.input_names(passed)
        if len(names) != passed:
            listed = f" ({', '.join(names)})" if names else ""
            raise ValueError(f"takes {len(names)} inputs{listed}, got {passed}")

    def require_shapes(self, types: Sequence[TensorType]) -> None:
        """ValueError if the operands' shapes do not fit the parameters or each other."""
        self.fill_in([t.shape for t in types], [None] * self.num_outputs)

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        """Fill in unknown dtypes in place. By default all inputs outside `own_dtypes` have one dtype, and the outputs
        too unless the operator determines their dtype."""
        names = self.input_names(len(inputs))
        shared = [i for i, name in enumerate(names) if name not in type(self).own_dtypes]
        candidates = [inputs[i] for i in shared] + ([] if self._decides_dtype() else outputs)
        known = next((d for d in candidates if d is not None), None)
        for i in shared:
            inputs[i] = inputs[i] or known

    def _decides_dtype(self) -> bool:
        cls = type(self)
        named = "dtype" in cls.fields() or "out_dtype" in cls.fields()
        return named or cls.output_dtype is not None or cls.output_dtypes is not Operator.output_dtypes

    def output_dtypes(self, inputs: Sequence[DType]) -> Sequence[DType | None]:
        """The outputs' dtypes if the inputs determine them: `dtype`, or the common dtype of the inputs."""
        names = self.input_names(len(inputs))
        shared = [d for d, name in zip(inputs, names, strict=False) if name not in type(self).own_dtypes]
        return [self._named_dtype() or (shared[0] if shared else None)] * self.num_outputs

    def fixed_dtypes(self) -> Sequence[DType | None]:
        """The outputs' dtypes that do not depend on the inputs', None for the others."""
        fixed = self._named_dtype() if type(self).output_dtypes is Operator.output_dtypes else None
        return [fixed] * self.num_outputs

    def _named_dtype(self) -> DType | None:
        named = getattr(self, "dtype", None)
        known = DType.from_numpy(named) if isinstance(named, str) and named != "None" else None
        return type(self).output_dtype or known

    @property
    def is_open(self) -> bool:
        """True if the shape of a result without operands follows from its consumers (`_zeros` of unknown shape)."""
        return False

    def resolve(self, types: Sequence[TensorType]) -> Operator:
        """The operator with parameters completed from the types of its outputs (`_zeros` of partly unknown shape)."""
        return self

    def with_legacy_shapes(self) -> Operator:
        """The equivalent operator without NumPy's shape semantics, where 0 is an unknown extent."""
        return self

    def resolved(self, **values: Any) -> Operator:
        """The operator with the parameters that `resolve` found."""
        operator = self.with_values(**values)
        vars(operator).pop("_attribute_texts", None)  # the old texts of the parameters
        vars(operator)["_unresolved"] = self
        return operator

    @property
    def unresolved(self) -> Operator:
        """The operator before its parameters were completed from the types of its outputs."""
        return vars(self).get("_unresolved", self)

    def infer(self, *types: TensorType) -> tuple[TensorType, ...]:
        """Types of all outputs, taken from the decomposition."""
        symbolic = self.unresolved is not self or any(is_symbolic(n) for t in types for n in t.shape)
        return _infer.__wrapped__(self, types) if symbolic else _infer(self, types)

    # --- meaning ----------------------------------------------------------------------------------------------------

    def decompose(self, b: MxBuilder, *inputs: Value) -> Results:
        """The lowering to core: the values of all outputs, including hidden ones."""
        raise NotImplementedError(f"{type(self).mx_name()} has no decomposition")

    def to_core(self, b: MxBuilder, *inputs: Value) -> tuple[Value, ...]:
        """The decomposition as a tuple; a call that carries `gradient`, if the operator declares it."""
        gradient = type(self).gradient
        if gradient is None or not any(v.type.dtype.has_cotangent for v in inputs):
            values = self.decompose(b, *inputs)
        else:
            values = b.custom_gradient(self.decompose, partial(gradient, self), *inputs)
        if b.verifies:
            self.verify(b, *inputs)
        return (values,) if isinstance(values, Value) else tuple(values)

    def verify(self, b: MxBuilder, *inputs: Value) -> None:
        """Add the checks of the operands' elements (`b.require`) that a run of a compiled graph makes. An eager call
        makes those of `operands_problem`."""

    def results_problem(self, operands: list[np.ndarray], results: list[np.ndarray]) -> str | None:
        """A description of what is wrong with operands for which a run computed these visible results, or None. An
        eager call raises it."""
        return None

    def checks_results(self) -> bool:
        """True if a call requires `results_problem`; it then copies the operands."""
        return type(self).results_problem is not Operator.results_problem

    def operands_problem(self, operands: list[np.ndarray]) -> str | None:
        """A description of what is wrong with the operands' elements, or None. An eager call raises it before it
        computes; a compiled program does not check."""
        return None

    def checks_operands(self) -> bool:
        """True if a call requires `operands_problem`."""
        return type(self).operands_problem is not Operator.operands_problem

    def results(self, b: MxBuilder, *inputs: Value) -> tuple[Value, ...]:
        """`to_core` with checks: ValueError or TypeError if the operands do not fit."""
        types = [v.type for v in inputs]
        self.require_inputs(len(types))
        self.require_dtypes(types)
        self.require_shapes(types)
        try:
            results = self.to_core(b, *inputs)
        except ArithmeticError as error:  # division by a parameter or an extent of 0
            raise ValueError(f"parameters and shapes do not fit: {error}") from error
        except GraphError as error:
            raise ValueError(error.reason) from error
        except IndexError as error:
            raise ValueError(_TOO_FEW_AXES) from error
        if any(n < 0 for v in results for n in v.type.shape):
            raise ValueError(
                f"the result would have the shape {next(v.type.shape for v in results if min(v.type.shape) < 0)}"
            )
        return results


class Elementwise(Operator):
    """An operator whose operands and results have one shape and one dtype."""

    def complete(self, inputs: list[PartialShape], outputs: list[PartialShape]) -> None:
        unify_all(inputs, outputs)

    def complete_dtypes(self, inputs: list[DType | None], outputs: list[DType | None]) -> None:
        known = next((d for d in (*inputs, *outputs) if d is not None), None)
        inputs[:] = [d or known for d in inputs]
        outputs[:] = [d or known for d in outputs]


_T = TypeVar("_T", bound=type[Operator])
_REGISTRY: dict[str, type[Operator]] = {}
_CANONICAL: list[type[Operator]] = []


_LATER: dict[str, str] = {}


def operator(name: str, aliases: tuple[str, ...] = (), listed: bool = True) -> Callable[[_T], _T]:
    """Register a class as the operator `name` and under its aliases. Without `listed` it is no operator of `mx.nd` and
    `mx.sym`: only graphs that importers of other formats make have it."""

    def register(cls: _T) -> _T:
        cls.name = f"mx.{name}"
        cls.aliases, names = aliases, (name, *aliases)
        cls.is_numpy = all([known_as.startswith("_np") for known_as in names])
        for known_as in names:
            if known_as in _REGISTRY:
                raise ValueError(f"operator {known_as} is declared twice")
            _REGISTRY[known_as] = cls
        if listed:
            _CANONICAL.append(cls)
        return cls

    return register


def declare(
    name: str,
    base: type[Operator],
    members: Mapping[str, Any],
    aliases: tuple[str, ...] = (),
    parameters: Mapping[str, Any] | None = None,
) -> None:
    """Register an operator of a family: a row of a table. `members` become the class's attributes, including `__doc__`;
    `parameters` are the types of additional parameters, whose defaults are in `members`."""
    annotations = dict(parameters or {})
    body = {"__module__": _declaring_module(), "__qualname__": name, "__annotations__": annotations, **members}
    operator(name, aliases)(type(name, (base,), body))


def _declaring_module() -> str:
    """The module that calls `declare`, which the index of names needs."""
    declaring = cast("FrameType", cast("FrameType", currentframe()).f_back)
    return cast("FrameType", declaring.f_back).f_globals["__name__"]


def find(name: str) -> type[Operator] | None:
    """The operator with this name or alias, or None; imports only the file that declares it."""
    registered = _REGISTRY.get(name)
    if registered is None and (name in FAMILY_OF or name in _LATER):
        import_module(_LATER.get(name) or f".{FAMILY_OF[name]}", __package__)
        registered = _REGISTRY.get(name)
    return registered


def declare_later(name: str, module: str) -> None:
    """`find(name)` imports this module, which registers the operator."""
    _LATER[name] = module


def lookup(name: str) -> type[Operator]:
    """The operator with this name or alias; KeyError if it is not declared."""
    registered = find(name)
    if registered is None:
        raise KeyError(f"{name!r}: no such operator is declared")
    return registered


def all_operators() -> tuple[type[Operator], ...]:
    """Every declared operator of `mx.nd` and `mx.sym` once, in the order of declaration."""
    _load()
    return tuple([op for op in _CANONICAL if not op.is_numpy])


def numpy_operators() -> tuple[type[Operator], ...]:
    """Every declared operator of `mx.np` and `mx.npx` alone, in the order of declaration."""
    _load()
    return tuple([op for op in _CANONICAL if op.is_numpy])


def all_names() -> dict[str, type[Operator]]:
    """Every name and alias, and its operator."""
    _load()
    return dict(_REGISTRY)


def from_attributes(name: str, attributes: Mapping[str, Any]) -> Operator:
    """The operator that is printed as `name` with these attributes."""
    return lookup(name.removeprefix("mx.")).parse(attributes)


@lru_cache(maxsize=1)
def _load() -> None:
    """Import all files that declare operators, which only listing them requires."""
    for family in DECLARED_NAMES:
        import_module(f".{family}", __package__)


@lru_cache(maxsize=8192)
def _infer(op: Operator, types: tuple[TensorType, ...]) -> tuple[TensorType, ...]:
    from .builder import MxBuilder

    b = MxBuilder("infer", own_gradients=False)
    return tuple(v.type for v in op.results(b, *(b.input(t) for t in types)))


def _printable(value: Any) -> Attribute:
    missing = value is None or (isinstance(value, tuple) and None in cast("tuple[object, ...]", value))
    return str(cast("object", value)) if missing else cast("Attribute", value)


def _among(allowed: str, value: object) -> str:
    hint = suggestion(str(value), _QUOTED.findall(allowed))
    return f"{hint.strip()} Valid values are {allowed}" if hint else f"valid values are {allowed}"


def _explain(cls: type[Operator], problem: Problem) -> str:
    where, known = problem.parameter, ", ".join(cls.parameters()) or "none"
    if problem.kind == "unknown":
        hint = suggestion(where, cls.parameters())
        return f"{cls.title()} has no parameter {where!r}; its parameters are: {known}.{hint}"
    if problem.kind == "missing":
        return f"{cls.title()} requires the parameter {where!r}"
    reason = _among(problem.allowed, problem.value) if problem.allowed else problem.reason
    return f"{cls.title()}: {where}={problem.value!r}: {reason}"
