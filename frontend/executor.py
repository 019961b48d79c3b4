"""Executor: a symbol bound to arrays; `forward` runs it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..runtime.function import Call, after_call, before_call
from ..runtime.loaded_program import LoadedProgram
from ..runtime.modes import hooks
from ..runtime.parameter_version import ParameterVersion
from ..runtime.writes import written
from .base import MXNetError
from .context import Context
from .dtypes import dtype_of
from .monitored import Monitored
from .ndarray import NDArray, zeros
from .ndarray.ndarray import empty_array
from .ndarray.tape import ForwardRun, Variable
from .received_gradients import ReceivedGradients
from .recorded_run import RecordedRun, has_cotangent
from .symbol.flags import FunctionFlags
from .symbol.function import SymbolFunction, SymbolSpecialization
from .symbol.network import Network
from .symbol.stepwise import StepwiseSpecialization

if TYPE_CHECKING:
    from ..ir.types import TensorType
    from ..runtime.storage import Storage
    from .symbol import Symbol

__all__ = ["Executor"]


class Executor:
    """A symbol with arrays for its arguments, gradients and auxiliary states, each in the order of the symbol's lists.

    `Symbol.bind` and `Symbol.simple_bind` create executors.
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
        function: SymbolFunction | None = None,
    ) -> None:
        self._symbol = symbol
        self._ctx = ctx
        self._grad_req = grad_req
        self._inputs = tuple(inputs)
        self.arg_arrays, self.grad_arrays, self.aux_arrays = arg_arrays, grad_arrays, aux_arrays
        if function is None:
            parameters = set(symbol.list_inputs()).difference(inputs) if inputs else ()
            function = SymbolFunction(symbol, parameters, flags=FunctionFlags(is_bound=True))
        self.function, names = function, function.arguments
        self._requests = dict(zip(names, gradient_requests(names, grad_req), strict=True))
        self._arg_dict, self._grad_dict = _dictionary(names, arg_arrays), _dictionary(names, grad_arrays)
        self._aux_dict = _dictionary(function.states, aux_arrays)
        self._version = ParameterVersion()
        self._outputs: list[NDArray] | None = None
        self._lender: Executor | None = None  # the results share the memory of its results if they fit
        self._monitor: Monitored | None = None
        self._received: ReceivedGradients | None = None
        self._run: ForwardRun | RecordedRun | None = None  # the last forward pass, if `backward` can follow it
        self._trained = True  # the mode of the last forward pass, and that of `_run`

    @property
    def handle(self) -> ctypes.c_void_p:
        """A pointer that identifies this executor during its lifetime. In MXNet it is a C pointer."""
        return ctypes.c_void_p(id(self))

    @property
    def arg_dict(self) -> dict[str, NDArray]:
        """The arguments by name."""
        return self._arg_dict

    @property
    def grad_dict(self) -> dict[str, NDArray | None]:
        """The gradients by the names of their arguments."""
        return self._grad_dict

    @property
    def aux_dict(self) -> dict[str, NDArray]:
        """The auxiliary states by name."""
        return self._aux_dict

    @property
    def outputs(self) -> list[NDArray]:
        """The results. As in MXNet, each `forward` overwrites these arrays; before the first they are zeros."""
        return self._make_outputs(self._output_types()) if self._outputs is None else self._outputs

    def _get_outputs(self) -> list[NDArray]:
        """Same as `outputs`."""
        return self.outputs

    @staticmethod
    def _get_dict(names: Sequence[str], ndarrays: Sequence[Any]) -> dict[str, Any]:
        """Arrays by name. ValueError for a duplicate name."""
        return _dictionary(names, ndarrays)

    def _make_outputs(self, types: Sequence[TensorType]) -> list[NDArray]:
        arrays = [empty_array(t.shape, t.dtype, self._ctx) for t in types]
        for array in arrays:
            array._clear()
        lent = arrays if self._lender is None else self._lender.outputs
        self._lender = None
        self._outputs = [_begin_of(old, new) for old, new in zip(lent, arrays, strict=True)]
        return self._outputs

    def _output_types(self) -> Sequence[TensorType]:
        bound = self.arg_dict | self.aux_dict
        network = Network(self._symbol._entries)
        known = network.infer({n: a.shape for n, a in bound.items()}, {n: dtype_of(a.dtype) for n, a in bound.items()})
        types = [known.type_of(network.number(entry)) for entry in network.entries]
        if None in types:  # compiling raises an error that names the operator with the unknown shape
            return self.function.specialization_for(self._arrays(), False, self._ctx).types
        return cast("list[TensorType]", types)

    @property
    def output_dict(self) -> dict[str, NDArray]:
        """The results of the last `forward` by name."""
        return _dictionary(self._symbol.list_outputs(), self.outputs)

    def _arrays(self) -> list[NDArray]:
        named = {**self.arg_dict, **self.aux_dict}
        return [named[name] for name in self.function.names]

    def forward(self, is_train: bool = False, **kwargs: Any) -> list[NDArray]:
        """Run on the bound arrays and return `outputs`.

        Args:
            is_train: True for training mode.
            **kwargs: Arrays that are first copied into the arguments of these names. TypeError for an unknown argument,
                ValueError for another shape.
        """
        for name, array in kwargs.items():
            self._assign(name, array)
        arrays = self._current_arrays()
        gradients = bool(is_train and self._wrt())
        self._run, self._trained = None, bool(is_train)
        if self._monitor is not None and self._monitor.listens:
            outputs = self._monitor.forward(arrays, bool(is_train), self._version.stamp, again=gradients)
            if not gradients:
                self._replace(outputs)
                return self.outputs
        specialization = self.function.specialization_for(arrays, bool(is_train), self._ctx)
        if gradients:
            self._run = self._run_for_gradients(specialization, arrays, self._outputs)
        elif not specialization.types:  # the types of sparse results are unknown before the call
            self._outputs = specialization.call(arrays, self._version.stamp)
        else:
            outputs = self._make_outputs(specialization.types) if self._outputs is None else self._outputs
            specialization.call_into(arrays, outputs, self._version.stamp, self._ctx)
            for array in outputs:
                written(array._storage)
        return self.outputs

    def _current_arrays(self) -> list[NDArray]:
        """The operands of a run. What was computed from parameters that have changed since is computed again."""
        arrays = self._arrays()
        if not self._version.is_current():
            marked = self.function.parameters
            self._version.refresh(storages(a for n, a in zip(self.function.names, arrays, strict=True) if n in marked))
        return arrays

    def _wrt(self) -> tuple[int, ...]:
        """The positions of the function's inputs that receive a gradient. Arrays of integers have none."""
        return tuple([i for i, name in enumerate(self.function.names) if self._receives_gradient(name)])

    def _receives_gradient(self, name: str) -> bool:
        if self._grad_dict.get(name) is None or self._requests[name] == "null":
            return False
        return dtype_of(self._arg_dict[name].dtype).has_cotangent

    def _run_for_gradients(
        self,
        specialization: SymbolSpecialization | StepwiseSpecialization,
        arrays: Sequence[NDArray],
        outputs: Sequence[NDArray] | None,
    ) -> ForwardRun | RecordedRun:
        """Run forward and keep the values that the gradients read. The results are written to `outputs`; None makes
        them the executor's outputs."""
        wrt = self._wrt()
        if isinstance(specialization, StepwiseSpecialization):
            run = RecordedRun(specialization, arrays, wrt)
            if outputs is self._outputs:
                self._outputs = run.results
            return run
        targets = [self._grad_dict[self.function.names[i]] for i in wrt]
        rows = [k for k, target in enumerate(targets) if target is not None and target.stype == "row_sparse"]
        derivative = specialization.derivative(wrt, rows)
        if outputs is None:
            outputs = self._make_outputs(derivative.forward.specialization.types[: specialization.count])
        call = Call(self.function, specialization, arrays)
        if hooks.watched:
            before_call(call)
        run = ForwardRun(derivative, arrays, outputs, self._version.stamp)
        if hooks.watched:
            after_call(call, outputs)
        for array in outputs:
            written(array._storage)
        return run

    def _replace(self, results: Sequence[NDArray]) -> None:
        if any(a._is_sparse for a in results):
            self._outputs = list(results)
            return
        for kept, new in zip(self.outputs, results, strict=True):
            kept[:] = new

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
        """Compute the gradients of the outputs into `grad_arrays`.

        Args:
            out_grads: The gradient by each output: an array, a list, or a dictionary by the outputs' names. Losses need
                none.
            is_train: False for the gradients of the symbol in inference, in which batch norms use their stored
                statistics. They are also those after a forward pass in inference.
        """
        if not self._wrt():
            return
        training = bool(is_train) and self._trained
        run = self._last_run(training)
        requests, seeds = self._requests, self._seeds(run, out_grads)
        if self._monitor is not None and self._monitor.listens:
            self._monitor.backward(run.operands, run.wrt, seeds, training)
        names = [self.function.names[i] for i in run.wrt]
        targets = [self._grad_dict[name] for name in names]
        direct = [self._direct_target(name, requests[name]) for name in names]
        if self._is_received(run, direct, names, seeds):
            return
        added = [i for i, name in zip(run.wrt, names, strict=True) if requests[name] == "add"]
        gradients = run.gradients(seeds, direct, added)
        for name, target, into, gradient in zip(names, targets, direct, gradients, strict=True):
            assert target is not None
            if into is not None:
                written(into._storage)
            elif requests[name] == "add":
                target += gradient.astype(target.dtype, copy=False)
            elif requests[name] == "write":
                gradient.copyto(target)

    def _is_received(
        self, run: ForwardRun | RecordedRun, direct: list[NDArray | None], names: list[str], seeds: list[NDArray]
    ) -> bool:
        """Compute the gradients and let a receiver of `gradient_variables` take them. False if that is impossible."""
        if self._received is None or any(target is None for target in direct) or not isinstance(run, ForwardRun):
            return False
        return self._received.compute(run, len(self.outputs), names, seeds)

    def gradient_variables(self) -> dict[str, Variable]:
        """The dense gradients that `backward` replaces, as variables. What receives them takes them in the pass."""
        if self._received is None:
            dense = {n: a for n, a in self._grad_dict.items() if a is not None and not a._is_sparse}
            self._received = ReceivedGradients({n: a for n, a in dense.items() if self._requests[n] == "write"})
        return self._received.variables

    def _last_run(self, training: bool) -> ForwardRun | RecordedRun:
        """The last forward pass if it was in this mode. If not, a forward pass runs now, which changes no results."""
        if self._run is not None and training == self._trained:
            return self._run
        arrays = self._current_arrays()
        specialization = self.function.specialization_for(arrays, training, self._ctx)
        return self._run_for_gradients(specialization, arrays, None if self._outputs is None else ())

    def _direct_target(self, name: str, request: str) -> NDArray | None:
        """The gradient array of an argument if the program can write to it: it must have the argument's type."""
        target, argument = self._grad_dict[name], self._arg_dict[name]
        if request != "write" or target is None or target._is_sparse or argument._is_sparse:
            return None
        same = target._type() == argument._type() and target._storage.device is argument._storage.device
        return target if same else None

    def _seeds(self, run: ForwardRun | RecordedRun, out_grads: Any) -> list[NDArray]:
        """The gradients by the outputs that can have one. MXNetError if one that the gradients depend on is missing, or
        has another shape."""
        names = self._symbol.list_outputs()
        if out_grads is None:
            out_grads = []
        elif isinstance(out_grads, NDArray):
            out_grads = [out_grads]
        elif isinstance(out_grads, Mapping):
            out_grads = [out_grads[name] for name in names]
        padded = [*out_grads, *[None] * (len(names) - len(out_grads))]
        needed = iter(run.reads_cotangent)
        seeds: list[NDArray] = []
        for name, output, gradient in zip(names, self.outputs, padded, strict=False):
            if not has_cotangent(output):
                continue
            seeds.append(self._seed(name, output, gradient, next(needed)))
        return seeds

    def _seed(self, name: str, output: NDArray, gradient: Any, needed: bool) -> NDArray:
        if gradient is None and needed:
            raise MXNetError(f"Executor.backward: {name} is no loss: out_grads must have its gradient")
        if gradient is not None and not isinstance(gradient, NDArray):
            raise TypeError("inputs must be NDArray")
        if gradient is None or not needed:
            return zeros(output.shape, self._ctx, output.dtype)
        if gradient.shape != output.shape:
            raise MXNetError(
                f"Executor.backward: the gradient of {name} has the shape {gradient.shape}, {name} has {output.shape}"
            )
        return gradient.tostype("default").as_in_context(self._ctx).astype(output.dtype, copy=False)

    def set_monitor_callback(self, callback: Callable[[bytes, NDArray], Any], monitor_all: bool = False) -> None:
        """Register `callback(name, array)`, which each `forward` calls for every result of every operator, in order.

        `backward` calls it for the gradients by the inputs of each operator, `NAME_backward_output0`, .... With
        `monitor_all` it is also called for the operands of each operator, before the results. Names are UTF-8 bytes, as
        in MXNet. `array` is an NDArray, where MXNet passes a C pointer. Results and gradients are those without a
        callback: what it is called with is computed separately.
        """
        self._monitor = Monitored(self._symbol, self.function, callback, bool(monitor_all))

    def get_optimized_symbol(self) -> Symbol:
        """A copy of the symbol: compiled graphs cannot be expressed with MXNet's operators."""
        return self._symbol.__copy__()

    def copy_params_from(
        self,
        arg_params: Mapping[str, NDArray],
        aux_params: Mapping[str, NDArray] | None = None,
        allow_extra_params: bool = False,
    ) -> None:
        """Copy arrays into the arguments and auxiliary states of the same names.

        ValueError for a name that the executor does not have, unless `allow_extra_params`.
        """
        kinds = (
            (arg_params, self.arg_dict, "arguments"),
            (aux_params or {}, self.aux_dict, "auxiliary states"),
        )
        for arrays, own, kind in kinds:
            for name, array in arrays.items():
                if name in own:
                    array.astype(own[name].dtype, copy=False).copyto(own[name])
                elif not allow_extra_params:
                    raise ValueError(f'Find name "{name}" that is not in the {kind}')

    def reshape(self, partial_shaping: bool = False, allow_up_sizing: bool = False, **kwargs: Any) -> Executor:
        """An executor for other input shapes that shares the memory of this executor's arrays.

        Args:
            partial_shaping: Allow arguments that are not in `kwargs` to change their shape, else MXNetError.
            allow_up_sizing: Allocate new arrays where the old ones are too small, else MXNetError.
            **kwargs: Shapes by argument name.
        """
        symbol = self._symbol
        known = self.function.shapes_for(kwargs)
        shapes, states = symbol.infer_shape(**kwargs)[::2] if known is None else known
        if shapes is None or states is None:
            raise ValueError("Insufficient argument shapes provided.")
        names = self.function.arguments
        for name, old, new in zip(names, self.arg_arrays, shapes, strict=True):
            if old.shape != new and name not in kwargs and not partial_shaping:
                raise MXNetError(
                    f"Shape of unspecified arg {name} changed: {old.shape} is bound, {new} needed. This can cause the "
                    "new executor to not share parameters with the old one. Please check for error in network. If this "
                    "is intended, set partial_shaping=True to suppress this warning."
                )

        def reshaped(listed: Sequence[str], arrays: Sequence[NDArray | None], shapes: Sequence[Any]) -> list[Any]:
            described = zip(listed, arrays, shapes, strict=True)
            return [a if a is None else _reshaped(n, a, s, allow_up_sizing) for n, a, s in described]

        arguments = reshaped(names, self.arg_arrays, shapes)
        grads = reshaped(names, self.grad_arrays, shapes)
        auxiliary = reshaped(self.function.states, self.aux_arrays, states)
        inputs = self._inputs or tuple(kwargs)
        executor = Executor(symbol, self._ctx, arguments, grads, auxiliary, self._grad_req, inputs, self.function)
        executor._monitor, executor._lender = self._monitor, self
        return executor

    def debug_str(self) -> str:
        """The graph as text, and the memory of its results and temporary values."""
        return (
            f"{self._symbol.debug_str()}Total {self._megabytes()} MB allocated\nTotal 0 TempSpace resource requested\n"
        )

    def _megabytes(self) -> int:
        executable = getattr(self.function.specialization_for(self._arrays(), False, self._ctx), "executable", None)
        between = executable.program.arena_bytes if isinstance(executable, LoadedProgram) else 0
        return (between + sum(a._nbytes() for a in self.outputs if not a._is_sparse)) >> 20


_GRAD_REQS = ("write", "add", "null")


def gradient_requests(names: Sequence[str], grad_req: Any) -> list[str]:
    """The gradient request ("write", "add" or "null") of each argument."""
    if isinstance(grad_req, str):
        requests = [grad_req] * len(names)
    elif isinstance(grad_req, Mapping):
        requests = [grad_req.get(name, "null") for name in names]
    else:
        requests = list(grad_req)
    if len(requests) != len(names) or any(req not in _GRAD_REQS for req in requests):
        raise ValueError(f"grad_req must be in {_GRAD_REQS}, one for each of {len(names)} arguments, not {grad_req!r}")
    return requests


def storages(arrays: Iterable[NDArray]) -> list[Storage]:
    """The memory of the dense arrays."""
    return [a._storage for a in arrays if not a._is_sparse]


def _reshaped(name: str, array: NDArray, shape: tuple[int, ...], grow: bool) -> NDArray:
    """The array itself, a view of its first elements or, if it is too small and `grow` is set, a new array."""
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


def _begin_of(lent: NDArray, new: NDArray) -> NDArray:
    """The first elements of `lent` in the shape of `new`; `new` itself if they do not fit."""
    if lent is new or lent._is_sparse or lent._dtype is not new._dtype or lent.size < new.size:
        return new
    return _reshaped("output", lent, new.shape, False)


def _dictionary(names: Sequence[str], arrays: Sequence[Any]) -> dict[str, Any]:
    if len(set(names)) != len(names):
        raise ValueError(f"Duplicate names detected, {names}")
    return dict(zip(names, arrays, strict=True))
