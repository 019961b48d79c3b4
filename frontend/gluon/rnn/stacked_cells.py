"""Cells that combine other cells: stacked, or one for each direction."""

from __future__ import annotations

from typing import Any

from ..utils import _indent
from .recurrent_cell import HybridRecurrentCell, RecurrentCell, States
from .sequences import (
    _format_sequence,
    _get_begin_state,
    _mask_sequence_variable_length,
    _reverse_sequences,
    tensor_types,
)


class _Cells(RecurrentCell):
    """A cell whose states are the concatenated states of its children."""

    @property
    def _cells(self) -> list[Any]:
        return list(self._children.values())

    def state_info(self, batch_size: int = 0) -> list[dict[str, Any]]:
        return [info for cell in self._cells for info in cell.state_info(batch_size)]

    def begin_state(self, **kwargs: Any) -> States:  # type: ignore[override]
        """The initial states of all children."""
        self._check_unmodified()
        return [state for cell in self._cells for state in cell.begin_state(**kwargs)]

    def _split_states(self, states: States) -> list[tuple[Any, States]]:
        """Each child with its part of `states`."""
        parts: list[tuple[Any, States]] = []
        start = 0
        for cell in self._cells:
            end = start + len(cell.state_info())
            parts.append((cell, states[start:end]))
            start = end
        return parts


class _Stack(_Cells):
    """The base class of SequentialRNNCell and HybridSequentialRNNCell."""

    def __repr__(self) -> str:
        lines = [f"({key}): {_indent(repr(cell), 2)}" for key, cell in self._children.items()]
        return f"{type(self).__name__}(\n" + "\n".join(lines) + "\n)"

    def add(self, cell: RecurrentCell) -> None:
        """Append a cell."""
        self.register_child(cell)

    def __call__(self, inputs: Any, states: States) -> tuple[Any, States]:  # type: ignore[override]
        if any(isinstance(cell, BidirectionalCell) for cell in self._cells):
            raise AssertionError("a BidirectionalCell cannot be stepped: use unroll")
        self._counter += 1
        next_states: States = []
        for cell, part in self._split_states(states):
            inputs, new = cell(inputs, part)
            next_states.extend(new)
        return inputs, next_states

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
        inputs, _, F, batch_size = _format_sequence(length, inputs, layout, None)
        parts = self._split_states(_get_begin_state(self, F, begin_state, inputs, batch_size))
        next_states: States = []
        for i, (cell, part) in enumerate(parts):
            merge = None if i < len(parts) - 1 else merge_outputs
            inputs, new = cell.unroll(
                length,
                inputs=inputs,
                begin_state=part,
                layout=layout,
                merge_outputs=merge,
                valid_length=valid_length,
            )
            next_states.extend(new)
        return inputs, next_states

    def __getitem__(self, i: int) -> Any:
        return self._children[str(i)]

    def __len__(self) -> int:
        return len(self._children)


class SequentialRNNCell(_Stack):
    """A stack of cells. Each cell reads the output of the previous one."""

    def __init__(self, prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def hybrid_forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("a SequentialRNNCell is not a hybrid cell: use HybridSequentialRNNCell")


class HybridSequentialRNNCell(_Stack, HybridRecurrentCell):  # type: ignore[override]
    """A stack of hybrid cells. Each cell reads the output of the previous one."""

    def __init__(self, prefix: str | None = None, params: Any = None) -> None:
        super().__init__(prefix=prefix, params=params)

    def hybrid_forward(self, F: Any, inputs: Any, states: Any) -> Any:  # type: ignore[override]
        return self.__call__(inputs, states)


class BidirectionalCell(_Cells, HybridRecurrentCell):  # type: ignore[override]
    """Runs one cell forwards and one backwards over a sequence, and concatenates their outputs. Supports only `unroll`,
    not single steps."""

    def __init__(self, l_cell: RecurrentCell, r_cell: RecurrentCell, output_prefix: str = "bi_") -> None:
        super().__init__(prefix="", params=None)
        self.register_child(l_cell, "l_cell")
        self.register_child(r_cell, "r_cell")
        self._output_prefix = output_prefix

    def __call__(self, inputs: Any, states: Any) -> Any:  # type: ignore[override]
        raise NotImplementedError("Bidirectional cannot be stepped. Please use unroll")

    def __repr__(self) -> str:
        forward, backward = self._cells
        return f"{type(self).__name__}(forward={forward}, backward={backward})"

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
        inputs, axis, F, batch_size = _format_sequence(length, inputs, layout, False)
        reversed_inputs = _reverse_sequences(inputs, length, valid_length)
        states = _get_begin_state(self, F, begin_state, inputs, batch_size)
        (l_cell, l_begin), (r_cell, r_begin) = self._split_states(states)
        options = {"layout": layout, "valid_length": valid_length}
        left, l_states = l_cell.unroll(
            length, inputs=inputs, begin_state=l_begin, merge_outputs=merge_outputs, **options
        )
        right, r_states = r_cell.unroll(
            length, inputs=reversed_inputs, begin_state=r_begin, merge_outputs=False, **options
        )
        right = _reverse_sequences(right, length, valid_length)
        if merge_outputs is None:
            merge_outputs = isinstance(left, tensor_types)
            left = _format_sequence(None, left, layout, merge_outputs)[0]
            right = _format_sequence(None, right, layout, merge_outputs)[0]
        outputs = self._concatenate(F, left, right, axis, merge_outputs)
        if valid_length is not None:
            outputs = _mask_sequence_variable_length(F, outputs, length, valid_length, axis, merge_outputs)
        return outputs, l_states + r_states

    def _concatenate(self, F: Any, left: Any, right: Any, axis: int, merge: bool) -> Any:
        """Concatenate the outputs of both directions along the channels."""
        if merge:
            right = right if isinstance(right, tensor_types) else F.stack(*right, axis=axis)
            return F.concat(left, right, dim=2, name=f"{self._output_prefix}out")
        return [
            F.concat(one, other, dim=1, name=f"{self._output_prefix}t{i}")
            for i, (one, other) in enumerate(zip(left, right, strict=True))
        ]
