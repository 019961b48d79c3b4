"""Plans the loops of a nest: which axis is vectorized, and which axes are divided among threads."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ....ir.kernel import (
    AxisKind,
    AxisValue,
    Cast,
    Const,
    Load,
    Reduce,
    ScalarParameter,
    Stage,
    Store,
    walk,
)
from ....ir.lazy_dataclass import dataclass
from ....ir.symbolic import deferred, is_symbolic
from ....ir.types import DType
from ...nest import Bound, Nest, woven_axis
from ..cpu import Cpu
from .columns import COLUMN_PARTS, COLUMNS, LONG_ROW, column_blocks, rows_together
from .kinds import LoopChoice
from .steps import plan_steps, scratch_rows
from .vector_axis import vector_axis
from .work import is_light, is_long, operations, work_of

_UNIT_ELEMENTS = 2048  # minimum elements of the vector axis in one unit of parallel work
_GENERAL_BLOCK = 4096  # elements of a vector axis with a run-time extent in one unit
_TILED_OPERATIONS = 8  # of each element of a tile that is transposed in registers
_TRANSPOSED_BLOCK = 1024  # the same, if operands are transposed
_GENERAL_ROWS = 16  # vectors of such an axis in one unit, if other axes are reduced
_FEW_ACCESSES = 3
_PARTS = 8  # units for each thread, elsewhere
_INTERLEAVE = 8  # vectors that a reduction across rows reads together
STACK_ELEMENTS = 1 << 15  # elements of scratch rows on the stack; longer rows are computed again where they are read
_ACCUMULATORS = 4  # of one reduction: an addition takes as many cycles
_ACCUMULATED_OPERATIONS = 48  # operations of a body that is repeated for several accumulators
_GRAIN_ELEMENTS = 16384  # minimum elements in one chunk for a thread, if a vector of them takes few instructions


@dataclass(frozen=True, kw_only=True)
class LoopSchedule:
    """The loops of a nest.

    `lanes`: elements of a vector. `vector`: the vector axis ("" for none). `units`: axes flattened into the parallel
    range. `loops`: the other parallel axes, inside a unit. The vector axis is divided into `blocks` pieces of `block`
    elements, which threads share too (1: it is not divided).
    `unroll` independent accumulators hide the latency of reductions along the innermost reduced axis. `interleave`
    vectors of rows are reduced together. If `rows` is not 1, so many rows of a reduction are read together instead, and
    its accumulators are in memory (`columns.py`).
    `masked`: all vectors have a mask, so that the body is emitted once. `scratch`: rows are stored on the stack.
    `narrow`: the code has a fast path for a vector axis that fits one vector. `transposed`: the axis along which
    transposed operands are contiguous ("" for none); a unit has as many positions along it as a vector has lanes.
    `woven`: a short axis whose elements are neighbours in memory, with those of the vector axis behind them ("" for
    none). The body computes a vector for each of its `woven_extent` elements, and stores them interleaved.
    """

    lanes: int
    vector: str
    units: tuple[str, ...]
    loops: tuple[str, ...] = ()
    reductions: tuple[str, ...] = ()
    blocks: int = 1
    block: int = 1
    count: int
    grain: int
    unroll: int = 1
    interleave: int = 1
    rows: int = 1
    masked: bool = False
    scratch: bool = True
    narrow: bool = False
    transposed: str = ""
    woven: str = ""
    woven_extent: int = 1

    @property
    def is_split(self) -> bool:
        """True if a unit is a piece of the vector axis."""
        return is_symbolic(self.blocks) or self.blocks != 1


def schedule_nest(
    nest: Nest, dtypes: dict[str, DType], target: Cpu, by_rows: bool = False, choice: LoopChoice | None = None
) -> LoopSchedule:
    """The loops that follow from `choice`, or from that of the formulas; `dtypes` are the dtypes of the buffers.
    `by_rows`: a unit is one point of all parallel axes except the vector axis."""
    lanes = nest_lanes(nest, dtypes, target)
    if any(is_symbolic(a.extent) for a in nest.axes):
        return _schedule_symbolic(nest, lanes)
    c = choice or choose_loops(nest, dtypes, target, by_rows)
    vector = nest.axes[c.vector].name if c.vector >= 0 else ""
    parallel, reductions = _around(nest, vector)
    transposed = "" if by_rows else _tiled_axis(nest, vector)
    shared, grain = c.shared, c.grain
    if transposed:  # the innermost loop of a unit
        grain = max(1, grain // (nest.known_extent(transposed) if transposed in parallel[:shared] else 1))
        shared -= transposed in parallel[:shared]
        parallel = [*(a for a in parallel if a != transposed), transposed]
    units = parallel[:shared]
    width = nest.known_extent(vector) if vector and vector not in reductions else 1
    blocks = -(-width // c.block) if c.block else 1
    return LoopSchedule(
        lanes=lanes,
        vector=vector,
        units=tuple(units),
        loops=tuple(parallel[shared:]),
        reductions=tuple(reductions),
        blocks=blocks,
        block=c.block or max(1, width),
        count=_product(nest, units) * blocks,
        grain=grain,
        unroll=c.unroll,
        interleave=c.interleave,
        rows=rows_together(nest, vector, c.block or width, _product(nest, reductions)) if c.interleave > 1 else 1,
        transposed=transposed,
        **_weaving(nest, vector),
    )


def _weaving(nest: Nest, vector: str) -> dict[str, Any]:
    """The fields of a schedule for the woven axis."""
    woven = woven_axis(nest, vector)
    return {"woven": woven, "woven_extent": nest.known_extent(woven)} if woven else {}


def choose_loops(nest: Nest, dtypes: dict[str, DType], target: Cpu, by_rows: bool = False) -> LoopChoice:
    """The choice of the formulas, from strides and extents; the arguments are those of `schedule_nest`."""
    lanes, vector = nest_lanes(nest, dtypes, target), vector_axis(nest)
    parallel, reductions = _around(nest, vector)
    width = nest.known_extent(vector) if vector and vector not in reductions else 1
    shared = len(parallel) if by_rows else _count_units(nest, parallel, target.threads)
    outer = _product(nest, parallel[:shared])
    reduced = _product(nest, reductions) if vector not in reductions else 1
    interleaves = _interleaves_rows(nest, vector)
    each = min(width, width * outer // target.threads)
    together = interleaves and rows_together(nest, vector, each, reduced) > 1
    least = max(_UNIT_ELEMENTS // max(1, reduced), LONG_ROW if together else _INTERLEAVE * lanes)
    enough = _enough(target.threads, COLUMN_PARTS if together else _PARTS)
    block = _split_vector(width, outer, lanes, least if reduced > 1 else _UNIT_ELEMENTS, enough)
    elements = max(1, _product(nest, parallel[shared:]) * (block or width) * _product(nest, reductions))
    interleave = _INTERLEAVE if (block or width) >= _INTERLEAVE * lanes and interleaves else 1
    return LoopChoice(
        vector=[a.name for a in nest.axes].index(vector) if vector else -1,
        shared=shared,
        block=block,
        unroll=_accumulators(nest, vector, reductions, lanes, interleave),
        interleave=interleave,
        grain=_grain(elements * work_of(nest)),
    )


def _around(nest: Nest, vector: str) -> tuple[list[str], list[str]]:
    """The parallel axes without the vector axis and the woven axis, and the reduced axes, of which the vector axis is
    the last."""
    inner = vector, woven_axis(nest, vector)
    parallel = [a for a in nest.names(AxisKind.PARALLEL) if a not in inner]
    return parallel, sorted(nest.names(AxisKind.REDUCE), key=lambda a: a == vector)


def _accumulators(nest: Nest, vector: str, reductions: Sequence[str], lanes: int, interleave: int) -> int:
    """The number of accumulators of each reduction: along the vector axis, or where lanes are channels of a block."""
    if not vector or not reductions or interleave > 1:
        return 1
    inner = nest.known_extent(reductions[-1])
    if vector == reductions[-1]:
        return _ACCUMULATORS if inner >= 8 * lanes else 1
    in_blocks = any(a.in_blocks for a in nest.accesses.values())
    short = len(operations(nest)) <= _ACCUMULATED_OPERATIONS
    return min(_ACCUMULATORS, inner) if in_blocks and short else 1


def _schedule_symbolic(nest: Nest, lanes: int) -> LoopSchedule:
    """The loops of a nest with symbolic extents, on which the code does not depend. A unit is a row of the innermost
    parallel axis."""
    axis = vector_axis(nest)
    parallel, reductions = _around(nest, axis)
    vector = "" if axis in reductions else axis
    units, loops = parallel[:-1], parallel[-1:]
    width = nest.known_extent(vector) if vector else 1
    outer = _product(nest, units)
    blocks, block = (deferred(_vector_blocks, width), _GENERAL_BLOCK) if is_symbolic(width) else (1, width)
    elements = _product(nest, loops) * deferred(min, block, width) * _product(nest, reductions)
    axis = reductions[-1] if reductions else ""
    return LoopSchedule(
        lanes=lanes,
        vector=vector or axis,
        units=tuple(units),
        loops=tuple(loops),
        reductions=tuple(reductions),
        blocks=blocks,
        block=block,
        count=outer * blocks,
        grain=deferred(_grain, elements * work_of(nest)),
        unroll=_ACCUMULATORS if not vector and is_symbolic(nest.extent(axis)) else 1,
        **_weaving(nest, vector),
    )


def _vector_blocks(width: int) -> int:
    return max(1, -(-width // _GENERAL_BLOCK))


def _block_grain(width: int, block: int, work: int) -> int:
    """As `_grain`, for blocks of an axis of this width."""
    return _grain(min(width, block) * work)


def _grain(work: int) -> int:
    """The units in the smallest chunk for a thread. `work` is the elements of a unit times the work of each."""
    return max(1, _GRAIN_ELEMENTS // max(1, work))


def _interleaves_rows(nest: Nest, vector: str) -> bool:
    """True if the nest reduces across rows and computes so little that memory bandwidth limits it. What is the same
    along the vector axis, such as the mean of a row, counts as no access."""
    if nest.guard or not nest.names(AxisKind.REDUCE) or any(a.bounds or a.gathers for a in nest.accesses.values()):
        return False
    moving = [a for a in nest.accesses.values() if a.stride(vector)]
    return len(moving) <= _FEW_ACCESSES and is_light(nest) and not scratch_rows(plan_steps(nest))


def schedule_general(
    nest: Nest, dtypes: dict[str, DType], target: Cpu, extents: dict[str, int], compact: bool = False
) -> LoopSchedule:
    """The loops of a nest with run-time extents, whose values are `extents`. The number of units depends on them, and
    `scratch`, but no other part of the code. `compact` requests short code, in which each body occurs once."""
    lanes, vector = nest_lanes(nest, dtypes, target), vector_axis(nest)
    reductions = nest.names(AxisKind.REDUCE)
    units = tuple(_around(nest, vector)[0])
    numbers = {a.name: a.extent if isinstance(a.extent, int) else extents[a.extent] for a in nest.axes}
    reduced, rows = prod(numbers[a] for a in reductions), prod(numbers[a] for a in units)
    masked, light = compact or is_long(nest), not compact and is_light(nest)
    scratch, work = len(scratch_rows(plan_steps(nest))), work_of(nest)
    if vector in reductions:
        order = (*(a for a in reductions if a != vector), vector)
        fits = reduced * scratch <= STACK_ELEMENTS
        grain = deferred(_grain, reduced * work)
        return LoopSchedule(
            lanes=lanes,
            vector=vector,
            units=units,
            reductions=order,
            count=rows,
            grain=grain,
            unroll=1 if masked else _ACCUMULATORS,
            masked=masked,
            scratch=fits,
            narrow=light,
        )
    transposed = transposed_axis(nest, vector) if light else ""
    if transposed:
        tiles = rows // max(1, numbers[transposed]) * -(-numbers[transposed] // lanes)
        count = tiles * -(-numbers[vector] // _TRANSPOSED_BLOCK)
        grain = deferred(_block_grain, numbers[vector], _TRANSPOSED_BLOCK, lanes)
        return LoopSchedule(
            lanes=lanes,
            vector=vector,
            units=units,
            blocks=0,
            block=_TRANSPOSED_BLOCK,
            count=count,
            grain=grain,
            transposed=transposed,
        )
    interleaves = light and _interleaves_rows(nest, vector)
    together = rows_together(nest, vector, numbers[vector], reduced) if interleaves else 1
    block = COLUMNS if together > 1 else _GENERAL_ROWS * lanes if reductions else _GENERAL_BLOCK
    blocks = deferred(column_blocks, numbers[vector], lanes) if together > 1 else -(-numbers[vector] // block)
    count = rows * blocks
    grain = deferred(_block_grain, numbers[vector], block, reduced * work)
    return LoopSchedule(
        lanes=lanes,
        vector=vector,
        units=units,
        reductions=tuple(reductions),
        blocks=0,
        block=block,
        count=count,
        grain=grain,
        interleave=_INTERLEAVE if interleaves else 1,
        rows=together,
        masked=masked,
        scratch=reduced * lanes * scratch <= STACK_ELEMENTS,
        narrow=light,
        **_weaving(nest, vector),
    )


def _tiled_axis(nest: Nest, vector: str) -> str:
    """The transposed axis of a nest of known extents whose body is repeated for each row of a tile: it is short."""
    if not vector or nest.guard is not None or woven_axis(nest, vector):
        return ""
    return transposed_axis(nest, vector) if is_light(nest) and len(operations(nest)) <= _TILED_OPERATIONS else ""


def transposed_axis(nest: Nest, vector: str) -> str:
    """The axis along which the operands with a stride along the vector axis are contiguous; "" if there is none, or if
    results are not contiguous along the vector axis."""
    if nest.reduced or any(a.gathers or a.bounds for a in nest.accesses.values()):
        return ""
    stored = {(s.buffer, s.index) for s in nest.stages if isinstance(s, Store)}
    if any(nest.accesses[key].stride(vector) != 1 for key in stored):
        return ""
    strided = [a for key, a in nest.accesses.items() if key not in stored and a.stride(vector) not in (0, 1)]
    axes = {axis for a in strided for axis, stride in a.strides if stride == 1}
    contiguous = all(any(stride == 1 for _, stride in a.strides) for a in strided)
    return axes.pop() if len(axes) == 1 and contiguous and len(strided) <= 2 else ""


def nest_lanes(nest: Nest, dtypes: dict[str, DType], target: Cpu) -> int:
    """The elements of a vector."""
    wide = any(dtypes[b].bits == 64 for b, _ in nest.accesses) or _computes_wide(nest)
    return target.lanes(64 if wide else 32)


def _product(nest: Nest, axes: Sequence[str]) -> int:
    return prod(nest.known_extent(a) for a in axes)


def _computes_wide(nest: Nest) -> bool:
    """True if expressions contain 64-bit numbers that are not loaded (for instance indices)."""
    wide = (DType.F64, DType.I64, DType.U64)
    for stage in nest.stages:
        for e in walk(stage.value):
            if isinstance(e, AxisValue) or (isinstance(e, Const | ScalarParameter | Cast) and e.dtype in wide):
                return True
    return False


def _count_units(nest: Nest, parallel: list[str], threads: int) -> int:
    """The number of outer axes that give every thread several units."""
    enough, count = _enough(threads, _PARTS), 1
    for i, name in enumerate(parallel):
        if count >= enough:
            return i
        count *= nest.known_extent(name)
    return len(parallel)


def _enough(threads: int, parts: int) -> int:
    """The number of units that gives every thread so many parts."""
    return 1 if threads == 1 else parts * threads


def _split_vector(width: int, units: int, lanes: int, least: int, enough: int) -> int:
    """Elements of the pieces of the vector axis, at least `least`, if it is divided because the outer axes have fewer
    units than `enough`, else 0."""
    pieces = min(width // least, -(-enough // max(1, units)))
    return 0 if pieces <= 1 else -(-width // pieces // lanes) * lanes


def clippable_bounds(nest: Nest, schedule: LoopSchedule, stages: list[Stage]) -> list[Bound]:
    """Bounds that can be satisfied by clipping a reduced axis: those of the only padded load of a loop, if its padding
    is the neutral element.
    """
    if schedule.vector in schedule.reductions or len(stages) != 1 or not isinstance(stages[0].value, Reduce):
        return []
    reduce = stages[0].value
    load = reduce.operand
    if not isinstance(load, Load) or not isinstance(load.other, Const):
        return []
    if load.other.value != reduce.op.neutral(load.other.dtype):
        return []
    bounds = nest.accesses[load.buffer, load.index].bounds
    reduced = set(schedule.reductions)
    return [b for b in bounds if _clips(b, reduced, schedule.vector)]


def _clips(bound: Bound, reduced: set[str], vector: str) -> bool:
    inner = [(a, c) for a, c in bound.terms if a in reduced]
    return len(inner) == 1 and inner[0][1] > 0 and all(a != vector for a, _ in bound.terms)
