"""Emits matrix products on tensor cores, tile by tile, with an epilogue of any expression of the sum."""

from __future__ import annotations

from dataclasses import replace

from ...ir.kernel import Expr, Kernel, Load, Store
from ...ir.types import DType
from .expressions import Expressions, as_tensor
from .operands import Contraction, find_contraction
from .schedule import TritonSchedule
from .source import Source, Value
from .tiles import program_count
from .types import NAMES


def emit_gemm(kernel: Kernel, schedule: TritonSchedule, source: Source) -> None:
    """Emit the body of the kernel's function; each program computes one tile of one product of the batch."""
    product = find_contraction(kernel)
    tile = Expressions(kernel, schedule, source, ("m", "n"))
    _define_tile(tile)
    total = source.let("acc", f"tl.zeros((M_BLOCK, N_BLOCK), {NAMES[product.node.accumulator]})")
    start = source.fresh("k_start")
    with source.loop(f"for {start} in range(0, {tile.total('k')}, K_BLOCK):", "k"):
        wide = ".to(tl.int64)" if schedule.wide else ""
        tile.define("k", f"{start} + tl.arange(0, K_BLOCK){wide}")
        a = _operand(tile, product.lhs, product.dtypes[0], ("m", "k"))
        b = _operand(tile, product.rhs, product.dtypes[1], ("k", "n"))
        precision = f', input_precision="{schedule.precision}"' if product.dtypes[0] is DType.F32 else ""
        if DType.U8 in product.dtypes:
            a, b = _signed(tile, product, a, b, total)
        if product.dtypes[0].is_integer:
            precision = ", out_dtype=tl.int32"
        source.line(f"{total} = tl.dot({a}, {b}, {total}{precision})")
    tile.frame = ("m", "n")
    both = frozenset(tile.frame)
    source.remember(product.node, Value(total, both, product.node.dtype))
    for stage in kernel.stages:
        if isinstance(stage, Store):
            tile.store(stage, both)


def _define_tile(tile: Expressions) -> None:
    """Define the indices of the tile. `GROUP` rows of tiles run together, column by column, and share operands in the
    L2 cache."""
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


def _signed(tile: Expressions, product: Contraction, a: str, b: str, total: str) -> tuple[str, str]:
    """The operands as signed bytes, which tensor cores require: unsigned ones minus 128. The remaining terms of
    (x + 128) (y + 128) = x y + 128 y + 128 x + 128 * 128 are added to the sums.
    """
    s, unsigned = tile.source, [dtype is DType.U8 for dtype in product.dtypes]
    texts = [f"({t} ^ 128).to(tl.int8, bitcast=True)" if u else t for t, u in zip((a, b), unsigned, strict=True)]
    left, right = s.let("a", texts[0], frozenset("mk")), s.let("b", texts[1], frozenset("kn"))
    if unsigned[0]:
        s.line(f"{total} += 128 * tl.sum({right}.to(tl.int32), 0)[None, :]")
    if unsigned[1]:
        s.line(f"{total} += 128 * tl.sum({left}.to(tl.int32), 1)[:, None]")
    if all(unsigned):
        s.line(f"{total} += 128 * 128 * K_BLOCK")
    return left, right


def _operand(tile: Expressions, expr: Expr, dtype: DType, frame: tuple[str, str]) -> str:
    """One operand of the tensor cores, zero outside the tensor."""
    tile.frame = frame
    if isinstance(expr, Load):
        value = tile.load(expr, raw=True)
        text = value.text
        mask = "" if "k" in value.dims else tile.dim_mask("k")  # an axis of extent 1, along which the load is the same
        if mask:
            zero = "0" if dtype.is_integer else "0.0"
            text, value = f"tl.where({mask}, {text}, {zero})", replace(value, dims=value.dims | {"k"})
    else:
        value = as_tensor(tile.value(expr))
        mask = tile.dim_mask("k")
        text = f"tl.where({mask}, {value.text}, 0.0)" if mask else value.text
        text = f"({text}).to({NAMES[dtype]})"
    if value.dims >= set(frame):
        return text
    return f"tl.broadcast_to({text}, {tile.shape()})"
