"""Functions of `mx.sym.np` that are written otherwise for arrays, where they compute with shapes and elements."""

from __future__ import annotations

from typing import Any

from ...base import numeric_types
from .functions import internal


def histogram(
    a: Any, bins: Any = 10, range: Any = None, normed: Any = None, weights: Any = None, density: Any = None
) -> Any:
    """Counts the elements in intervals."""
    if isinstance(bins, int):
        if range is None:
            raise NotImplementedError("automatic range is not available yet")
        return internal("_npi_histogram")(a, bin_cnt=bins, range=range)
    return internal("_npi_histogram")(a, bins)


def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """The symbol without slices along an axis."""
    if isinstance(obj, slice):
        return internal("_npi_delete")(arr, start=obj.start, stop=obj.stop, step=obj.step, axis=axis)
    if isinstance(obj, int):
        return internal("_npi_delete")(arr, int_ind=obj, axis=axis)
    raise TypeError(f"'obj' can not support type {type(obj)}")


def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """The symbol with slices inserted along an axis."""
    arrays, number = ([arr], {"val": float(values)}) if isinstance(values, numeric_types) else ([arr, values], {})
    if isinstance(obj, slice):
        options = {"start": obj.start, "stop": obj.stop, "step": 1 if obj.step is None else obj.step}
        return internal("_npi_insert_slice")(*arrays, **number, **options, axis=axis)
    if isinstance(obj, int):
        return internal("_npi_insert_scalar")(*arrays, **number, int_ind=obj, axis=axis)
    raise TypeError(f"'obj' can not support type {type(obj)}")


def may_share_memory(a: Any, b: Any, max_work: Any = None) -> Any:
    """False: operands of a graph share no memory."""
    return internal("_npi_share_memory")(a, b)


shares_memory = may_share_memory


def resize(a: Any, new_shape: Any) -> Any:
    """A symbol of another shape, with the elements repeated as often as necessary."""
    raise NotImplementedError("sym.np.resize: the number of repetitions depends on the shape, which a symbol lacks")


def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    """The indices of each axis for positions in the flattened array."""
    return internal("_unravel_index")(indices, shape=shape)
