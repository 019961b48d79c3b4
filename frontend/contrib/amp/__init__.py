"""`mxforge.contrib.amp`: automatic mixed precision, which is not implemented yet."""

from __future__ import annotations

from . import amp
from .amp import convert_hybrid_block, convert_model, convert_symbol, init, init_trainer, scale_loss, unscale
