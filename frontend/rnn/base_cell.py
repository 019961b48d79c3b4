"""The base class of symbolic cells: parameters by name, states, packing of weights, and unrolling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import ndarray, symbol
from ..ndarray import NDArray
from ..symbol import Symbol

ops: Any = symbol  # untyped: the stubs do not cover all operator calls
Sym = Any  # a Symbol
Arrays = dict[str, NDArray]


class RNNParams:
    """Variables by name, created on first access. Cells can share them."""

    def __init__(self, prefix: str = "") -> None:
        self._prefix = prefix
        self._params: dict[str, Sym] = {}

    def get(self, name: str, **kwargs: Any) -> Sym:
        """The variable `PREFIXname`."""
        name = self._prefix + name
        if name not in self._params:
            self._params[name] = ops.Variable(name, **kwargs)
        return self._params[name]


class BaseRNNCell:
    """One step of a recurrent network: `cell(inputs, states)` returns the output and the new states.

    Cells with the same `params` share their weights.
    """

    _num_hidden: int

    def __init__(self, prefix: str = "", params: RNNParams | None = None) -> None:
        self._own_params = params is None
        self._prefix = prefix
        self._params = RNNParams(prefix) if params is None else params
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Reset the counters of steps and states, before the cell is used in another graph."""
        self._init_counter = -1
        self._counter = -1
        for cell in getattr(self, "_cells", ()):
            cell.reset()

    def __call__(self, inputs: Sym, states: list[Sym]) -> tuple[Sym, list[Any]]:
        raise NotImplementedError(f"{type(self).__name__} cannot be stepped")

    @property
    def params(self) -> RNNParams:
        """The cell's variables. After the first access, they count as shared with other cells."""
        self._own_params = False
        return self._params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        """Shape and layout of each state. The batch size is 0."""
        raise NotImplementedError(f"{type(self).__name__} has no state_info")

    @property
    def state_shape(self) -> list[tuple[int, ...]]:
        return [info["shape"] for info in self.state_info]

    @property
    def _gate_names(self) -> Sequence[str]:
        """The names of the gates, in the order of their rows in the weights."""
        return ()

    def _check_unmodified(self) -> None:
        if self._modified:
            raise AssertionError(
                "After applying modifier cells (e.g. DropoutCell) the base cell cannot be called directly. Call the "
                "modifier cell instead."
            )

    def begin_state(self, func: Callable[..., Sym] = ops.zeros, **kwargs: Any) -> list[Sym]:
        """The initial states, created by `func(name=..., shape=..., **kwargs)`."""
        self._check_unmodified()
        states: list[Sym] = []
        for info in self.state_info:
            self._init_counter += 1
            name = f"{self._prefix}begin_state_{self._init_counter}"
            states.append(func(name=name, **{**kwargs, **(info or {})}))
        return states

    def unpack_weights(self, args: Arrays) -> Arrays:
        """Split the packed weights into separate arrays per gate. Returns all parameters."""
        args = dict(args)
        if not self._gate_names:
            return args
        h = self._num_hidden
        for group in ("i2h", "h2h"):
            for kind in ("weight", "bias"):
                packed = args.pop(f"{self._prefix}{group}_{kind}")
                for j, gate in enumerate(self._gate_names):
                    args[f"{self._prefix}{group}{gate}_{kind}"] = packed[j * h : (j + 1) * h].copy()
        return args

    def pack_weights(self, args: Arrays) -> Arrays:
        """The inverse of `unpack_weights`."""
        args = dict(args)
        for group in ("i2h", "h2h") if self._gate_names else ():
            for kind in ("weight", "bias"):
                pieces = [args.pop(f"{self._prefix}{group}{gate}_{kind}") for gate in self._gate_names]
                args[f"{self._prefix}{group}_{kind}"] = ndarray.concatenate(pieces)
        return args

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: list[Sym] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """Run `length` steps on a symbol in `layout`, or on a list of symbols. Returns the outputs and the last states.

        Outputs are a list of steps, or one symbol with `merge_outputs`.
        """
        self.reset()
        steps, _ = _normalize_sequence(length, inputs, layout, False)
        states = self.begin_state() if begin_state is None else begin_state
        outputs: list[Sym] = []
        for i in range(length):
            output, states = self(steps[i], states)
            outputs.append(output)
        return _normalize_sequence(length, outputs, layout, merge_outputs)[0], states

    def _get_activation(self, inputs: Sym, activation: Any, **kwargs: Any) -> Sym:
        if isinstance(activation, str):
            return ops.Activation(inputs, act_type=activation, **kwargs)
        return activation(inputs, **kwargs)


def _normalize_sequence(
    length: int | None, inputs: Any, layout: str, merge: bool | None, in_layout: str | None = None
) -> tuple[Any, int]:
    """Convert a sequence to one symbol (`merge=True`) or to a list of steps (`merge=False`). None leaves the form.

    Returns the sequence and the time axis of `layout`.
    """
    if inputs is None:
        raise AssertionError("unroll(inputs=None) has been deprecated. Please create input variables outside unroll.")
    axis = layout.find("T")
    in_axis = axis if in_layout is None else in_layout.find("T")
    if not isinstance(inputs, Symbol):
        if length is not None and len(inputs) != length:
            raise AssertionError(f"{len(inputs)} inputs for {length} steps")
        if merge is not True:
            return inputs, axis
        return ops.Concat(*[ops.expand_dims(i, axis=axis) for i in inputs], dim=axis), axis
    if merge is False:
        if len(inputs.list_outputs()) != 1:
            raise AssertionError(
                "unroll doesn't allow grouped symbol as input. Please convert to list with list(inputs) first or let "
                "unroll handle splitting."
            )
        return list(ops.split(inputs, axis=in_axis, num_outputs=length, squeeze_axis=1)), axis
    if axis != in_axis:
        inputs = ops.swapaxes(inputs, dim1=axis, dim2=in_axis)
    return inputs, axis
