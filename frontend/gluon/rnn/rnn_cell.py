"""Recurrent cells under MXNet's module name."""

from __future__ import annotations

from ... import ndarray, symbol  # noqa: F401  (third-party cells import all these from here)
from ...base import numeric_types, string_types  # noqa: F401
from ..hybrid_block import HybridBlock  # noqa: F401
from ..nn.activations import LeakyReLU  # noqa: F401
from ..plain_block import Block  # noqa: F401
from ..utils import _indent  # noqa: F401
from .basic_cells import GRUCell, LSTMCell, RNNCell
from .modifier_cells import DropoutCell, ModifierCell, ResidualCell, ZoneoutCell
from .recurrent_cell import HybridRecurrentCell, RecurrentCell
from .sequences import (  # noqa: F401
    _format_sequence,
    _get_begin_state,
    _mask_sequence_variable_length,
    _reverse_sequences,
    tensor_types,
)
from .sequences import as_list as _as_list  # noqa: F401
from .stacked_cells import BidirectionalCell, HybridSequentialRNNCell, SequentialRNNCell

__all__ = [
    "BidirectionalCell",
    "DropoutCell",
    "GRUCell",
    "HybridRecurrentCell",
    "HybridSequentialRNNCell",
    "LSTMCell",
    "ModifierCell",
    "RNNCell",
    "RecurrentCell",
    "ResidualCell",
    "SequentialRNNCell",
    "ZoneoutCell",
]


def _cells_state_info(cells: list[RecurrentCell], batch_size: int) -> list[dict[str, object]]:
    """The concatenated state descriptions of several cells."""
    return [info for cell in cells for info in cell.state_info(batch_size)]


def _cells_begin_state(cells: list[RecurrentCell], **kwargs: object) -> list[object]:
    """The concatenated initial states of several cells."""
    return [state for cell in cells for state in cell.begin_state(**kwargs)]  # type: ignore[arg-type]
