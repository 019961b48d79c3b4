"""Emits attention: a program computes a block of queries against all keys, block by block, with an online softmax."""

from __future__ import annotations

from math import e, log2

from ...ir.kernel import Contract, Expr, Kernel, Load, Ref, Store, dtype_of
from ...ir.types import DType
from .attention import Attention
from .expressions import Expressions, as_tensor
from .gemm import FLOAT32
from .schedule import TritonSchedule
from .source import Source, Value
from .tiles import program_count
from .types import NAMES

_SCORES, _RESULT = ("m", "r"), ("m", "n")


def emit_attention(kernel: Kernel, attention: Attention, schedule: TritonSchedule, source: Source) -> None:
    """Emit the body of the kernel's function.

    `top` is the largest score of each query so far, `total` the sum of exp(score - top), and `acc` the sum of the
    values with these weights. All three are scaled when `top` grows. While all scores are -inf, 0 takes the place of
    `top`, so that exp(-inf - top) is 0 and not NaN.
    """
    _Emitter(kernel, attention, schedule, source).emit()


class _Emitter:
    def __init__(self, kernel: Kernel, attention: Attention, schedule: TritonSchedule, source: Source) -> None:
        self.kernel, self.attention, self.schedule, self.source = kernel, attention, schedule, source
        self.tile = Expressions(kernel, schedule, source, _SCORES)
        self.base = attention.scale * log2(e)

    def emit(self) -> None:
        tile, source, attention = self.tile, self.source, self.attention
        self._define_tile()
        queries = self._operand("queries", attention.first.lhs, ("m", "k"))
        top = source.let("top", 'tl.full((M_BLOCK,), float("-inf"), tl.float32)')
        total = source.let("total", "tl.zeros((M_BLOCK,), tl.float32)")
        acc = source.let("acc", "tl.zeros((M_BLOCK, N_BLOCK), tl.float32)")
        start = source.fresh("r_start")
        with source.loop(f"for {start} in range(0, {tile.total('r')}, R_BLOCK):", "r"):
            tile.define("r", f"{start} + tl.arange(0, R_BLOCK){self._wide}")
            score = self._score(queries)
            highest = source.let("highest", f"tl.maximum({top}, tl.max({score}, 1))")
            base = source.let("base", f'tl.where({highest} == float("-inf"), 0.0, {highest})')
            weight = source.let("weight", f"tl.exp2(({score} - {base}[:, None]) * {self.base!r})")
            shrink = source.let("shrink", f"tl.exp2(({top} - {base}) * {self.base!r})")
            source.line(f"{total} = {total} * {shrink} + tl.sum({weight}, 1)")
            weight = self._chosen(weight)
            values = self._operand("values", attention.last.rhs, ("r", "n"))
            source.line(f"{acc} = {acc} * {shrink}[:, None]")
            self._add_product(attention.last, weight, values, acc)
            source.line(f"{top} = {highest}")
        self._store(acc, total)

    @property
    def _wide(self) -> str:
        return ".to(tl.int64)" if self.schedule.wide else ""

    def _add_product(self, node: Contract, left: str, right: str, total: str) -> None:
        """Add the product of two blocks to the sum."""
        is_single = dtype_of(self.kernel, node.rhs) is DType.F32
        text = FLOAT32[self.schedule.precision] if is_single else "{total} = tl.dot({a}, {b}, {total})"
        self.source.line(text.format(a=left, b=right, total=total))

    def _define_tile(self) -> None:
        tile, source = self.tile, self.source
        blocks = program_count(tile, self.schedule.dim("m"))
        pid = source.let("pid", f"tl.program_id(0){self._wide}")
        if self.schedule.dim("z").axes:
            tile.define("z", f"{pid} // {blocks}")
            pid = source.let("pid", f"{pid} % {blocks}")
        tile.define("m", f"{pid} * M_BLOCK + tl.arange(0, M_BLOCK)")
        tile.define("n", f"tl.arange(0, N_BLOCK){self._wide}")
        tile.define("k", f"tl.arange(0, K_BLOCK){self._wide}")

    def _score(self, queries: str) -> str:
        """The scores of a block, without their scale; -inf beyond the last key."""
        tile, source, attention = self.tile, self.source, self.attention
        keys = self._operand("keys", attention.first.rhs, ("k", "r"))
        both = frozenset(_SCORES)
        product = source.let("product", "tl.zeros((M_BLOCK, R_BLOCK), tl.float32)", both)
        self._add_product(attention.first, queries, keys, product)
        tile.frame = _SCORES
        source.remember(attention.first, Value(product, both, attention.first.dtype))
        value = as_tensor(tile.value(attention.score))
        mask = tile.dim_mask("r")
        text = f'tl.where({mask}, {value.text}, float("-inf"))' if mask else value.text
        return text if text.isidentifier() else source.let("score", text)

    def _chosen(self, weight: str) -> str:
        """The weights for the product with values: 0 where a condition is false, in the dtype of the values."""
        self.tile.frame = _SCORES
        for condition in self.attention.conditions:
            test = as_tensor(self.tile.value(condition))
            weight = self.source.let("weight", f"tl.where({test.text}, {weight}, 0.0)")
        dtype = dtype_of(self.kernel, self.attention.last.rhs)
        return weight if dtype is DType.F32 else f"{weight}.to({NAMES[dtype]})"

    def _operand(self, name: str, expr: Expr, frame: tuple[str, str]) -> str:
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
        return text if text.isidentifier() else self.source.let(name, text)

    def _store(self, acc: str, total: str) -> None:
        tile, source, attention = self.tile, self.source, self.attention
        tile.frame = _RESULT
        reference = Ref(attention.total)
        known = Value(f"{total}[:, None]", frozenset("m"), dtype_of(self.kernel, reference))
        source.remember((tile.frame, reference), known)
        factor = tile.value(attention.factor)
        result = Value(f"{acc} * {factor.text}", frozenset(_RESULT), attention.last.dtype)
        stage = self.kernel.stages[-1]
        assert isinstance(stage, Store)
        tile.store(stage, result.dims, result)
