"""Products of a matrix in compressed rows and a dense matrix, for matrices of any shape.

Threads share the rows. Sums of a block of columns stay in registers while the elements of a row are read. With one
column a vector holds products of neighbouring elements of the row instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ....ir.dialects.core import CsrDot
from ....ir.graph import Op
from ....ir.lazy_dataclass import dataclass
from ....ir.types import DType, TensorType
from ...emission import Emission, LaunchSpec
from ..arithmetic import Operand, Value
from ..cpu import Cpu
from ..emitter import FunctionBuilder, ModuleBuilder
from ..shared import LOOPS
from ..types import I64, type_of
from .rows import Functions, computing, kernel_function, numbers_after, pointers, read, write

_BLOCK = 8  # vectors of columns whose sums are in registers
_AHEAD = 6  # elements of a row whose dense rows are prefetched
_LINE = 64
_GRAIN = 1 << 14  # multiply-adds


def csr_dot_launches(
    op: Op, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...], target: Cpu
) -> tuple[Emission, Functions]:
    """The emission of a `CsrDot` and its function. The argument after the tensors is the width of the result."""
    assert isinstance(op, CsrDot)
    data, columns, begins, _ = inputs
    (result,) = outputs
    rows, width = result.shape
    if not result.size:
        return Emission(()), {}
    is_narrow = width == 1
    symbol = f"{LOOPS}csr_dot_{data.dtype}_{columns.dtype}_{begins.dtype}_{int(is_narrow)}"
    form = _Form(data.dtype, columns.dtype, begins.dtype)
    grain = -(-_GRAIN * rows // (data.shape[0] * width + rows))
    emit = partial(form.emit_narrow if is_narrow else form.emit, symbol=symbol)
    return Emission((LaunchSpec(symbol, rows, grain),), extents=(width,)), {symbol: emit}


@dataclass(frozen=True, slots=True)
class _Form:
    """The dtypes of the elements, their columns, and the pointers."""

    dtype: DType
    columns: DType
    pointers: DType

    def emit(self, module: ModuleBuilder, symbol: str) -> None:
        """A unit is a row of the result."""
        f = kernel_function(module, symbol)
        data, columns, begins, dense, result = pointers(f, 5)
        (width,) = numbers_after(f, 5, 1)
        lanes = module.target.lanes(type_of(computing(self.dtype)).bits)
        with f.loop(f.args[1], f.args[2]) as row:
            begin, end = (self._integer(f, begins, row + k, self.pointers) for k in (0, 1))
            start = f.const(I64, 0)
            for count, step in ((_BLOCK, lanes), (1, lanes), (1, 1)):
                stop = f.mul(f.udiv(width, count * step), count * step)
                with f.loop(start, stop, count * step) as j:
                    sums = self._sums(f, (data, columns, dense), (begin, end), width, j, [step] * count)
                    for k, total in enumerate(sums):
                        write(f, total, result, f.mul(row, width) + j + k * step, self.dtype)
                start = stop
        f.ret()

    def _sums(
        self,
        f: FunctionBuilder,
        operands: tuple[Value, Value, Value],
        span: tuple[Value, Value],
        width: Value,
        column: Value,
        lanes: Sequence[int],
    ) -> tuple[Value, ...]:
        """The sums of a row for neighbouring vectors of columns."""
        data, columns, dense = operands
        wide = computing(self.dtype)
        ahead = f.sub(span[1], 1)
        with f.carry_loop(*span, [f.const(type_of(wide, n), 0) for n in lanes]) as loop:
            i = loop.index
            base = f.mul(self._integer(f, columns, i, self.columns), width) + column
            if len(lanes) > 1:
                later = f.mul(self._integer(f, columns, f.smin(i + _AHEAD, ahead), self.columns), width) + column
                self._prefetch(f, dense, later, sum(lanes))
            x = read(f, data, i, self.dtype)
            terms: list[Value] = []
            for k, total in enumerate(loop.values):
                y = read(f, dense, base + k * lanes[k], self.dtype, lanes[k])
                terms.append(f.fma(f.splat(x, y.type), y, total))
            loop.next(*terms)
        return loop.results

    def _prefetch(self, f: FunctionBuilder, dense: Value, position: Value, count: int) -> None:
        element = type_of(self.dtype)
        for k in range(0, count, _LINE // element.bytes):
            f.prefetch(f.gep(dense, position + k, element))

    def emit_narrow(self, module: ModuleBuilder, symbol: str) -> None:
        """A unit is an element of the result, whose products are summed in vectors."""
        f = kernel_function(module, symbol)
        data, columns, begins, dense, result = pointers(f, 5)
        wide, index = computing(self.dtype), type_of(self.columns)
        lanes = module.target.lanes(max(type_of(wide).bits, index.bits))
        with f.loop(f.args[1], f.args[2]) as row:
            begin, end = (self._integer(f, begins, row + k, self.pointers) for k in (0, 1))
            stop = begin + f.mul(f.udiv(end - begin, lanes), lanes)
            with f.carry_loop(begin, stop, [f.const(type_of(wide, lanes), 0)], lanes) as loop:
                at = f.load(f.gep(columns, loop.index, index), index.with_lanes(lanes))
                if self.dtype is wide:
                    y = f.gather(dense, f.convert(at, "i64", signed=self.columns.is_signed), type_of(wide))
                else:
                    y = self._gathered(f, dense, at)
                loop.next(f.fma(read(f, data, loop.index, self.dtype, lanes), y, loop.results[0]))
            total = f.reduce("add", loop.results[0])
            with f.carry_loop(stop, end, [total]) as rest:
                y = read(f, dense, self._integer(f, columns, rest.index, self.columns), self.dtype)
                rest.next(f.fma(read(f, data, rest.index, self.dtype), y, rest.values[0]))
            write(f, rest.results[0], result, row, self.dtype)
        f.ret()

    def _gathered(self, f: FunctionBuilder, dense: Value, at: Value) -> Value:
        """Elements that are converted one by one."""
        lanes = at.type.lanes
        vector = f.const(type_of(computing(self.dtype), lanes), 0)
        for k in range(lanes):
            place = f.convert(f.extract(at, k), "i64", signed=self.columns.is_signed)
            vector = f.insert(vector, read(f, dense, place, self.dtype), k)
        return vector

    def _integer(self, f: FunctionBuilder, base: Value, position: Operand, dtype: DType) -> Value:
        element = type_of(dtype)
        return f.convert(f.load(f.gep(base, position, element), element), "i64", signed=dtype.is_signed)
