"""`mxforge.gluon.rnn`: recurrent layers."""

from __future__ import annotations

from .rnn_layer import GRU, LSTM, RNN
