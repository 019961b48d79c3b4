"""Gradients of arrays: `mark_variables`, `backward` and `grad`, which `mx.autograd` offers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

from ...ir.types import DType
from ...runtime.modes import set_recording
from ...runtime.writes import written
from ..base import MXNetError
from ..dtypes import dtype_of, to_memory
from ..tracebacks import api_boundary, shorten
from .array_classes import array_class, empty_array, is_numpy
from .linked_tape import linked_gradients
from .tape import (
    Entry,
    Variable,
    calls_after,
    calls_before,
    entries_of,
    free,
    pull_back,
    reads_cotangent,
    variable_of,
    zeros_of,
)

if TYPE_CHECKING:
    from .ndarray import NDArray

REQUESTS = ("null", "write", "add")
"""How a variable receives gradients: not at all, replaced in each backward pass, or summed."""


def mark_variables(variables: Any, gradients: Any, grad_reqs: str | Sequence[str] = "write") -> None:
    """Make arrays variables, each with the array that receives its gradient.

    Args:
        variables: An array or a list of arrays.
        gradients: Arrays of the same shapes and dtypes.
        grad_reqs: How a gradient is received: "write", "add" or "null", one for all or one for each.
    """
    if isinstance(variables, array_class()):
        variables, gradients = [variables], [gradients]
    requests = [grad_reqs] * len(variables) if isinstance(grad_reqs, str) else list(grad_reqs)
    for request in requests:
        if request not in REQUESTS:
            raise KeyError(request)
    if not len(variables) == len(gradients) == len(requests):
        raise MXNetError(
            f"mark_variables: {len(variables)} variables have {len(gradients)} gradients and {len(requests)} grad_reqs"
        )
    for variable, gradient, request in zip(variables, gradients, requests, strict=True):
        if variable.shape != gradient.shape:
            raise MXNetError(f"mark_variables: a gradient of shape {gradient.shape} for a variable of {variable.shape}")
        attached = attach(variable, request, lambda gradient=gradient: gradient, gradient.stype)
        assert attached.array is gradient  # it has elements: it is not zeros without memory


class _Attachments:
    """Counts events in which an array becomes a variable, or no longer is one."""

    __slots__ = ("count",)
    _numbers = itertools.count(1)

    def __init__(self) -> None:
        self.count = 0

    def changed(self) -> None:
        self.count = next(self._numbers)


attachments = _Attachments()
"""While `attachments.count` stays the same, every variable stays the variable of its array."""


def attach(array: NDArray, request: str, make: Callable[[], NDArray], stype: str = "default") -> Variable:
    """Make an array a variable whose gradient goes to the array that `make` returns when it is first needed, which has
    this storage type."""
    variable = Variable(request, make, stype == "row_sparse")
    array._entry = Entry(variable)
    attachments.changed()
    return variable


def remove_variable(array: NDArray) -> None:
    """Make an array no variable: it has no gradient."""
    array._entry = None
    attachments.changed()


@api_boundary
def backward(heads: Any, head_grads: Any = None, retain_graph: bool = False, train_mode: bool = True) -> None:
    """Compute the gradients of arrays by all variables that they depend on; each variable's array receives its own.

    Args:
        heads: An array or a list of arrays.
        head_grads: The gradient by each head, None for ones; None alone for ones everywhere.
        retain_graph: True to keep what was recorded for another backward pass.
        train_mode: Unused: a call's gradient is in the mode of the call.
    """
    pull(*_as_lists(heads, head_grads), retain_graph)


def pull(heads: list[NDArray], head_grads: list[NDArray | None], retain: bool) -> None:
    """`backward` of lists of arrays."""
    try:
        gradients, received = _gradients(heads, head_grads, retain, direct=True)
        if not received:
            _receive_all(gradients)
        for variable in gradients:
            variable.fresh = variable.fresh or variable.req != "null"
    except Exception as error:
        shorten(error)
        raise


def _receive_all(gradients: Mapping[Variable, NDArray | None]) -> None:
    if all([variable.req == "null" for variable in gradients]):
        raise MXNetError("There are no inputs in computation graph that require gradients.")
    recording = set_recording(False)
    try:
        for variable, gradient in gradients.items():
            _receive(variable, gradient)
    finally:
        set_recording(recording)


def _gradients(
    heads: Sequence[NDArray],
    head_grads: Sequence[NDArray | None],
    retain: bool,
    differentiable: bool = False,
    direct: bool = False,
    wanted: Sequence[Variable] | None = None,
) -> tuple[Mapping[Variable, NDArray | None], bool]:
    """The gradients by all variables that the heads depend on, or only by those `wanted`, None for one that is zero;
    with `direct`, whether the variables' arrays have received them. Frees the graph unless it is to `retain` it."""
    entries = entries_of(heads)
    cotangents: list[NDArray | None] = [None] * len(heads)
    for i, head_grad in enumerate(head_grads):
        if head_grad is not None:
            cotangents[i] = _cotangent(heads[i], head_grad, entries[i])
    nodes = calls_before(entries)
    pulled = nodes if wanted is None else calls_after(nodes, wanted)
    linked = not differentiable and len(pulled) == len(nodes)
    gradients = linked_gradients(nodes, entries, cotangents, direct) if linked else None
    if gradients is None:
        seeds = [_ones(h) if c is None else c for h, c in zip(heads, cotangents, strict=True)]
        gradients = pull_back(pulled, entries, seeds, differentiable), False
    if not retain:
        free(nodes)
        for variable in gradients[0]:
            variable.spent = variable.req == "null"
    return gradients


@api_boundary
def grad(
    heads: Any,
    variables: Any,
    head_grads: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    train_mode: bool = True,
) -> list[NDArray]:
    """The gradients of arrays by variables, as new arrays; the arrays of the variables do not change.

    Args:
        heads: An array or a list of arrays.
        variables: An array or a list of arrays, each with `attach_grad`.
        head_grads: The gradient by each head, None for ones; None alone for ones everywhere.
        retain_graph: True to keep what was recorded for another backward pass; by default as `create_graph`.
        create_graph: True to record the gradients, so that they can be differentiated.
        train_mode: Unused: a call's gradient is in the mode of the call.
    Returns:
        A list of arrays, one for each variable.

    Example:
        >>> x = mx.nd.array([1, 2])
        >>> x.attach_grad()
        >>> with mx.autograd.record():
        ...     y = x**3
        ...     [slope] = mx.autograd.grad(y, [x], create_graph=True)  # 3 x^2
        >>> slope.backward()
        >>> x.grad.asnumpy()  # 6 x
        array([ 6., 12.], dtype=float32)
    """
    heads, head_grads = _as_lists(heads, head_grads)
    listed = [variables] if isinstance(variables, array_class()) else list(variables)
    if not listed:
        raise AssertionError("variables cannot be an empty list.")
    nodes = [_variable(x, i) for i, x in enumerate(listed, 1)]
    retain = create_graph if retain_graph is None else retain_graph
    by_variable, _ = _gradients(heads, head_grads, retain, differentiable=create_graph, wanted=nodes)
    for i, node in enumerate(nodes, 1):
        if node not in by_variable:
            raise MXNetError(
                f"Cannot differentiate with respect to the {i}-th variable because it is unreachable from the outputs."
            )
    gradients = [by_variable[node] for node in nodes]
    return [_of_kind(x, g) for x, g in zip(listed, gradients, strict=True)]


def _of_kind(variable: NDArray, gradient: NDArray | None) -> NDArray:
    """A gradient as an array of the variable's class; zeros for None."""
    if gradient is None:
        gradient = zeros_of(variable._type(), variable._context)
    return _in_class_of(variable, gradient)


def _in_class_of(variable: NDArray, gradient: NDArray) -> NDArray:
    """A gradient as an array of `mx.np` if the variable is one, else of `mx.nd`."""
    if gradient._is_sparse or is_numpy(variable) is is_numpy(gradient):
        return gradient
    return gradient.as_np_ndarray() if is_numpy(variable) else gradient.as_nd_ndarray()


def _variable(array: Any, number: int) -> Variable:
    variable = variable_of(array)
    if variable is None or variable.req == "null":
        raise MXNetError(
            f"Cannot differentiate with respect to the {number}-th variable because it does not require gradient."
        )
    return variable


def _as_lists(heads: Any, head_grads: Any) -> tuple[list[NDArray], list[NDArray | None]]:
    if isinstance(heads, array_class()):
        heads, head_grads = [heads], [head_grads] if isinstance(head_grads, array_class()) else head_grads
    heads = list(heads)
    head_grads = [None] * len(heads) if head_grads is None else list(head_grads)
    if len(heads) != len(head_grads):
        raise AssertionError("heads and head_grads must be lists of the same length")
    return heads, head_grads


def _cotangent(head: NDArray, gradient: NDArray, entry: Entry) -> NDArray | None:
    """The gradient by a head, in the head's shape; None if nothing depends on it. MXNetError if it has another number
    of elements."""
    dense = gradient.tostype("default").astype(head.dtype, copy=False)
    if dense.shape == head.shape:
        return dense
    if dense.size == head.size:
        return dense.reshape(head.shape)
    if reads_cotangent(entry):
        raise MXNetError(f"the gradient by a head of shape {head.shape} has the shape {gradient.shape}")
    return None


def _ones(array: NDArray) -> NDArray:
    dtype = dtype_of(array.dtype) if array._is_sparse else array._dtype
    ones = empty_array(array._shape, dtype, array._context)
    ones._storage.device.fill(ones._address, _one(dtype), prod(ones._shape))
    return ones


@cache
def _one(dtype: DType) -> bytes:
    return to_memory(1, dtype).tobytes()


def _receive(variable: Variable, gradient: NDArray | None) -> None:
    """Write a gradient to its variable's array, or add it. None is zero."""
    if variable.req == "null":
        return
    if gradient is None:
        if variable.req == "write" and variable.is_made:
            variable.array[:] = 0
        return
    target = variable.array
    if variable.req == "add":
        target += _in_class_of(target, gradient)
    elif gradient is target:
        written(target._storage)
    else:
        put(gradient, target)


def put(source: NDArray, target: NDArray) -> None:
    """Copy an array to one of the same shape, outside of recorded graphs."""
    if _is_like(source, target):
        target._storage.device.copy(target._address, source._address, target._nbytes())
        written(target._storage)
    else:
        source.copyto(target)


def _is_like(a: NDArray, b: NDArray) -> bool:
    """True for dense arrays of one type in the memory of one device."""
    if a._is_sparse or b._is_sparse:
        return False
    return a._shape == b._shape and a._dtype is b._dtype and a._storage.device is b._storage.device
