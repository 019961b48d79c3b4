"""Sorts along an axis: keys with the order of the elements, a stable sort of their numbers, a gather of operands."""

from __future__ import annotations

from math import prod

from ....ir.dialects.core import ArgSort, Sort
from ....ir.graph import Op
from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import is_symbolic
from ....ir.types import DType, TensorType
from ..schedule import power_of_two
from .launches import Constant, Launches, Memory

_COUNTED = 512
"""Elements of rows that are sorted by counting: each is compared with all others."""
_WIDTH = 256
"""Elements of the runs, sorted by counting, of which longer rows are merged."""
_SHORT = 64  # elements of rows of which a program sorts several
_TILE = 4096  # comparisons at the same time in one row
_SHORT_TILE = 1024  # in several rows
_BLOCK = 512


@dataclass(frozen=True, slots=True)
class SortedRows:
    """The keys of each row in order, and the numbers of their elements (I32)."""

    keys: Memory
    order: Memory


def emit_sort(op: Op, launches: Launches) -> bool:
    """Add the launches of a Sort: True."""
    assert isinstance(op, Sort)
    x = launches.types[0]
    if not x.size:
        return True
    order = _add_order(op, launches)
    last, programs = int(op.axis == x.rank - 1), -(-x.size // _BLOCK)
    sizes = _sizes(op, x)
    count = len(launches.types) // 2
    for i in range(count):
        pointers = {"x_ptr": launches.memory(i), "order_ptr": order, "result_ptr": launches.memory(count + i)}
        launches.add("sort", "reordered", pointers, sizes, {"LAST": last, "BLOCK": _BLOCK}, programs)
    return True


def emit_argsort(op: Op, launches: Launches) -> bool:
    """Add the launches of an ArgSort: True."""
    assert isinstance(op, ArgSort)
    x, result = launches.types
    if not result.size:
        return True
    pointers = {"order_ptr": _add_order(op, launches), "result_ptr": launches.memory(1)}
    sizes = {**_sizes(op, x), "count": result.size, "first": result.shape[op.axis]}
    launches.add("sort", "positions", pointers, sizes, {"BLOCK": _BLOCK}, -(-result.size // _BLOCK))
    return True


def _sizes(op: Sort | ArgSort, x: TensorType) -> dict[str, int]:
    return {"count": x.size, "length": x.shape[op.axis], "inner": prod(x.shape[op.axis + 1 :])}


def _add_order(op: Sort | ArgSort, launches: Launches) -> Memory:
    """Add the launches that sort the rows of the first operand: the numbers of its elements in order, row by row."""
    x = launches.types[0]
    length, last = x.shape[op.axis], int(op.axis == x.rank - 1)
    sizes = _sizes(op, x)
    dtype = DType.I64 if x.dtype.bits == 64 else DType.I32
    keys = launches.reserve(x.size, dtype)
    flips = x.dtype.is_unsigned and x.dtype.bits == dtype.bits
    constants: dict[str, Constant] = {"DESCENDING": int(op.descending), "FLIPS": int(flips)}
    programs = -(-x.size // _BLOCK)
    pointers = {"x_ptr": launches.memory(0), "key_ptr": keys}
    launches.add("sort", "keys", pointers, sizes, {**constants, "LAST": last, "BLOCK": _BLOCK}, programs)
    return add_sorted(launches, keys, x.size, length).order


def add_sorted(launches: Launches, keys: Memory, count: int, length: int) -> SortedRows:
    """Add launches that sort rows of `length` of the `count` keys, which can be overwritten."""
    rows = [SortedRows(launches.reserve(count, keys.dtype), launches.reserve(count, DType.I32))]
    _add_blocks(launches, keys, rows[0], count, length)
    width = _width(length)
    if width < length:
        rows.append(SortedRows(keys, launches.reserve(count, DType.I32)))
    while width < length:
        source, target = rows
        pointers = {"key_ptr": source.keys, "order_ptr": source.order}
        pointers |= {"sorted_ptr": target.keys, "new_order_ptr": target.order}
        sizes, varying = {"count": count, "length": length}, {"width": width, "steps": width.bit_length()}
        launches.add("sort", "merged_runs", pointers, sizes, {"BLOCK": _BLOCK}, -(-count // _BLOCK), varying)
        rows.reverse()
        width *= 2
    return rows[0]


def _width(length: int) -> int:
    """Elements that are sorted by counting."""
    return length if length <= _COUNTED else _WIDTH


def _add_blocks(launches: Launches, keys: Memory, target: SortedRows, count: int, length: int) -> None:
    is_short = length <= _SHORT
    block = (_SHORT if is_symbolic(length) else power_of_two(length)) if is_short else 128
    own = (_SHORT_TILE if is_short else _TILE) // block
    own_blocks = 1 if is_short else -(-length // own)
    programs = -(-count // own) if is_short else count // length * own_blocks
    pointers = {"key_ptr": keys, "sorted_ptr": target.keys, "order_ptr": target.order}
    sizes = {"count": count, "length": length, "width": _width(length), "own_blocks": own_blocks}
    constants: dict[str, Constant] = {"SHORT": int(is_short), "ROWS": own, "BLOCK": block}
    launches.add("sort", "ranked_blocks", pointers, sizes, constants, programs)
