"""Cholesky, LU, LQ and triangular systems. Threads share the matrices of a batch; one thread factorizes each matrix."""

from __future__ import annotations

from math import nan, prod

from ....ir.dialects.core import LQ, LU, Cholesky, TriangularSolve
from ....ir.graph import Op
from ....ir.types import TensorType
from ...emission import Emission, LaunchSpec
from ..arithmetic import Value
from ..emitter import ModuleBuilder
from ..types import I32, I64
from .matrix import Rows
from .rows import kernel_function, pointers

Types = tuple[TensorType, ...]


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
    """Forward or backward substitution, row by row of the result."""
    assert isinstance(op, TriangularSolve)
    _, y = inputs
    n, m = y.shape[-2:]
    f = kernel_function(module, symbol)
    r = Rows.of(f, y.dtype)
    matrices, sides, result = pointers(f, 3)
    across, down = (n, 1) if op.transpose else (1, n)
    downwards = op.lower != op.transpose
    with f.loop(f.args[1], f.args[2]) as batch:
        a = r.at(matrices, batch * (n * n))
        side, x = (r.at(base, batch * (n * m)) for base in (sides, result))
        with f.loop(0, n) as step:
            i = step if downwards else f.sub(n - 1, step)
            row = r.at(x, i * m)
            r.copy(r.at(side, i * m), row, m)
            known = (f.const(I64, 0), i) if downwards else (i + 1, f.const(I64, n))
            with f.loop(*known) as k:
                factor = r.get(a, i * down + k * across)
                r.add(row, f.neg(factor), r.at(x, k * m), m)
            pivot = r.get(a, i * (n + 1))
            with f.loop(0, m) as j:
                r.put(r.get(row, j) / pivot, row, j)
    f.ret()
    return shared(symbol, y)


def emit_lu(op: Op, inputs: Types, outputs: Types, module: ModuleBuilder, symbol: str) -> Emission:
    """Column by column: the pivot's row is swapped up, and multiples of it are subtracted from the rows below."""
    assert isinstance(op, LU)
    (x,), n = inputs, inputs[0].shape[-1]
    f = kernel_function(module, symbol)
    r = Rows.of(f, x.dtype)
    source, result, orders = pointers(f, 3)
    with f.loop(f.args[1], f.args[2]) as batch:
        packed, order = r.at(result, batch * (n * n)), f.gep(orders, batch * n, I32)
        r.copy(r.at(source, batch * (n * n)), packed, n * n)
        with f.loop(0, n) as i:
            f.store(f.convert(i, "i32"), f.gep(order, i, I32))
        with f.loop(0, n) as k:
            _move_pivot_up(r, packed, order, k, n)
            row = r.at(packed, k * (n + 1))
            pivot = r.get(row)
            zero = f.cmp("eq", pivot, 0)
            divisor = f.select(zero, 1.0, pivot)
            with f.loop(k + 1, n) as i:
                below = r.at(packed, i * n + k)
                multiple = r.get(below) / divisor
                r.put(multiple, below)
                r.add(r.at(below, 1), f.neg(multiple), r.at(row, 1), f.sub(n - 1, k))
    f.ret()
    return shared(symbol, x)


def _move_pivot_up(r: Rows, packed: Value, order: Value, k: Value, n: int) -> None:
    f = r.f
    with f.carry_loop(k, f.const(I64, n), [r.number(-1), k]) as loop:
        best, place = loop.values
        size = f.abs(r.get(packed, loop.index * n + k))
        greater = f.cmp("gt", size, best)
        loop.next(f.select(greater, size, best), f.select(greater, loop.index, place))
    _, place = loop.results
    with f.when(f.cmp("ne", place, k)):
        r.swap(r.at(packed, k * n), r.at(packed, place * n), n)
        mine, other = f.gep(order, k, I32), f.gep(order, place, I32)
        first, second = f.load(mine, I32), f.load(other, I32)
        f.store(second, mine)
        f.store(first, other)


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
