"""NDArray: a dense array in row-major memory on one context."""

from __future__ import annotations

import ctypes
import warnings
from functools import partial
from math import prod
from typing import Any, ClassVar

import numpy as np

from ...ir.types import DType
from ...runtime.modes import hooks
from ...runtime.storage import LARGE, as_numpy, copy_between
from ...runtime.tensor import Tensor
from ..base import MXNetError, integers
from ..context import Context, as_context, device_of, usable
from ..dtypes import dtype_name, dtype_of, from_memory, numpy_type, to_memory
from . import op
from .arithmetic import Arithmetic
from .array_classes import array_at, array_class, empty_array, register_array_class, zero_array  # noqa: F401
from .casting import tostype, write
from .dlpack import exported, to_dlpack
from .eager import invoke, operator_named
from .files import from_bytes, from_raw_bytes, to_bytes
from .fluent import Fluent
from .gradients import REQUESTS, attach, pull
from .indexing import Indexing
from .reshaping import reshaped
from .tape import Entry, is_recorded, record_copy, variable_of

__all__ = ["NDArray"]

_LARGE = 1 << 18  # arrays of at least so many elements are cast by a kernel, which is faster but must be compiled


@register_array_class("default")
class NDArray(Arithmetic, Indexing, Fluent, Tensor):
    """A dense array of numbers on one device. `nd.array`, `nd.zeros`, ... and operators create arrays.

    On a CPU, a call returns when its work is done; on other devices it can return earlier.
    """

    __slots__ = ("__weakref__", "_entry")

    _entry: Entry | None

    _context: Context

    __array_priority__ = 1000.0

    _is_sparse: ClassVar[bool] = False

    _class: ClassVar[type[NDArray] | None] = None
    """The class of copies and results; None is that of `mx.nd`."""

    # Properties.

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the axes."""
        return self._shape

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self._shape)

    @property
    def dtype(self) -> Any:
        """The element type, such as numpy.float32."""
        return numpy_type(self._dtype)

    @property
    def stype(self) -> str:
        """The storage type: "default" for dense arrays, "csr" or "row_sparse"."""
        return "default"

    @property
    def context(self) -> Context:
        """The device on which the array is stored."""
        return self._context

    ctx = context

    @property
    def writable(self) -> bool:
        """True: arrays can always be written."""
        return True

    @property
    def handle(self) -> ctypes.c_void_p:
        """The address of the elements, for code that passes arrays to C."""
        return ctypes.c_void_p(self._address if self._on_host else self._address.value)

    @property
    def grad(self) -> NDArray | None:
        """The array that receives the gradient, if there is one. With the `grad_req` "null" it receives nothing, and a
        backward pass removes it."""
        variable = variable_of(self)
        return None if variable is None or variable.spent else variable.array

    @property
    def _fresh_grad(self) -> bool:
        """Whether a backward pass wrote the gradient since this was last set to False."""
        variable = variable_of(self)
        return variable is not None and variable.fresh

    @_fresh_grad.setter
    def _fresh_grad(self, fresh: bool) -> None:
        variable = variable_of(self)
        if variable is not None:
            variable.fresh = bool(fresh)

    @property
    def T(self) -> NDArray:
        """A copy with the axes in reverse order; an array with fewer than two axes is returned itself."""
        return self if len(self._shape) < 2 else self.transpose()  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        extents = "x".join(map(str, self._shape))
        return f"\n{self.asnumpy()!s}\n<{type(self).__name__} {extents} @{self._context}>"

    # Memory.

    def _memory(self) -> np.ndarray:
        """The memory as a NumPy array (bfloat16 as uint16): the memory itself on the host, else a read-only copy. Use
        `_write` to write."""
        storage = self._storage
        return as_numpy(storage, self._dtype.memory, self._shape, self._address - storage.address)

    def _write(self, values: Any, key: Any = ...) -> None:
        """Write values in the dtype of the memory (bfloat16 as uint16) to the elements that a NumPy key selects."""
        if self._address.__class__ is int:
            self._memory()[key] = values
            return
        self._storage.device.write(self._address, self._content_after(values, key))

    def _content_after(self, values: Any, key: Any) -> np.ndarray:
        """The memory of the array after a write to it."""
        dtype = self._dtype.memory
        if key is ... and isinstance(values, np.ndarray) and (values.shape, values.dtype) == (self._shape, dtype):
            return np.ascontiguousarray(values)
        content = np.empty(self._shape, dtype) if key is ... else self._memory().copy()
        content[key] = values
        return content

    def _clear(self) -> None:
        """Write zeros to all elements."""
        self._storage.device.clear(self._address, self._nbytes())

    def _view(self, shape: tuple[int, ...], offset: int = 0, dtype: DType | None = None) -> NDArray:
        """An array on the same memory, from byte `offset` on; on the tape a copy, whose gradient is known."""
        if hooks.watched and is_recorded((self,)):
            return self._recorded_view(shape, offset // self._dtype.itemsize)
        return self._alias(shape, offset, dtype)

    def _recorded_view(self, shape: tuple[int, ...], first: int) -> NDArray:
        count = prod(shape)
        if self.size == 0:  # an extent of 0 in the parameter of `reshape` keeps an extent
            return op.reshape_like(self, empty_array(shape, self._dtype, self._context))
        flat = self
        if count != self.size:
            flat = op.reshape(self, shape=(-1,))
            flat = op.slice_axis(flat, axis=0, begin=first, end=first + count)
        return op.reshape(flat, shape=shape) if shape else op.reshape(flat, shape=(1,))

    def _alias(self, shape: tuple[int, ...], offset: int = 0, dtype: DType | None = None) -> NDArray:
        view: NDArray = object.__new__(type(self))
        view._storage, view._address, view._shape = self._storage, self._address + offset, shape
        view._dtype, view._context = dtype or self._dtype, self._context
        return view

    def _like(self, memory: np.ndarray) -> NDArray:
        """A new array of the same dtype and context with these elements (bfloat16 as uint16)."""
        result = empty_array(memory.shape, self._dtype, self._context, self._class)
        result._write(memory)
        return result

    # Conversion.

    def asnumpy(self) -> np.ndarray:
        """Copies the array to a NumPy array of the same dtype; bfloat16 becomes float32."""
        memory = self._memory()
        values = from_memory(memory, self._dtype)
        if values is memory:
            if self._address.__class__ is int:
                return values.copy()
            values.flags.writeable = True  # of another device's memory it is a copy already
        return values

    def asscalar(self) -> Any:
        """The only element as a NumPy scalar. ValueError unless the array has one element."""
        if self.size != 1:
            raise ValueError("The current array is not a scalar")
        if self._dtype is DType.F32 and self._address.__class__ is int:
            return np.float32(ctypes.c_float.from_address(self._address).value)
        return self.asnumpy().reshape(-1)[0]

    def item(self) -> Any:
        """The only element as a Python number. ValueError unless the array has one element."""
        return self.asscalar().item()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = self.asnumpy()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __bool__(self) -> bool:
        if self.size > 1:
            raise ValueError("The truth value of an NDArray with multiple elements is ambiguous.")
        return bool(self.size) and bool(self.asscalar())

    def __float__(self) -> float:
        return float(self.asscalar())

    def __int__(self) -> int:
        return int(self.asscalar())

    def __index__(self) -> int:
        value = self.asscalar()
        if not isinstance(value, np.integer):
            raise TypeError("only integer arrays of one element can be an index")
        return int(value)

    __nonzero__ = __bool__  # third-party code uses the old name

    def astype(self, dtype: Any, copy: bool = True) -> NDArray:
        """Converts the elements to another dtype. Floats become integers by truncation.

        Args:
            dtype: The new dtype: a NumPy type, a dtype or a name such as "float16" or "bfloat16".
            copy: False to return the array itself if it has this dtype already.
        Returns:
            A new array on the same device. TypeError for an unknown dtype.
        """
        new = dtype_of(dtype)
        if new is self._dtype:
            return self.copy() if copy else self
        if self.size >= _LARGE or self._address.__class__ is not int or is_recorded((self,)):
            params, numpy = {"dtype": dtype_name(numpy_type(new))}, self._class is not None
            return invoke(operator_named("Cast"), [self], params, numpy=numpy)
        result = empty_array(self._shape, new, self._context, self._class)
        result._write(to_memory(self.asnumpy(), new))
        return result

    def copy(self) -> NDArray:
        """A copy of the array on the same context."""
        return self._copied_to(self._context)

    def copyto(self, other: Any) -> Any:
        """Copies the elements into another array, or to a context.

        Args:
            other: An array of the same shape, whose dtype and storage type are kept; or a Context.
        Returns:
            `other`, or the new array on the context. Copying an array to itself warns and returns False. MXNetError for
            another shape, TypeError for other types.
        """
        if isinstance(other, Context):
            return self._copied_to(usable(other))
        if not isinstance(other, NDArray):
            raise TypeError(f"copyto does not support type {type(other)}")
        if other is self:
            warnings.warn("You are attempting to copy an array to itself", RuntimeWarning, stacklevel=2)
            return False
        if other._shape != self._shape:
            raise MXNetError(f"copyto: an array of shape {self._shape} cannot be copied to one of shape {other._shape}")
        if other._is_sparse:
            write(other, self)
        else:
            other[:] = self
        return other

    def _copied_to(self, context: Context) -> NDArray:
        copy, nbytes = empty_array(self._shape, self._dtype, context, self._class), self._nbytes()
        if nbytes < LARGE and copy._address.__class__ is int and self._address.__class__ is int:
            ctypes.memmove(copy._address, self._address, nbytes)
        else:  # by threads, or to another device
            copy_between(copy._storage.device, copy._address, self._storage.device, self._address, nbytes)
        if is_recorded((self,)):
            record_copy(self, copy)
        return copy

    def as_in_context(self, context: Context) -> NDArray:
        """The array itself if it is on `context`, else a copy there."""
        return self if self._context == context else self._copied_to(usable(context))

    as_in_ctx = as_in_context

    def as_nd_ndarray(self) -> NDArray:
        """The array itself, since it is not an mx.np array."""
        return self

    def as_np_ndarray(self) -> Any:
        """The array as one of `mx.np`, on the same memory and at the same place of a recorded graph."""
        return self._of_class(array_class("numpy"))

    def _of_class(self, cls: type[NDArray]) -> NDArray:
        """The array as one of another class, on the same memory."""
        other: NDArray = object.__new__(cls)
        other._take_over(self)
        other._entry = getattr(self, "_entry", None)
        return other

    def detach(self) -> NDArray:
        """A view of the same memory that is not part of the recorded graph: no gradient flows through it."""
        return self._alias(self._shape)

    def tostype(self, stype: str) -> Any:
        """Converts the array to another storage type.

        Args:
            stype: "default" (dense), "csr" (two axes only) or "row_sparse".
        Returns:
            A copy. ValueError for csr unless the array has two axes, and between csr and row_sparse.
        """
        result = tostype(self, stype)
        if hooks.watched and is_recorded((self,)):
            record_copy(self, result)
        return result

    def wait_to_read(self) -> None:
        """Waits until the device has finished its work. On the CPU a call returns when its work is done."""
        device_of(self._context).synchronise()

    wait_to_write = wait_to_read

    def attach_grad(self, grad_req: str = "write", stype: str | None = None) -> None:
        """Make the array a variable: `backward` computes its gradient, which `grad` returns.

        Args:
            grad_req: "write" replaces the gradient in each backward pass, "add" adds to it, "null" ignores it.
            stype: Storage type of the gradient; that of the array if None.
        """
        if grad_req not in REQUESTS:
            raise KeyError(grad_req)
        stype = stype or self.stype
        make = partial(_zeros, self._shape, dtype_of(self.dtype), self._context, stype, self._class)
        attach(self, grad_req, make, stype)

    def backward(self, out_grad: Any = None, retain_graph: bool = False, train_mode: bool = True) -> None:
        """Compute the gradients of this array by the variables that it was computed from.

        Args:
            out_grad: The gradient by this array; ones if None.
            retain_graph: True to keep what was recorded for another backward pass.
            train_mode: Unused: a call's gradient is in the mode of the call.
        """
        pull([self], [out_grad], retain_graph)

    def _full(self, value: Any) -> None:
        """Set all elements to a number."""
        self[:] = value

    def _sync_copyfrom(self, source_array: Any) -> None:
        """Copy from a NumPy array of the same shape. ValueError for another shape."""
        source = np.asarray(source_array)
        if source.shape != self._shape:
            raise ValueError(f"Shape inconsistent: expected {source.shape} vs got {self._shape}")
        self[:] = source

    def slice_assign_scalar(self, value: Any, begin: Any, end: Any, step: Any) -> NDArray:
        """Sets the elements of a slice to a number.

        Args:
            value: The number.
            begin, end, step: Start, stop and step of the slice along each axis.
        Returns:
            The array itself.
        """
        self[tuple(map(slice, begin, end, step))] = value
        return self

    def slice_assign(self, rhs: NDArray, begin: Any, end: Any, step: Any) -> NDArray:
        """Overwrites the elements of a slice.

        Args:
            rhs: An array whose shape broadcasts to the slice.
            begin, end, step: Start, stop and step of the slice along each axis.
        Returns:
            The array itself.
        """
        self[tuple(map(slice, begin, end, step))] = rhs
        return self

    # Shape.

    def reshape(self, *shape: Any, **kwargs: Any) -> NDArray:
        """The same elements in another shape, as a view of the same memory.

        The shape can contain codes: 0 keeps an extent, -1 is inferred from the size (at most once), -2 keeps all
        remaining extents, -3 multiplies the next two, and -4 splits an extent into the two numbers that follow.

        Args:
            shape: The extents and codes, as one tuple or several arguments.
            reverse: True to match codes from the last axis.
        Returns:
            A view of this array. ShapeError, a ValueError, if the number of elements differs.
        Example:
            >>> nd.arange(6).reshape((2, -1)).asnumpy()
            array([[0., 1., 2.],
                   [3., 4., 5.]], dtype=float32)
        """
        if len(shape) == 1 and isinstance(shape[0], list | tuple):
            shape = tuple(shape[0])
        elif not shape:
            named = kwargs.get("shape")
            if named is None or named == ():
                raise AssertionError("Shape must be provided.")
            shape = (named,) if isinstance(named, int) else tuple(named)
        if kwargs and (unknown := [k for k in kwargs if k not in ("shape", "reverse")]):
            raise TypeError(
                f"Got unknown keywords in reshape: {', '.join(unknown)}. Accepted are 'shape' and 'reverse'."
            )
        for n in shape:
            if n.__class__ is not int:
                shape = integers(shape)
                break
        return self._view(reshaped(self._shape, shape, bool(kwargs and kwargs.get("reverse"))))

    # Pickling: as the content of a `.params` file, which every version of MXNet reads.

    def __reduce__(self) -> Any:
        return _unpickled, (type(self), str(self._context), self._dumped())

    def _dumped(self) -> bytes:
        return to_bytes(self)

    def __init__(self, handle: None = None, writable: bool = True) -> None:
        """An array without memory, for `__setstate__` only. `nd.array`, `nd.zeros`, ... create arrays."""
        if handle is not None:
            raise MXNetError("NDArray has no C handle in mxforge: create arrays with nd.array, nd.zeros, ...")

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore an array that MXNet pickled."""
        self._take_over(from_raw_bytes(bytes(state["handle"])))

    def _take_over(self, other: NDArray) -> None:
        self._storage, self._address, self._shape = other._storage, other._address, other._shape
        self._dtype, self._context = other._dtype, other._context

    def __copy__(self) -> NDArray:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> NDArray:
        return self.copy()

    def to_dlpack_for_read(self) -> Any:
        """A DLPack capsule that shares the memory. MXNetError for bfloat16 and on other devices than the CPU."""
        return to_dlpack(self)

    to_dlpack_for_write = to_dlpack_for_read

    def __dlpack__(self, *, stream: Any = None, **kwargs: Any) -> Any:
        return exported(self, **kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def _zeros(
    shape: tuple[int, ...], dtype: DType, context: Context, stype: str, cls: type[NDArray] | None = None
) -> NDArray:
    zeros = zero_array(shape, dtype, context, cls)
    return zeros if stype == "default" else tostype(zeros, stype)


def _unpickled(cls: type[NDArray], context: str, content: bytes) -> NDArray:
    array = from_bytes(content).as_in_context(as_context(context))
    return array if cls._class is None else array._of_class(cls)


NDArrayBase = NDArray  # its base class in MXNet
