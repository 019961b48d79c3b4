"""Eigenvalues and eigenvectors of symmetric matrices: Householder reflections to tridiagonal form, then rotations.

The iteration is QL with implicit shifts: Dubrulle, Martin, Wilkinson, "The Implicit QL Algorithm" (1968).
"""

from __future__ import annotations

from ....ir.dialects.core import SymmetricEigen
from ....ir.graph import Op
from ....ir.types import DType, TensorType
from ...emission import Emission
from ..arithmetic import Value
from ..emitter import ModuleBuilder
from ..types import I1, I64
from .factorization import shared
from .matrix import Rows
from .rows import kernel_function, pointers

Types = tuple[TensorType, ...]
_SWEEPS = 64  # limit per eigenvalue; two or three sweeps are enough, but NaN never converges


def emit_symmetric_eigen(op: Op, inputs: Types, outputs: Types, module: ModuleBuilder, symbol: str) -> Emission:
    """The workspace holds the off-diagonal elements and a row for each worker."""
    assert isinstance(op, SymmetricEigen)
    (x,), n = inputs, inputs[0].shape[-1]
    f = kernel_function(module, symbol)
    r = Rows.of(f, x.dtype)
    source, values, vectors, work = pointers(f, 4)
    off_diagonal = r.at(work, f.convert(f.args[3], "i64") * (2 * n))
    with f.loop(f.args[1], f.args[2]) as batch:
        a, z = (r.at(base, batch * (n * n)) for base in (source, vectors))
        matrix = _Matrix(r, n, z, r.at(values, batch * n), off_diagonal, x.dtype)
        matrix.fill_from_lower(a)
        matrix.tridiagonalize()
        matrix.diagonalize()
    f.ret()
    return shared(symbol, x, module.target.threads * 2 * n * x.dtype.itemsize)


class _Matrix:
    """An n x n matrix at `z`, which becomes the eigenvectors. `d` is the address of its diagonal, which becomes the
    eigenvalues, `e` of its off-diagonal elements, followed by room for one row."""

    def __init__(self, r: Rows, n: int, z: Value, d: Value, e: Value, dtype: DType) -> None:
        self.r, self.f, self.n, self.z, self.d, self.e = r, r.f, n, z, d, e
        self.row = r.at(e, n)
        self.epsilon = 2.0**-52 if dtype is DType.F64 else 2.0**-23

    def fill_from_lower(self, a: Value) -> None:
        r, n = self.r, self.n
        with self.f.loop(0, n) as i, self.f.loop(0, i + 1) as j:
            number = r.get(a, i * n + j)
            r.put(number, self.z, i * n + j)
            r.put(number, self.z, j * n + i)

    def tridiagonalize(self) -> None:
        """Compute d and e, and store in z the rows of the orthogonal matrix of the transformation."""
        f, r, n, z = self.f, self.r, self.n, self.z
        with f.loop(0, n - 2 if n > 2 else 0) as k:
            self._reflect(k)
        with f.loop(0, n) as i:
            r.put(r.get(z, i * (n + 1)), self.d, i)
        if n > 1:
            r.put(r.get(z, n * (n - 1) - 1), self.e, n - 2)
        r.put(r.number(0), self.e, n - 1)
        with f.loop(1, n) as up:  # row k holds reflection k from column k + 1 on: move each one row down
            i = f.sub(n, up)
            r.copy(r.at(z, i * (n + 1) - n), r.at(z, i * (n + 1)), f.sub(n, i))
        r.put(r.number(1), z, n * n - 1)
        r.fill(z, 0, n)
        r.put(r.number(1), z)
        r.multiply_reflections(z, n, n)

    def _reflect(self, k: Value) -> None:
        """Reflect row k to zeros after the off-diagonal element, and apply the reflection to the following rows and
        columns."""
        f, r, n = self.f, self.r, self.n
        v, count = r.at(self.z, k * (n + 1) + 1), f.sub(n - 1, k)
        number, scale = r.reflect(v, count)
        r.put(number, self.e, k)
        with f.loop(0, count) as i:
            following = r.at(v, f.add(i, 1) * n)
            r.put(scale * r.dot(following, v, count), self.row, i)
        r.add(self.row, f.neg(scale * r.dot(self.row, v, count)) * 0.5, v, count)
        with f.loop(0, count) as i:
            following = r.at(v, f.add(i, 1) * n)
            r.add(following, f.neg(r.get(v, i)), self.row, count)
            r.add(following, f.neg(r.get(self.row, i)), v, count)

    def diagonalize(self) -> None:
        """Rotate e to zero, one eigenvalue at a time. If one does not converge, the next ones are not computed."""
        f, n = self.f, self.n
        if n < 2:
            return
        with f.carry_loop(0, n - 1, [f.const(I1, 1)]) as loop:
            low, (converges,) = loop.index, loop.values

            def unfinished(high: Value, sweeps: Value) -> Value:
                return f.cmp("ne", high, low) & f.cmp("lt", sweeps, _SWEEPS) & converges

            def sweep(high: Value, sweeps: Value) -> tuple[Value, Value]:
                self._sweep(low, high)
                return self._end(low), sweeps + 1

            _, sweeps = f.while_loop([self._end(low), f.const(I64, 0)], unfinished, sweep)
            loop.next(converges & f.cmp("lt", sweeps, _SWEEPS))

    def _end(self, low: Value) -> Value:
        """The first row from `low` on whose off-diagonal element is negligible."""
        f, r, n = self.f, self.r, self.n

        def is_coupled(i: Value) -> Value:
            inside = f.smin(i, n - 2)
            size = f.abs(r.get(self.d, inside)) + f.abs(r.get(self.d, inside + 1))
            return f.cmp("lt", i, n - 1) & f.cmp("ugt", f.abs(r.get(self.e, inside)), size * self.epsilon)

        def next_row(i: Value) -> tuple[Value]:
            return (i + 1,)

        return f.while_loop([low], is_coupled, next_row)[0]

    def _sweep(self, low: Value, high: Value) -> None:
        f, r = self.f, self.r
        d_low, e_low = r.get(self.d, low), r.get(self.e, low)
        slope = (r.get(self.d, low + 1) - d_low) / (e_low * 2.0)
        root = f.sqrt(f.fma(slope, slope, r.number(1)))
        g = r.get(self.d, high) - d_low + e_low / (slope + f.copysign(root, slope))
        one, zero = r.number(1), r.number(0)

        def unfinished(i: Value, *others: Value) -> Value:
            return f.cmp("ge", i, low) & f.not_(others[-1])

        _, _, _, p, g, stopped = f.while_loop(
            [high - 1, one, one, zero, g, f.const(I1, 0)],
            unfinished,
            self._rotate,
        )
        with f.when(f.not_(stopped)):
            r.put(r.get(self.d, low) - p, self.d, low)
            r.put(g, self.e, low)
        r.put(zero, self.e, high)

    def _rotate(self, i: Value, s: Value, c: Value, p: Value, g: Value, _: Value) -> tuple[Value, ...]:
        """One rotation of rows i and i + 1. The sweep stops if its off-diagonal element is 0."""
        f, r, n = self.f, self.r, self.n
        along, across = s * r.get(self.e, i), c * r.get(self.e, i)
        length = self._hypot(along, g)
        r.put(length, self.e, i + 1)
        stopped = f.cmp("eq", length, 0)
        following = r.get(self.d, i + 1) - p

        def stop() -> tuple[Value, ...]:
            r.put(following, self.d, i + 1)
            return s, c, p, g

        def rotate() -> tuple[Value, ...]:
            sine, cosine = along / length, g / length
            t = (r.get(self.d, i) - following) * sine + cosine * across * 2.0
            moved = sine * t
            r.put(following + moved, self.d, i + 1)
            r.rotate(r.at(self.z, i * n), r.at(self.z, f.add(i, 1) * n), cosine, sine, n)
            return sine, cosine, moved, cosine * t - across

        return i - 1, *f.branch(stopped, stop, rotate, unlikely=True), stopped

    def _hypot(self, a: Value, b: Value) -> Value:
        """sqrt(a^2 + b^2) without overflow or underflow of the squares."""
        f = self.f
        a, b = f.abs(a), f.abs(b)
        great, small = f.max(a, b), f.min(a, b)
        part = small / f.select(f.cmp("eq", great, 0), 1.0, great)
        return great * f.sqrt(f.fma(part, part, self.r.number(1)))
