"""Operators that users write in Python, and the names and arguments of all other operators.

`nd.Custom(x, op_type="name")` and `sym.Custom` run user-written operators; see `custom`.
"""

from __future__ import annotations

import itertools
import types
import typing
from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from ..ir.dialects.mx.declared import Field
from .base import MXNetError
from .custom import make_kind
from .ndarray import NDArray

__all__ = [
    "CustomOp",
    "CustomOpProp",
    "NDArrayOp",
    "NumpyOp",
    "OperatorArguments",
    "PythonOp",
    "get_all_registered_operators",
    "get_operator_arguments",
    "register",
]

_P = TypeVar("_P", bound="type[CustomOpProp]")
_registered: dict[str, type[CustomOpProp]] = {}
_numbers = itertools.count()

OperatorArguments = namedtuple("OperatorArguments", ["narg", "names", "types"])


class CustomOp:
    """An operator in Python: `forward` reads `in_data` and assigns to `out_data`."""

    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        """Compute the outputs, with `assign(out_data[i], req[i], value)`."""

    def backward(self, req: list[str], out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        """Compute the gradients of the inputs, with `assign(in_grad[i], req[i], value)`."""

    def assign(self, dst: NDArray, req: str, src: Any) -> None:
        """Store a result by request: "write" and "inplace" overwrite `dst`, "add" adds to it, "null" does nothing."""
        if req in ("write", "inplace"):
            dst[:] = src
        elif req == "add":
            dst[:] += src


class CustomOpProp:
    """Describes an operator in Python: names, shapes and dtypes of its arguments and results; creates the operator.

    The constructor receives the parameters of `nd.Custom` other than arrays and `op_type`, as strings.
    """

    def __init__(self, need_top_grad: bool = True) -> None:
        self.need_top_grad_ = need_top_grad

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return ["output"]

    def list_auxiliary_states(self) -> list[str]:
        """Names of the auxiliary states."""
        return []

    def infer_shape(self, in_shape: Any) -> Any:
        """Shapes of inputs, outputs and states from the input shapes. Default: outputs have the first input's shape."""
        return in_shape, (in_shape[0],) * len(self.list_outputs()), ()

    def infer_type(self, in_type: Any) -> Any:
        """Dtypes of inputs, outputs and states. Default: the first input's dtype."""
        return in_type, [in_type[0]] * len(self.list_outputs()), [in_type[0]] * len(self.list_auxiliary_states())

    def infer_storage_type(self, in_stype: Sequence[str]) -> Any:
        """Storage types of inputs, outputs and states. Default: dense; AssertionError for sparse inputs."""
        _check_dense("infer_storage_type", "in_stype", in_stype)
        return in_stype, ["default"] * len(self.list_outputs()), ["default"] * len(self.list_auxiliary_states())

    def infer_storage_type_backward(
        self, ograd_stype: list[str], in_stype: list[str], out_stype: list[str], igrad_stype: list[str],
        aux_stype: list[str],
    ) -> Any:  # fmt: skip
        """Storage types of the backward pass. Default: dense; AssertionError for sparse gradients."""
        _check_dense("infer_storage_type_backward", "ograd_stype", ograd_stype)
        asked = ["default" if stype == "undefined" else stype for stype in igrad_stype]
        _check_dense("infer_storage_type_backward", "igrad_stype", asked)
        lists = (ograd_stype, in_stype, out_stype, igrad_stype, aux_stype)
        for listed in lists:
            listed[:] = ["default"] * len(listed)
        return lists

    def declare_backward_dependency(
        self, out_grad: Sequence[int], in_data: Sequence[int], out_data: Sequence[int]
    ) -> list[int]:
        """Which arrays `backward` reads."""
        return [*(out_grad if self.need_top_grad_ else ()), *in_data, *out_data]

    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> CustomOp:
        """Create the operator for inputs of these shapes and dtypes."""
        return CustomOp()


def _check_dense(method: str, what: str, stypes: Sequence[str]) -> None:
    for i, stype in enumerate(stypes):
        if stype != "default":
            raise AssertionError(
                f"Default {method} implementation doesnt allow non default stypes: found non default stype {stype!r} "
                f"for {what}[{i}]. Please implement infer_storage_type and infer_storage_type_backward interface in "
                "your custom operator if you have non-default stypes"
            )


def register(reg_name: str) -> Callable[[_P], _P]:
    """A decorator that registers a CustomOpProp class for `op_type=reg_name` of `nd.Custom` and `sym.Custom`."""

    def do_register(prop_cls: _P) -> _P:
        from ..ir.dialects.mx.custom import register_custom

        if not (isinstance(prop_cls, type) and issubclass(prop_cls, CustomOpProp)):
            raise TypeError(f"register({reg_name!r}): {prop_cls!r} is not a subclass of CustomOpProp")
        _registered[reg_name] = prop_cls
        register_custom(reg_name, partial(make_kind, reg_name, prop_cls))
        return prop_cls

    return do_register


def custom_property(op_type: str) -> type[CustomOpProp]:
    """The class registered under a name. MXNetError for an unknown name."""
    if op_type not in _registered:
        known = ", ".join(sorted(_registered)) or "none is"
        raise MXNetError(f"Custom: op_type {op_type!r} is not registered with mx.operator.register ({known})")
    return _registered[op_type]


# --- the operators of MXNet ---------------------------------------------------------------------------------------


def get_all_registered_operators() -> list[str]:
    """The names of all operators, aliases included."""
    from ..ir.dialects.mx.operator import all_names

    return list(all_names())


def get_operator_arguments(op_name: str) -> OperatorArguments:
    """Number, names and types of an operator's arguments: first inputs, then parameters. MXNetError for an unknown
    name."""
    from ..ir.dialects.mx.operator import lookup

    try:
        operator = lookup(op_name)
    except KeyError as error:
        raise MXNetError(f"Operator {op_name} is not registered: {error.args[0]}") from None
    inputs = {name.rstrip("?*!"): "NDArray-or-Symbol" + "[]" * name.endswith("*") for name in operator.inputs}
    described = {**inputs, **{name: _described(field) for name, field in operator.parameters().items()}}
    return OperatorArguments(len(described), list(described), list(described.values()))


_WORDS = {int: "int", float: "float", bool: "boolean", str: "string", tuple: "Shape(tuple)"}


def _described(field: Field) -> str:
    """A parameter's type in MXNet's words: "int, optional, default='1'"."""
    kinds = typing.get_args(field.type)
    optional = types.NoneType in kinds
    type_of_value = next(k for k in kinds if k is not types.NoneType) if optional else field.type
    if typing.get_origin(type_of_value) is typing.Literal:
        words = (*(["None"] if optional else []), *map(repr, typing.get_args(type_of_value)))
        word = "{" + ", ".join(words) + "}"
    else:
        word = _WORDS.get(
            typing.get_origin(type_of_value) or type_of_value, getattr(type_of_value, "__name__", str(type_of_value))
        )
        word += " or None" if optional else ""
    if field.is_required:
        return f"{word}, required"
    default = int(field.default) if isinstance(field.default, bool) else field.default
    return f"{word}, optional, default={'[]' if default == () else repr(default)}"


# --- the interfaces before CustomOp -------------------------------------------------------------------------------


class PythonOp:
    """The oldest interface for operators in Python: calling an instance with symbols returns a symbol. Deprecated: use
    CustomOp, which also runs on arrays and has a name."""

    _ref_holder: list[Any] = []

    def __init__(self, need_top_grad: bool = True) -> None:
        self.info_: Any = None
        self.need_top_grad_ = need_top_grad

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.get_symbol(*args, **kwargs)

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """The symbol of a use of this operator. Subclasses override it; here it raises NotImplementedError."""
        raise NotImplementedError("Must override this")

    def forward(self, in_data: Any, out_data: Any) -> None:
        """Compute the outputs. Default: a copy of the first input."""
        out_data[0][:] = in_data[0]

    def backward(self, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any) -> None:
        """Compute the gradients of the inputs. Default: 1."""
        in_grad[0][:] = 1.0

    def infer_shape(self, in_shape: Any) -> Any:
        """Shapes of inputs and outputs."""
        return in_shape, [in_shape[0]]

    def list_outputs(self) -> list[str]:
        """Names of the outputs."""
        return ["output"]

    def list_arguments(self) -> list[str]:
        """Names of the inputs."""
        return ["data"]

    def need_top_grad(self) -> bool:
        """Whether `backward` reads the gradients of the outputs."""
        return self.need_top_grad_


class NumpyOp(PythonOp):
    """An operator on NumPy arrays of dtype float32."""

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """The symbol of a use of this operator, with the inputs that `list_arguments` names."""
        return _symbol_of(self, True, args, kwargs)


class NDArrayOp(PythonOp):
    """An operator on NDArrays."""

    def get_symbol(self, *args: Any, **kwargs: Any) -> Any:
        """The symbol of a use of this operator, with the inputs that `list_arguments` names."""
        return _symbol_of(self, False, args, kwargs)

    def declare_backward_dependency(
        self, out_grad: Sequence[int], in_data: Sequence[int], out_data: Sequence[int]
    ) -> list[int]:
        """Which arrays `backward` reads."""
        return [*(out_grad if self.need_top_grad() else ()), *in_data, *out_data]


def _symbol_of(owner: PythonOp, on_numpy: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The symbol of a use of a PythonOp. Such an operator has no name: a new name is registered, which other processes
    do not know."""
    from . import symbol

    class Prop(CustomOpProp):
        """Delegates to the owner."""

        def __init__(self) -> None:
            super().__init__(owner.need_top_grad())

        def list_arguments(self) -> list[str]:
            return owner.list_arguments()

        def list_outputs(self) -> list[str]:
            return owner.list_outputs()

        def infer_shape(self, in_shape: Any) -> Any:
            return owner.infer_shape(in_shape)

        def declare_backward_dependency(
            self, out_grad: Sequence[int], in_data: Sequence[int], out_data: Sequence[int]
        ) -> list[int]:
            declared = getattr(owner, "declare_backward_dependency", super().declare_backward_dependency)
            return declared(out_grad, in_data, out_data)

        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> CustomOp:
            return _NumpyRunner(owner) if on_numpy else _Runner(owner)

    name = f"_{type(owner).__name__}{next(_numbers)}"
    register(name)(Prop)
    function: Any = getattr(symbol, "Custom")  # noqa: B009 (created on first access)
    return function(*args, op_type=name, **kwargs)


class _Runner(CustomOp):
    """Passes arrays to a PythonOp, which has no requests: gradients are added up outside of it."""

    def __init__(self, owner: PythonOp) -> None:
        self.owner = owner

    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        self.owner.forward(in_data=in_data, out_data=out_data)

    def backward(self, req: list[str], out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        self.owner.backward(out_grad=out_grad, in_data=in_data, out_data=out_data, in_grad=in_grad)


class _NumpyRunner(_Runner):
    """Passes copies as NumPy arrays. `backward` gets no gradients of the outputs if it does not need them."""

    def forward(self, is_train: bool, req: list[str], in_data: Any, out_data: Any, aux: Any) -> None:
        results = _on_numpy(out_data)
        self.owner.forward(in_data=_on_numpy(in_data), out_data=results)
        _write(out_data, results)

    def backward(self, req: list[str], out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
        results = _on_numpy(in_grad)
        self.owner.backward(
            out_grad=_on_numpy(out_grad) if self.owner.need_top_grad() else [],
            in_data=_on_numpy(in_data),
            out_data=_on_numpy(out_data),
            in_grad=results,
        )
        _write(in_grad, results)


def _on_numpy(arrays: Any) -> list[Any]:
    return [x.asnumpy() for x in arrays]


def _write(targets: Any, values: list[Any]) -> None:
    for target, value in zip(targets, values, strict=True):
        target[:] = value
