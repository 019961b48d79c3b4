"""Parameters of Gluon blocks: named arrays on one or more contexts. Their shape can be inferred later."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.modes import untraced
from ...runtime.writes import touch
from .. import autograd, context, initializer, ndarray, symbol
from ..base import MXNetError, mx_real_t  # noqa: F401  (MXNet's module has these names too)
from ..context import Context, accepts_device, cpu  # noqa: F401
from ..dtypes import dtype_name
from ..ndarray import NDArray, array, zeros
from ..symbol import Symbol, var
from ..util import is_np_array, is_np_shape  # noqa: F401
from .parameter_arrays import DeferredInitializationError, ParameterArrays, as_contexts
from .utils import _brief_print_list, _indent, shape_is_known  # noqa: F401

if TYPE_CHECKING:
    from ..ndarray import NDArray

__all__ = ["Constant", "DeferredInitializationError", "Parameter", "tensor_types"]

tensor_types = (symbol.Symbol, ndarray.NDArray)
"""The types that blocks accept."""


class Parameter(ParameterArrays):
    """A named array with one copy on each context.

    An extent of 0 or -1 in `shape` is unknown until the first forward pass: a parameter never has size 0. With
    `allow_deferred_init`, initialization is deferred until the shape is known. `grad_req` is 'write', 'add' or 'null'.

    Example:
        >>> weight = mx.gluon.Parameter("weight", shape=(2, 2))
        >>> weight.initialize(mx.init.One())
        >>> weight.data().asnumpy()
        array([[1., 1.],
               [1., 1.]], dtype=float32)
        >>> weight.set_data(mx.nd.zeros((2, 2)))
    """

    def __init__(
        self,
        name: str = "weight",
        grad_req: str = "write",
        shape: int | tuple[int, ...] | None = None,
        dtype: Any = mx_real_t,
        lr_mult: float = 1.0,
        wd_mult: float = 1.0,
        init: Any = None,
        allow_deferred_init: bool = False,
        differentiable: bool = True,
        stype: str = "default",
        grad_stype: str = "default",
    ) -> None:
        for option, value in (("grad_stype", grad_stype), ("stype", stype)):
            if value not in ("default", "row_sparse", "csr"):
                raise AssertionError(
                    f"{option} for Parameter '{name}' must be one of 'default', 'row_sparse', or 'csr', "
                    f"but got '{value}'"
                )
        self.name = name
        self.lr_mult = lr_mult
        self.wd_mult = wd_mult
        self.init = init
        self._shape: Any = (shape,) if isinstance(shape, int) else shape
        self._dtype = dtype
        self._differentiable = differentiable
        self._allow_deferred_init = allow_deferred_init
        self._stype, self._grad_stype = stype, grad_stype
        self._var: Symbol | None = None
        self._data: list[NDArray] | None = None
        self._ctx_list: list[Context] | None = None
        self._ctx_map: list[list[int | None]] | None = None
        self._trainer: Any = None
        # (init, contexts, default init, data) while initialization is deferred
        self._deferred_init: tuple[Any, Any, Any, Any] | tuple[()] = ()
        self._is_named = False
        self._grad_req = "null"
        self.grad_req = grad_req

    def __repr__(self) -> str:
        return f"Parameter {self.name} (shape={self.shape}, dtype={self.dtype})"

    # --- attributes -------------------------------------------------------------------------------------------------

    @property
    def grad_req(self) -> str:
        return self._grad_req

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req not in ("write", "add", "null"):
            raise AssertionError(f"grad_req must be one of 'write', 'add', or 'null', but got '{req}'")
        self._grad_req = req if self._differentiable else "null"
        self._init_grad()

    @property
    def dtype(self) -> Any:
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        self.cast(dtype)

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape, or None if its rank is unknown. An unknown extent is 0, or -1 with NumPy's shape semantics."""
        if self._shape is None or not is_np_shape():
            return self._shape
        return tuple(n or -1 for n in self._shape)

    @shape.setter
    def shape(self, new_shape: Sequence[int]) -> None:
        new_shape = tuple(new_shape)
        if self._shape is not None and not _fits(new_shape, self._shape):
            raise AssertionError(
                f"Parameter '{self.name}': expected shape {new_shape} is incompatible with given shape {self._shape}."
            )
        self._shape = new_shape

    @property
    def stype(self) -> str:
        return self._stype

    # --- initialization ---------------------------------------------------------------------------------------------

    @accepts_device
    def initialize(
        self,
        init: Any = None,
        ctx: Context | Sequence[Context] | None = None,
        default_init: Any = None,
        force_reinit: bool = False,
    ) -> None:
        """Create the arrays and fill them with `init`, or else the parameter's own initializer, or else
        `default_init`."""
        if self._data is not None and not force_reinit:
            warnings.warn(
                f"Parameter '{self.name}' is already initialized, ignoring. Set force_reinit=True to re-initialize.",
                stacklevel=2,
            )
            return
        default_init = initializer.Uniform() if default_init is None else default_init
        init = init or self.init or default_init
        self._data = None
        self._deferred_init = (init, as_contexts(ctx), default_init, None)
        if shape_is_known(self.shape):
            self._finish_deferred_init()
        elif not self._allow_deferred_init:
            self._deferred_init = ()
            raise ValueError(f"Cannot initialize Parameter '{self.name}' because {self._unknown()}.")

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled and copied: not the trainer if its store connects this process with others."""
        state = dict(self.__dict__)
        if self._trainer is not None and self._trainer.is_shared:
            state["_trainer"] = None
        state.pop("_initialized_by", None)
        return state

    _initialized_by: Callable[[Parameter], None] | None = None
    """Called after a deferred initialization: a trainer of several workers sets the values of the first one."""

    def _finish_deferred_init(self) -> None:
        """Create and fill the arrays if initialization was deferred."""
        if not self._deferred_init:
            return
        if not shape_is_known(self.shape):
            raise AssertionError(
                f"Cannot initialize Parameter '{self.name}' because {self._unknown()}. "
                "Please specify in_units, in_channels, etc for `Block`s."
            )
        init, contexts, default_init, data = self._deferred_init
        self._deferred_init = ()
        with autograd.pause(), untraced():
            is_new = data is None
            if data is None:
                data = zeros(self._shape, dtype=self._dtype, ctx=context.cpu())
                desc = initializer.InitDesc(self.name, {"__init__": init})
                initializer.create(default_init)(desc, data)
            dense = self._stype == "default"
            self._init_impl(data if dense else data.tostype(self._stype), contexts, adopt=is_new)
            if self._initialized_by is not None:
                self._initialized_by(self)

    def _load_init(
        self, data: NDArray, ctx: Any, cast_dtype: bool = False, dtype_source: str = "current", adopt: bool = False
    ) -> None:
        """Set the value to a copy of `data`. With `adopt`, `data` itself is stored: it must have no other user.

        If the dtypes differ, `cast_dtype` is required; the dtype is then the parameter's if `dtype_source` is
        "current" and the array's if it is "saved".
        """
        if cast_dtype and dtype_source not in ("current", "saved"):
            raise AssertionError(f"dtype_source must be 'current' or 'saved', not {dtype_source!r}")
        self._check_loaded_shape(data)
        data = self._with_dtype(data, cast_dtype, dtype_source)
        if data.stype != self._stype:
            data = data.tostype(self._stype)
        contexts = None if ctx is None else as_contexts(ctx)
        known = self.list_ctx() if self._data is not None or self._deferred_init else None
        if contexts is not None and known is not None and set(contexts) != set(known):
            raise AssertionError(
                f"Failed to load Parameter '{self.name}' on {contexts} because it was previous initialized on {known}."
            )
        if self._data is None:
            self._init_impl(data, known or contexts or [context.cpu()], adopt)
        else:
            self.set_data(data)
        self._deferred_init = ()

    def _check_loaded_shape(self, data: NDArray) -> None:
        if self._shape is not None and (len(self._shape) != len(data.shape) or not _fits(data.shape, self._shape)):
            raise AssertionError(
                f"Failed loading Parameter '{self.name}' from saved params: "
                f"shape incompatible expected {self._shape} vs saved {data.shape}"
            )
        self._shape = data.shape

    def _with_dtype(self, data: NDArray, cast_dtype: bool, dtype_source: str) -> NDArray:
        if self._dtype is None or dtype_name(self._dtype) == dtype_name(data.dtype):
            return data
        if not cast_dtype:
            raise AssertionError(
                f"Failed loading Parameter '{self.name}' from saved params: dtype incompatible expected "
                f"{self._dtype} vs saved {data.dtype}. Set cast_dtype=True to cast the dtype of saved params."
            )
        if dtype_source == "current":
            return data.astype(self._dtype, copy=False)
        self.dtype = data.dtype
        return data

    def set_data(self, data: Any) -> None:
        """Write new values on all contexts. If initialization is deferred, it uses these values."""
        self.shape = data.shape
        if self._data is None:
            if not self._deferred_init:
                raise AssertionError(f"Parameter '{self.name}' has not been initialized")
            self._deferred_init = (*self._deferred_init[:3], data)
            return
        if self._trainer is not None:
            self._trainer._forget_values(self)
        self._write(data)

    def cast(self, dtype: Any) -> None:
        """Convert the arrays to another dtype."""
        self._dtype = dtype
        self._var = None
        if self._data is None:
            return
        with autograd.pause():
            self._data = [array.astype(dtype) for array in self._data]
            touch()
            self._init_grad()

    def var(self) -> Symbol:
        """The variable that represents the parameter in symbols."""
        if self._var is None:
            self._var = var(
                self.name,
                shape=self.shape,
                dtype=self.dtype,
                lr_mult=self.lr_mult,
                wd_mult=self.wd_mult,
                init=self.init,
                stype=self._stype,
            )
        return self._var

    def _set_trainer(self, trainer: Any) -> None:
        if self._stype != "default" and self._trainer and trainer and self._trainer is not trainer:
            raise RuntimeError(
                f"Failed to set the trainer for Parameter '{self.name}' because it was already set. "
                f"More than one trainers for a {self._stype} Parameter is not supported."
            )
        self._trainer = trainer


def _fits(new: Sequence[int], old: Sequence[int]) -> bool:
    """True if the shapes have equal rank, and equal extents where both are known (not 0 or -1)."""
    return len(new) == len(old) and all(m in (n, 0, -1) or n in (0, -1) for m, n in zip(new, old, strict=True))


class Constant(Parameter):
    """A parameter with a fixed value and no gradient."""

    def __init__(self, name: Any, value: Any = None) -> None:
        """`Constant(name, value)`, or as in MXNet 2 `Constant(value)`."""
        if value is None:
            name, value = "const", name
        self.value = value = value if isinstance(value, NDArray) else array(value)

        class Init(initializer.Initializer):
            """Fills with the constant's value."""

            def _init_weight(self, name: str, arr: NDArray) -> None:
                arr[:] = value

        init_name = f"Constant_{name}_{id(self)}"
        initializer.alias(init_name)(Init)
        super().__init__(name, grad_req="null", shape=value.shape, dtype=value.dtype, init=init_name)

    def __repr__(self) -> str:
        return f"Constant {self.name} (shape={self.shape}, dtype={self.dtype})"

    @property
    def grad_req(self) -> str:
        return "null"

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req != "null":
            warnings.warn(
                f'Constant parameter "{self.name}" does not support grad_req other than "null", '
                f'and new value "{req}" is ignored.',
                stacklevel=2,
            )


def same_dtype(one: Any, other: Any) -> bool:
    """True if two dtype arguments, such as "float32" and np.float32, denote the same dtype."""
    return one is other or (one is not None and other is not None and dtype_name(one) == dtype_name(other))
