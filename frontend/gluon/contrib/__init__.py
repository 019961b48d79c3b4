"""`mxforge.gluon.contrib`: layers that MXNet marks as experimental, and the estimator."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import cnn, data, estimator, nn, rnn
