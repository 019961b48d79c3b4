"""The modes of a thread: whether it records for gradients, and whether operators behave as in training."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from ..ir.suggestions import see
from ..runtime import modes as runtime_modes
from ..runtime.modes import modes, set_modes
from .base import MXNetError
from .ndarray import NDArray, zeros
from .ndarray.gradients import backward, grad, mark_variables
from .ndarray.tape import Origin, entry_of, is_recorded
from .ndarray.tape import record as record_call

if TYPE_CHECKING:
    from .symbol import Symbol

__all__ = [
    "Function",
    "backward",
    "get_symbol",
    "grad",
    "is_recording",
    "is_training",
    "mark_variables",
    "pause",
    "predict_mode",
    "record",
    "set_recording",
    "set_training",
    "train_mode",
]


def is_recording() -> bool:
    """Whether operations are recorded for gradients."""
    return modes.recording


def is_training() -> bool:
    """Whether operators behave as in training: dropout drops, batch normalisation uses the batch."""
    return modes.training


def set_recording(is_recording: bool) -> bool:
    """Turn recording on or off in this thread; returns the previous mode."""
    return runtime_modes.set_recording(bool(is_recording))


def set_training(train_mode: bool) -> bool:
    """Turn training mode on or off in this thread; returns the previous mode."""
    return runtime_modes.set_training(bool(train_mode))


class _Scope:
    """A `with` block with these modes; None leaves a mode unchanged."""

    __slots__ = ("_before", "_recording", "_training")

    def __init__(self, recording: bool | None, training: bool | None) -> None:
        self._recording, self._training = recording, training
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> Self:
        recording, training = before = modes.recording, modes.training
        self._before.append(before)
        set_modes(
            recording if self._recording is None else self._recording,
            training if self._training is None else self._training,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_modes(*self._before.pop())


def record(train_mode: bool = True) -> _Scope:
    """`with record():` records the operations in the block; they run in training mode if `train_mode`.

    Example:
        >>> x = mx.nd.array([1, 2])
        >>> x.attach_grad()
        >>> with mx.autograd.record():
        ...     y = x * x
        >>> y.backward()
        >>> x.grad.asnumpy()
        array([2., 4.], dtype=float32)
    """
    return _Scope(True, train_mode)


def pause(train_mode: bool = False) -> _Scope:
    """`with pause():` operations in the block are not recorded; they run in training mode if `train_mode`."""
    return _Scope(False, train_mode)


def train_mode() -> _Scope:
    """`with train_mode():` operators in the block behave as in training."""
    return _Scope(None, True)


def predict_mode() -> _Scope:
    """`with predict_mode():` operators in the block behave as in prediction."""
    return _Scope(None, False)


def get_symbol(x: Any) -> Symbol:
    """The symbol of the calls that were recorded for an array.

    Variables are named `varN`, and arrays without a gradient `nullN`. A hybridized block appears with its operators.
    MXNetError for an array that is not recorded, and for calls that have no symbol: a Function, a gradient.
    """
    if not isinstance(x, NDArray):
        raise AssertionError(f"get_symbol: Invalid argument type, expecting {NDArray}, got {type(x)}")
    from .symbol.recorded import symbol_of_recorded

    return symbol_of_recorded(x)


class Function:
    """A differentiable function that a user writes: `forward` computes results from arrays, `backward` the gradients of
    the inputs from the gradients of the results.

    As in MXNet, an instance can be called once; a second call raises AssertionError.

    Example:
        >>> class Clip(mx.autograd.Function):
        ...     def forward(self, x):
        ...         return x.clip(-1, 1)
        ...     def backward(self, dy):
        ...         return dy  # as if it were the identity
        >>> x = mx.nd.array([0.5, 3])
        >>> x.attach_grad()
        >>> with mx.autograd.record():
        ...     y = Clip()(x)
        >>> y.backward()
        >>> x.grad.asnumpy()
        array([1., 1.], dtype=float32)
    """

    def __init__(self) -> None:
        self._used = False
        self.saved_tensors: Any = ()

    def save_for_backward(self, *args: Any) -> None:
        """Save arrays for `backward` as `saved_tensors`."""
        self.saved_tensors = args

    def __call__(self, *inputs: Any) -> Any:
        if self._used:
            raise AssertionError("Each Function instance can only be called once. Please create another instance.")
        self._used = True
        if any(hasattr(x, "list_arguments") for x in inputs):  # Symbol is a class of a higher layer
            name = type(self).__name__
            text = f"{name} is an autograd.Function, which takes arrays: in a graph use mx.operator.CustomOp"
            raise MXNetError(text + see("writing-an-operator"))
        with pause(is_training()):
            outputs = self.forward(*inputs)
        if is_recorded(inputs):
            results = [outputs] if isinstance(outputs, NDArray) else list(outputs)
            wrt = [i for i, x in enumerate(inputs) if entry_of(x) is not None]
            record_call(inputs, wrt, _FunctionPullback(self, wrt, len(inputs), results), results)
        return outputs

    def forward(self, *inputs: Any) -> Any:
        """Computes the results: one array or a tuple. Subclasses override it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def backward(self, *output_grads: Any) -> Any:
        """Computes the gradients of the inputs, one array or a tuple, from the gradients of the results.

        Subclasses override it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no backward")


class _FunctionPullback:
    """The gradient of a call of a Function."""

    def __init__(self, function: Function, wrt: Sequence[int], inputs: int, results: Sequence[NDArray]) -> None:
        self.function, self.wrt, self.inputs = function, wrt, inputs
        self.types = [(r.shape, r.context, r.dtype) for r in results]
        self.numpy = any([r._class is not None for r in results])

    def __call__(self, cotangents: list[NDArray | None], differentiable: bool) -> Sequence[NDArray | None]:
        dense = [zeros(*t) if c is None else c for c, t in zip(cotangents, self.types, strict=True)]
        if self.numpy:
            dense = [c.as_np_ndarray() for c in dense]
        gradients_of_inputs = self.function.backward(*dense)
        gradients = [gradients_of_inputs] if isinstance(gradients_of_inputs, NDArray) else list(gradients_of_inputs)
        if len(gradients) != self.inputs:
            raise MXNetError(
                f"{type(self.function).__name__}.backward must return exactly the same number of NDArrays as the "
                f"number of NDArrays arguments to forward. Expecting {self.inputs} got {len(gradients)}"
            )
        return [gradients[i] for i in self.wrt]

    def origin(self) -> Origin:
        raise MXNetError(f"get_symbol: {type(self.function).__name__} is a Function of the user and has no symbol")
