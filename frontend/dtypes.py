"""Element types as MXNet's API names them: NumPy classes, and a structured dtype for bfloat16, which NumPy lacks."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.types import DType

bfloat16 = np.dtype([("bfloat16", np.uint16)])
"""The value of `NDArray.dtype` for bfloat16, as in MXNet."""

_NUMPY: dict[DType, Any] = {d: d.numpy.type for d in DType if d is not DType.BF16}
_KNOWN: dict[Any, DType] = {None: DType.F32, "bfloat16": DType.BF16, bfloat16: DType.BF16}


def dtype_of(dtype: Any) -> DType:
    """The element type of a NumPy type, dtype or name; None is float32. TypeError for one that is not supported."""
    known = _KNOWN.get(dtype)
    if known is None:
        native = np.dtype(dtype).newbyteorder("=")
        known = _KNOWN[dtype] = DType.from_numpy(native)
    return known


def is_half(dtype: Any) -> bool:
    """True for floats of 16 bits."""
    return dtype_of(dtype) in (DType.F16, DType.BF16)


def numpy_type(dtype: DType) -> Any:
    """The value of `NDArray.dtype`: a NumPy class such as `numpy.float32`, or `bfloat16`."""
    return bfloat16 if dtype is DType.BF16 else _NUMPY[dtype]


def dtype_name(dtype: Any) -> str:
    """The name that operators take: "float32"."""
    return "bfloat16" if _KNOWN.get(dtype) is DType.BF16 else np.dtype(dtype).name


def dtype_error(dtype: Any) -> TypeError | None:
    """MXNet's error for a parameter that is not a dtype; None if it is one."""
    try:
        dtype_name(dtype)
    except TypeError as error:
        return TypeError(str(error))
    return None


def numbers_of(source: Any, dtype: DType) -> np.ndarray:
    """The numbers in an array-like value, as a NumPy array. Text and objects, such as None, become numbers of `dtype`
    as NumPy converts them; other values keep their dtype.

    Raises NumPy's error for a value that is not array-like, or text that is not a number.
    """
    values = np.asarray(source)
    if values.dtype.kind in "biuf" or values.dtype.name == "bfloat16":
        return values
    element = np.dtype(np.float32) if dtype is DType.BF16 else dtype.numpy
    return values.astype(element) if isinstance(source, np.ndarray) else np.array(source, element)


def to_memory(values: Any, dtype: DType) -> np.ndarray:
    """Values as an array of `DType.memory`, converted as in C (floats are truncated to integers)."""
    if dtype is not DType.BF16:
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(values).astype(dtype.numpy, copy=False)
    from .artifacts import BFloat16Data

    return np.asarray(BFloat16Data.from_float32(np.asarray(values, np.float32)).bits)


def from_memory(memory: np.ndarray, dtype: DType) -> np.ndarray:
    """The values of memory in a dtype that NumPy has: bfloat16 becomes float32."""
    if dtype is not DType.BF16:
        return memory
    from .artifacts import BFloat16Data

    return np.asarray(BFloat16Data(memory).to_float32())
