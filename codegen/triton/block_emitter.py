"""Emits kernels that loop over blocks of a reduced axis `r`, with a block of computed numbers in each step."""

from __future__ import annotations

from ...ir.kernel import Contract, Expr, Kernel, Load, dtype_of
from ...ir.types import DType
from .expressions import Expressions, as_tensor
from .gemm import FLOAT32
from .operands import is_contiguous
from .schedule import TritonSchedule
from .source import Source, Value
from .tiles import program_count
from .types import NAMES

BLOCK, RESULT = ("m", "r"), ("m", "n")
"""The dimensions of the computed numbers, and of the results."""


class BlockEmitter:
    """A program has one `z`, a block of `m`, and all of the other dimensions that its results or products have."""

    def __init__(self, kernel: Kernel, schedule: TritonSchedule, source: Source) -> None:
        self.kernel, self.schedule, self.source = kernel, schedule, source
        self.tile = Expressions(kernel, schedule, source, BLOCK)
        self.wide = ".to(tl.int64)" if schedule.wide else ""

    def define_tile(self) -> None:
        """Define the indices of all dimensions but `r`."""
        tile, source = self.tile, self.source
        blocks = program_count(tile, self.schedule.dim("m"))
        pid = source.let("pid", f"tl.program_id(0){self.wide}")
        if self.schedule.dim("z").axes:
            tile.define("z", f"{pid} // {blocks}")
            pid = source.let("pid", f"{pid} % {blocks}")
        tile.define("m", f"{pid} * M_BLOCK + tl.arange(0, M_BLOCK)")
        for dim in self.schedule.dims:
            if dim.name not in ("z", "m", "r"):
                tile.define(dim.name, f"tl.arange(0, {dim.name.upper()}_BLOCK){self.wide}")

    def define_block(self, start: str) -> None:
        """Define the indices of a block of `r`."""
        self.tile.define("r", f"{start} + tl.arange(0, R_BLOCK){self.wide}")

    def multiply(self, node: Contract, left: Expr, right: Expr, dim: str) -> None:
        """The product of two operands, of which the left one varies along `m` and the right one along `r`."""
        a, b = self.operand("left", left, ("m", dim)), self.operand("right", right, (dim, "r"))
        both = frozenset(BLOCK)
        product = self.source.let("product", "tl.zeros((M_BLOCK, R_BLOCK), tl.float32)", both)
        self.add_product(right, node.inner, a, b, product)
        self.tile.frame = BLOCK
        self.source.remember(node, Value(product, both, node.dtype))

    def add_product(self, expr: Expr, summed: tuple[str, ...], left: str, right: str, total: str) -> None:
        """Add the product of two blocks to the sum; `expr` is the right operand, and `summed` are the axes of the
        sum."""
        precision, text = self.schedule.precision, "{total} = tl.dot({a}, {b}, {total})"
        if dtype_of(self.kernel, expr) is DType.F32:
            is_moved = precision == "float32" and not is_contiguous(self.kernel, expr, summed)
            text = FLOAT32["bf16x6" if is_moved else precision]
        self.source.line(text.format(a=left, b=right, total=total))

    def operand(self, name: str, expr: Expr, frame: tuple[str, str]) -> str:
        """An operand of a product, which is 0 outside of the tensor, as a variable."""
        tile = self.tile
        tile.frame = frame
        is_load = isinstance(expr, Load)
        value = tile.load(expr, raw=True) if is_load else as_tensor(tile.value(expr))
        text = value.text if is_load else f"({value.text}).to({NAMES[dtype_of(self.kernel, expr)]})"
        unmasked = [d for d in frame if not is_load or d not in value.dims]
        mask = " & ".join(f"({m})" for d in unmasked if (m := tile.dim_mask(d)))
        text = f"tl.where({mask}, {text}, 0.0)" if mask else text
        text = text if value.dims >= set(frame) else f"tl.broadcast_to({text}, {tile.shape()})"
        return text if text.isidentifier() else self.source.let(name, text, frozenset(frame))

    def inside(self, text: str, otherwise: str) -> str:
        """Computed numbers, as a variable; `otherwise` beyond the last point of `r`."""
        self.tile.frame = BLOCK
        mask = self.tile.dim_mask("r")
        text = f"tl.where({mask}, {text}, {otherwise})" if mask else text
        return text if text.isidentifier() else self.source.let("number", text)
