"""Emits attention: a program computes a block of queries against all keys, block by block, with an online softmax."""

from __future__ import annotations

from math import e, log2

from ...ir.kernel import Kernel, Ref, Store, dtype_of
from ...ir.scalar import ScalarOp
from ...ir.types import DType
from .attention import Attention
from .block_emitter import BLOCK, RESULT, BlockEmitter
from .expressions import as_tensor
from .schedule import TritonSchedule
from .source import Source, Value
from .types import NAMES


def emit_attention(kernel: Kernel, attention: Attention, schedule: TritonSchedule, source: Source) -> None:
    """Emit the body of the kernel's function.

    `top` is the largest score of each query so far, `total` the sum of exp(score - top), and `acc` the sum of the
    values with these weights. All three are scaled when `top` grows. While all scores are -inf, 0 takes the place of
    `top`, so that exp(-inf - top) is 0 and not NaN.
    """
    _Emitter(kernel, attention, schedule, source).emit()


class _Emitter(BlockEmitter):
    def __init__(self, kernel: Kernel, attention: Attention, schedule: TritonSchedule, source: Source) -> None:
        super().__init__(kernel, schedule, source)
        self.attention, self.base = attention, attention.scale * log2(e)

    def emit(self) -> None:
        tile, source, first, last = self.tile, self.source, self.attention.first, self.attention.last
        self.define_tile()
        top = source.let("top", 'tl.full((M_BLOCK,), float("-inf"), tl.float32)')
        total = source.let("total", "tl.zeros((M_BLOCK,), tl.float32)")
        acc = source.let("acc", "tl.zeros((M_BLOCK, N_BLOCK), tl.float32)")
        start = source.fresh("r_start")
        with source.loop(f"for {start} in range(0, {tile.total('r')}, R_BLOCK):", "r"):
            self.define_block(start)
            self.multiply(first, first.lhs, first.rhs, "k")
            score = self.inside(as_tensor(tile.value(self.attention.score)).text, 'float("-inf")')
            highest = source.let("highest", f"tl.maximum({top}, tl.max({score}, 1))")
            base = source.let("base", f'tl.where({highest} == float("-inf"), 0.0, {highest})')
            weight = source.let("weight", f"tl.exp2(({score} - {base}[:, None]) * {self.base!r})")
            shrink = source.let("shrink", f"tl.exp2(({top} - {base}) * {self.base!r})")
            source.line(f"{total} = {total} * {shrink} + tl.sum({weight}, 1)")
            dtype = dtype_of(self.kernel, last.rhs)
            weight = self._changed(weight, dtype)
            values = self.operand("values", last.rhs, ("r", "n"))
            source.line(f"{acc} = {acc} * {shrink}[:, None]")
            self.add_product(last.rhs, last.inner, weight, values, acc)
            source.line(f"{top} = {highest}")
        self._store(acc, top, total)

    def _changed(self, weight: str, dtype: DType) -> str:
        """The weights for the product with values of this dtype."""
        self.tile.frame = BLOCK
        for op, expr in reversed(self.attention.changes):
            other = as_tensor(self.tile.value(expr)).text
            text = f"{weight} * {other}" if op is ScalarOp.MUL else f"tl.where({other}, {weight}, 0.0)"
            weight = self.source.let("weight", text)
        return weight if dtype is DType.F32 else f"{weight}.to({NAMES[dtype]})"

    def _store(self, acc: str, top: str, total: str) -> None:
        tile, source, attention = self.tile, self.source, self.attention
        tile.frame = RESULT
        scaled = top if attention.scale == 1 else f"({top} * {attention.scale!r})"
        for name, text in ((attention.top, scaled), (attention.total, total)):
            reference = Ref(name)
            known = Value(f"{text}[:, None]", frozenset("m"), dtype_of(self.kernel, reference))
            source.remember((tile.frame, reference), known)
        factor = tile.value(attention.factor)
        result = Value(f"{acc} * {factor.text}", frozenset(RESULT), attention.last.dtype)
        for stage in self.kernel.stages:
            if isinstance(stage, Store):
                value = result if stage.value is attention.last else tile.value(stage.value)
                tile.store(stage, value.dims, value)
