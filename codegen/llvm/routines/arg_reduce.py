"""Positions of extrema along the last axis: one pass over memory.

Each lane keeps the extremum so far and the number of the step that found it. Comparisons with a NaN are false, so rows
with a NaN, which precedes numbers, are searched again for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ....ir.dialects.core import ArgReduce
from ....ir.graph import Op
from ....ir.lazy_dataclass import dataclass
from ....ir.scalar import ReduceOp
from ....ir.types import DType, TensorType
from ...emission import Emission, LaunchSpec
from ..arithmetic import Operand, Value
from ..cpu import Cpu
from ..emitter import FunctionBuilder, ModuleBuilder
from ..scalars import emit_cast
from ..shared import LOOPS
from ..types import I1, I32, I64, type_of
from .rows import Functions, computing, kernel_function, numbers_after, pointers, read

_TOGETHER = 4  # vectors of a step, each with its own extrema
_GRAIN = 16384


def arg_reduce_launches(
    op: Op, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...], target: Cpu
) -> tuple[Emission, Functions]:
    """The emission of an `ArgReduce` along the last axis and its function. The argument after the tensors is the length
    of a row."""
    assert isinstance(op, ArgReduce)
    (x,) = inputs
    (places,) = outputs
    length = x.shape[-1]
    if not places.size:
        return Emission(()), {}
    symbol = f"{LOOPS}arg_{op.kind}_{x.dtype}"
    search = _Search(op.kind == "max", x.dtype)
    launch = LaunchSpec(symbol, places.size, -(-_GRAIN // length))
    return Emission((launch,), extents=(length,)), {symbol: lambda module: search.emit(module, symbol)}


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for the largest or the smallest elements of rows of a dtype."""

    largest: bool
    dtype: DType

    @property
    def wide(self) -> DType:
        """The dtype of comparisons: 32 or 64 bits."""
        wide = computing(self.dtype)
        return wide if wide.bits >= 32 and wide is not DType.BOOL else DType.I32

    def emit(self, module: ModuleBuilder, symbol: str) -> None:
        """A unit is a row."""
        f = kernel_function(module, symbol)
        source, result = pointers(f, 2)
        (length,) = numbers_after(f, 2, 1)
        with f.loop(f.args[1], f.args[2]) as row:
            first = f.mul(row, length)
            place, has_nan = self._row(f, source, first, length)
            if self.dtype.is_float:
                search = lambda first=first: (self._first_nan(f, source, first, length),)  # noqa: E731
                (place,) = f.branch(has_nan, search, lambda place=place: (place,), unlikely=True)
            f.store(place, f.gep(result, row, I64))
        f.ret()

    def _row(self, f: FunctionBuilder, source: Value, first: Value, length: Value) -> tuple[Value, Value]:
        """The position of a row's extremum without regard to NaN, and whether the row has a NaN."""
        lanes = f.module.target.lanes(self.wide.bits)
        number = (I64 if self.wide.bits == 64 else I32).with_lanes(lanes)
        step = _TOGETHER * lanes
        whole = f.sub(length, f.urem(length, step))
        start = f.const(type_of(self.wide, lanes), self._neutral)
        carry = [start] * _TOGETHER + [f.const(number, 0)] * _TOGETHER + [f.const(I1.with_lanes(lanes), 0)]
        with f.carry_loop(0, whole, carry, step) as loop:
            *state, nan = loop.values
            at = f.splat(f.convert(loop.index, number.element), number)
            xs = [self._read(f, source, f.add(first, f.add(loop.index, u * lanes)), lanes) for u in range(_TOGETHER)]
            better = [self._better(f, x, best) for x, best in zip(xs, state, strict=False)]
            bests = [f.select(c, x, best) for c, x, best in zip(better, xs, state, strict=False)]
            steps = [f.select(c, at, old) for c, old in zip(better, state[_TOGETHER:], strict=True)]
            if self.dtype.is_float:
                nan = reduce(f.or_, [f.cmp("uno", a, b) for a, b in zip(xs[::2], xs[1::2], strict=True)], nan)
            loop.next(*bests, *steps, nan)
        *state, nan = loop.results
        places = [f.add(at, f.iota(number, u * lanes)) for u, at in enumerate(state[_TOGETHER:])]
        best, place = self._joined(f, state[:_TOGETHER], places)
        return self._rest(f, source, first, (whole, length), [best, place, f.any(nan)])

    def _joined(self, f: FunctionBuilder, bests: Sequence[Value], places: Sequence[Value]) -> tuple[Value, Value]:
        """The extremum of vectors and the first of its positions, as scalars."""
        best, place = bests[0], places[0]
        for other, there in zip(bests[1:], places[1:], strict=True):
            best, place = self._first(f, (best, place), (other, there))
        while best.type.lanes > 1:
            half = best.type.lanes // 2
            parts = [[f.slice_lanes(v, k * half, half) for v in (best, place)] for k in (0, 1)]
            best, place = self._first(f, parts[0], parts[1])
        return best, f.convert(place, "i64")

    def _first(self, f: FunctionBuilder, a: Sequence[Value], b: Sequence[Value]) -> tuple[Value, Value]:
        """Of two pairs of an element and its position, the one with the extremum, or the first of equal ones."""
        equal = f.and_(f.cmp("eq", b[0], a[0]), f.cmp("lt", b[1], a[1]))
        other = f.or_(self._better(f, b[0], a[0]), equal)
        return f.select(other, b[0], a[0]), f.select(other, b[1], a[1])

    def _rest(
        self, f: FunctionBuilder, source: Value, first: Value, span: tuple[Operand, Operand], carry: Sequence[Value]
    ) -> tuple[Value, Value]:
        """The position and whether there is a NaN, after the elements that do not fill vectors."""
        with f.carry_loop(*span, carry) as loop:
            best, place, nan = loop.values
            x = self._read(f, source, f.add(first, loop.index), 1)
            better = self._better(f, x, best)
            if self.dtype.is_float:
                nan = f.or_(nan, f.is_nan(x))
            loop.next(f.select(better, x, best), f.select(better, loop.index, place), nan)
        return loop.results[1], loop.results[2]

    def _first_nan(self, f: FunctionBuilder, source: Value, first: Value, length: Value) -> Value:
        def is_number(at: Value) -> Value:
            return f.cmp("ord", self._read(f, source, f.add(first, at), 1), 0.0)

        def following(at: Value) -> tuple[Value]:
            return (f.add(at, 1),)

        (place,) = f.while_loop([f.const(I64, 0)], is_number, following)
        return place

    def _read(self, f: FunctionBuilder, source: Value, position: Value, lanes: int) -> Value:
        raw = read(f, source, position, self.dtype, lanes)
        narrow = computing(self.dtype)
        return raw if narrow is self.wide else emit_cast(f, raw, narrow, self.wide)

    def _better(self, f: FunctionBuilder, x: Value, best: Value) -> Value:
        order = "gt" if self.largest else "lt"
        return f.cmp("u" + order if self.wide.is_unsigned else order, x, best)

    @property
    def _neutral(self) -> int | float:
        return (ReduceOp.MAX if self.largest else ReduceOp.MIN).neutral(self.wide)
