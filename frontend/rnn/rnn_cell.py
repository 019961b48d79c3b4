"""`mxforge.rnn.rnn_cell`: all symbolic cells."""

from __future__ import annotations

from .base_cell import BaseRNNCell, RNNParams
from .cells import GRUCell, LSTMCell, RNNCell
from .conv_cells import BaseConvRNNCell, ConvGRUCell, ConvLSTMCell, ConvRNNCell
from .modifier_cells import ModifierCell, ResidualCell, ZoneoutCell
from .stacked_cells import BidirectionalCell, DropoutCell, FusedRNNCell, SequentialRNNCell

__all__ = [
    "BaseConvRNNCell",
    "BaseRNNCell",
    "BidirectionalCell",
    "ConvGRUCell",
    "ConvLSTMCell",
    "ConvRNNCell",
    "DropoutCell",
    "FusedRNNCell",
    "GRUCell",
    "LSTMCell",
    "ModifierCell",
    "RNNCell",
    "RNNParams",
    "ResidualCell",
    "SequentialRNNCell",
    "ZoneoutCell",
]
