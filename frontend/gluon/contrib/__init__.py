"""`mxforge.gluon.contrib`: layers that MXNet keeps apart as experimental."""

from __future__ import annotations

from . import cnn, nn, rnn
