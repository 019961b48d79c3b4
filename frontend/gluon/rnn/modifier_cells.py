"""Cells that modify another cell, and a dropout cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import symbol
from ...base import numeric_types
from .recurrent_cell import HybridRecurrentCell, States
from .sequences import _format_sequence, _mask_sequence_variable_length, tensor_types
from .stacked_cells import BidirectionalCell


class DropoutCell(HybridRecurrentCell):
    """Dropout of the input. The cell has no states."""

    def __init__(self, rate: float, axes: tuple[int, ...] = (), prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix, params)
        if not isinstance(rate, numeric_types):
            raise AssertionError(f"rate must be a number, not {type(rate).__name__}")
        self._rate, self._axes = rate, axes

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rate={self._rate}, axes={self._axes})"

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        return []

    def _alias(self) -> str:
        return "dropout"

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:  # type: ignore[override]
        if self._rate > 0:
            inputs = F.Dropout(data=inputs, p=self._rate, axes=self._axes, name=f"t{self._counter}_fwd")
        return inputs, states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, States]:
        self.reset()
        inputs, _, F, _ = _format_sequence(length, inputs, layout, merge_outputs)
        if isinstance(inputs, tensor_types):
            return self.hybrid_forward(F, inputs, begin_state or [])
        return super().unroll(length, inputs, begin_state, layout, merge_outputs, None)


class ModifierCell(HybridRecurrentCell):
    """A cell that wraps `base_cell` and shares its parameters and states."""

    def __init__(self, base_cell: Any) -> None:
        if base_cell._modified:
            raise AssertionError(f"Cell {base_cell.name} is already modified. One cell cannot be modified twice")
        base_cell._modified = True
        super().__init__(prefix=base_cell.prefix + self._alias(), params=None)
        self.base_cell = base_cell

    @property
    def params(self) -> Any:
        return self.base_cell.params

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        return self.base_cell.state_info(batch_size)

    def begin_state(self, func: Callable[..., Any] = symbol.zeros, **kwargs: Any) -> States:  # type: ignore[override]
        """The base cell's initial states, by default symbols."""
        self._check_unmodified()
        self.base_cell._modified = False
        try:
            return self.base_cell.begin_state(func=func, **kwargs)
        finally:
            self.base_cell._modified = True

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:  # type: ignore[override]
        raise NotImplementedError(f"{type(self).__name__} has no hybrid_forward")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_cell})"


class ZoneoutCell(ModifierCell):
    """In training, keeps elements of the last output and states, with probabilities `zoneout_outputs` and
    `zoneout_states`, instead of updating them (Krueger et al. 2016)."""

    def __init__(self, base_cell: Any, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0) -> None:
        if isinstance(base_cell, BidirectionalCell):
            raise AssertionError(
                "BidirectionalCell doesn't support zoneout since it doesn't support step. Please add ZoneoutCell to "
                "the cells underneath instead."
            )
        super().__init__(base_cell)
        self.zoneout_outputs, self.zoneout_states = zoneout_outputs, zoneout_states
        self._prev_output: Any = None

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}(p_out={self.zoneout_outputs}, p_state={self.zoneout_states}, {self.base_cell})"

    def _alias(self) -> str:
        return "zoneout"

    def reset(self) -> None:
        super().reset()
        self._prev_output = None

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:  # type: ignore[override]
        next_output, next_states = self.base_cell(inputs, states)
        before = self._prev_output
        if before is None:
            before = F.zeros_like(next_output)
        output = next_output
        if self.zoneout_outputs != 0.0:
            output = F.where(_mask(F, self.zoneout_outputs, next_output), next_output, before)
        if self.zoneout_states != 0.0:
            next_states = [
                F.where(_mask(F, self.zoneout_states, new), new, old)
                for new, old in zip(next_states, states, strict=True)
            ]
        self._prev_output = output
        return output, next_states


def _mask(F: Any, probability: float, like: Any) -> Any:
    """A mask with the shape of `like`. In training, an element is zero with this probability; all others are not."""
    return F.Dropout(F.ones_like(like), p=probability)


class ResidualCell(ModifierCell):
    """Adds the input to the output of the base cell."""

    def __init__(self, base_cell: Any) -> None:
        super().__init__(base_cell)

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:  # type: ignore[override]
        output, states = self.base_cell(inputs, states)
        return F.elemwise_add(output, inputs, name=f"t{self._counter}_fwd"), states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: States | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
        valid_length: Any = None,
    ) -> tuple[Any, States]:
        self.reset()
        self.base_cell._modified = False
        try:
            outputs, states = self.base_cell.unroll(
                length,
                inputs=inputs,
                begin_state=begin_state,
                layout=layout,
                merge_outputs=merge_outputs,
                valid_length=valid_length,
            )
        finally:
            self.base_cell._modified = True
        merge = isinstance(outputs, tensor_types) if merge_outputs is None else merge_outputs
        inputs, axis, F, _ = _format_sequence(length, inputs, layout, merge)
        if valid_length is not None:
            inputs = _mask_sequence_variable_length(F, inputs, length, valid_length, axis, merge)
        if merge:
            return F.elemwise_add(outputs, inputs), states
        return [F.elemwise_add(i, j) for i, j in zip(outputs, inputs, strict=True)], states
