"""Scatters: a copy of the tensor unless it changes in place, a sort of the updates, then the updates in order.

No two programs write one element, so results do not depend on the order in which programs run.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ....ir.dialects.core import Scatter
from ....ir.graph import Op
from ....ir.symbolic import is_symbolic
from ....ir.types import DType, TensorType
from ..schedule import power_of_two
from ..types import register
from .launches import BOOLEAN, Constant, Launches, Memory
from .sort import add_sorted

_COPY = 1024
_COUNTED = 8192
"""Groups that are sorted by counting, in one launch; each is compared with all others."""
_MOST_GROUPS = (1 << 31) - 1
_MOST_AXES = 8  # of coordinates in a kernel
_MOST_GROUPS_OF_AXES = 4  # of the elements in a slice
_PIECE = 64
"""Updates of one position that are combined in one sequence. The results of pieces are combined in another one."""


def emit_scatter(op: Op, launches: Launches) -> bool:
    """Add the launches of a Scatter; False if the kernels do not support its axes."""
    assert isinstance(op, Scatter)
    x, indices, updates, _ = launches.types
    axes = _slice_axes(x, op)
    groups = prod(indices.shape[:-1])
    if len(op.axes) > _MOST_AXES or len(axes) > _MOST_GROUPS_OF_AXES or groups > _MOST_GROUPS:
        return False
    if not x.size:
        return True
    if not launches.in_place:
        pointers = {"source_ptr": launches.memory(0), "result_ptr": launches.memory(3)}
        launches.add("scatter", "copied", pointers, {"count": x.size}, {"BLOCK": _COPY}, -(-x.size // _COPY))
    if updates.size:
        _Updates(op, launches, groups, updates.size // groups, axes).add()
    return True


def _slice_axes(x: TensorType, op: Scatter) -> list[tuple[int, int]]:
    """(extent, stride) of the axes of a slice; neighbours in memory are one."""
    merged: list[tuple[int, int]] = []
    last = -1
    for k in range(op.batch, x.rank):
        if k in op.axes:
            continue
        extent, stride = x.shape[k], prod(x.shape[k + 1 :])
        if last == k - 1 and merged:
            extent *= merged.pop()[0]
        merged.append((extent, stride))
        last = k
    return merged


class _Updates:
    def __init__(
        self, op: Scatter, launches: Launches, groups: int, size: int, axes: Sequence[tuple[int, int]]
    ) -> None:
        self.op, self.launches, self.groups, self.size = op, launches, groups, size
        self.x = launches.types[0]
        self.start = launches.reserve(groups, DType.I64 if launches.wide else DType.I32)
        self.order = self.start
        padded = [(1, 0)] * (_MOST_GROUPS_OF_AXES - len(axes)) + list(axes)
        self.slices = {f"R{i}": extent for i, (extent, _) in enumerate(padded) if i}
        self.slices |= {f"T{i}": stride for i, (_, stride) in enumerate(padded)}

    def add(self) -> None:
        self._sort()
        if self.op.op == "set":
            self._store_last()
        else:
            self._combine()

    def _sort(self) -> None:
        shape, batch = self.x.shape, self.op.batch
        points = self.groups // max(1, prod(shape[:batch]))
        sizes = {"groups": self.groups, "points": points, "batch_stride": prod(shape[batch:]), "total": self.x.size}
        axes = [(shape[k], prod(shape[k + 1 :])) for k in self.op.axes]
        padded = axes + [(1, 0)] * (_MOST_AXES - len(axes))
        sizes |= {f"E{i}": extent for i, (extent, _) in enumerate(padded)}
        sizes |= {f"S{i}": stride for i, (_, stride) in enumerate(padded)}
        pointers = {"indices_ptr": self.launches.memory(1), "start_ptr": self.start}
        constants = {"AXES": len(self.op.axes), "BLOCK": 128}
        if self.groups > _COUNTED:
            self.launches.add("scatter", "starts", pointers, sizes, constants, -(-self.groups // 128))
            rows = add_sorted(self.launches, self.start, self.groups, self.groups)
            self.start, self.order = rows.keys, rows.order
            return
        self.order = pointers["order_ptr"] = self.launches.reserve(self.groups, DType.I32)
        constants["ROWS"] = 32
        self.launches.add("scatter", "ranked", pointers, sizes, constants, -(-self.groups // 32))

    def _store_last(self) -> None:
        rows, block, columns = self._tile()
        pointers = {"start_ptr": self.start, "order_ptr": self.order}
        pointers |= {"updates_ptr": self.launches.memory(2), "result_ptr": self.launches.memory(3)}
        sizes = {"groups": self.groups, "columns": columns, **self._slice_sizes()}
        programs = -(-self.groups // rows) * columns
        self.launches.add("scatter", "last_updates", pointers, sizes, {"ROWS": rows, "BLOCK": block}, programs)

    def _combine(self) -> None:
        dtype = self.x.dtype
        rows, block, columns = self._tile()
        pieces = -(-self.groups // _PIECE)
        part = self.launches.reserve(self.groups * self.size, register(dtype))
        operation = BOOLEAN.get(self.op.op, self.op.op) if dtype is DType.BOOL else self.op.op
        constants: dict[str, Constant] = {"OP": operation, "ROWS": rows, "BLOCK": block}
        sizes = {"groups": self.groups, "columns": columns, "piece": _PIECE, "steps": _PIECE.bit_length()}
        sizes |= self._slice_sizes()
        sorted_groups = {"start_ptr": self.start, "order_ptr": self.order}
        memory = {"x_ptr": 0, "updates_ptr": 2, "result_ptr": 3}
        pointers = {**sorted_groups, **{name: self.launches.memory(i) for name, i in memory.items()}, "part_ptr": part}
        programs = -(-self.groups // rows) * columns
        self.launches.add("scatter", "combined_pieces", pointers, sizes, constants, programs)
        if pieces > 1:
            self._join(pieces, part, sizes, constants)

    def _join(self, pieces: int, part: Memory, sizes: dict[str, int], constants: dict[str, Constant]) -> None:
        rows, _, columns = self._tile()
        pointers = {"start_ptr": self.start, "part_ptr": part, "result_ptr": self.launches.memory(3)}
        sizes = {**sizes, "pieces": pieces, "piece_steps": self._steps(pieces)}
        self.launches.add("scatter", "joined_pieces", pointers, sizes, constants, -(-pieces // rows) * columns)

    def _steps(self, count: int) -> int:
        """The steps of a binary search among `count` numbers; at least as many, if extents can change."""
        return 32 if is_symbolic(count) else count.bit_length()

    def _tile(self) -> tuple[int, int, int]:
        """Groups and elements of their slices in a program, and programs for a slice."""
        block = 128 if is_symbolic(self.size) else min(512, power_of_two(self.size))
        return max(1, 128 // block), block, -(-self.size // block)

    def _slice_sizes(self) -> dict[str, int]:
        return {"total": self.x.size, "size": self.size, **self.slices}
