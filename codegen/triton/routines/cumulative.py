"""Cumulative operations: one pass over each row. Few long rows are divided into parts, with their totals first."""

from __future__ import annotations

from math import prod

from ....ir.dialects.core import Cumulative
from ....ir.graph import Op
from ....ir.symbolic import is_symbolic
from ....ir.types import DType
from ..schedule import power_of_two
from ..types import register
from .launches import BOOLEAN, Constant, Launches

_TILE = 2048  # elements of a block of rows
_PROGRAMS = 256  # from which on rows are not divided
_MOST_PARTS = 256


def emit_cumulative(op: Op, launches: Launches) -> bool:
    """Add the launches of a Cumulative: True."""
    assert isinstance(op, Cumulative)
    x = launches.types[0]
    if not x.size:
        return True
    length, inner = x.shape[op.axis], prod(x.shape[op.axis + 1 :])
    rows = x.size // length
    block = 256 if is_symbolic(length) else min(_TILE, power_of_two(length))
    together = _TILE // block if is_symbolic(rows) else min(_TILE // block, power_of_two(rows))
    programs, blocks = -(-rows // together), -(-length // block)
    parts = 1
    if blocks > 1 and programs < _PROGRAMS:
        parts = min(blocks, _MOST_PARTS)
    steps = -(-blocks // parts)
    kind = op.op.value
    constants: dict[str, Constant] = {
        "OP": BOOLEAN.get(kind, kind) if x.dtype is DType.BOOL else kind,
        "REVERSE": int(op.reverse),
        "LAST": int(op.axis == x.rank - 1),
        "BLOCK": block,
        "ROWS": together,
    }
    sizes = {"rows": rows, "length": length, "inner": inner, "parts": parts, "steps": steps}
    totals = launches.reserve(rows * parts, register(x.dtype))
    pointers = {"x_ptr": launches.memory(0), "part_ptr": totals, "result_ptr": launches.memory(1)}
    for computes_totals in (True, False) if parts > 1 else (False,):
        known = {**constants, "TOTALS": int(computes_totals)}
        launches.add("cumulative", "cumulative", pointers, sizes, known, programs * parts)
    return True
