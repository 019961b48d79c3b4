"""Counts what this process has compiled to machine code."""

from __future__ import annotations

from ..ir.lazy_dataclass import dataclass


@dataclass
class Statistics:
    """Modules that were compiled; machine code from a cache is not counted."""

    modules: int = 0


statistics = Statistics()
