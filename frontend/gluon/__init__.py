"""`mxforge.gluon`: networks as Python objects, run step by step or compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..absent import refuse_absent
from . import contrib, loss, model_zoo, nn, rnn, utils
from .block import Block, HybridBlock, SymbolBlock
from .parameter import Constant, DeferredInitializationError, Parameter, tensor_types
from .parameter_dict import ParameterDict

if TYPE_CHECKING:
    from .trainer import Trainer

_find = refuse_absent(__name__, "gluon", lazy=["data", "trainer"])


def __getattr__(name: str) -> Any:
    return _find("trainer").Trainer if name == "Trainer" else _find(name)
