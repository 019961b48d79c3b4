"""`mxforge.gluon.contrib`: layers that MXNet marks as experimental, and the estimator."""

from __future__ import annotations

from . import cnn, data, estimator, nn, rnn
