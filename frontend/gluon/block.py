"""The blocks of Gluon under MXNet's module name: Block, HybridBlock, SymbolBlock."""

from __future__ import annotations

from .hybrid_block import HybridBlock
from .plain_block import Block
from .symbol_block import SymbolBlock

__all__ = ["Block", "HybridBlock", "SymbolBlock"]
