"""Emits matrix products on tensor cores, tile by tile, with an epilogue of any expression of the sum."""

from __future__ import annotations

from dataclasses import replace

from ...ir.kernel import Expr, Kernel, Load, Store, walk
from ...ir.types import DType
from .accesses import access
from .expressions import Expressions, as_tensor
from .operands import Contraction, axes_of, find_contraction, low_half
from .schedule import TritonSchedule
from .source import Source, Value
from .split import WORK, define_part, last_arrival, part_range
from .tiles import program_count
from .types import NAMES


def emit_gemm(kernel: Kernel, schedule: TritonSchedule, source: Source) -> None:
    """Emit the body of the kernel's function; each program computes one tile of one product of the batch, or a part of
    its sum."""
    product = find_contraction(kernel)
    if schedule.dim("m").axes != product.rows:
        product = product.swapped()
    tile = Expressions(kernel, schedule, source, ("m", "n"))
    number, part = _define_tile(tile, product)
    total = source.let("acc", _zeros(product))
    length = str(tile.total("k"))
    begin, end = part_range(source, part, length, "K_BLOCK", schedule.split) if part else ("0", length)
    start = source.fresh("k_start")
    with source.loop(f"for {start} in range({begin}, {end}, K_BLOCK):", "k"):
        tile.define_block("k", start, scalars=_varies_inside(tile, product, "k"))
        a = _operand(tile, product.lhs, product.dtypes[0], ("m", "k"))
        b = _operand(tile, product.rhs, product.dtypes[1], ("k", "n"))
        low = low_half(kernel, product.rhs)
        if low is None:
            _multiply(tile, product, a, b, total)
        else:
            b_low = _operand(tile, low, DType.F32, ("k", "n"))
            source.line(f"{total} += _dot_halves({a}, {b}, {b_low})")
    tile.frame = ("m", "n")
    if not part:
        _epilogue(tile, product, total)
        return
    mine = source.let("mine", f"{_block_of(number, part, schedule.split)} + {_WITHIN}")
    source.line(f"tl.store({WORK} + {mine}, {total})")
    with last_arrival(source, number, schedule.split):
        source.line(f"{total} = {_zeros(product)}")
        other = source.fresh("other")
        with source.block(f"for {other} in range({schedule.split}):"):
            at = f"{WORK} + {_block_of(number, other, schedule.split)} + {_WITHIN}"
            source.line(f'{total} += tl.load({at}, cache_modifier=".cg")')
        _epilogue(tile, product, total)


_WITHIN = "tl.arange(0, M_BLOCK)[:, None] * N_BLOCK + tl.arange(0, N_BLOCK)[None, :]"


def _block_of(tile: str, part: str, split: int) -> str:
    """The first element of a partial sum in the workspace."""
    return f"({tile} * {split} + {part}) * (M_BLOCK * N_BLOCK)"


def _zeros(product: Contraction) -> str:
    return f"tl.zeros((M_BLOCK, N_BLOCK), {NAMES[product.node.accumulator]})"


def _multiply(tile: Expressions, product: Contraction, a: str, b: str, total: str) -> None:
    """Add the product of two blocks to the sum."""
    source, precision = tile.source, tile.schedule.precision
    if product.dtypes[0] is DType.F32:
        source.line(FLOAT32[precision].format(total=total, a=a, b=b))
        return
    if DType.U8 in product.dtypes:
        a, b = _signed(tile, product, a, b, total)
    typed = ", out_dtype=tl.int32" if product.dtypes[0].is_integer else ""
    source.line(f"{total} = tl.dot({a}, {b}, {total}{typed})")


FLOAT32 = {
    "float32": "{total} += _dot_float32({a}, {b})",
    "bf16x3": "{total} += _dot_bf16x3({a}, {b})",
    "tf32": '{total} = tl.dot(_tf32({a}), _tf32({b}), {total}, input_precision="tf32")',
    "bf16x6": "{total} += _dot_bf16x6({a}, {b})",
    "exact": '{total} = tl.dot({a}, {b}, {total}, input_precision="ieee")',
}
"""How blocks of float32 are multiplied, by the precision of the schedule."""


def _epilogue(tile: Expressions, product: Contraction, total: str) -> None:
    """Store the results, which are expressions of the sum."""
    both = frozenset(tile.frame)
    tile.source.remember(product.node, Value(total, both, product.node.dtype))
    for stage in tile.kernel.stages:
        if isinstance(stage, Store):
            tile.store(stage, both)


def _varies_inside(tile: Expressions, product: Contraction, dim: str) -> bool:
    """True if operands that vary along a dimension do so along its innermost axis: then they are different in all of a
    block although indices of other axes are scalars."""
    axes = [a for a in tile.schedule.dim(dim).axes if tile.kernel.axis(a).extent != 1]
    for expr in (product.lhs, product.rhs):
        steps = [access(tile.kernel, e.buffer, e.index) for e in walk(expr) if isinstance(e, Load)]
        if axes_of(tile.kernel, expr) & {*axes} and not any(at.stride(axes[-1]).terms for at in steps):
            return False
    return True


def _define_tile(tile: Expressions, product: Contraction) -> tuple[str, str]:
    """Define the indices of the tile; (its number, the part of its sum, "" for all of it). `GROUP` rows of tiles run
    together, column by column, and share operands in the L2 cache."""
    s, schedule, part = tile.source, tile.schedule, ""
    batch, rows, columns = (program_count(tile, schedule.dim(d)) for d in ("z", "m", "n"))
    pid = s.let("pid", f"tl.program_id(0){'.to(tl.int64)' if schedule.wide else ''}")
    if schedule.split > 1:
        pid, part = define_part(s, pid, f"{batch} * {rows} * {columns}", schedule.split)
    number = pid
    if schedule.dim("z").axes:
        tile.define("z", f"{pid} // ({rows} * {columns})")
        pid = s.let("pid", f"{pid} % ({rows} * {columns})")
    first = s.let("first", f"{pid} // (GROUP * {columns}) * GROUP")
    height = s.let("height", f"tl.minimum({rows} - {first}, GROUP)")
    inside = s.let("inside", f"{pid} % (GROUP * {columns})")
    starts = {"m": f"({first} + {inside} % {height}) * M_BLOCK", "n": f"{inside} // {height} * N_BLOCK"}
    for dim, start in starts.items():
        tile.define_block(dim, start, scalars=_varies_inside(tile, product, dim))
    return number, part


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
