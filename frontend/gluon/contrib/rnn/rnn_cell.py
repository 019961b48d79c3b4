"""Variational dropout, LSTM cells with a projection, and unrolling with a loop operator."""

from __future__ import annotations

from typing import Any

from ...rnn.modifier_cells import ModifierCell
from ...rnn.recurrent_cell import HybridRecurrentCell, States
from ...rnn.sequences import (
    _format_sequence,
    _get_begin_state,
    _mask_sequence_variable_length,
    as_list,
    tensor_types,
)
from ...rnn.stacked_cells import BidirectionalCell

__all__ = ["LSTMPCell", "VariationalDropoutCell"]


class VariationalDropoutCell(ModifierCell):
    """Dropout with one mask for all steps (Gal and Ghahramani 2016)."""

    def __init__(
        self, base_cell: Any, drop_inputs: float = 0.0, drop_states: float = 0.0, drop_outputs: float = 0.0
    ) -> None:
        if drop_states and isinstance(base_cell, BidirectionalCell):
            raise AssertionError(
                "BidirectionalCell doesn't support variational state dropout. Please add VariationalDropoutCell to "
                "the cells underneath instead."
            )
        super().__init__(base_cell)
        self.drop_inputs, self.drop_states, self.drop_outputs = drop_inputs, drop_states, drop_outputs
        self._clear_masks()

    def _alias(self) -> str:
        return "vardrop"

    def _clear_masks(self) -> None:
        self.drop_inputs_mask: Any = None
        self.drop_states_mask: Any = None
        self.drop_outputs_mask: Any = None

    def reset(self) -> None:
        super().reset()
        self._clear_masks()

    def _initialize_input_masks(self, F: Any, inputs: Any, states: States) -> None:
        if self.drop_states and self.drop_states_mask is None:
            self.drop_states_mask = F.Dropout(F.ones_like(states[0]), p=self.drop_states)
        if self.drop_inputs and self.drop_inputs_mask is None:
            self.drop_inputs_mask = F.Dropout(F.ones_like(inputs), p=self.drop_inputs)

    def _initialize_output_mask(self, F: Any, output: Any) -> None:
        if self.drop_outputs and self.drop_outputs_mask is None:
            self.drop_outputs_mask = F.Dropout(F.ones_like(output), p=self.drop_outputs)

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:  # type: ignore[override]
        self._initialize_input_masks(F, inputs, states)
        if self.drop_states:
            states = [states[0] * self.drop_states_mask, *states[1:]]
        if self.drop_inputs:
            inputs = inputs * self.drop_inputs_mask
        output, next_states = self.base_cell(inputs, states)
        self._initialize_output_mask(F, output)
        if self.drop_outputs:
            output = output * self.drop_outputs_mask
        return output, next_states

    def __repr__(self) -> str:
        return f"{type(self).__name__}(p_out = {self.drop_outputs}, p_state = {self.drop_states})"

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, States]:
        if self.drop_states:
            return super().unroll(length, inputs, begin_state, layout, merge_outputs, valid_length)
        self.reset()
        inputs, axis, F, batch_size = _format_sequence(length, inputs, layout, True)
        states = _get_begin_state(self, F, begin_state, inputs, batch_size)
        if self.drop_inputs:
            inputs = F.Dropout(inputs, p=self.drop_inputs, axes=(axis,))
        outputs, states = self.base_cell.unroll(
            length, inputs, states, layout, merge_outputs=True, valid_length=valid_length
        )
        if self.drop_outputs:
            outputs = F.Dropout(outputs, p=self.drop_outputs, axes=(axis,))
        merge = isinstance(outputs, tensor_types) if merge_outputs is None else merge_outputs
        outputs = _format_sequence(length, outputs, layout, merge)[0]
        if valid_length is not None:
            outputs = _mask_sequence_variable_length(F, outputs, length, valid_length, axis, merge)
        return outputs, states


class LSTMPCell(HybridRecurrentCell):
    """An LSTM cell whose output is projected to `projection_size` features (Sak et al. 2014)."""

    def __init__(
        self,
        hidden_size: int,
        projection_size: int,
        i2h_weight_initializer: Any = None,
        h2h_weight_initializer: Any = None,
        h2r_weight_initializer: Any = None,
        i2h_bias_initializer: Any = "zeros",
        h2h_bias_initializer: Any = "zeros",
        input_size: int = 0,
        prefix: str | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(prefix=prefix, params=params)
        self._hidden_size, self._input_size, self._projection_size = hidden_size, input_size, projection_size
        rows = 4 * hidden_size
        shapes = {
            "i2h_weight": (rows, input_size),
            "h2h_weight": (rows, projection_size),
            "h2r_weight": (projection_size, hidden_size),
            "i2h_bias": (rows,),
            "h2h_bias": (rows,),
        }
        initializers = (
            i2h_weight_initializer,
            h2h_weight_initializer,
            h2r_weight_initializer,
            i2h_bias_initializer,
            h2h_bias_initializer,
        )
        self._make_parameters(shapes, dict(zip(shapes, initializers, strict=True)))

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        sizes = (self._projection_size, self._hidden_size)
        return [{"shape": (batch_size, size), "__layout__": "NC"} for size in sizes]

    def _alias(self) -> str:
        return "lstmp"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._mapping()} -> {self._projection_size})"

    def hybrid_forward(  # type: ignore[override]
        self,
        F: Any,
        inputs: Any,
        states: Any,
        i2h_weight: Any,
        h2h_weight: Any,
        h2r_weight: Any,
        i2h_bias: Any,
        h2h_bias: Any,
    ) -> Any:
        prefix = f"t{self._counter}_"
        rows = self._hidden_size * 4
        i2h = F.FullyConnected(data=inputs, weight=i2h_weight, bias=i2h_bias, num_hidden=rows, name=prefix + "i2h")
        h2h = F.FullyConnected(data=states[0], weight=h2h_weight, bias=h2h_bias, num_hidden=rows, name=prefix + "h2h")
        sliced = F.SliceChannel(i2h + h2h, num_outputs=4, name=prefix + "slice")
        input_gate, forget_gate, candidate, output_gate = (
            F.Activation(sliced[i], act_type=activation, name=prefix + letter)
            for i, (activation, letter) in enumerate(
                zip(("sigmoid", "sigmoid", "tanh", "sigmoid"), "ifco", strict=True)
            )
        )
        next_c = F.elemwise_add(forget_gate * states[1], input_gate * candidate, name=prefix + "state")
        hidden = F.elemwise_mul(output_gate, F.Activation(next_c, act_type="tanh"), name=prefix + "hidden")
        next_r = F.FullyConnected(
            data=hidden, num_hidden=self._projection_size, weight=h2r_weight, no_bias=True, name=prefix + "out"
        )
        return next_r, [next_r, next_c]


def dynamic_unroll(
    cell: Any,
    inputs: Any,
    begin_state: Any,
    drop_inputs: float = 0,
    drop_outputs: float = 0,
    layout: str = "TNC",
    valid_length: Any = None,
) -> tuple[Any, Any]:
    """Run a cell over all steps of `inputs` with the loop operator `foreach`. Returns the outputs and the last states.

    Unlike `cell.unroll`, it does not require the number of steps, and a symbol's graph contains the cell once.
    """
    inputs, axis, F, _ = _format_sequence(0, inputs, layout, True)
    order = list(range(len(layout)))
    order[0], order[axis] = order[axis], order[0]
    if axis != 0:
        inputs = F.transpose(inputs, axes=order)
    if drop_inputs:
        inputs = F.Dropout(inputs, p=drop_inputs, axes=(axis,))
    if valid_length is None:
        outputs, states = F.contrib.foreach(cell, inputs, begin_state)
    else:
        outputs, states = _masked_loop(F, cell, inputs, as_list(begin_state), valid_length)
    if drop_outputs:
        outputs = F.Dropout(outputs, p=drop_outputs, axes=(axis,))
    if axis != 0:
        outputs = F.transpose(outputs, axes=order)
    if valid_length is not None:
        outputs = F.SequenceMask(outputs, sequence_length=valid_length, use_sequence_length=True, axis=axis)
    return outputs, states


def _masked_loop(F: Any, cell: Any, inputs: Any, begin_state: States, valid_length: Any) -> tuple[Any, States]:
    """A loop that stops updating the states of a sequence after its valid length."""

    def step(data: Any, states: States) -> tuple[Any, States]:
        *before, step_number = states
        output, after = cell(data, before)
        running = F.broadcast_greater(valid_length, step_number)
        masked = [F.where(running, new, old) for new, old in zip(after, before, strict=True)]
        return output, [*masked, step_number + 1]

    outputs, states = F.contrib.foreach(step, inputs, [*begin_state, F.zeros((1,))])
    return outputs, states[:-1]
