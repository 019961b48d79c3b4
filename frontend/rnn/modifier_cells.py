"""Cells that modify another cell: zoneout and residual connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..symbol import Symbol
from .base_cell import Arrays, BaseRNNCell, RNNParams, Sym, _normalize_sequence, ops
from .stacked_cells import BidirectionalCell, FusedRNNCell, SequentialRNNCell


class ModifierCell(BaseRNNCell):
    """A cell that wraps `base_cell` and uses its weights and states. `base_cell` can no longer be called directly."""

    def __init__(self, base_cell: BaseRNNCell) -> None:
        super().__init__()
        base_cell._modified = True
        self.base_cell = base_cell

    @property
    def params(self) -> RNNParams:
        self._own_params = False
        return self.base_cell.params

    @property
    def state_info(self) -> list[dict[str, Any]]:
        return self.base_cell.state_info

    def begin_state(self, init_sym: Callable[..., Sym] = ops.zeros, **kwargs: Any) -> list[Sym]:  # type: ignore[override]
        """The initial states of the base cell."""
        self._check_unmodified()
        self.base_cell._modified = False
        begin = self.base_cell.begin_state(kwargs.pop("func", init_sym), **kwargs)
        self.base_cell._modified = True
        return begin

    def unpack_weights(self, args: Arrays) -> Arrays:
        """Unpack the weights of the base cell."""
        return self.base_cell.unpack_weights(args)

    def pack_weights(self, args: Arrays) -> Arrays:
        """Pack the weights of the base cell."""
        return self.base_cell.pack_weights(args)


class ZoneoutCell(ModifierCell):
    """Randomly keeps elements of the last output and states instead of updating them (Krueger et al. 2016)."""

    def __init__(self, base_cell: BaseRNNCell, zoneout_outputs: float = 0.0, zoneout_states: float = 0.0) -> None:
        unsteppable = isinstance(base_cell, FusedRNNCell | BidirectionalCell)
        if isinstance(base_cell, SequentialRNNCell):
            unsteppable = any(isinstance(cell, FusedRNNCell | BidirectionalCell) for cell in base_cell._cells)
        if unsteppable:
            raise AssertionError(
                f"{type(base_cell).__name__} doesn't support zoneout since it doesn't support step. Unfuse it, or add "
                "ZoneoutCell to the cells underneath instead."
            )
        super().__init__(base_cell)
        self.zoneout_outputs, self.zoneout_states = zoneout_outputs, zoneout_states
        self.prev_output: Sym | None = None

    def reset(self) -> None:
        super().reset()
        self.prev_output = None

    def __call__(self, inputs: Sym, states: list[Sym]) -> tuple[Sym, list[Any]]:
        output, next_states = self.base_cell(inputs, states)

        def zoneout(rate: float, new: Sym, old: Sym) -> Sym:
            return ops.where(ops.Dropout(ops.ones_like(new), p=rate), new, old)

        before = ops.zeros((0, 0)) if self.prev_output is None else self.prev_output
        if self.zoneout_outputs != 0.0:
            output = zoneout(self.zoneout_outputs, output, before)
        if self.zoneout_states != 0.0:
            next_states = [
                zoneout(self.zoneout_states, new, old) for new, old in zip(next_states, states, strict=False)
            ]
        self.prev_output = output
        return output, next_states


class ResidualCell(ModifierCell):
    """Adds the input to the output (Wu et al. 2016). Both must have the same shape."""

    def __call__(self, inputs: Sym, states: list[Sym]) -> tuple[Sym, list[Any]]:
        output, next_states = self.base_cell(inputs, states)
        return _plus(output, inputs), next_states

    def unroll(
        self,
        length: int,
        inputs: Any,
        begin_state: list[Sym] | None = None,
        layout: str = "NTC",
        merge_outputs: bool | None = None,
    ) -> tuple[Any, list[Any]]:
        """Unroll the base cell and add the inputs to its outputs."""
        self.reset()
        self.base_cell._modified = False
        outputs, states = self.base_cell.unroll(length, inputs, begin_state, layout, merge_outputs)
        self.base_cell._modified = True
        merge = isinstance(outputs, Symbol) if merge_outputs is None else merge_outputs
        inputs, _ = _normalize_sequence(length, inputs, layout, merge)
        if merge:
            return _plus(outputs, inputs), states
        return [_plus(x, y) for x, y in zip(outputs, inputs, strict=False)], states


def _plus(output: Sym, inputs: Sym) -> Sym:
    return ops.elemwise_add(output, inputs, name=f"{output.name}_plus_residual")
