"""Applies one operator immediately: parses its parameters, finds its specialization, and calls it.

    invoke, apply_bound     apply any operator to any arrays
    bind                    parse an operator's parameters once
    fast paths              calls of one or two operands and one result as plain functions, in caches by the operands'
                            types (`arithmetic.py`, `functions.py`, `scalar_calls.py`). They skip observers, so they
                            are used only while `hooks.watched` is False

A fast path is one dictionary look-up, one allocation and one native call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.caches import Cache
from ...runtime.modes import modes
from ..base import MXNetError
from ..context import Context
from ..dtypes import dtype_error, dtype_name
from ..tracebacks import cause_of
from ..util import is_np_shape
from .operator_function import BoundOperator, OperatorFunction

if TYPE_CHECKING:
    from ...ir.dialects.mx.operator import Operator
    from .ndarray import NDArray

_STORAGE_OPERATORS = ("mx.cast_storage", "mx._sparse_retain", "mx.Custom")
"""Operators that depend on the storage type of dense operands too."""

_bound: Cache[Any, BoundOperator] = Cache("bound operators")
_functions: Cache[Any, OperatorFunction] = Cache("operator functions")  # for operators with scalar parameters


_dispatch_storage: list[Callable[..., Any]] = []  # the registered function; see register_storage_dispatch


def register_storage_dispatch(dispatch: Callable[..., Any]) -> None:
    """Register `dispatch(bound, arrays, out, context)`, which applies and records operators if storage types matter."""
    _dispatch_storage[:] = [dispatch]


_sized_by_values: dict[str, Callable[..., Any]] = {}


def register_sized_by_values(name: str, apply: Callable[..., Any]) -> None:
    """Register `apply(operator, *arrays)`, which applies and records an operator whose results' extents depend on
    values."""
    _sized_by_values[name] = apply


def invoke(
    cls: type[Operator],
    arrays: Sequence[NDArray],
    params: Mapping[str, Any],
    out: NDArray | Sequence[NDArray] | None = None,
    context: Context | None = None,
    numpy: bool = False,
) -> Any:
    """Apply an operator to arrays, with `numpy` to those of `mx.np`. Parameters are Python values or MXNet's strings.

    Returns the visible output, or a list of several; if `out` is passed, it receives them. States are updated in
    place. MXNetError names the operator, and the invalid parameter or shapes.
    """
    return apply_bound(bind(cls, params, numpy), arrays, out, context)


def apply_bound(
    bound: BoundOperator,
    arrays: Sequence[NDArray],
    out: NDArray | Sequence[NDArray] | None = None,
    context: Context | None = None,
) -> Any:
    """Apply an operator with its parameters to arrays of any storage type; see `invoke`."""
    if modes.tracer is not None:
        return modes.tracer.apply(bound, arrays, out, context)
    if bound.operator.sized_by_values:
        result = _sized_by_values[bound.operator.mx_name()](bound.operator, *arrays)
        return result if out is None else result.copyto(out)
    if about_storage(bound.operator, arrays, out):
        return _dispatch_storage[0](bound, arrays, out, context)
    return bound.caller(arrays, out, context).call(arrays, out, context, bound.scalars)


def about_storage(operator: Operator, arrays: Sequence[NDArray], out: Any = None) -> bool:
    """True for a call that `apply_bound` does not just compile: some operand or output is sparse, the operator converts
    storage types, or the results' extents depend on values."""
    if any(a._is_sparse for a in arrays) or operator.name in _STORAGE_OPERATORS or operator.sized_by_values:
        return True
    outs = out if isinstance(out, list | tuple) else (out,)
    try:
        return any(o is not None and o._is_sparse for o in outs)
    except AttributeError:
        raise TypeError(f"{operator.mx_name()}: out must be an NDArray or a list of them, not {out!r}") from None


def kind_of(value: Any) -> Any:
    """The type of a parameter, or a tuple of the types of its items. Cache keys need it: 2, 2.0 and True are equal."""
    cls = value.__class__
    return cls if cls is not tuple else tuple(map(type, value))


def bind(cls: type[Operator], params: Mapping[str, Any], numpy: bool = False) -> BoundOperator:
    """The operator with these parameters, parsed once and cached; with `numpy`, as a function of arrays of `mx.np`.
    MXNetError names an invalid parameter."""
    if not cls.is_shared:
        return bound_of(_parse(cls, params), numpy)
    values = tuple(params.values())
    try:
        key = (cls, tuple(params), values, tuple(map(kind_of, values)), numpy)
        known = _bound.find(key)
    except TypeError:  # lists
        return bind(cls, {name: _frozen(value) for name, value in params.items()}, numpy)
    if known is None:
        known = _bound.find((*key, is_np_shape()))
    return _bind_new(cls, params, key, numpy) if known is None else known


def _bind_new(cls: type[Operator], params: Mapping[str, Any], key: tuple[Any, ...], numpy: bool) -> BoundOperator:
    """Parse parameters that are not in the cache, and add them under `key`.

    The shape semantics are part of the key if the meaning of the parameters depends on them.
    """
    operator = _parse(cls, params)
    legacy = operator.with_legacy_shapes()
    if legacy is not operator:
        key = (*key, is_np_shape())
        operator = operator if is_np_shape() else legacy
    return _bound.add(key, bound_of(operator, numpy))


def bound_of(operator: Operator, numpy: bool = False) -> BoundOperator:
    """An operator with its parameters. Operators of `mx.np` alone are functions of its arrays without `numpy` too."""
    numpy = numpy or operator.is_numpy
    if operator.scalars:
        return _bind_scalars(operator, numpy)
    return BoundOperator(OperatorFunction(operator, numpy=numpy), operator)


def _bind_scalars(operator: Operator, numpy: bool) -> BoundOperator:
    """A BoundOperator whose function is shared by operators that differ only in scalar parameters."""
    from ...ir.dialects.mx.builder import scalar_values

    scalars = scalar_values(operator)
    rest = [getattr(operator, field) for field in type(operator).fields() if field not in operator.scalars]
    key = (type(operator), tuple(scalars), tuple(rest), numpy)
    function = _functions.get(key, lambda: OperatorFunction(operator, numpy=numpy))
    return BoundOperator(function, operator, tuple(scalars.values()))


def _frozen(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_frozen, value))
    if isinstance(value, np.ndarray):
        return _frozen(value.tolist())
    try:
        hash(value)
    except TypeError:
        return str(value)
    return value


def _parse(cls: type[Operator], params: Mapping[str, Any]) -> Operator:
    named = dict(params)
    if cls.is_shared:
        named = {k: dtype_name(v) if isinstance(v, type | np.dtype) else v for k, v in params.items()}
    try:
        return cls.parse(named)
    except (TypeError, ValueError) as error:
        raise (dtype_error(named.get("dtype")) or MXNetError(str(error))) from cause_of(error)


def operator_named(name: str) -> type[Operator]:
    """The operator of this name or alias. MXNetError for an unknown name."""
    from ...ir.dialects.mx.operator import lookup

    try:
        return lookup(name)
    except KeyError as error:
        raise MXNetError(str(error.args[0])) from None
