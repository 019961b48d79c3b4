"""`mxforge.contrib`: modules that are not part of MXNet's stable interface."""

from __future__ import annotations

from . import amp, autograd, io, ndarray, onnx, symbol, tensorboard, text
from . import ndarray as nd
from . import symbol as sym
