"""`nd.contrib`: the operators whose names start with `_contrib_`, and control flow that runs step by step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base import MXNetError
from ..context import Context, current_context
from .arithmetic import equal, not_equal
from .contrib_updates import (  # noqa: F401 (names of MXNet)
    adamw_update,
    mp_adamw_update,
    multi_adamw_update,
    multi_lamb_update,
    multi_mp_adamw_update,
    multi_mp_lamb_update,
)
from .control_flow import cond, foreach, while_loop
from .creation import array
from .eager import invoke, operator_named, register_sized_by_values
from .functions import attribute_finder
from .random import uniform
from .sparse_arrays import CSRNDArray
from .tape import is_recorded

if TYPE_CHECKING:
    from .ndarray import NDArray

__all__ = [
    "boolean_mask",
    "cond",
    "foreach",
    "getnnz",
    "isfinite",
    "isinf",
    "isnan",
    "rand_zipfian",
    "while_loop",
]

__getattr__, __dir__ = attribute_finder("contrib", globals())


def isnan(data: NDArray) -> NDArray:
    """1 where an element is NaN, else 0."""
    return not_equal(data, data)


def isinf(data: NDArray) -> NDArray:
    """1 where an element is infinite, else 0."""
    return equal(data.abs(), np.inf)  # type: ignore[attr-defined]


def isfinite(data: NDArray) -> NDArray:
    """1 where an element is finite, else 0."""
    return not_equal(data.abs(), np.inf) * equal(data, data)  # type: ignore[attr-defined]


def getnnz(data: Any = None, axis: int | None = None, out: NDArray | None = None, name: str | None = None) -> NDArray:
    """The number of stored elements of a csr matrix, as int64.

    Args:
        data: A csr matrix.
        axis: None counts all elements, shape (1,); 1 counts those of each row, shape (rows,).
        out: An array that receives the counts.
    """
    if not isinstance(data, CSRNDArray):
        raise MXNetError(f"getnnz takes a csr matrix, not {data.stype}")
    pointers = data._parts[2].asnumpy()
    if axis not in (None, 1):
        raise MXNetError(f"getnnz: axis {axis} is not supported: None or 1")
    counts = pointers[-1:] if axis is None else np.diff(pointers)
    count = array(counts, data.context, np.int64)
    return count if out is None else count.copyto(out)


def boolean_mask(
    data: Any = None, index: Any = None, axis: int = 0, out: NDArray | None = None, name: str | None = None
) -> NDArray:
    """Selects the slices of `data` along axis 0 where `index` is not 0.

    The result's shape depends on values. Symbols and hybridized blocks with this operator run operator by operator.

    Args:
        data: An array of shape (n, ...).
        index: An array of shape (n,).
        axis: 0; MXNetError for other axes.
        out: An array that receives the result.
    """
    for operand, what in ((data, "data"), (index, "index")):
        if operand is None:
            raise MXNetError(f"_contrib_boolean_mask: the array {what} is missing")
    if axis != 0:
        raise MXNetError(f"boolean_mask: axis {axis} is not supported, only 0")
    if index.shape != data.shape[:1]:
        raise MXNetError(f"boolean_mask: an index of shape {index.shape} does not fit data of shape {data.shape}")
    kept = index.asnumpy() != 0
    if is_recorded((data,)):
        rows = array(np.flatnonzero(kept), data.context, "int64")
        chosen = invoke(operator_named("take"), (data, rows), {"axis": 0})
    else:
        chosen = data._like(data._memory()[kept])
    return chosen if out is None else chosen.copyto(out)


register_sized_by_values("_contrib_boolean_mask", lambda operator, *arrays: boolean_mask(*arrays, axis=operator.axis))


def rand_zipfian(
    true_classes: NDArray, num_sampled: int, range_max: int, ctx: Context | None = None
) -> tuple[NDArray, NDArray, NDArray]:
    """Draws classes in [0, range_max), class k with probability log((k + 2) / (k + 1)) / log(range_max + 1).

    Args:
        true_classes: Classes whose expected counts are computed too.
        num_sampled: Number of draws.
        range_max: Number of classes.
        ctx: The device; the current context by default.
    Returns:
        The draws (int64), and the expected counts of the true and of the drawn classes among `num_sampled` draws
        (float64).
    """
    log_range = math.log(range_max + 1)
    context = current_context() if ctx is None else ctx
    draws: Any = uniform(0, log_range, shape=(num_sampled,), dtype="float64", ctx=context)
    sampled = (draws.exp() - 1).astype("int64") % range_max

    def expected(classes: NDArray) -> NDArray:
        k = classes.astype("float64")
        return ((k + 2) / (k + 1)).log() * (num_sampled / log_range)

    return sampled, expected(true_classes.as_in_context(context)), expected(sampled)
