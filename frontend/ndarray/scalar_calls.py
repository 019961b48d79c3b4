"""Functions of `nd` for operators with scalar parameters, such as a learning rate: calls with other numbers use the
same program and fast path, and states are updated in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.caches import Cache
from ...runtime.device import DeviceError
from ...runtime.modes import are_calls_seen, hooks
from ...runtime.scalars import checks_scalars
from ..context import as_context, current_context
from ..tracebacks import shorten
from .eager import about_storage, apply_bound, bind, kind_of
from .fast_paths import FastPath, arguments, as_path, direct_call, fast_path, new_results, remember
from .operator_function import OperatorSpecialization

if TYPE_CHECKING:
    from ...ir.dialects.mx.operator import Operator

Split = Callable[[tuple[Any, ...], dict[str, Any]], tuple[list[Any], dict[str, Any]]]
_CONTROL = ("out", "name", "ctx", "attr")
_KINDS: dict[type, type] = {float: float, int: int, np.float64: float, np.float32: float}


def scalar_function(cls: type[Operator], split: Split, numpy: bool = False) -> Callable[..., Any]:
    """The function of an operator with `scalars`; `split` separates arrays from parameters. With `numpy` the arrays are
    those of `mx.np`."""
    scalars = frozenset(() if checks_scalars(cls) else cls.scalars)
    known: Cache[Any, FastPath] = Cache("fast paths", ages=True)
    fast_paths = known.recent

    def function(*args: Any, **kwargs: Any) -> Any:
        try:
            call = fast_paths.get(_key_of(args, kwargs, scalars))
        except (TypeError, AttributeError):
            call = None
        if call is not None and not (hooks.watched and are_calls_seen()):
            try:
                return call(args, kwargs)
            except DeviceError:
                pass
        try:
            return slow(args, kwargs)
        except Exception as error:
            shorten(error)
            raise

    def slow(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        arrays, params = split(args, kwargs)
        if hooks.converter is not None:
            arrays, params = hooks.converter(cls, arrays, params)
        out, _, ctx, _ = (params.pop(key, None) for key in _CONTROL)
        bound, context = bind(cls, params, numpy), None if ctx is None else as_context(ctx)
        if about_storage(bound.operator, arrays, out):
            return apply_bound(bound, arrays, out, context)
        specialization = bound.caller(arrays, out, context)
        plain = len(arrays) == len(args) and not are_calls_seen()
        if plain and isinstance(specialization, OperatorSpecialization) and not specialization.modal:
            _remember(known, args, kwargs, scalars, bound.operator, specialization)
        return specialization.call(arrays, out, context, bound.scalars)

    return function


def _key_of(args: tuple[Any, ...], kwargs: dict[str, Any], scalars: frozenset[str]) -> Any:
    """The key of a fast path: the types of the arrays (without arrays: the current context), the names of the
    `scalars`, the other parameters with their values, and the operands that `out` overwrites. Scalar parameters
    that the operator checks are among the others. TypeError for a call without a fast path."""
    key: list[Any] = [(a._dtype, a._shape) for a in args] if args else [current_context()]
    for name, value in kwargs.items():
        cls = value.__class__
        if name in scalars:
            if cls is list or cls is tuple:
                key.append((name, len(value)))
            elif cls in _KINDS:
                key.append((name, _KINDS[cls]))
            else:
                raise TypeError
        elif name == "out":
            key.append(_positions(value, args))
        else:
            key.append((name, kind_of(value), value))
    return tuple(key)


def _positions(out: Any, args: tuple[Any, ...]) -> Any:
    """The positions of the operands that are `out`. TypeError if `out` is not an operand."""
    if out is None:
        return None
    places = {id(a): i for i, a in enumerate(args)}
    positions = [places.get(id(array)) for array in (out if out.__class__ in (list, tuple) else (out,))]
    if None in positions:
        raise TypeError
    return tuple(positions)


def _remember(
    known: Cache[Any, FastPath],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    scalars: frozenset[str],
    operator: Operator,
    specialization: OperatorSpecialization,
) -> None:
    """Cache the fast path of a call. The numbers of `operator` are the defaults of numbers that the call omits."""
    try:
        key = _key_of(args, kwargs, scalars)
        hash(key)
        out = _positions(kwargs.get("out"), args)
    except (TypeError, AttributeError):
        return
    if kwargs.get("ctx") is not None:
        return
    names = [name for name in kwargs if name in scalars]
    if not any(isinstance(getattr(operator, name), int) and not isinstance(kwargs[name], int) for name in names):
        remember(known, key, specialization.device, lambda: _path(specialization, _values(operator, names), out))


Values = Callable[[dict[str, Any]], list[float]]


def _values(operator: Operator, names: Sequence[str]) -> Values:
    """A function that returns all numbers of a call from its keywords."""
    from ...ir.dialects.mx.builder import scalar_values

    keys = scalar_values(operator)
    defaults: list[float] = list(keys.values())
    first = {name: position for position, (name, i) in reversed(list(enumerate(keys))) if i == 0}
    single = [(name, first[name]) for name in names if not isinstance(getattr(operator, name), tuple)]
    several = [
        (name, first[name], first[name] + len(getattr(operator, name)))
        for name in names
        if isinstance(getattr(operator, name), tuple) and getattr(operator, name)
    ]

    def values(kwargs: dict[str, Any]) -> list[float]:
        numbers = defaults.copy()
        for name, at in single:
            numbers[at] = kwargs[name]
        for name, start, end in several:
            numbers[start:end] = kwargs[name]
        return numbers

    return values


def _path(specialization: OperatorSpecialization, values: Values, out: tuple[int, ...] | None) -> FastPath:
    """The fast path of calls with new results, or with those that overwrite the operands `out`."""
    operands = arguments(len(specialization.executable.inputs))
    results = new_results(specialization.types) if out is None else tuple([operands[i] for i in out])
    if specialization.has_checks or not _can_overwrite(specialization, out or ()):
        return as_path(
            lambda args, kwargs: specialization.call(args, kwargs.get("out"), None, values(kwargs)),
            specialization.device,
        )
    numbers = {"fill": specialization.scalars.filled, "free": specialization.scalars.free, "values": values}
    form = specialization.form(results, keywords=True)
    return as_path(fast_path(form, specialization, run=direct_call(specialization), **numbers), specialization.device)


def _can_overwrite(specialization: OperatorSpecialization, out: tuple[int, ...]) -> bool:
    """True if all outputs can be written to the operands `out` without a temporary, or if `out` is empty."""
    program, changed = specialization.executable, (*out, *specialization.state)
    if (out and len(out) != len(specialization.types)) or len(set(changed)) != len(changed):
        return False
    return all(program.may_overwrite(k, i) and program.inputs[i] == program.outputs[k] for k, i in enumerate(out))
