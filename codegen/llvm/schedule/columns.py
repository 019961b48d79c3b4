"""Reductions across rows: which of them keep the accumulators of a block of columns in memory.

Accumulators in registers hold few columns: each row is read in short pieces, far apart from each other. If rows are
long, blocks of columns whose accumulators stay in the L1 cache read them faster, several rows together.
"""

from __future__ import annotations

from ...nest import Nest, woven_axis
from .steps import plan_steps, scratch_rows

COLUMNS, LEAST_COLUMNS = 1024, 256
"""The most and the least elements of a block of columns."""
COLUMN_PARTS = 4
"""Blocks of columns into which rows are divided, if the blocks are between the most and the least."""
ROWS = 8
"""Rows that are read together."""
LONG_ROW = 512
"""The least elements of a row of which rows are read together."""
_MANY_ROWS = 16


def rows_together(nest: Nest, vector: str, width: int, rows: int) -> int:
    """The rows that a reduction of `rows` rows of `width` elements reads together; 1 if its accumulators are in
    registers, as where accesses have bounds or a row is stored."""
    if (
        width < LONG_ROW
        or rows < _MANY_ROWS
        or nest.guard
        or woven_axis(nest, vector)
        or scratch_rows(plan_steps(nest))
    ):
        return 1
    return 1 if any(a.bounds or a.gathers for a in nest.accesses.values()) else ROWS


def column_block(width: int, lanes: int) -> int:
    """The elements of a block of columns."""
    part = -(-width // (COLUMN_PARTS * lanes)) * lanes
    return max(LEAST_COLUMNS, min(COLUMNS, part))


def column_blocks(width: int, lanes: int) -> int:
    """The number of blocks of columns."""
    return -(-width // column_block(width, lanes))
