"""Creates arrays, and defines the functions of `nd` that MXNet writes in Python."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.types import DType
from ..base import MXNetError, integers
from ..context import Context, usable
from ..dtypes import dtype_of, numbers_of, to_memory
from ..memory import require_room
from ..shapes import is_known
from . import _internal, op
from .array_classes import array_class, empty_array, zero_array
from .eager import invoke, operator_named

if TYPE_CHECKING:
    from .ndarray import NDArray

__all__ = [
    "arange",
    "array",
    "concatenate",
    "empty",
    "eye",
    "full",
    "histogram",
    "linspace",
    "moveaxis",
    "onehot_encode",
    "ones",
    "split_v2",
    "waitall",
    "zeros",
]


def _extents(shape: Any) -> tuple[int, ...]:
    return integers(shape if hasattr(shape, "__iter__") else (shape,))


def _new(extents: tuple[int, ...], ctx: Context | None, dtype: Any) -> NDArray:
    """An array with uninitialized elements. As in MXNet, extents can be 0 even without NumPy's shape semantics."""
    if min(extents, default=0) < 0:
        raise MXNetError(f"cannot create an array of shape {extents}: an extent is negative")
    return empty_array(extents, dtype_of(dtype), usable(ctx))


def _of_known(
    extents: tuple[int, ...],
    ctx: Context | None,
    dtype: Any,
    make: Callable[[tuple[int, ...], DType, Context], NDArray] = empty_array,
) -> NDArray:
    """An array of `make`: with uninitialized elements, or of zeros. MXNetError for a shape that is not known."""
    if not is_known(extents):
        raise MXNetError(f"cannot create an array of shape {extents}: every extent must be known, and at least 1")
    return make(extents, dtype_of(dtype), usable(ctx))


def _declared(shape: Any) -> tuple[int, ...]:
    """A shape as operators accept it: a number, a sequence or its text. MXNetError for other values."""
    try:
        extents = ast.literal_eval(shape) if isinstance(shape, str) else shape
        return integers(extents if hasattr(extents, "__iter__") else (extents,))
    except TypeError as error:
        raise MXNetError(f"shape={shape!r}: {error}") from None
    except (ValueError, SyntaxError):
        raise MXNetError(f"shape={shape!r}: not a shape") from None


def empty(shape: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """A dense array with uninitialized elements."""
    return _new(_extents(shape), ctx, dtype)


def zeros(shape: Any, ctx: Context | None = None, dtype: Any = None, **kwargs: Any) -> NDArray:
    """A dense array of zeros."""
    return _given_out(_of_known(_declared(shape), ctx, dtype, zero_array), kwargs)


def ones(shape: Any, ctx: Context | None = None, dtype: Any = None, **kwargs: Any) -> NDArray:
    """An array of ones.

    Args:
        shape: Shape of the array, or the extent of its one axis.
        ctx: The device; the current context by default.
        dtype: The dtype; float32 by default.
        out: An array that receives the ones.
    """
    result = _of_known(_declared(shape), ctx, dtype)
    result[...] = 1
    return _given_out(result, kwargs)


def full(
    shape: Any, val: Any, ctx: Context | None = None, dtype: Any = np.float32, out: NDArray | None = None
) -> NDArray:
    """An array filled with one number.

    Args:
        shape: Shape of the array, or the extent of its one axis.
        val: The number.
        ctx: The device; the current context by default.
        dtype: The dtype; float32 by default.
        out: An array that is filled instead of a new one.
    """
    if out is None:
        extents = _extents(shape)
        result = _new(extents, ctx, dtype) if extents else _of_known(extents, ctx, dtype)
    else:
        result = out
    result[...] = val
    return result


def _given_out(result: NDArray, kwargs: dict[str, Any]) -> NDArray:
    """`result`, or the array `out=` after `result` is copied into it. Attributes such as `__layout__` are ignored."""
    out = kwargs.pop("out", None)
    unknown = [name for name in kwargs if name != "name" and not (name.startswith("__") and name.endswith("__"))]
    if unknown:
        raise TypeError(f"unexpected arguments {', '.join(unknown)}")
    return result if out is None else result.copyto(out)


def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """A dense array with the elements of an array-like value that is not sparse; see `nd.array`."""
    if isinstance(source_array, array_class()):
        element = source_array._dtype if dtype is None else dtype_of(dtype)
        return (
            source_array.as_in_context(usable(ctx)).astype(_public(element))
            if ctx
            else source_array.astype(_public(element))
        )
    element = dtype_of(dtype)
    values = _values(source_array, element)
    require_room(values.shape, element)
    memory = to_memory(values, element)
    result = empty_array(memory.shape, element, usable(ctx))
    result._write(memory)
    return result


def _public(dtype: DType) -> Any:
    return "bfloat16" if dtype is DType.BF16 else dtype.numpy


def _values(source: Any, element: DType) -> np.ndarray:
    """The numbers in an array-like value. NumPy's error for a NumPy array without numbers, as in MXNet; TypeError for
    other values."""
    if isinstance(source, np.ndarray):
        return numbers_of(source, element)
    try:
        return numbers_of(source, element)
    except Exception as error:
        raise TypeError(f"source_array must be array like object: {error}") from None


def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool | None = None,
    ctx: Context | None = None,
    dtype: Any = np.float32,
) -> NDArray:
    """Evenly spaced numbers in a half-open interval: start, start + step, ... up to but without stop.

    For an integer dtype, start and step are truncated, as in NumPy; the number of elements follows from the original
    values.

    Args:
        start: First number. Without `stop`, the interval is [0, start).
        stop: End of the interval, excluded.
        step: Difference between successive numbers.
        repeat: Number of copies of each number.
        infer_range: Unused; for compatibility with MXNet.
        ctx: The device; the current context by default.
        dtype: The dtype; float32 by default.
    Example:
        >>> nd.arange(0, 2, repeat=2).asnumpy()
        array([0., 0., 1., 1.], dtype=float32)
    """
    if stop is None:
        start, stop = 0, start
    if step == 0:
        raise MXNetError("arange: step is 0")
    count = int(np.ceil((stop - start) / step))
    if count < 1:
        raise MXNetError(f"arange: no number from {start} to {stop} in steps of {step}")
    require_room((count * repeat,), DType.F64)
    if dtype_of(dtype).is_integer:
        start, step = int(start), int(step)
    values = np.repeat(start + step * np.arange(count), repeat)
    return _filled(values, ctx, dtype)


def linspace(
    start: float, stop: float, num: int, endpoint: bool = True, ctx: Context | None = None, dtype: Any = np.float32
) -> NDArray:
    """A given number of evenly spaced numbers.

    Args:
        start: First number.
        stop: Last number.
        num: Number of elements.
        endpoint: False to exclude `stop`.
        ctx: The device; the current context by default.
        dtype: The dtype; float32 by default.
    """
    if num < 0:
        raise MXNetError(f"linspace: num is {num}, and must not be negative")
    require_room((num,), DType.F64)
    values = np.linspace(start, stop, num, endpoint=endpoint)
    return _filled(values, ctx, dtype) if num else empty_array((0,), dtype_of(dtype), usable(ctx))


def eye(N: int, M: int = 0, k: int = 0, ctx: Context | None = None, dtype: Any = None, **kwargs: Any) -> NDArray:
    """A matrix with ones on one diagonal and zeros elsewhere.

    Args:
        N: Number of rows.
        M: Number of columns; N by default.
        k: The diagonal: 0 is the main diagonal, k > 0 is above it, k < 0 below it.
        ctx: The device; the current context by default.
        dtype: The dtype; float32 by default.
    """
    try:
        rows, columns, diagonal = integers((N, M or N, k))
    except TypeError:
        raise MXNetError(f"eye: N, M and k must be integers, not {N!r}, {M!r} and {k!r}") from None
    require_room((rows, columns), DType.F64)
    return _given_out(_filled(np.eye(rows, columns, diagonal), ctx, dtype), kwargs)


def _filled(values: np.ndarray, ctx: Context | None, dtype: Any) -> NDArray:
    result = _new(values.shape, ctx, dtype)
    result._write(to_memory(values, result._dtype))
    return result


def concatenate(arrays: Sequence[NDArray], axis: int = 0, always_copy: bool = True) -> NDArray:
    """Joins arrays along an existing axis.

    Args:
        arrays: The arrays. Their shapes can differ along `axis` only.
        axis: The axis.
        always_copy: False to return a single array itself.
    """
    if len(arrays) == 1 and not always_copy:
        return arrays[0]
    return op.concat(*arrays, dim=axis)


def moveaxis(tensor: NDArray, source: int | Sequence[int], destination: int | Sequence[int]) -> NDArray:
    """Moves axes to new positions; the other axes keep their order.

    Args:
        tensor: The array.
        source: The axes to move: one or several.
        destination: Their new positions.
    Returns:
        A copy. ValueError for axes that do not exist or are repeated.
    """
    sources = [source] if isinstance(source, int) else list(source)
    targets = [destination] if isinstance(destination, int) else list(destination)
    if len(sources) != len(targets):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    rank = tensor.ndim
    if any(not -rank <= a < rank for a in (*sources, *targets)):
        raise ValueError(f"axes {sources} and {targets} do not all exist in {rank} dimensions")
    if len({a % rank for a in sources}) < len(sources) or len({a % rank for a in targets}) < len(targets):
        raise ValueError(f"repeated axis in source {sources} or destination {targets}")
    order = [a for a in range(rank) if a not in {s % rank for s in sources}]
    for target, axis in sorted((t % rank, s % rank) for s, t in zip(sources, targets, strict=True)):
        order.insert(target, axis)
    return tensor.transpose(order)  # type: ignore[attr-defined]


def split_v2(ary: NDArray, indices_or_sections: int | Sequence[int], axis: int = 0, squeeze_axis: bool = False) -> Any:
    """Splits an array along an axis.

    Args:
        ary: The array.
        indices_or_sections: Number of equal parts, or the positions at which to split.
        axis: The axis.
        squeeze_axis: True to remove the axis from parts whose extent along it is 1.
    Example:
        >>> [part.shape for part in nd.split_v2(nd.ones((5,)), (2,))]
        [(2,), (3,)]
    """
    if isinstance(indices_or_sections, int):
        if ary.shape[axis] % indices_or_sections:
            raise ValueError("array split does not result in an equal division")
        return _internal._split_v2(ary, (), axis, squeeze_axis, indices_or_sections)
    if isinstance(indices_or_sections, list | tuple | set):
        return _internal._split_v2(ary, (0, *indices_or_sections), axis, squeeze_axis)
    raise ValueError("indices_or_sections must either int or tuple / list / set of ints")


def histogram(a: NDArray, bins: Any = 10, range: tuple[float, float] | None = None) -> Any:
    """Counts the elements in intervals.

    Args:
        a: The array.
        bins: Number of equal intervals, or an NDArray of their edges.
        range: Lower and upper end of all intervals; by default the least and the largest element.
    Returns:
        The counts and the edges.
    """
    if isinstance(bins, array_class()):
        return invoke(operator_named("_histogram"), (a, bins), {})
    if not isinstance(bins, int):
        raise ValueError("bins argument should be either an integer or an NDArray")
    if range is None:  # MXNet's operator requires a range and returns int64; without one the counts are float32
        return [array(part, a.context) for part in np.histogram(a.asnumpy(), bins)]
    return invoke(operator_named("_histogram"), (a,), {"bin_cnt": bins, "range": tuple(range)})


def onehot_encode(indices: NDArray, out: NDArray) -> NDArray:
    """Writes one-hot rows into `out`, of shape (n, classes): row i is 1 at indices[i], and 0 elsewhere."""
    memory = np.zeros(out.shape, out._dtype.memory)
    memory[np.arange(len(indices)), indices.asnumpy().astype(np.int64)] = 1
    out._write(memory)
    return out


def waitall() -> None:
    """Waits until all devices have finished their work. On the CPU a call returns when its work is done."""
    from ...runtime.devices import opened_devices

    for device in opened_devices():
        device.synchronise()
