"""`mxforge.gluon`: networks as Python objects, run step by step or compiled."""

from __future__ import annotations

from ..absent import refuse_absent
from . import contrib, loss, model_zoo, nn, rnn, utils
from .block import Block, HybridBlock, SymbolBlock
from .parameter import Constant, DeferredInitializationError, Parameter, tensor_types
from .parameter_dict import ParameterDict

__getattr__ = refuse_absent(__name__, "gluon", lazy=["data"])
