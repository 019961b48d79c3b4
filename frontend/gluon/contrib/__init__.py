"""`mxforge.gluon.contrib`: layers that MXNet keeps apart as experimental."""

from __future__ import annotations

from ...absent import refuse_absent
from . import cnn, nn, rnn

__getattr__ = refuse_absent(__name__, "gluon.contrib")
