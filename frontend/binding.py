"""Binds symbols to arrays: an executor on the caller's arrays, or on new arrays that can share memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .base import MXNetError
from .context import Context
from .dtypes import dtype_of
from .executor import Executor, gradient_requests
from .ndarray import NDArray, zeros
from .symbol.function import SymbolFunction
from .symbol.node import depth_first
from .symbol.storage_types import gradient_storage
from .symbol.stored_symbols import structure
from .tracebacks import cause_of
from .type_flags import STORAGE_FLAGS

if TYPE_CHECKING:
    from .symbol import Symbol


def simple_bind(
    symbol: Symbol,
    ctx: Context,
    grad_req: Any,
    type_dict: Mapping[str, Any] | None,
    shapes: Mapping[str, Any],
    shared_names: Sequence[str] | None = None,
    shared: Executor | None = None,
    buffer: dict[str, NDArray] | None = None,
    stypes: Mapping[str, str] | None = None,
    groups: Mapping[str, Context] | None = None,
) -> Executor:
    """An executor on new arrays. Shapes and dtypes are inferred (undecided dtypes are float32); storage types come from
    `stypes` or the variables. `groups` maps each `ctx_group` to the context of its arrays.

    RuntimeError, as in MXNet, if shapes or dtypes contradict each other or cannot be inferred.

    With a `buffer`, memory is shared, as in MXNet: arguments in `shared_names` and auxiliary states are the arrays of
    the executor `shared`, if it is passed. Other arguments and their gradients are views of the first elements of the
    array of that name in the buffer; if there is none or it is too small, the buffer receives a new one.
    """
    if not isinstance(ctx, Context):
        raise TypeError(f"simple_bind: ctx is {ctx!r} and not a Context")
    known = set(symbol.list_inputs())
    known_shapes = {n: tuple(s) for n, s in shapes.items() if isinstance(s, tuple | list) and n in known}
    try:
        arguments, _, states = symbol.infer_shape(**known_shapes)
        kinds = infer_dtypes(symbol, {n: d for n, d in (type_dict or {}).items() if n in known})
    except MXNetError as error:
        raise RuntimeError(f"{_failed(shapes)}{error}") from cause_of(error)
    if arguments is None or states is None:
        raise RuntimeError(_insufficient(symbol, shapes, known_shapes))
    names = symbol.list_arguments()
    try:
        requests = gradient_requests(names, grad_req)
    except ValueError as error:
        raise RuntimeError(f"{_failed(shapes)}{error}") from cause_of(error)
    contexts = _contexts(symbol, groups or {})
    memory = _Memory(ctx, frozenset(shared_names or ()), shared, buffer, _StorageTypes(symbol, stypes), contexts)
    arrays = [memory.argument(n, s, kinds[n]) for n, s in zip(names, arguments, strict=True)]
    grads: list[NDArray | None] = [
        None if r == "null" else memory.gradient(n, a) for n, r, a in zip(names, requests, arrays, strict=True)
    ]
    auxiliary = [memory.state(n, s, kinds[n]) for n, s in zip(symbol.list_auxiliary_states(), states, strict=True)]
    function = _shared_function(symbol, tuple(known_shapes), shared)
    return Executor(symbol, ctx, arrays, grads, auxiliary, grad_req, tuple(known_shapes), function)


def _shared_function(symbol: Symbol, inputs: tuple[str, ...], shared: Executor | None) -> SymbolFunction | None:
    """The function of the executor `shared` if the symbols compute the same: buckets that differ only in shapes compile
    once."""
    if shared is None or shared._inputs != inputs or shared.function.calls_python:
        return None
    return shared.function if structure(symbol._entries) == structure(shared._symbol._entries) else None


def _failed(shapes: Mapping[str, Any]) -> str:
    """The first lines of an error text: the shapes that were passed."""
    return "simple_bind error. Arguments:\n" + "".join(f"{name}: {shape}\n" for name, shape in shapes.items())


def _insufficient(symbol: Symbol, shapes: Mapping[str, Any], used: Mapping[str, Any]) -> str:
    """The error text for shapes that cannot be inferred. It lists entries that name no argument or are not shapes."""
    ignored = ", ".join(repr(name) for name in shapes if name not in used)
    why = f" ({ignored}: not an argument of the symbol, or not a shape)" if ignored else ""
    names = ", ".join(symbol.list_arguments())
    return f"{_failed(shapes)}the shapes of {names} cannot be inferred from these{why}"


class _StorageTypes:
    """The storage types of the sparse arguments and gradients by name."""

    def __init__(self, symbol: Symbol, stypes: Mapping[str, str] | None) -> None:
        names = {str(number): stype for stype, number in STORAGE_FLAGS.items()}
        variables = {n.name: n.attrs.get("__storage_type__", "0") for n in symbol._variables()[0]}
        storage = {name: names.get(number, "default") for name, number in variables.items()} | dict(stypes or {})
        self.arguments = {name: stype for name, stype in storage.items() if stype != "default"}
        self.gradients = gradient_storage(symbol, self.arguments)


def _contexts(symbol: Symbol, groups: Mapping[str, Context]) -> dict[str, Context]:
    """The contexts of variables by name: the context of the variable's own group, or of its first consumer's group."""
    contexts: dict[str, Context] = {}
    for node in depth_first(symbol._entries) if groups else ():
        for variable in [node] if node.is_variable else [e.node for e in node.inputs if e.node.is_variable]:
            context = groups.get(node.attrs.get("__ctx_group__", ""))
            if context is not None:
                contexts.setdefault(variable.name, context)
    return contexts


class _Memory:
    """Allocates the arrays of `simple_bind`, or takes them from `shared` and `buffer`."""

    def __init__(
        self,
        ctx: Context,
        names: frozenset[str],
        shared: Executor | None,
        buffer: dict[str, NDArray] | None,
        stypes: _StorageTypes,
        contexts: Mapping[str, Context],
    ) -> None:
        self.ctx, self.names, self.buffer, self.stypes, self.contexts = ctx, names, buffer, stypes, contexts
        self.shared = shared if buffer is not None else None

    def argument(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray:
        stype = self.stypes.arguments.get(name)
        if self.buffer is None or name in self.names or stype:
            return self._of(self.shared and self.shared.arg_dict, name, shape, dtype, stype)
        return self._buffered(name, name, shape, dtype)

    def gradient(self, name: str, argument: NDArray) -> NDArray:
        stype = self.stypes.gradients.get(name)
        if self.buffer is None or name in self.names or stype:
            shared = self.shared and {n: g for n, g in self.shared.grad_dict.items() if g is not None}
            return self._of(shared, name, argument.shape, argument.dtype, stype)
        return self._buffered(name, f"grad of {name}", argument.shape, argument.dtype)

    def state(self, name: str, shape: tuple[int, ...], dtype: Any) -> NDArray:
        return self._of(self.shared and self.shared.aux_dict, name, shape, dtype)

    def _of(
        self,
        shared: Mapping[str, NDArray] | None,
        name: str,
        shape: tuple[int, ...],
        dtype: Any,
        stype: str | None = None,
    ) -> NDArray:
        """The shared executor's array, or zeros if it has none. MXNetError if shape or dtype differ."""
        old = (shared or {}).get(name)
        if old is None:
            return zeros(shape, dtype=dtype, ctx=self.contexts.get(name, self.ctx), stype=stype)
        if old.shape != shape or dtype_of(old.dtype) is not dtype_of(dtype):
            raise MXNetError(
                f"simple_bind: {name} of the shared executor is {np.dtype(old.dtype)}{old.shape}, this one needs "
                f"{np.dtype(dtype)}{shape}"
            )
        return old

    def _buffered(self, name: str, key: str, shape: tuple[int, ...], dtype: Any) -> NDArray:
        """The beginning of the array at `key` in the buffer, on the context of the argument `name`."""
        assert self.buffer is not None
        old, context = self.buffer.get(key), self.contexts.get(name, self.ctx)
        fits = old is not None and old.size >= prod(shape) and old.context == context
        if old is None or not fits or dtype_of(old.dtype) is not dtype_of(dtype):
            old = self.buffer[key] = zeros(shape, dtype=dtype, ctx=context)
        return old if old.shape == shape else old.reshape((-1,))[: prod(shape)].reshape(shape)


def infer_dtypes(symbol: Symbol, types: Mapping[str, Any]) -> dict[str, Any]:
    """The dtype of each variable by name; float32 where neither `types` nor the graph determines it."""
    known = dict(types)
    while True:
        arguments, _, states = symbol.infer_type_partial(**known)
        dtypes = dict(zip(symbol.list_arguments(), arguments, strict=True))
        dtypes.update(zip(symbol.list_auxiliary_states(), states, strict=True))
        undecided = next((name for name, dtype in dtypes.items() if dtype is None), None)
        if undecided is None:
            return dtypes
        known[undecided] = np.float32


def bind(
    symbol: Symbol, ctx: Context, args: Any, args_grad: Any, grad_req: Any, aux_states: Any, group2ctx: Any = None
) -> Executor:
    """An executor on arrays of the caller.

    MXNetError if shapes or dtypes contradict each other (it names the node), or if an array is not on `ctx` and no
    `group2ctx` is passed.
    """
    if not isinstance(ctx, Context):
        raise TypeError("Context type error")
    names, auxiliary = symbol.list_arguments(), symbol.list_auxiliary_states()
    arguments = _listed("args", args, names, missing=False)
    states = _listed("aux_states", aux_states or [], auxiliary, missing=False)
    grads: list[Any] = [None] * len(names)
    if args_grad is not None:
        grads = _listed("args_grad", args_grad, names, missing=True)
    _check_arrays(symbol, ctx, dict(zip((*names, *auxiliary), (*arguments, *states), strict=True)), not group2ctx)
    for name, array, grad in zip(names, arguments, grads, strict=True):
        if grad is not None and grad.shape != array.shape:
            raise MXNetError(f"bind: the gradient of {name} has the shape {grad.shape}, {name} has {array.shape}")
    return Executor(symbol, ctx, arguments, grads, states, grad_req)


def _check_arrays(symbol: Symbol, ctx: Context, arrays: Mapping[str, NDArray], together: bool) -> None:
    """MXNetError unless the arrays fit the symbol and, if `together`, are on the context."""
    symbol.infer_type_partial(**{name: array.dtype for name, array in arrays.items()})
    symbol.infer_shape_partial(**{name: array.shape for name, array in arrays.items()})
    for name, array in arrays.items():
        if together and array.context != ctx:
            raise MXNetError(f"bind: {name} is on {array.context}, the executor on {ctx}")


def _listed(what: str, arrays: Any, names: Sequence[str], missing: bool) -> list[Any]:
    """Arrays in the order of `names`, from a list or a dictionary."""
    if isinstance(arrays, Mapping):
        absent = [name for name in names if name not in arrays]
        if absent and not missing:
            raise ValueError(f"key `{absent[0]}` is missing in `{what}`")
        listed = [arrays.get(name) for name in names]
    elif isinstance(arrays, list | tuple):
        listed = list(arrays)
    else:
        raise TypeError("Only accept list of NDArrays or dict of str to NDArray")
    if len(listed) != len(names):
        raise ValueError(f"Length of {what} does not match the number of arguments")
    if any(not isinstance(a, NDArray) and not (a is None and missing) for a in listed):
        raise TypeError("Only accept list of NDArrays or dict of str to NDArray")
    return listed
