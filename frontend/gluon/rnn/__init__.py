"""`mxforge.gluon.rnn`: recurrent layers."""

from __future__ import annotations

from ...absent import refuse_absent
from .rnn_layer import GRU, LSTM, RNN

__getattr__ = refuse_absent(__name__, "gluon.rnn")
