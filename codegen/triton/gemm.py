"""Emits matrix products with any expression of the sum as their epilogue: tiles on tensor cores."""

from __future__ import annotations

from ...ir.kernel import Expr, Kernel, Load, Store
from ...ir.types import DType
from .expressions import Expressions, as_tensor
from .operands import Contraction, dtype_of, find_contraction
from .schedule import TritonSchedule
from .source import Source, Value
from .tiles import program_count
from .types import NAMES


def emit_gemm(kernel: Kernel, schedule: TritonSchedule, source: Source) -> None:
    """The body of the kernel's function; each program computes one tile of one product of the batch."""
    found = find_contraction(kernel)
    tile = Expressions(kernel, schedule, source, ("m", "n"))
    _define_tile(tile)
    total = source.let("acc", "tl.zeros((M_BLOCK, N_BLOCK), tl.float32)")
    start = source.fresh("k_start")
    with source.loop(f"for {start} in range(0, {tile.total('k')}, K_BLOCK):", "k"):
        wide = ".to(tl.int64)" if schedule.wide else ""
        tile.define("k", f"{start} + tl.arange(0, K_BLOCK){wide}")
        a = _operand(tile, found, found.lhs, ("m", "k"))
        b = _operand(tile, found, found.rhs, ("k", "n"))
        precision = f', input_precision="{schedule.precision}"' if found.dtype is DType.F32 else ""
        source.line(f"{total} = tl.dot({a}, {b}, {total}{precision})")
    tile.frame = ("m", "n")
    both = frozenset(tile.frame)
    source.remember(found.node, Value(total, both, dtype_of(kernel, found.node)))
    for stage in kernel.stages:
        if isinstance(stage, Store):
            tile.store(stage, both)


def _define_tile(tile: Expressions) -> None:
    """Indices of the tile. `GROUP` rows of tiles run together, column by column, and share operands in the L2 cache."""
    s, schedule = tile.source, tile.schedule
    rows, columns = (program_count(tile, schedule.dim(d)) for d in ("m", "n"))
    pid = s.let("pid", f"tl.program_id(0){'.to(tl.int64)' if schedule.wide else ''}")
    if schedule.dim("z").axes:
        tile.define("z", f"{pid} // ({rows} * {columns})")
        pid = s.let("pid", f"{pid} % ({rows} * {columns})")
    first = s.let("first", f"{pid} // (GROUP * {columns}) * GROUP")
    height = s.let("height", f"tl.minimum({rows} - {first}, GROUP)")
    inside = s.let("inside", f"{pid} % (GROUP * {columns})")
    tile.define("m", f"({first} + {inside} % {height}) * M_BLOCK + tl.arange(0, M_BLOCK)")
    tile.define("n", f"{inside} // {height} * N_BLOCK + tl.arange(0, N_BLOCK)")


def _operand(tile: Expressions, found: Contraction, expr: Expr, frame: tuple[str, str]) -> str:
    """One operand of the tensor cores, zero outside the tensor."""
    tile.frame = frame
    if isinstance(expr, Load):
        value = tile.load(expr, raw=True)
        text = value.text
    else:
        value = as_tensor(tile.value(expr))
        mask = tile.dim_mask("k")
        text = f"tl.where({mask}, {value.text}, 0.0)" if mask else value.text
        text = f"({text}).to({NAMES[found.dtype]})"
    if value.dims >= set(frame):
        return text
    return f"tl.broadcast_to({text}, {tile.shape()})"
