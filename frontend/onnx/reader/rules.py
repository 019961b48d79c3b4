"""All rules: importing this module fills the table."""

from __future__ import annotations

from . import (
    control,
    elementwise,
    indexing,
    normalization,
    products,
    quantization,
    recurrent,
    reductions,
    resizing,
    sampling,
    sequences,
    shapes,
    signals,
    windows,
)
from .node import RULES, Rule

__all__ = ["NOT_FOLDED", "REFUSED", "RULES"]

_MODULES = control, elementwise, indexing, normalization, products, quantization, recurrent, reductions
_MODULES_OF_IMAGES = resizing, sampling, sequences, shapes, signals, windows

NOT_FOLDED: frozenset[Rule] = frozenset((*control.RULES_WITH_GRAPHS, shapes.shape_of, shapes.constant))
"""Rules that are applied even if all operands are known: they keep what they compute as known, or have graphs."""

REFUSED: frozenset[Rule] = frozenset((elementwise.bit_cast, windows.refused))
"""Rules of operators that are never supported."""
