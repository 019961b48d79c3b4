"""Arrays of a graph that is being traced: they have a dtype and a shape, and elements only if Python reads them.

`HybridBlock.forward` runs once on such arrays. Operators make nodes of the graph of them (`modes.tracer`), and Python
code that depends on shapes, dtypes or elements sees those of the arrays of the call.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NoReturn

import numpy as np

from ...ir.types import DType
from ..base import MXNetError
from ..context import Context
from ..dtypes import dtype_name, dtype_of, numpy_type
from .array_classes import array_class
from .eager import invoke, operator_named
from .indexing import normalized
from .ndarray import NDArray
from .numpy_array import ndarray

IN_PLACE = (
    "Inplace operations (+=, -=, x[:]=, out=, etc) are not supported in the forward of a hybridized block: it is "
    "traced as a graph. Compute a new array, or call the block without hybridize()"
)


class Traced:
    """What traced arrays of `mx.nd` and of `mx.np` have in common. `_place` is the array's place in the graph of
    `_graph`, which computes its elements if they are read."""

    __slots__ = ()

    _graph: Any
    _place: Any
    _shape: tuple[int, ...]
    _dtype: DType
    _context: Context
    _class: Any

    def __getattr__(self, name: str) -> Any:
        """The memory of the elements, which are computed when it is first needed."""
        if name not in ("_storage", "_address"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = self._graph.value_of(self)
        self._storage, self._address = value._storage, value._address
        return getattr(self, name)

    def _apply(self, name: str, *arrays: Any, **params: Any) -> Any:
        operands: list[Any] = [self, *arrays]
        return invoke(operator_named(name), operands, params, numpy=self._class is not None)

    def _of_class(self, cls: type[NDArray]) -> Any:
        return self._graph.array_at(self._place, self._shape, self._dtype, self._context, cls._class is not None)

    def _view(self, shape: tuple[int, ...], offset: int = 0, dtype: DType | None = None) -> Any:
        if dtype is not None:
            raise MXNetError("the memory of an array that is being traced has no other dtype: use astype")
        return self._recorded_view(shape, offset // self._dtype.itemsize)  # type: ignore[attr-defined]

    def astype(self, dtype: Any, *args: Any, copy: bool = True, **kwargs: Any) -> Any:
        """See `NDArray.astype`."""
        new = dtype_of(dtype)
        return self if new is self._dtype and not copy else self._apply("Cast", dtype=dtype_name(numpy_type(new)))

    def _copied_to(self, context: Context) -> Any:
        if context != self._context:
            raise MXNetError(f"a hybridized block runs on {self._context}: its forward cannot copy to {context}")
        return self._apply("_copy")

    def copyto(self, other: Any) -> Any:
        """See `NDArray.copyto`; arrays cannot be written."""
        return self._copied_to(other) if isinstance(other, Context) else _refuse()

    def detach(self) -> Any:
        """See `NDArray.detach`."""
        return self._apply("BlockGrad")

    def attach_grad(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises MXNetError."""
        raise MXNetError("attach_grad: arrays in the forward of a hybridized block are no variables")

    def backward(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises MXNetError."""
        raise MXNetError("backward: the forward of a hybridized block cannot compute gradients of its arrays")

    def _write(self, values: Any, key: Any = ...) -> NoReturn:
        _refuse()

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        _refuse()


def _refuse() -> NoReturn:
    raise MXNetError(IN_PLACE)


class TracedArray(Traced, ndarray):
    """A traced array of `mx.np`."""

    __slots__ = ("_graph", "_place")

    _nonzero_by_axis = None  # type: ignore[assignment]

    def __getitem__(self, key: Any) -> Any:
        return _part(self, key)

    def reshape(self, *args: Any, **kwargs: Any) -> Any:
        """See `ndarray.reshape`."""
        shape: Any = args or (kwargs.get("newshape", kwargs.get("shape")),)
        if len(shape) == 1 and not isinstance(shape[0], int | np.integer):
            shape = tuple(shape[0])
        return self._apply("_np_reshape", newshape=tuple(map(int, shape)), order=kwargs.get("order", "C"))


class TracedLegacyArray(Traced, NDArray):
    """A traced array of `mx.nd`, which functions of `mx.nd` in the forward of a block return."""

    __slots__ = ("_graph", "_place")

    def __getitem__(self, key: Any) -> Any:
        return _part(self._of_class(array_class("numpy")), key).as_nd_ndarray()

    def reshape(self, *shape: Any, **kwargs: Any) -> Any:
        """See `NDArray.reshape`."""
        if len(shape) == 1 and isinstance(shape[0], list | tuple):
            shape = tuple(shape[0])
        return self._apply("Reshape", shape=shape or kwargs["shape"], reverse=bool(kwargs.get("reverse")))


def _in_place(name: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, other: Any) -> NoReturn:
        _refuse()

    refuse.__name__ = name
    return refuse


for _name in "add sub mul truediv div mod pow and or xor matmul floordiv lshift rshift".split():
    setattr(Traced, f"__i{_name}__", _in_place(f"__i{_name}__"))


# --- parts: x[key]


def _part(x: TracedArray, key: Any) -> Any:
    """The part that NumPy's `key` selects: slices and integers first, then at most one array or group of arrays."""
    parts = list(key) if isinstance(key, tuple) else [key]
    masks = [p for p in parts if _is_mask(p)]
    if masks:
        return _masked(x, parts, masks)
    parts = _expanded(x, parts)
    if any(map(_is_array, parts)):
        if any(p is None for p in parts):
            raise IndexError(
                "a key in the forward of a hybridized block cannot contain both arrays and None: use expand_dims"
            )
        return _taken(x, parts)
    result = _sliced(x, [p for p in parts if p is not None])
    for axis in [i for i, p in enumerate(p for p in parts if not _is_integer(p)) if p is None]:
        result = result._apply("expand_dims", axis=axis)
    return result


def _is_integer(part: Any) -> bool:
    return isinstance(part, int | np.integer) and not isinstance(part, bool | np.bool_)


def _is_array(part: Any) -> bool:
    return isinstance(part, NDArray | np.ndarray | list | tuple | range)


def _is_mask(part: Any) -> bool:
    if isinstance(part, NDArray):
        return part._dtype is DType.BOOL
    return isinstance(part, bool | np.bool_) or (_is_array(part) and np.asarray(part).dtype == np.bool_)


def _expanded(x: TracedArray, parts: list[Any]) -> list[Any]:
    """The key with a part for each axis: `...` and missing axes are whole slices."""
    count = sum(part is not None and part is not Ellipsis for part in parts)
    if count > x.ndim:
        raise IndexError(f"too many indices for array: array is {x.ndim}-dimensional, but {count} were indexed")
    places = [i for i, part in enumerate(parts) if part is Ellipsis]
    if len(places) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    at = places[0] if places else len(parts)
    return [*parts[:at], *[slice(None)] * (x.ndim - count), *parts[at + 1 :]]


def _sliced(x: TracedArray, parts: list[Any]) -> Any:
    """The part that a slice or an integer for each axis selects. Axes of integers are removed."""
    for axis, (part, extent) in enumerate(zip(parts, x.shape, strict=True)):
        if not _is_integer(part) and not isinstance(part, slice):
            raise ValueError(f"NDArray does not support slicing with key {part!r} of type {type(part)}")
        if not isinstance(part, slice) and not -extent <= part < extent:
            raise IndexError(f"index {part} is out of bounds for axis {axis} with size {extent}")
    ranges = [p if isinstance(p, slice) else slice(int(p), None if p == -1 else int(p) + 1) for p in parts]
    result = x
    if any(r != slice(None) for r in ranges):
        bounds = {name: tuple(getattr(r, field) for r in ranges) for name, field in _BOUNDS}
        result = x._apply("_npi_slice", **bounds)
    axes = tuple(axis for axis, part in enumerate(parts) if _is_integer(part))
    return result._apply("_np_squeeze", axis=axes) if axes else result


_BOUNDS = (("begin", "start"), ("end", "stop"), ("step", "step"))


def _indices(x: TracedArray, part: Any, axis: int) -> Any:
    """An array of positions. IndexError for numbers out of bounds."""
    if isinstance(part, NDArray):
        return part if part._class is not None else part.as_np_ndarray()
    numbers, extent = np.asarray(normalized([part] if _is_integer(part) else part)), x.shape[axis]
    for number in numbers[(numbers < -extent) | (numbers >= extent)][:1]:
        raise IndexError(f"index {number} is out of bounds for axis {axis} with size {extent}")
    return x._graph.constant(numbers, DType.I64, x._context)


def _taken(x: Any, parts: list[Any]) -> Any:
    """The part that slices, and arrays of positions, select. Integers beside arrays are arrays of one position."""
    axes = [axis for axis, part in enumerate(parts) if not isinstance(part, slice)]
    sliced = _sliced(x, [part if isinstance(part, slice) else slice(None) for part in parts])
    if len(axes) == 1:
        return sliced._apply("take", _indices(x, parts[axes[0]], axes[0]), axis=axes[0], mode="wrap")
    numpy, first = import_module("..numpy", __package__), axes[0]
    positions = [_indices(x, parts[axis], axis).astype("int64") % x.shape[axis] for axis in axes]
    stacked = numpy.stack(numpy.broadcast_arrays(*positions))
    in_front = numpy.transpose(sliced, [*axes, *[axis for axis in range(x.ndim) if axis not in axes]])
    taken = in_front._apply("gather_nd", stacked)
    if axes != list(range(first, first + len(axes))):
        return taken
    added = stacked.ndim - 1  # the axes of neighbours are replaced by those of the positions
    moved = [*range(added, added + first), *range(added), *range(added + first, taken.ndim)]
    return numpy.transpose(taken, moved)


def _masked(x: TracedArray, parts: list[Any], masks: list[Any]) -> Any:
    """The elements where a mask for the first axes is true."""
    if len(parts) > 1 or isinstance(masks[0], bool | np.bool_):
        raise IndexError("a mask in the forward of a hybridized block must be an array, and the whole key: x[mask]")
    mask = masks[0]
    if not isinstance(mask, NDArray):
        mask = x._graph.constant(np.asarray(mask), DType.BOOL, x._context)
    if mask.shape != x.shape[: mask.ndim]:
        raise IndexError(f"boolean index of shape {mask.shape} did not match indexed array of shape {x.shape}")
    flat = x if mask.ndim == 1 else x.reshape(-1, *x.shape[mask.ndim :])
    return flat._apply("_npi_boolean_mask", mask.reshape(-1))
