"""Emits a chain of kernels, such as those of attention, as one function that computes it in blocks of rows.

`codegen/chains.py` finds chains. The rows of a block of every value between two kernels are in memory of the worker,
small enough for its L2 cache. The kernels are emitted as for any program. They compute addresses from the number of a
row, so each gets the address that the first row of the whole value would have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from ...ir.lazy_dataclass import dataclass
from ...ir.program import CHAIN
from ...ir.types import DType
from ..chains import ChainedKernel, outer_buffers
from ..emission import Emission, LaunchSpec, Packing
from ..lower_contract import epilogue_in_float32
from .arithmetic import Value
from .contract.emit import emit_contraction, schedule_contraction
from .contract.gemm import gemm_problem, is_widened
from .contract.points import blocks_of
from .contract.problem import Problem
from .contract.tiles import KERNEL_PARAMETERS, argument, panel_kinds
from .cpu import Cpu
from .emitter import FunctionBuilder, ModuleBuilder
from .loops.by_rows import emit_by_rows
from .schedule.describe import ContractionError, GemmShape, describe_contraction
from .schedule.kinds import TileSchedule
from .schedule.product import operand
from .schedule.segments import UNROLL
from .types import I8, I64, PTR

_ALIGN = 64
_UNITS_OF_THREAD = 4
"""Blocks of a thread: the threads finish at about the same time."""

_TILES, _FEWEST_TILES = 8, 2
"""The fewest tiles of a block, and of one that is small so that all threads get blocks: right operands are read once
for each block, and with less rows they arrive too slowly."""

_READ_COST = 4
"""A byte of a value between kernels costs as much as reading so many bytes of a right operand once more."""


@dataclass(frozen=True, slots=True)
class _Product:
    """A product at one end of a chain."""

    shape: GemmShape
    problem: Problem
    schedule: TileSchedule

    @property
    def groups(self) -> int:
        return prod(self.problem.groups)

    @property
    def tile(self) -> int:
        """The rows of its lowest tile."""
        return min(t.rows for t in (self.schedule.main, self.schedule.last) if t)

    @property
    def weights(self) -> int:
        """The bytes of the right operand of one group."""
        return self.problem.channels * self.problem.depth * self.shape.accumulator.itemsize


@dataclass(frozen=True, slots=True)
class _Blocks:
    """`groups` times `rows` rows, in `count` blocks of `size` rows of each group. A unit of work is `merged` blocks: if
    it is more than one, a block is a group."""

    groups: int
    rows: int
    size: int
    count: int
    merged: int

    @property
    def total(self) -> int:
        return self.groups * self.count

    @property
    def units(self) -> int:
        return -(-self.total // self.merged)


def emit_chain(chain: Sequence[ChainedKernel], target: Cpu, module: ModuleBuilder, symbol: str) -> Emission | None:
    """Add the function `symbol` and the kernels that it calls to the module. None if a kernel does not compute rows in
    order from the same rows, or blocks would cost more than they save."""
    first, last = (_product(link, target) for link in (chain[0], chain[-1]))
    if first is None or last is None or not _passes_rows(first, last, chain):
        return None
    blocks = _blocks(first, last, [_row(link) for link in chain[:-1]], target)
    if blocks is None:
        return None
    before = module.mark()
    emissions: list[Emission] = []
    for k, link in enumerate(chain):
        product = {0: first, len(chain) - 1: last}.get(k)
        name = f"{symbol}.{k}"
        if product is not None:
            schedule = _in_blocks(product, blocks, min(first.tile, last.tile), target)
            emission = emit_contraction(product.shape.kernel, schedule, target, module, name)
        else:
            emission = emit_by_rows(link.kernel, _between(link), blocks.groups * blocks.rows, target, module, name)
        if emission is None or len(emission.launches) != 1:
            module.undo(before)
            return None
        emissions.append(emission)
    return _Chain(chain, emissions, blocks, target).emit(module, symbol)


# -- which chains


def _product(link: ChainedKernel, target: Cpu) -> _Product | None:
    """The product of a kernel; None for any other contraction, and if it needs more than one launch."""
    try:
        shape = describe_contraction(epilogue_in_float32(link.kernel))
        if not isinstance(shape, GemmShape) or is_widened(shape) or len(shape.parts) > 1:
            return None
        schedule, problem = schedule_contraction(shape.kernel, target, link.parameters), gemm_problem(shape)
    except ContractionError:
        return None
    if not isinstance(schedule, TileSchedule) or problem.epilogue.separate:
        return None
    return _Product(shape, problem, schedule)


def _passes_rows(first: _Product, last: _Product, chain: Sequence[ChainedKernel]) -> bool:
    """True if the first product writes whole rows in order, and the last one reads the same rows."""
    groups, rows = first.groups, first.problem.count
    if (last.groups, last.problem.count) != (groups, rows):
        return False
    out, x, (n, _), (width, _) = first.problem.epilogue.out.view, last.problem.x, _row(chain[0]), _row(chain[-2])
    left = operand(last.shape, last.shape.lhs).strides
    reach = sum((last.shape.count((a,)) - 1) * left.get(a, 0) for a in last.shape.inner)
    writes = (
        (out.base, out.block, out.stride, out.padded) == (0, 1, 1, False)
        and n == first.problem.channels
        and _in_order(first.problem.groups, out.groups, rows * n)
        and _in_order(first.problem.points, out.points, n)
    )
    reads = (
        x.base == 0
        and reach < width
        and last.problem.x_slot == chain[-1].source
        and not last.schedule.pack_rows
        and _in_order(last.problem.groups, x.groups, rows * width)
        and _in_order(last.problem.points, x.points, width)
    )
    return writes and reads


def _in_order(extents: Sequence[int], strides: Sequence[int], step: int) -> bool:
    """True if neighbours along these axes, of which the last varies fastest, are `step` elements apart."""
    for n, stride in zip(reversed(extents), reversed(strides), strict=True):
        if n != 1 and stride != step:
            return False
        step *= n
    return True


def _row(link: ChainedKernel) -> tuple[int, DType]:
    """The length of a row of the kernel's result, and its dtype."""
    buffer = link.kernel.buffers[link.result]
    n = buffer.shape[-1]
    assert isinstance(n, int)
    return n, buffer.dtype


def _between(link: ChainedKernel) -> tuple[str, ...]:
    """The buffers of a function of rows that are blocks."""
    assert link.source is not None
    return link.kernel.buffers[link.source].name, link.kernel.buffers[link.result].name


def _blocks(first: _Product, last: _Product, between: Sequence[tuple[int, DType]], target: Cpu) -> _Blocks | None:
    """As many rows as half the L2 cache holds, or fewer so that all threads get several blocks. None if the rows
    between the kernels are shorter than those of operands and results, or reading the right operands for each block
    costs more than it saves."""
    if min(n for n, _ in between) < max(first.problem.depth, last.problem.channels):
        return None
    groups, rows, tile = first.groups, first.problem.count, min(first.tile, last.tile)
    row_bytes = sum(n * dtype.itemsize for n, dtype in between)
    units = _UNITS_OF_THREAD * target.threads
    most = max(_TILES * tile, target.l2_bytes // 2 // row_bytes)
    size, count = blocks_of(rows, min(most, max(_FEWEST_TILES * tile, -(-rows * groups // units))), tile)
    merged = max(1, min(most // rows, groups // units)) if count == 1 else 1
    reads, saved = (count - 1) * (first.weights + last.weights), rows * row_bytes
    return _Blocks(groups, rows, size, count, merged) if reads <= _READ_COST * saved else None


def _in_blocks(product: _Product, blocks: _Blocks, tile: int, target: Cpu) -> TileSchedule:
    """The product's schedule in units of all columns of a block; the tiles of both products have `tile` rows if a group
    has several blocks, whose size depends on them. The reduction is divided if a panel of the right operand exceeds
    half the L2 cache: then a part of it stays in half the L1 cache."""
    s, problem = product.schedule, product.problem
    main, last = s.main, s.last
    if blocks.count > 1:
        main, last = replace(main, rows=tile), last and replace(last, rows=tile)
    step = s.main.vectors * s.lanes * UNROLL * product.shape.accumulator.itemsize
    steps = max(UNROLL, target.l1_bytes // 2 // step) if problem.steps * step > target.l2_bytes // 2 else 0
    blocked = replace(s, main=main, last=last, points=blocks.size, prefetch=0, steps=steps, reduction_outside=True)
    return replace(blocked, panels=panel_kinds(problem, blocked)[0][-1].end)


# -- the function


class _Chain:
    def __init__(
        self, chain: Sequence[ChainedKernel], emissions: Sequence[Emission], blocks: _Blocks, target: Cpu
    ) -> None:
        self.chain, self.emissions, self.blocks, self.target = chain, emissions, blocks, target
        self.outer = outer_buffers(chain)
        self.places, self.top = list[int](), 0
        for emission in emissions:  # workspaces of kernels, then blocks of each worker
            self.places.append(self._take(emission.workspace))
        self.start, self.top = self.top, 0
        rows = [n * dtype.itemsize for n, dtype in map(_row, chain[:-1])]
        self.rows = [(nbytes, self._take(blocks.merged * blocks.size * nbytes)) for nbytes in rows]
        self.own = self.top

    def _take(self, nbytes: int) -> int:
        place = self.top
        self.top += -(-nbytes // _ALIGN) * _ALIGN
        return place

    def emit(self, module: ModuleBuilder, symbol: str) -> Emission:
        f = module.function(symbol, None, KERNEL_PARAMETERS, shares=True)
        self._body(f, [spec.symbol for e in self.emissions for spec in e.launches])
        f.ret()
        slots = {place: slot for slot, place in enumerate(self.outer)}
        packings: list[tuple[int, Packing]] = [
            (slots[k, i], packing) for k, emission in enumerate(self.emissions) for i, packing in emission.packings
        ]
        launch = LaunchSpec(symbol, self.blocks.units, 1, CHAIN)
        return Emission((launch,), self.start + self.own * self.target.threads, tuple(packings))

    def _body(self, f: FunctionBuilder, symbols: Sequence[str]) -> None:
        _, begin, end, worker = f.args
        work = argument(f, len(self.outer))
        own = f.gep(f.gep(work, self.start, I8), f.convert(worker, "i64") * self.own, I8)
        tables = self._tables(f, work)
        blocks, (first, last) = self.blocks, (0, len(self.chain) - 1)
        with f.loop(begin, end) as unit:
            start = unit * blocks.merged
            stop = f.smin(start + blocks.merged, blocks.total)
            row, end_row = self._row(f, start), self._row(f, stop)
            for k, (nbytes, place) in enumerate(self.rows):
                whole = f.gep(f.gep(own, place, I8), f.sub(f.const(I64, 0), row * nbytes), I8)
                source = self.chain[k + 1].source
                assert source is not None
                f.store(whole, f.gep(tables[k], self.chain[k].result, PTR))
                f.store(whole, f.gep(tables[k + 1], source, PTR))
            for k, (name, table) in enumerate(zip(symbols, tables, strict=True)):
                low, high = (start, stop) if k in (first, last) else (row, end_row)
                f.call_void(f"@{name}", table, low, high, worker)

    def _row(self, f: FunctionBuilder, block: Value) -> Value:
        """The first row of a block."""
        blocks = self.blocks
        return f.udiv(block, blocks.count) * blocks.rows + f.urem(block, blocks.count) * blocks.size

    def _tables(self, f: FunctionBuilder, work: Value) -> list[Value]:
        """The arguments of each kernel, without the blocks."""
        tables = [f.alloca(I64, len(link.kernel.buffers) + 1) for link in self.chain]
        for slot, (k, i) in enumerate(self.outer):
            f.store(argument(f, slot), f.gep(tables[k], i, PTR))
        for k, (table, place) in enumerate(zip(tables, self.places, strict=True)):
            f.store(f.gep(work, place, I8), f.gep(table, len(self.chain[k].kernel.buffers), PTR))
        return tables
