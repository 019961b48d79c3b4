"""Cholesky, LU, LQ and triangular systems. Threads share the matrices of a batch; one thread factorizes each matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan, prod

from ....ir.dialects.core import LQ, LU, Cholesky, TriangularSolve
from ....ir.graph import Op
from ....ir.types import TensorType
from ...emission import Emission, LaunchSpec
from ..arithmetic import Value
from ..emitter import FunctionBuilder, ModuleBuilder
from ..types import I32, I64
from .matrix import Rows
from .rows import kernel_function, pointers

Types = tuple[TensorType, ...]
_PANEL = 8
"""Rows whose multiples are added to another row at once."""
_COLUMNS = 64
"""Columns of the right-hand sides that one thread solves at a time."""


def shared(symbol: str, type: TensorType, workspace: int = 0) -> Emission:
    """A launch over the matrices of a batch; small matrices are grouped into chunks."""
    rows, columns = type.shape[-2:]
    if not type.size:
        return Emission(())
    grain = max(1, 32768 // max(1, rows * rows * columns))
    return Emission((LaunchSpec(symbol, prod(type.shape[:-2]), grain),), workspace)


def emit_cholesky(op: Op, inputs: Types, outputs: Types, module: ModuleBuilder, symbol: str) -> Emission:
    """Row by row: each element is computed from the dot product of two rows of the factor."""
    assert isinstance(op, Cholesky)
    (x,), n = inputs, inputs[0].shape[-1]
    f = kernel_function(module, symbol)
    r = Rows.of(f, x.dtype)
    source, result = pointers(f, 2)
    with f.loop(f.args[1], f.args[2]) as batch:
        a, factor = (r.at(base, batch * (n * n)) for base in (source, result))
        with f.loop(0, n) as i:
            source_row, row = r.at(a, i * n), r.at(factor, i * n)
            with f.loop(0, i) as j:
                above = r.at(factor, j * n)
                r.put((r.get(source_row, j) - r.dot(row, above, j)) / r.get(above, j), row, j)
            pivot = r.get(source_row, i) - r.dot(row, row, i)
            r.put(f.select(f.cmp("gt", pivot, 0), f.sqrt(pivot), nan), row, i)
            r.fill(r.at(row, i + 1), 0, f.sub(n - 1, i))
    f.ret()
    return shared(symbol, x)


def emit_triangular_solve(op: Op, inputs: Types, outputs: Types, module: ModuleBuilder, symbol: str) -> Emission:
    """Forward or backward substitution, row by row of the result. Threads share its columns too."""
    assert isinstance(op, TriangularSolve)
    _, y = inputs
    n, m = y.shape[-2:]
    pieces = max(1, -(-m // _COLUMNS))
    f = kernel_function(module, symbol)
    r = Rows.of(f, y.dtype)
    matrices, sides, result = pointers(f, 3)
    across, down = (n, 1) if op.transpose else (1, n)
    downwards = op.lower != op.transpose
    with f.loop(f.args[1], f.args[2]) as unit:
        batch, first = f.udiv(unit, pieces), f.urem(unit, pieces) * _COLUMNS
        width = f.smin(f.sub(m, first), _COLUMNS)
        a = r.at(matrices, batch * (n * n))
        side, x = (r.at(base, batch * (n * m) + first) for base in (sides, result))
        with f.loop(0, n) as step:
            i = step if downwards else f.sub(n - 1, step)
            row = r.at(x, i * m)
            r.copy(r.at(side, i * m), row, width)
            known = (f.const(I64, 0), i) if downwards else (i + 1, f.const(I64, n))

            def subtract(k: Value, count: int, row: Value = row, i: Value = i) -> None:
                rows = [k + j for j in range(count)]
                factors = [f.neg(r.get(a, i * down + j * across)) for j in rows]
                r.add_products(row, factors, [r.at(x, j * m) for j in rows], width)

            _in_panels(f, *known, subtract)
            pivot = r.get(a, i * (n + 1))
            with f.loop(0, width) as j:
                r.put(r.get(row, j) / pivot, row, j)
    f.ret()
    grain = max(1, 32768 // max(1, n * n * min(m, _COLUMNS)))
    return Emission((LaunchSpec(symbol, prod(y.shape[:-2]) * pieces, grain),) if y.size else ())


def _in_panels(f: FunctionBuilder, begin: Value, end: Value, body: Callable[[Value, int], None]) -> None:
    """Call `body(first, count)` for pieces of `_PANEL` numbers between `begin` and `end`, then for each of the rest."""
    whole = f.sub(end, f.urem(f.sub(end, begin), _PANEL))
    with f.loop(begin, whole, _PANEL) as k:
        body(k, _PANEL)
    with f.loop(whole, end) as k:
        body(k, 1)


def emit_lu(op: Op, inputs: Types, outputs: Types, module: ModuleBuilder, symbol: str) -> Emission:
    """Panel by panel of columns: multiples of all rows of a panel are subtracted from the columns behind it at once."""
    assert isinstance(op, LU)
    (x,), n = inputs, inputs[0].shape[-1]
    f = kernel_function(module, symbol)
    r = Rows.of(f, x.dtype)
    source, result, orders, work = pointers(f, 4)
    with f.loop(f.args[1], f.args[2]) as batch:
        packed, order = r.at(result, batch * (n * n)), f.gep(orders, batch * n, I32)
        panel = _Panel(r, packed, order, r.at(work, batch * (n * _PANEL)), n)
        r.copy(r.at(source, batch * (n * n)), packed, n * n)
        with f.loop(0, n) as i:
            f.store(f.convert(i, "i32"), f.gep(order, i, I32))
        _in_panels(f, f.const(I64, 0), f.const(I64, n), panel.factorize)
    f.ret()
    return shared(symbol, x, workspace=prod(x.shape[:-1]) * _PANEL * x.dtype.itemsize)


class _Panel:
    """Some columns of a matrix, which are factorized in memory where each column is contiguous."""

    def __init__(self, r: Rows, packed: Value, order: Value, work: Value, n: int) -> None:
        self.r, self.f, self.packed, self.order, self.work, self.n = r, r.f, packed, order, work, n

    def factorize(self, first: Value, count: int) -> None:
        """Factorize the columns `first` to `first + count`, and update those behind them."""
        f = self.f
        end = first + count
        columns = [self.r.at(self.work, k * self.n) for k in range(count)]
        self._move(first, columns, self._to_columns)
        for k, column in enumerate(columns):
            self._eliminate(first + k, column, columns, columns[k + 1 :])
        self._move(first, columns, self._to_rows)
        rows = [first + k for k in range(count)]
        for k in range(1, count):
            self._subtract(rows[k], rows[:k], end)
        with f.loop(end, self.n) as i:
            self._subtract(i, rows, end)

    def _move(self, first: Value, columns: Sequence[Value], move: Callable[[Value, Value, Value], None]) -> None:
        with self.f.loop(first, self.n) as i:
            row = self.r.at(self.packed, i * self.n + first)
            for k, column in enumerate(columns):
                move(self.r.at(row, k), column, i)

    def _to_columns(self, element: Value, column: Value, i: Value) -> None:
        self.r.put(self.r.get(element), column, i)

    def _to_rows(self, element: Value, column: Value, i: Value) -> None:
        self.r.put(self.r.get(column, i), element)

    def _eliminate(self, k: Value, column: Value, columns: Sequence[Value], later: Sequence[Value]) -> None:
        """Swap the row of the pivot of a column up, and subtract multiples of it from the rows below."""
        r, f = self.r, self.f
        self._move_pivot_up(k, column, columns)
        pivot, below, count = r.get(column, k), k + 1, f.sub(self.n - 1, k)
        r.divide(r.at(column, below), f.select(f.cmp("eq", pivot, 0), 1.0, pivot), count)
        for other in later:
            r.add(r.at(other, below), f.neg(r.get(other, k)), r.at(column, below), count)

    def _move_pivot_up(self, k: Value, column: Value, columns: Sequence[Value]) -> None:
        r, f, n = self.r, self.f, self.n
        with f.carry_loop(k, f.const(I64, n), [r.number(-1), k]) as loop:
            best, place = loop.values
            size = f.abs(r.get(column, loop.index))
            greater = f.cmp("gt", size, best)
            loop.next(f.select(greater, size, best), f.select(greater, loop.index, place))
        _, place = loop.results
        with f.when(f.cmp("ne", place, k)):
            r.swap(r.at(self.packed, k * n), r.at(self.packed, place * n), n)
            for other in columns:
                r.swap(r.at(other, k), r.at(other, place), 1)
            mine, other = f.gep(self.order, k, I32), f.gep(self.order, place, I32)
            first, second = f.load(mine, I32), f.load(other, I32)
            f.store(second, mine)
            f.store(first, other)

    def _subtract(self, i: Value, rows: Sequence[Value], end: Value) -> None:
        """Subtract multiples of rows of the panel from row i, from column `end` on."""
        r, f, packed, n = self.r, self.f, self.packed, self.n
        factors = [f.neg(r.get(packed, i * n + k)) for k in rows]
        r.add_products(r.at(packed, i * n + end), factors, [r.at(packed, k * n + end) for k in rows], f.sub(n, end))


def emit_lq(op: Op, inputs: Types, outputs: Types, module: ModuleBuilder, symbol: str) -> Emission:
    """Row by row a reflection that zeroes the elements right of the diagonal; then the product of the reflections, in
    place."""
    assert isinstance(op, LQ)
    (x,) = inputs
    m, n = x.shape[-2:]
    f = kernel_function(module, symbol)
    r = Rows.of(f, x.dtype)
    source, lower, orthogonal = pointers(f, 3)
    with f.loop(f.args[1], f.args[2]) as batch:
        factor, q = r.at(lower, batch * (m * m)), r.at(orthogonal, batch * (m * n))
        r.copy(r.at(source, batch * (m * n)), q, m * n)
        with f.loop(0, m) as k:
            v, count = r.at(q, k * (n + 1)), f.sub(n, k)
            r.copy(r.at(q, k * n), r.at(factor, k * m), k)
            front, scale = r.reflect(v, count)
            r.put(front, factor, k * (m + 1))
            r.fill(r.at(factor, k * (m + 1) + 1), 0, f.sub(m - 1, k))
            with f.loop(k + 1, m) as i:
                row = r.at(q, i * n + k)
                r.add(row, f.neg(scale * r.dot(row, v, count)), v, count)
        r.multiply_reflections(q, m, n)
    f.ret()
    return shared(symbol, x)
