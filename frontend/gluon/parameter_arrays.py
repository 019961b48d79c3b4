"""The arrays of a parameter: one copy on each of its contexts, dense or sparse."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ...runtime.modes import modes
from ...runtime.writes import touch
from .. import autograd, context
from ..base import MXNetError
from ..context import Context
from ..ndarray import NDArray, array, zeros
from ..ndarray.gradients import attach, remove_variable
from ..ndarray.tape import Variable, variable_of
from ..util import is_np_array

if TYPE_CHECKING:
    from ..ndarray import NDArray


class DeferredInitializationError(MXNetError):
    """A parameter is used before a forward pass has inferred its shape."""


class ParameterArrays:
    """The part of a parameter that stores arrays. `_data` is None until initialization, then one array per context in
    `_ctx_list`."""

    name: str
    _grad_req: str
    _stype: str
    _grad_stype: str
    _trainer: Any
    _shape: tuple[int, ...] | None
    _data: list[NDArray] | None
    _ctx_list: list[Context] | None
    _ctx_map: list[list[int | None]] | None
    _deferred_init: tuple[Any, Any, Any, Any] | tuple[()]

    def data(self, ctx: Context | None = None, device: Context | None = None) -> NDArray:
        """The array on `ctx`, which MXNet 2 calls `device`. If it is None: the only array, or the array on the current
        context."""
        ctx = device if ctx is None else ctx
        if self._stype != "default":
            raise RuntimeError(
                f"Cannot return a copy of Parameter '{self.name}' on ctx {ctx} via data() because its storage type is "
                f"{self._stype}. Please use row_sparse_data() instead."
            )
        array = self._check_and_get(self._data, ctx)
        return array if modes.tracer is None else modes.tracer.input(self.var(), array)

    def var(self) -> Any:
        """The variable that represents the parameter in symbols."""
        raise NotImplementedError

    def list_data(self) -> list[NDArray]:
        """The arrays on all contexts."""
        if self._stype != "default":
            raise RuntimeError(
                f"Cannot return copies of Parameter '{self.name}' on all contexts via list_data() because its storage "
                f"type is {self._stype}. Please use row_sparse_data() instead."
            )
        return list(self._check_and_get(self._data, list))

    def row_sparse_data(self, row_id: NDArray) -> Any:
        """The rows `row_id` as a row-sparse array, on the context of `row_id`."""
        if self._stype != "row_sparse":
            raise RuntimeError(
                f"Cannot return a copy of Parameter {self.name} via row_sparse_data() because its storage type is "
                f"{self._stype}. Please use data() instead."
            )
        return self._get_row_sparse(self._data, getattr(row_id, "context", None), row_id)

    def list_row_sparse_data(self, row_id: NDArray) -> list[Any]:
        """The rows `row_id` as row-sparse arrays, on all contexts."""
        if self._stype != "row_sparse":
            raise RuntimeError(
                f"Cannot return copies of Parameter '{self.name}' on all contexts via list_row_sparse_data() because "
                f"its storage type is {self._stype}. Please use data() instead."
            )
        return self._get_row_sparse(self._data, list, row_id)

    def _get_row_sparse(self, arr_list: list[Any] | None, ctx: Any, row_id: Any) -> Any:
        if not isinstance(row_id, NDArray):
            raise TypeError(f"row_id must have NDArray type, but {type(row_id)} is given")
        if not self._trainer:
            raise RuntimeError(
                f"Cannot get row_sparse data for Parameter '{self.name}' when no Trainer is created with it."
            )
        array = self._check_and_get(arr_list, ctx)
        with autograd.pause():
            self._trainer._row_sparse_pull(self, array, row_id)
        return array

    def list_ctx(self) -> list[Context]:
        """The contexts of the arrays, or the contexts of the deferred initialization."""
        if self._data is None:
            if self._deferred_init:
                return list(self._deferred_init[1])
            raise RuntimeError(f"Parameter '{self.name}' has not been initialized")
        return list(self._ctx_list or ())

    list_device = list_ctx

    def _check_and_get(self, arr_list: list[Any] | None, ctx: Any) -> Any:
        """The array of `arr_list` on `ctx`. If `ctx` is the type `list`: all of them."""
        if self._data is None or arr_list is None:
            raise self._missing_error()
        if ctx is list:
            return arr_list
        if ctx is None and len(arr_list) == 1:
            return arr_list[0]
        return arr_list[self._position(ctx or context.current_context())]

    def _position(self, ctx: Context) -> int:
        """The index of a context in `_ctx_list`. All kinds of host memory count as the same kind of context."""
        contexts = self._ctx_list or []
        if ctx in contexts:
            return contexts.index(ctx)
        for i, other in enumerate(contexts):
            if other.device_id == ctx.device_id and (other.device_typeid ^ ctx.device_typeid) & 1 == 0:
                return i
        raise RuntimeError(
            f"Parameter '{self.name}' was not initialized on context {ctx}. It was only initialized on {contexts}."
        )

    def _missing_error(self) -> Exception:
        """The exception that explains why there are no arrays."""
        if self._deferred_init:
            return DeferredInitializationError(
                f"Parameter '{self.name}' has not been initialized yet because initialization was deferred: "
                f"{self._unknown()}. Actual initialization happens during the first forward pass. Please pass one "
                "batch of data through the network before accessing Parameters. You can also avoid deferred "
                "initialization by specifying in_units, num_features, etc., for network layers."
            )
        return RuntimeError(
            f"Parameter '{self.name}' has not been initialized. Note that you should initialize parameters and create "
            "Trainer with Block.collect_params() instead of Block.params because the later does not include "
            "Parameters of nested child Blocks"
        )

    def _unknown(self) -> str:
        """The part of an error text that names the shape's unknown dimensions."""
        if self._shape is None:
            return "its shape is unknown"
        axes = [str(i) for i, n in enumerate(self._shape) if n <= 0]
        if not axes:
            return f"its shape is {self._shape}"
        return f"dimension {' and '.join(axes)} of its shape {self._shape} is unknown"

    def grad(self, ctx: Context | None = None, device: Context | None = None) -> NDArray:
        """The gradient array on `ctx`, which MXNet 2 calls `device`."""
        return self._check_and_get(self.list_grad(), device if ctx is None else ctx)

    def list_grad(self) -> list[NDArray]:
        """The gradient arrays on all contexts. They are zero before the first backward pass."""
        self._check_and_get(self._data, list)
        gradients = self._grad
        if gradients is None:
            raise RuntimeError(f"Cannot get gradient array for Parameter '{self.name}' because grad_req='null'")
        return list(gradients)

    @property
    def _grad(self) -> list[NDArray] | None:
        """The gradients' arrays, made when they are first requested; None if there are none."""
        if self._data is None or self._grad_req == "null":
            return None
        return [variable.array for variable in self._variables()]

    @_grad.setter
    def _grad(self, grads: Sequence[NDArray] | None) -> None:
        """Have these arrays receive the gradients; zeros again for None."""
        self._init_grad()
        for one, grad in zip(self._data or (), grads or (), strict=False):
            attach(one, self._grad_req, partial(_same, grad), grad.stype)

    def _variables(self) -> list[Variable]:
        """The gradients of the arrays; empty if they have none."""
        return [v for v in map(variable_of, self._data or ()) if v is not None]

    def zero_grad(self) -> None:
        """Set the gradients to zero."""
        if self._grad_stype != "default":
            self._init_grad()
        for variable in self._variables():
            if variable.is_made:
                variable.array[:] = 0

    def _init_impl(self, data: NDArray, ctx_list: Sequence[Context], adopt: bool = False) -> None:
        """Store a copy of `data` on each context. With `adopt`, `data` must have no other user, and it is stored
        without a copy if it is on the first context."""
        self._ctx_list = list(ctx_list)
        self._ctx_map = _context_map(self._ctx_list)
        if is_np_array() and not data._is_sparse:
            data = data.as_np_ndarray()
        self._data = [
            data if adopt and i == 0 and ctx == data.context else data.copyto(ctx)
            for i, ctx in enumerate(self._ctx_list)
        ]
        self._init_grad()
        touch()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Set the attributes of a copy or of a pickled parameter. Its arrays have no gradients yet."""
        self.__dict__.update(state)
        self._init_grad()

    def _init_grad(self) -> None:
        """Give each array a gradient of zeros, or none if `grad_req` is "null"."""
        for one in self._data or ():
            if self._grad_req == "null":
                remove_variable(one)
            else:
                make = partial(_zeros_like, one, self._grad_stype)
                attach(one, self._grad_req, make, self._grad_stype)

    def _write(self, data: Any) -> None:
        """Write `data` to all arrays. Sparse arrays are replaced."""
        assert self._data is not None
        if self._stype == "default":
            for one in self._data:
                one[:] = data
            return
        held = data if isinstance(data, NDArray) else array(data)
        self._data = [held.astype(a.dtype).copyto(a.context).tostype(self._stype) for a in self._data]
        self._init_grad()

    def reset_ctx(self, ctx: Any) -> None:
        """Move the arrays to other contexts. MXNetError for a context without a device."""
        contexts = require_usable(ctx)
        if self._data is not None:
            with autograd.pause():
                self._init_impl(self._reduce(), contexts)
        elif self._deferred_init:
            init, _, default_init, data = self._deferred_init
            self._deferred_init = (init, contexts, default_init, data)
        else:
            raise ValueError(f"Cannot reset context for Parameter '{self.name}' because it has not been initialized.")

    def reset_device(self, device: Any) -> None:
        """MXNet 2's name of `reset_ctx`."""
        self.reset_ctx(device)

    def _reduce(self) -> NDArray:
        """The mean over all contexts, on the CPU."""
        from ..ndarray import add_n

        arrays = [a.copyto(context.cpu()) for a in self._check_and_get(self._data, list)]
        if len(arrays) == 1 or self._stype != "default":
            return arrays[0]
        return add_n(*arrays) / len(arrays)


def _context_map(contexts: Sequence[Context]) -> list[list[int | None]]:
    """The index of each context in `contexts`, at [device_typeid & 1][device_id]: GPUs are in row 0, CPUs in row 1."""
    rows: list[list[int | None]] = [[], []]
    for number, ctx in enumerate(contexts):
        row = rows[ctx.device_typeid & 1]
        row.extend([None] * (ctx.device_id + 1 - len(row)))
        row[ctx.device_id] = number
    return rows


def as_contexts(ctx: Any) -> list[Context]:
    """One context or several as a list. None is the current context."""
    if ctx is None:
        return [context.current_context()]
    return [ctx] if isinstance(ctx, Context) else list(ctx)


def require_usable(ctx: Any) -> list[Context]:
    """`as_contexts`. MXNetError for a context without a device."""
    contexts = as_contexts(ctx)
    for one in contexts:
        context.usable(one)
    return contexts


def _same(grad: NDArray) -> NDArray:
    return grad


def _zeros_like(array: NDArray, stype: str) -> NDArray:
    """Zeros for the gradient of an array."""
    gradient = zeros(array.shape, array.context, array.dtype, stype)
    return gradient if array._class is None or gradient._is_sparse else gradient.as_np_ndarray()
