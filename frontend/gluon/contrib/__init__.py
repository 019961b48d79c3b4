"""`mxforge.gluon.contrib`: layers that MXNet marks as experimental."""

from __future__ import annotations

from . import cnn, nn, rnn
