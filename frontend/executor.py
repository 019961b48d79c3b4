"""Executor: a symbol bound to arrays, which `forward` runs on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from .base import MXNetError
from .context import Context
from .dtypes import dtype_of, numpy_type
from .ndarray import NDArray, zeros
from .plan import CompiledSymbol, ParameterVersion

if TYPE_CHECKING:
    from .symbol import Symbol

__all__ = ["Executor"]

_GRAD_REQS = ("write", "add", "null")


class Executor:
    """A symbol with its arguments, gradients and auxiliary states, each in the order of the symbol's lists.

    Made by `Symbol.bind` and `Symbol.simple_bind`.
    """

    def __init__(
        self,
        symbol: Symbol,
        ctx: Context,
        arg_arrays: list[NDArray],
        grad_arrays: list[NDArray | None],
        aux_arrays: list[NDArray],
        grad_req: Any = "write",
        inputs: Sequence[str] = (),
        compiled: CompiledSymbol | None = None,
    ) -> None:
        self._symbol = symbol
        self._ctx = ctx
        self._grad_req = grad_req
        self._inputs = tuple(inputs)
        self.arg_arrays, self.grad_arrays, self.aux_arrays = arg_arrays, grad_arrays, aux_arrays
        self.arg_dict = _dictionary(symbol.list_arguments(), arg_arrays)
        self.grad_dict = _dictionary(symbol.list_arguments(), grad_arrays)
        self.aux_dict = _dictionary(symbol.list_auxiliary_states(), aux_arrays)
        names = symbol.list_inputs()
        self.compiled = compiled or CompiledSymbol(symbol, set(names) - set(inputs) if inputs else ())
        self._version = ParameterVersion()
        self._outputs: list[NDArray] | None = None

    @property
    def outputs(self) -> list[NDArray]:
        """The results of the last `forward`; before the first, zeros of the right shapes."""
        if self._outputs is None:
            plan = self.compiled.plan(self._arrays(), False)
            self._outputs = [zeros(t.shape, dtype=numpy_type(t.dtype), ctx=self._ctx) for t in plan.types]
        return self._outputs

    @property
    def output_dict(self) -> dict[str, NDArray]:
        return _dictionary(self._symbol.list_outputs(), self.outputs)

    def _arrays(self) -> list[NDArray]:
        named = {**self.arg_dict, **self.aux_dict}
        return [named[name] for name in self.compiled.names]

    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """Run on the bound arrays, after copying those in `kwargs` into the arguments of their names."""
        for name, array in kwargs.items():
            self._assign(name, array)
        arrays = self._arrays()
        if not self._version.is_current():
            marked = self.compiled.parameters
            self._version.refresh([a for n, a in zip(self.compiled.names, arrays, strict=True) if n in marked])
        plan = self.compiled.plan(arrays, bool(is_train))
        self._outputs = plan.run(arrays, self._version.stamp)
        return self._outputs

    def _assign(self, name: str, array: Any) -> None:
        if not isinstance(array, NDArray | np.ndarray):
            raise ValueError("only accept keyword argument of NDArrays and numpy.ndarray")
        if name not in self.arg_dict:
            raise TypeError(f"Unknown argument {name}")
        if self.arg_dict[name].shape != array.shape:
            raise ValueError(
                f"Shape not match! Argument {name}, need: {self.arg_dict[name].shape}, received: {array.shape}"
            )
        self.arg_dict[name][:] = array

    def backward(self, out_grads: Any = None, is_train: bool = True) -> None:
        """Raises MXNetError: gradients come with training."""
        raise MXNetError("Executor.backward: gradients are not there yet; they come with training (autograd)")

    def copy_params_from(
        self,
        arg_params: Mapping[str, NDArray],
        aux_params: Mapping[str, NDArray] | None = None,
        allow_extra_params: bool = False,
    ) -> None:
        """Copy arrays into the arguments and auxiliary states of their names."""
        kinds = (
            (arg_params, self.arg_dict, "arguments"),
            (aux_params or {}, self.aux_dict, "auxiliary states"),
        )
        for given, own, kind in kinds:
            for name, array in given.items():
                if name in own:
                    array.astype(own[name].dtype, copy=False).copyto(own[name])
                elif not allow_extra_params:
                    raise ValueError(f'Find name "{name}" that is not in the {kind}')

    def reshape(self, partial_shaping: bool = False, allow_up_sizing: bool = False, **kwargs: Any) -> Executor:
        """An executor for other input shapes, which shares the memory of this one's arrays.

        MXNetError when an argument that is not named changes its shape without `partial_shaping`, or an array grows
        without `allow_up_sizing`.
        """
        symbol = self._symbol
        shapes, _, states = symbol.infer_shape(**kwargs)
        if shapes is None or states is None:
            raise ValueError("Insufficient argument shapes provided.")
        names = symbol.list_arguments()
        for name, old, new in zip(names, self.arg_arrays, shapes, strict=True):
            if old.shape != new and name not in kwargs and not partial_shaping:
                raise MXNetError(
                    f"Shape of unspecified arg {name} changed: {old.shape} is bound, {new} needed. This can cause the "
                    "new executor to not share parameters with the old one. Please check for error in network. If this "
                    "is intended, set partial_shaping=True to suppress this warning."
                )

        def reshaped(listed: Sequence[str], arrays: Sequence[NDArray | None], wanted: Sequence[Any]) -> list[Any]:
            found = zip(listed, arrays, wanted, strict=True)
            return [a if a is None else _reshaped(n, a, s, allow_up_sizing) for n, a, s in found]

        arguments = reshaped(names, self.arg_arrays, shapes)
        grads = reshaped(names, self.grad_arrays, shapes)
        auxiliary = reshaped(symbol.list_auxiliary_states(), self.aux_arrays, states)
        return Executor(
            symbol, self._ctx, arguments, grads, auxiliary, self._grad_req, self._inputs or tuple(kwargs), self.compiled
        )

    def debug_str(self) -> str:
        return self._symbol.debug_str()


def _reshaped(name: str, array: NDArray, shape: tuple[int, ...], grow: bool) -> NDArray:
    """The array itself, a view of its first elements, or a new one where it is too small and may grow."""
    if array.shape == shape:
        return array
    if prod(shape) <= array.size:
        return array.reshape((-1,))[: prod(shape)].reshape(shape)
    if not grow:
        raise MXNetError(
            f"New shape of arg: {name} is larger than original: {array.shape} is bound, {shape} needed. First making a "
            "big executor and then down sizing it is more efficient than the reverse. If you really want to up size, "
            "set allow_up_sizing=True to enable allocation of new arrays."
        )
    return zeros(shape, dtype=array.dtype, ctx=array.context)


def _dictionary(names: Sequence[str], arrays: Sequence[Any]) -> dict[str, Any]:
    if len(set(names)) != len(names):
        raise ValueError(f"Duplicate names detected, {names}")
    return dict(zip(names, arrays, strict=True))


def simple_bind(
    symbol: Symbol,
    ctx: Context,
    grad_req: Any,
    type_dict: Mapping[str, Any] | None,
    shapes: Mapping[str, Any],
    shared: Executor | None = None,
) -> Executor:
    """Arrays for everything, with shapes and dtypes inferred (float32 where nothing says otherwise)."""
    given = {name: tuple(shape) for name, shape in shapes.items() if isinstance(shape, tuple | list)}
    arguments, _, states = symbol.infer_shape(**given)
    if arguments is None or states is None:
        raise RuntimeError(f"simple_bind error. Arguments:\n{given}\nshapes cannot be inferred from these")
    kinds = infer_dtypes(symbol, type_dict or {})
    names, auxiliary = symbol.list_arguments(), symbol.list_auxiliary_states()
    old = {} if shared is None else {**shared.arg_dict, **shared.aux_dict}

    def arrays(listed: Sequence[str], found: Sequence[tuple[int, ...]]) -> list[NDArray]:
        return [_shared_or_new(old.get(n), s, kinds[n], ctx) for n, s in zip(listed, found, strict=True)]

    made = arrays(names, arguments)
    reqs = _requests(names, grad_req)
    grads = [None if r == "null" else zeros(a.shape, dtype=a.dtype, ctx=ctx) for r, a in zip(reqs, made, strict=True)]
    return Executor(symbol, ctx, made, grads, arrays(auxiliary, states), grad_req, tuple(given))


def _shared_or_new(old: NDArray | None, shape: tuple[int, ...], dtype: Any, ctx: Context) -> NDArray:
    if old is not None and old.shape == shape and dtype_of(old.dtype) is dtype_of(dtype):
        return old
    return zeros(shape, dtype=dtype, ctx=ctx)


def infer_dtypes(symbol: Symbol, given: Mapping[str, Any]) -> dict[str, Any]:
    """The dtype of each variable by name; float32 where neither `given` nor the graph decides."""
    known = dict(given)
    while True:
        arguments, _, states = symbol.infer_type_partial(**known)
        found = dict(zip(symbol.list_arguments(), arguments, strict=True))
        found.update(zip(symbol.list_auxiliary_states(), states, strict=True))
        undecided = next((name for name, dtype in found.items() if dtype is None), None)
        if undecided is None:
            return found
        known[undecided] = np.float32


def bind(symbol: Symbol, ctx: Context, args: Any, args_grad: Any, grad_req: Any, aux_states: Any) -> Executor:
    """An executor on arrays of the caller."""
    if not isinstance(ctx, Context):
        raise TypeError("Context type error")
    names, auxiliary = symbol.list_arguments(), symbol.list_auxiliary_states()
    arguments = _listed("args", args, names, missing=False)
    states = _listed("aux_states", aux_states or [], auxiliary, missing=False)
    grads: list[Any] = [None] * len(names)
    if args_grad is not None:
        grads = _listed("args_grad", args_grad, names, missing=True)
    reqs = _requests(names, grad_req)
    kept: list[Any] = [grad if req != "null" else None for grad, req in zip(grads, reqs, strict=True)]
    return Executor(symbol, ctx, arguments, kept, states, grad_req)


def _requests(names: Sequence[str], grad_req: Any) -> list[str]:
    """What each argument wants of its gradient."""
    if isinstance(grad_req, str):
        found = [grad_req] * len(names)
    elif isinstance(grad_req, Mapping):
        found = [grad_req.get(name, "null") for name in names]
    else:
        found = list(grad_req)
    if len(found) != len(names) or any(req not in _GRAD_REQS for req in found):
        raise ValueError(f"grad_req must be in {_GRAD_REQS}, one for each of {len(names)} arguments, not {grad_req!r}")
    return found


def _listed(what: str, given: Any, names: Sequence[str], missing: bool) -> list[Any]:
    """Arrays in the order of `names`, from a list or a dictionary."""
    if isinstance(given, Mapping):
        absent = [name for name in names if name not in given]
        if absent and not missing:
            raise ValueError(f"key `{absent[0]}` is missing in `{what}`")
        found = [given.get(name) for name in names]
    elif isinstance(given, list | tuple):
        found = list(given)
    else:
        raise TypeError("Only accept list of NDArrays or dict of str to NDArray")
    if len(found) != len(names):
        raise ValueError(f"Length of {what} does not match the number of arguments")
    if any(not isinstance(a, NDArray) and not (a is None and missing) for a in found):
        raise TypeError("Only accept list of NDArrays or dict of str to NDArray")
    return found
