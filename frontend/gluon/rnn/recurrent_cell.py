"""The base classes of recurrent cells: initial states, and unrolling over a number of steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ... import ndarray
from ...util import is_np_array
from ..hybrid_block import HybridBlock
from ..nn.activations import LeakyReLU
from ..plain_block import Block
from ..utils import _as_np_ndarrays
from .sequences import _format_sequence, _get_begin_state, _mask_sequence_variable_length

States = list[Any]

_MODIFIED = (
    "After applying modifier cells (e.g. ZoneoutCell) the base cell cannot be called directly. "
    "Call the modifier cell instead."
)


class RecurrentCell(Block):
    """One step of a recurrent network: `output, states = cell(input, states)`."""

    _is_direct = True  # `forward` only counts steps for names in graphs

    def __init__(self, prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)
        self._modified = False
        self.reset()

    def reset(self) -> None:
        """Reset the step counters, before the cell is used in another graph."""
        self._init_counter = -1
        self._counter = -1
        for cell in self._children.values():
            if isinstance(cell, RecurrentCell):  # children include activations
                cell.reset()

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        """Shape and layout of each state."""
        raise NotImplementedError(f"{type(self).__name__} has no state_info")

    def _check_unmodified(self) -> None:
        if self._modified:
            raise AssertionError(_MODIFIED)

    def begin_state(self, batch_size: int = 0, func: Callable[..., Any] = ndarray.zeros, **kwargs: Any) -> States:
        """The initial states, created by `func`: zeros by default."""
        self._check_unmodified()
        states: States = []
        for info in self.state_info(batch_size):
            self._init_counter += 1
            options = {**(info or {}), **kwargs}
            states.append(func(name=f"{self._prefix}begin_state_{self._init_counter}", **options))
        return _as_np_ndarrays(states) if is_np_array() else states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, States]:
        """Run `length` steps. Returns the outputs and the last states.

        `inputs` is one array in `layout` or a list of steps. Outputs are one array if `merge_outputs`, a list if it is
        False, and in the form that needs no conversion if it is None. With `valid_length` (batch,), outputs after the
        end of a sequence are zero, and the states are the states at its end.
        """
        self.reset()
        inputs, axis, F, batch_size = _format_sequence(length, inputs, layout, False)
        states = _get_begin_state(self, F, begin_state, inputs, batch_size)
        outputs: Any = []
        all_states: list[States] = []
        for i in range(length):
            output, states = self(inputs[i], states)
            outputs.append(output)
            if valid_length is not None:
                all_states.append(states)
        if valid_length is not None:
            states = [_last_valid(F, steps, valid_length) for steps in zip(*all_states, strict=True)]
            outputs = _mask_sequence_variable_length(F, outputs, length, valid_length, axis, True)
        return _format_sequence(length, outputs, layout, merge_outputs)[0], states

    def _get_activation(self, F: Any, inputs: Any, activation: Any, **kwargs: Any) -> Any:
        """Apply an activation to `inputs`. It is a name, a LeakyReLU layer or another callable."""
        if isinstance(activation, str):
            if activation in ("tanh", "relu", "sigmoid", "softsign"):
                return getattr(F, activation)(inputs, **kwargs)
            return F.Activation(inputs, act_type=activation, **kwargs)
        if isinstance(activation, LeakyReLU):
            return F.LeakyReLU(inputs, act_type="leaky", slope=activation._alpha, **kwargs)
        return activation(inputs, **kwargs)

    def forward(self, inputs: Any, states: Any) -> Any:  # type: ignore[override]
        """Run one step. Returns the output and the new states."""
        self._counter += 1
        return super().forward(inputs, states)


class HybridRecurrentCell(RecurrentCell, HybridBlock):  # type: ignore[override]
    """A recurrent cell that defines `hybrid_forward` and can be hybridized."""

    def __init__(self, prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def hybrid_forward(self, F: Any, x: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no hybrid_forward")

    def _make_parameters(self, shapes: Mapping[str, Sequence[int]], initializers: Mapping[str, Any]) -> None:
        """Create weights and biases of these shapes. An unknown extent is 0."""
        for name, shape in shapes.items():
            param = self.params.get(name, shape=tuple(shape), init=initializers[name], allow_deferred_init=True)
            setattr(self, name, param)

    def _mapping(self) -> str:
        """The input size and the number of outputs of all gates, for `repr`."""
        shape = self._reg_params["i2h_weight"].shape or (0, 0)
        return f"{shape[1] or None} -> {shape[0]}"


def _last_valid(F: Any, steps: Sequence[Any], valid_length: Any) -> Any:
    stacked = F.stack(*steps, axis=0)
    return F.SequenceLast(stacked, sequence_length=valid_length, use_sequence_length=True, axis=0)
