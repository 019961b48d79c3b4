"""The arrays of `mx.np`: NDArrays with NumPy's semantics, which share their storage with those of `mx.nd`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from math import prod
from operator import index as as_index
from typing import Any, NoReturn

import numpy as onp

from ...ir.dialects.mx.shapes import inferred
from ...ir.types import DType
from ...runtime.modes import hooks
from ..base import MXNetError
from ..context import Context, usable
from ..dtypes import numpy_type
from ..tracebacks import api_boundary
from . import numpy_by_values
from .array_classes import array_class, register_array_class
from .eager import invoke, operator_named
from .gradients import remove_variable
from .indexing import _is_whole, _select, normalized
from .ndarray import NDArray
from .numpy_arithmetic import install, negation_of
from .reshaping import reshaped

__all__ = ["ndarray"]


class _Unhashable(NotImplementedError, TypeError):
    """The error of `hash(array)`: MXNet's is a NotImplementedError, Python's a TypeError."""


@cache
def _np() -> Any:
    """The module `mx.np`, whose functions the methods are."""
    return import_module("..numpy", __package__)


def _apply(name: str, *arrays: NDArray, **params: Any) -> Any:
    return invoke(operator_named(name), arrays, params, numpy=True)


@register_array_class("numpy")
class ndarray(NDArray):
    """A dense array of numbers on one device. `np.array`, `np.zeros`, ... and operators create arrays.

    Indexing, shapes and dtypes are NumPy's: an array can have no axes, and no elements. A key of integers and slices
    that selects contiguous memory returns a view.
    """

    __slots__ = ()

    # --- properties ---------------------------------------------------------------------------------------------------

    @property
    def T(self) -> ndarray:
        """The array with its axes in reverse order."""
        return _np().transpose(self)

    @property
    def mT(self) -> ndarray:
        """Each matrix in the last two axes transposed."""
        return _np().matrix_transpose(self)

    @property
    def dtype(self) -> Any:
        """The element type, a dtype of NumPy."""
        return numpy_type(self._dtype) if self._dtype is DType.BF16 else self._dtype.numpy

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self._dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._nbytes()

    @property
    def device(self) -> Context:
        """The device on which the array is stored."""
        return self._context

    def __repr__(self) -> str:
        if self._class is None:
            return object.__repr__(self)
        text = _array_text(self, onp.array_repr)
        return text if self._context.device_type == "cpu" else f"{text[:-1]}, ctx={self._context})"

    def __str__(self) -> str:
        text = _array_text(self, onp.array_str)
        return text if self._context.device_type == "cpu" else f"{text} @{self._context}"

    def __format__(self, fmt: str) -> str:
        return format(self.item(), fmt) if not self._shape else object.__format__(self, fmt)

    # --- conversion ---------------------------------------------------------------------------------------------------

    def item(self, *args: Any) -> Any:
        """An element as a Python number: the only one, that at a position in C order, or at the index of each axis."""
        if not args:
            if self.size != 1:
                raise ValueError("can only convert an array of size 1 to a Python scalar")
            return self.asnumpy().item()
        return self.asnumpy().item(*args)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers."""
        return self.asnumpy().tolist()

    def __bool__(self) -> bool:
        if self.size > 1:
            raise ValueError("The truth value of an ndarray with multiple elements is ambiguous.")
        return bool(self.size) and bool(self.item())

    __nonzero__ = __bool__

    def __float__(self) -> float:
        return float(self._scalar())

    def __int__(self) -> int:
        return int(self._scalar())

    def __index__(self) -> int:
        if self._shape or self._dtype.is_float:
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return as_index(self.item())

    def _scalar(self) -> Any:
        if self.size != 1:
            raise TypeError("only size-1 arrays can be converted to Python scalars")
        return self.item()

    def __hash__(self) -> NoReturn:  # type: ignore[override]
        raise _Unhashable("unhashable type: 'ndarray'")

    def __len__(self) -> int:
        if not self._shape:
            raise TypeError("len() of unsized object")
        return self._shape[0]

    def __iter__(self) -> Any:
        if not self._shape:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self._shape[0]))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def as_nd_ndarray(self) -> NDArray:
        """The array as one of `mx.nd`, on the same memory and at the same place of a recorded graph."""
        return self._of_class(array_class())

    def as_np_ndarray(self) -> ndarray:
        """The array itself."""
        return self

    def astype(  # type: ignore[override]
        self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
    ) -> ndarray:
        """Converts the elements to another dtype.

        Args:
            dtype: The new dtype.
            order, casting, subok: Only the defaults are accepted.
            copy: False to return the array itself if it has this dtype already.
        """
        if order not in ("K", "A", "C"):
            raise ValueError(f"order must be either 'K', 'A', or 'C', not {order!r}")
        if casting != "unsafe":
            raise ValueError("casting must be equal to 'unsafe'")
        if not subok:
            raise ValueError("subok must be equal to True")
        return super().astype(dtype, copy=copy)  # type: ignore[return-value]

    def copy(self, order: str = "C") -> ndarray:  # type: ignore[override]
        """A copy of the array on the same context."""
        if order != "C":
            raise NotImplementedError(f"ndarray.copy only supports order='C', while received {order}")
        return super().copy()  # type: ignore[return-value]

    def asscalar(self) -> NoReturn:
        """Raises AttributeError, as in MXNet: `item` returns the element."""
        raise AttributeError("mxnet.numpy.ndarray object has no attribute asscalar")

    def drop_grad(self) -> None:
        """Remove the gradient: the array is no variable any more."""
        remove_variable(self)

    def to_device(self, device: Context) -> ndarray:
        """The array itself if it is on the device, else a copy there."""
        return self.as_in_context(usable(device))  # type: ignore[return-value]

    # --- parts --------------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> ndarray:  # type: ignore[override]
        """The part that NumPy's `key` selects: a view if it is basic and contiguous, else a copy."""
        if key.__class__ is int and self._shape:
            return self._at(key)  # type: ignore[return-value]
        if key.__class__ is slice and self._shape and (key.step is None or key.step == 1) and not hooks.watched:
            return self if key.start is None and key.stop is None else self._slice(key.start, key.stop)  # type: ignore[return-value]
        if _is_whole(self, key) or key is Ellipsis:
            return self
        return _select(self, normalized(key))  # type: ignore[return-value]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Write a number, an array or an array-like value, broadcast to the shape that `key` selects."""
        super().__setitem__((key,) if isinstance(key, bool) else key, value)

    def _recorded_view(self, shape: tuple[int, ...], first: int) -> NDArray:
        count, flat = prod(shape), self
        if count != self.size:
            flat = _apply("_np_reshape", self, newshape=(-1,))
            flat = _apply("slice_axis", flat, axis=0, begin=first, end=first + count)
        return _apply("_np_reshape", flat, newshape=shape)

    def _nonzero_by_axis(self) -> Any:
        return numpy_by_values.nonzero_by_axis(self)

    def _taken(self, positions: NDArray) -> NDArray:
        flat = _apply("_np_reshape", self, newshape=(-1,))
        return _apply("take", flat, positions._of_class(ndarray), axis=0)

    # --- shapes -------------------------------------------------------------------------------------------------------

    def reshape(self, *args: Any, **kwargs: Any) -> ndarray:  # type: ignore[override]
        """The same elements in another shape, as a view. One extent can be -1, which is inferred.

        Args:
            shape: The extents, as one tuple or several arguments.
            order: "C", the only one.
        """
        shape = args if not kwargs else _shape_of(args, kwargs)
        if len(shape) == 1 and not isinstance(shape[0], int | onp.integer):
            shape = tuple(shape[0])
        elif not shape:
            raise TypeError("reshape() takes exactly 1 argument (0 given)")
        for n in shape:
            if n.__class__ is not int:
                shape = tuple(map(as_index, shape))
                break
        try:
            return self._view(_inferred(self._shape, shape))  # type: ignore[return-value]
        except ValueError as error:
            raise MXNetError(f"reshape: {error}") from None

    def reshape_view(self, *shape: Any, **kwargs: Any) -> ndarray:
        """As `NDArray.reshape`, with its codes."""
        if len(shape) == 1 and isinstance(shape[0], list | tuple):
            shape = tuple(shape[0])
        return self._view(reshaped(self._shape, shape, bool(kwargs.get("reverse"))))  # type: ignore[return-value]

    def flatten(self, order: str = "C") -> ndarray:  # type: ignore[override]
        """A copy with one axis."""
        if order != "C":
            raise NotImplementedError(f"only supports C-order, while received {order}")
        return self.reshape(-1).copy()

    def ravel(self, order: str = "C") -> ndarray:
        """The elements with one axis, as a view."""
        if order != "C":
            raise NotImplementedError(f"only supports C-order, while received {order}")
        return self.reshape(-1)

    def transpose(self, *axes: Any) -> ndarray:  # type: ignore[override]
        """The array with permuted axes, by default in reverse order."""
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], list | tuple)):
            axes = tuple(axes[0] or ())
        return _np().transpose(self, axes) if axes else _np().transpose(self)

    def expand_dims(self, axis: Any) -> ndarray:  # type: ignore[override]
        """Inserts an axis of extent 1."""
        return _np().expand_dims(self, axis)

    def squeeze(self, axis: Any = None) -> ndarray:  # type: ignore[override]
        """Removes axes of extent 1."""
        return _np().squeeze(self, axis=axis)

    def broadcast_to(self, shape: Any) -> ndarray:  # type: ignore[override]
        """Repeats the array along axes of extent 1, and along new leading axes."""
        return _np().broadcast_to(self, shape)

    def broadcast_like(self, other: Any) -> NoReturn:  # type: ignore[override]
        """Raises AttributeError, as in MXNet: use `broadcast_to`."""
        raise AttributeError("mxnet.numpy.ndarray object has no attribute broadcast_like")

    def clip(self, min: Any = None, max: Any = None, out: Any = None) -> ndarray:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The elements, limited to an interval."""
        return _np().clip(self, min, max, out=out)

    def dot(self, b: Any, out: Any = None) -> ndarray:
        """The product of two arrays; see `np.dot`."""
        return _np().dot(self, b, out=out)

    # --- arithmetic of one array --------------------------------------------------------------------------------------

    def __pos__(self) -> ndarray:
        return self

    def __divmod__(self, other: Any) -> tuple[ndarray, ndarray]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[ndarray, ndarray]:
        return other // self, other % self

    def __round__(self, n: int = 0) -> ndarray:
        return _np().around(self, decimals=n)

    # --- NumPy's protocols --------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """A ufunc of NumPy on arrays of `mx.np`: the function of `mx.np` with its name."""
        from .numpy_protocols import apply_ufunc

        return apply_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """A function of NumPy on arrays of `mx.np`: the function of `mx.np` with its name."""
        from .numpy_protocols import apply_function

        return apply_function(func, types, args, kwargs)


ndarray._class = ndarray
ndarray.__module__ = "mxforge.numpy"
install(ndarray)


def _array_text(array: ndarray, write: Callable[..., str]) -> str:
    """The elements as NumPy prints them, where float32 is the dtype that is not named."""
    values = array.asnumpy()
    if array._dtype is DType.F32 and write is onp.array_repr:
        text = write(values)
        text = text.replace(", dtype=float32)", ")")
        if text.endswith("dtype=float32)"):
            text = text[: text.rindex(",")] + ")"
        return text
    if array._dtype is DType.F64 and write is onp.array_repr:
        return f"{write(values)[:-1]}, dtype=float64)"
    return write(values)


def _shape_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The shape among the arguments of `reshape`."""
    order = kwargs.pop("order", "C")
    if order != "C":
        raise NotImplementedError(f"only supports C-order, while received {order}")
    named = kwargs.pop("newshape", kwargs.pop("shape", None))
    if kwargs:
        raise TypeError(f"'{next(iter(kwargs))}' is an invalid keyword argument for this function")
    return args if args or named is None else (named,)


_inferred = lru_cache(4096)(inferred)

_METHODS = """
    all:axis,out,keepdims any:axis,out,keepdims argmax:axis,out argmin:axis,out argsort:axis,kind,order
    cumsum:axis,dtype,out max:axis,out,keepdims mean:axis,dtype,out,keepdims
    min:axis,out,keepdims prod:axis,dtype,out,keepdims repeat:repeats,axis round:decimals,out
    std:axis,dtype,out,ddof,keepdims sum:axis,dtype,out,keepdims swapaxes:axis1,axis2 take:indices,axis,mode
    var:axis,dtype,out,ddof,keepdims nonzero: diag:k trace:offset,axis1,axis2 diagonal:offset,axis1,axis2 tile:reps
    flip:axis split:indices_or_sections,axis abs: arccos: arccosh: arcsin: arcsinh: arctan: arctanh: cbrt:
    sort:axis,kind,order ceil: cos: cosh: degrees: exp: expm1: fix: floor: log: log10: log1p: log2: radians:
    reciprocal: rint: sign: sin: sinh: sqrt: square: tan: tanh: trunc: pad:pad_width,mode
""".split()
"""Methods that are functions of `mx.np`, with their arguments; `name=name in the function`."""
_EXTENSIONS = (
    "log_sigmoid log_softmax mish one_hot pick relu reshape_like sigmoid slice softmax topk shape_array".split()
)
"""Methods that are functions of `mx.npx`."""
_LEGACY = """
    argmax_channel broadcast_axes depth_to_space nansum nanprod norm ones_like rcbrt rsqrt size_array slice_axis
    slice_like softmin space_to_depth split_v2 zeros_like
""".split()
"""Methods of `NDArray` that arrays of `mx.np` do not have."""


def _method(text: str) -> Callable[..., Any]:
    name, _, listed = text.partition(":")
    pairs = [argument.partition("=") for argument in listed.split(",") if argument]
    order = [own or shown for shown, _, own in pairs]
    renamed = {shown: own for shown, _, own in pairs if own}
    function: Any = None

    def method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        nonlocal function
        if function is None:
            function = getattr(_np(), name)
            if not order:
                setattr(ndarray, name, function)
        if not args and not renamed:
            return function(self, **kwargs)
        if len(args) > len(order):
            raise TypeError(f"{name}() takes at most {len(order)} positional arguments ({len(args)} given)")
        named = {renamed.get(key, key): value for key, value in kwargs.items()}
        return function(self, **dict(zip(order, args, strict=False)), **named)

    method.__name__, method.__qualname__ = name, f"ndarray.{name}"
    method.__doc__ = f"`np.{name}` of this array; see there for the arguments."
    return method


def _unary(python: str, name: str) -> Callable[[ndarray], ndarray]:
    """A method without arguments that is the function `np.NAME`, which replaces it at the first call."""

    def method(self: ndarray) -> ndarray:
        function = getattr(_np(), name)
        function = negation_of(function) if python == "__neg__" else function
        setattr(ndarray, python, function)
        return function(self)

    return method


def _extension(name: str) -> Callable[..., Any]:
    def method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        return getattr(import_module("..numpy_extension", __package__), name)(self, *args, **kwargs)

    method.__name__, method.__qualname__ = name, f"ndarray.{name}"
    method.__doc__ = f"`npx.{name}` of this array; see there for the arguments."
    return method


def _legacy(name: str) -> Callable[..., Any]:
    @api_boundary
    def method(self: ndarray, *args: Any, **kwargs: Any) -> NoReturn:
        raise AttributeError(f"mxnet.numpy.ndarray object has no attribute {name}")

    method.__name__, method.__qualname__ = name, f"ndarray.{name}"
    method.__doc__ = "Raises AttributeError, as in MXNet."
    return method


_UNARY = {
    "neg": "negative",
    "abs": "absolute",
    "invert": "bitwise_not",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
}
for _python, _name in _UNARY.items():
    setattr(ndarray, f"__{_python}__", _unary(f"__{_python}__", _name))
for _text in _METHODS:
    setattr(ndarray, _text.partition(":")[0], _method(_text))
for _name in _EXTENSIONS:
    setattr(ndarray, _name, _extension(_name))
for _name in _LEGACY:
    setattr(ndarray, _name, _legacy(_name))
