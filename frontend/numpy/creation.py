"""Creates arrays of `mx.np`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import numpy as onp

from ...ir.types import DType
from ...runtime.modes import modes
from ..base import MXNetError, integers, numeric_types
from ..context import Context, as_context, usable
from ..dtypes import dtype_of, numbers_of, to_memory
from ..memory import require_room
from ..ndarray.array_classes import empty_array, zero_array
from ..ndarray.eager import invoke, operator_named
from ..ndarray.ndarray import NDArray
from ..ndarray.numpy_array import ndarray
from ..ndarray.tape import is_recorded
from ..numpy_functions import bound

_F = TypeVar("_F", bound=Callable[..., Any])

__all__ = [
    "arange",
    "array",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "identity",
    "indices",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]


def _in_graphs(function: _F) -> _F:
    """A decorator: while a block is traced, the function is a node of its graph."""
    name = function.__name__

    @wraps(function)
    def create(*args: Any, **kwargs: Any) -> Any:
        if modes.tracer is None:
            return function(*args, **kwargs)
        traced = bound(name, _creator, "mxforge.numpy", "creation")
        assert traced is not None
        return traced(*args, **kwargs)

    return create  # type: ignore[return-value]


def _creator(name: str) -> Callable[..., Any]:
    """The function of an operator that creates an array in a graph."""
    from .functions import operator_named

    def create(*arrays: Any, ctx: str = "", **params: Any) -> Any:
        return operator_named(name)(*arrays, **params, **({"ctx": ctx} if ctx else {}))

    return create


def _place(ctx: Any, device: Any = None) -> Context:
    """The device of a new array: `ctx`, which MXNet 2 calls `device`, or the current context."""
    chosen = device if ctx is None else ctx
    return usable(None if chosen is None else as_context(chosen))


def _element(dtype: Any) -> DType:
    """The element type: float32 by default."""
    return DType.F32 if dtype is None else dtype_of(dtype)


def _extents(shape: Any) -> tuple[int, ...]:
    extents = integers(shape if hasattr(shape, "__iter__") else (shape,))
    if min(extents, default=0) < 0:
        raise MXNetError(f"negative dimensions are not allowed: {extents}")
    return extents


def _require_order(order: str) -> None:
    if order != "C":
        raise NotImplementedError(f"only supports C-order, while received {order}")


def _of(values: onp.ndarray, element: DType, place: Context) -> ndarray:
    """An array of these numbers."""
    if modes.tracer is not None:
        return modes.tracer.constant(to_memory(values, element), element, place)
    result = empty_array(values.shape, element, place, ndarray)
    result._write(to_memory(values, element))
    return result  # type: ignore[return-value]


def _with_out(result: ndarray, out: Any) -> Any:
    return result if out is None else result.copyto(out)


def array(object: Any, dtype: Any = None, ctx: Any = None, device: Any = None) -> ndarray:
    """An array of the elements of an array-like value.

    Args:
        object: Numbers, nested lists of numbers, a NumPy array, or an array.
        dtype: The dtype; by default that of an array, and float32 for other values.
        ctx: The device, the current context by default; MXNet 2 calls it `device`.
    Returns:
        A new array. TypeError for values that are no numbers, and for lists of different lengths.
    """
    place = _place(ctx, device)
    if isinstance(object, NDArray):
        chosen = object.dtype if dtype is None else dtype
        copied = object.astype(chosen).as_in_context(place)
        return copied if isinstance(copied, ndarray) else copied.as_np_ndarray()
    if isinstance(object, onp.ndarray | onp.generic):
        element = _element(object.dtype if dtype is None else dtype)
    else:
        element = _element(dtype)
        object = _numbers(object)
        if dtype is None and isinstance(object, onp.ndarray) and object.dtype == onp.bool_:
            object = object.astype(onp.float32)
    values = numbers_of(object, element)
    require_room(values.shape, element)
    return _of(values, element, place)


def _numbers(value: Any) -> Any:
    """Nested lists, of which some elements can be arrays, as a NumPy array."""
    if isinstance(value, list | tuple) and any(isinstance(v, list | tuple | NDArray) for v in value):
        value = _plain(value)
    try:
        values = onp.asarray(value)
    except ValueError as error:
        raise TypeError(str(error)) from None
    if values.dtype.kind not in "bifu":
        raise TypeError(f"could not convert {value!r} to an array of numbers")
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, NDArray):
        return value.asnumpy()
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


@_in_graphs
def zeros(shape: Any, dtype: Any = None, order: str = "C", ctx: Any = None, device: Any = None) -> ndarray:
    """An array of zeros, of dtype float32 by default."""
    _require_order(order)
    return zero_array(_extents(shape), _element(dtype), _place(ctx, device), ndarray)  # type: ignore[return-value]


@_in_graphs
def empty(shape: Any, dtype: Any = None, order: str = "C", ctx: Any = None, device: Any = None) -> ndarray:
    """An array with uninitialized elements, of dtype float32 by default."""
    _require_order(order)
    return empty_array(_extents(shape), _element(dtype), _place(ctx, device), ndarray)  # type: ignore[return-value]


@_in_graphs
def ones(shape: Any, dtype: Any = None, order: str = "C", ctx: Any = None, device: Any = None) -> ndarray:
    """An array of ones, of dtype float32 by default."""
    return full(shape, 1, onp.float32 if dtype is None else dtype, order, ctx, None, device)


@_in_graphs
def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "C",
    ctx: Any = None,
    out: Any = None,
    device: Any = None,
) -> ndarray:
    """An array filled with one number, or with an array that broadcasts to its shape.

    Args:
        shape: The shape.
        fill_value: The number or array.
        dtype: The dtype; by default bool for a truth value, that of an array, and float32.
        order: "C", the only one.
        ctx: The device, the current context by default.
        out: An array that is filled instead of a new one.
    """
    _require_order(order)
    if dtype is None:
        is_typed = isinstance(fill_value, NDArray | onp.ndarray)
        dtype = fill_value.dtype if is_typed else onp.bool_ if isinstance(fill_value, bool) else onp.float32
    result = empty(_extents(shape), dtype, order, ctx, device) if out is None else out
    result[...] = fill_value
    return result


@_in_graphs
def empty_like(prototype: Any, dtype: Any = None, order: str = "C", subok: bool = False, shape: Any = None) -> ndarray:
    """An array with uninitialized elements, of the shape and dtype of another one."""
    _require_order(order)
    extents = prototype.shape if shape is None else shape
    return empty(extents, prototype.dtype if dtype is None else dtype, ctx=prototype.ctx)


@_in_graphs
def full_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "C", ctx: Any = None, out: Any = None
) -> ndarray:
    """An array of the shape and dtype of another one, filled with one number."""
    _require_order(order)
    if is_recorded((a,)) and out is None and dtype is None:
        return invoke(operator_named("_npi_full_like"), [a], {"fill_value": float(fill_value)})
    return full(a.shape, fill_value, a.dtype if dtype is None else dtype, order, a.ctx if ctx is None else ctx, out)


@_in_graphs
def zeros_like(a: Any, dtype: Any = None, order: str = "C", ctx: Any = None, out: Any = None) -> ndarray:
    """Zeros in the shape and dtype of another array."""
    return full_like(a, 0, dtype, order, ctx, out)


@_in_graphs
def ones_like(a: Any, dtype: Any = None, order: str = "C", ctx: Any = None, out: Any = None) -> ndarray:
    """Ones in the shape and dtype of another array."""
    return full_like(a, 1, dtype, order, ctx, out)


@_in_graphs
def arange(
    start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, ctx: Any = None, device: Any = None
) -> ndarray:
    """Evenly spaced numbers in a half-open interval, of dtype float32 by default: start, start + step, ... up to but
    without stop. Without `stop` the interval is [0, start)."""
    if stop is None:
        start, stop = 0, start
    if step is None:
        step = 1
    if step == 0:
        raise ZeroDivisionError("arange: step is 0")
    element = _element(dtype)
    count = max(int(onp.ceil((stop - start) / step)), 0)
    require_room((count,), DType.F64)
    if element.is_integer:
        start, step = int(start), int(step)
    return _of(start + step * onp.arange(count), element, _place(ctx, device))


@_in_graphs
def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    ctx: Any = None,
    device: Any = None,
) -> Any:
    """`num` evenly spaced numbers from start to stop, of dtype float32 by default; with `retstep` their distance
    too."""
    if not _are_numbers(start, stop):
        raise NotImplementedError("start and stop only support int")
    if axis != 0:
        raise NotImplementedError("the function only support axis 0")
    _require_length("linspace", num)
    values, distance = onp.linspace(start, stop, num, endpoint, retstep=True)
    result = _of(values, _element(dtype), _place(ctx, device))
    return (result, distance) if retstep else result


@_in_graphs
def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: Any = None,
    axis: int = 0,
    ctx: Any = None,
    device: Any = None,
) -> ndarray:
    """`num` numbers from base^start to base^stop, evenly spaced on a logarithmic scale, of dtype float32 by default."""
    if not _are_numbers(start, stop):
        raise NotImplementedError("start and stop only support int and float")
    if axis != 0:
        raise NotImplementedError("the function only support axis 0")
    _require_length("logspace", num)
    return _of(onp.logspace(start, stop, num, endpoint, base), _element(dtype), _place(ctx, device))


def _require_length(name: str, num: Any) -> None:
    if not isinstance(num, int | onp.integer) or num < 0:
        raise MXNetError(f"{name}: num={num} must be an integer of at least 0")


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, numeric_types) for value in values)


@_in_graphs
def eye(N: int, M: Any = None, k: int = 0, dtype: Any = None, **kwargs: Any) -> ndarray:
    """A matrix with ones on its k-th diagonal, of dtype float32 by default."""
    place = _place(kwargs.pop("ctx", None), kwargs.pop("device", None))
    if kwargs:
        raise TypeError(f"eye() got an unexpected keyword argument {next(iter(kwargs))!r}")
    rows, columns = _extents((N, N if M is None else M))
    return _of(onp.eye(rows, columns, k), _element(dtype), place)


@_in_graphs
def identity(n: int, dtype: Any = None, ctx: Any = None, device: Any = None) -> ndarray:
    """A square matrix with ones on its diagonal, of dtype float32 by default."""
    if not isinstance(n, int):
        raise TypeError("Input 'n' should be an integer")
    if n < 0:
        raise ValueError("Input 'n' cannot be negative")
    return _of(onp.identity(n), _element(dtype), _place(ctx, device))


@_in_graphs
def indices(dimensions: Any, dtype: Any = onp.int32, ctx: Any = None, device: Any = None) -> ndarray:
    """The indices of a grid: (number of dimensions, *dimensions), of dtype int32 by default."""
    if not isinstance(dimensions, list | tuple):
        raise ValueError("The dimensions must be sequence of ints")
    return _of(onp.indices(_extents(dimensions)), _element(dtype), _place(ctx, device))
