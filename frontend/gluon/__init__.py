"""`mxforge.gluon`: networks as Python objects, run eagerly or compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import loss, nn, utils
from .block import Block, HybridBlock, SymbolBlock
from .parameter import Constant, DeferredInitializationError, Parameter, tensor_types
from .parameter_dict import ParameterDict

if TYPE_CHECKING:
    from . import contrib, data, model_zoo, rnn, trainer
    from .trainer import Trainer
