"""Vector loops over rows of numbers in memory, from which factorizations are built."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir.lazy_dataclass import dataclass
from ....ir.types import DType
from ..arithmetic import Operand, Value
from ..emitter import FunctionBuilder
from ..types import I64, Type, type_of

_RANGES = {32: (90, 80), 64: (900, 600)}
"""By the bits of a dtype: a sum of squares between 2**-a and 2**a is accurate; 2**b moves other elements there."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Emits operations on rows of one dtype. A row is an address and a number of elements."""

    f: FunctionBuilder
    element: Type
    lanes: int

    @staticmethod
    def of(f: FunctionBuilder, dtype: DType) -> Rows:
        element = type_of(dtype)
        return Rows(f, element, f.module.target.lanes(element.bits))

    def at(self, base: Value, index: Operand) -> Value:
        return self.f.gep(base, index, self.element)

    def get(self, base: Value, index: Operand = 0) -> Value:
        return self.f.load(self.at(base, index), self.element)

    def put(self, value: Value, base: Value, index: Operand = 0) -> None:
        self.f.store(value, self.at(base, index))

    def number(self, value: float) -> Value:
        return self.f.const(self.element, value)

    def dot(self, x: Value, y: Value, count: Operand) -> Value:
        """The sum of products of two rows."""
        f, wide = self.f, self.element.with_lanes(self.lanes)
        count = count if isinstance(count, Value) else f.const(I64, count)
        whole = f.sub(count, f.urem(count, self.lanes))
        with f.carry_loop(0, whole, [f.const(wide, 0)], self.lanes) as loop:
            a, b = (f.load(self.at(row, loop.index), wide) for row in (x, y))
            loop.next(f.fma(a, b, loop.values[0]))
        with f.carry_loop(whole, count, [f.reduce("add", loop.results[0])]) as rest:
            rest.next(f.fma(self.get(x, rest.index), self.get(y, rest.index), rest.values[0]))
        return rest.results[0]

    def add(self, y: Value, scale: Value, x: Value, count: Operand) -> None:
        """y += scale x."""
        f = self.f

        def step(type: Type, index: Value) -> None:
            old, term = (f.load(self.at(row, index), type) for row in (y, x))
            f.store(f.fma(f.splat(scale, type), term, old), self.at(y, index))

        self.each(count, step)

    def add_products(self, y: Value, scales: Sequence[Value], rows: Sequence[Value], count: Operand) -> None:
        """y += scales[0] rows[0], then scales[1] rows[1], and so on, with one load and one store of y."""
        f = self.f

        def step(type: Type, index: Value) -> None:
            total = f.load(self.at(y, index), type)
            for scale, row in zip(scales, rows, strict=True):
                total = f.fma(f.splat(scale, type), f.load(self.at(row, index), type), total)
            f.store(total, self.at(y, index))

        self.each(count, step)

    def rotate(self, x: Value, y: Value, cosine: Value, sine: Value, count: Operand) -> None:
        """x, y = cosine x - sine y, sine x + cosine y."""
        f = self.f

        def step(type: Type, index: Value) -> None:
            a, b = (f.load(self.at(row, index), type) for row in (x, y))
            c, s = f.splat(cosine, type), f.splat(sine, type)
            f.store(f.fma(c, a, f.neg(s * b)), self.at(x, index))
            f.store(f.fma(s, a, c * b), self.at(y, index))

        self.each(count, step)

    def scale(self, x: Value, factor: Value, count: Operand) -> None:
        """x *= factor."""
        f = self.f

        def step(type: Type, index: Value) -> None:
            f.store(f.load(self.at(x, index), type) * f.splat(factor, type), self.at(x, index))

        self.each(count, step)

    def divide(self, x: Value, divisor: Value, count: Operand) -> None:
        """x /= divisor."""
        f = self.f

        def step(type: Type, index: Value) -> None:
            f.store(f.div(f.load(self.at(x, index), type), f.splat(divisor, type)), self.at(x, index))

        self.each(count, step)

    def fill(self, x: Value, value: float, count: Operand) -> None:
        self.each(count, lambda type, i: self.f.store(self.f.const(type, value), self.at(x, i)))

    def copy(self, x: Value, y: Value, count: Operand) -> None:
        """y = x."""
        f = self.f
        self.each(count, lambda type, i: f.store(f.load(self.at(x, i), type), self.at(y, i)))

    def swap(self, x: Value, y: Value, count: Operand) -> None:
        f = self.f

        def step(type: Type, index: Value) -> None:
            a, b = (f.load(self.at(row, index), type) for row in (x, y))
            f.store(b, self.at(x, index))
            f.store(a, self.at(y, index))

        self.each(count, step)

    def each(self, count: Operand, step: Callable[[Type, Value], None]) -> None:
        """`step` for whole vectors of elements, then for each remaining element."""
        f = self.f
        count = count if isinstance(count, Value) else f.const(I64, count)
        whole = f.sub(count, f.urem(count, self.lanes))
        with f.loop(0, whole, self.lanes) as i:
            step(self.element.with_lanes(self.lanes), i)
        with f.loop(whole, count) as i:
            step(self.element, i)

    # -- Householder's reflections

    def reflect(self, x: Value, count: Value) -> tuple[Value, Value]:
        """Replace row x by the vector v, with v[0] = 1, of the reflection I - scale v v^T that maps x to a multiple of
        the first unit vector. Returns that multiple and the scale."""
        f = self.f
        rest = self.at(x, 1)
        factor, front, tail = self._squared(x, count)
        flat = f.cmp("eq", tail, 0)
        length = f.neg(f.copysign(f.sqrt(f.fma(front, front, tail)), front))
        self.scale(rest, f.div(1.0, f.select(flat, 1.0, front - length)), count - 1)
        self.put(self.number(1), x)
        scale = f.div(length - front, f.select(flat, self.number(1), length))
        return f.div(f.select(flat, front, length), factor), f.select(flat, 0.0, scale)

    def _squared(self, x: Value, count: Value) -> tuple[Value, Value, Value]:
        """The first element of a row, and the sum of the squares of the others. If squares would overflow, or lose bits
        to underflow, the row is multiplied by a power of 2 first, which is the first result."""
        f, rest = self.f, self.at(x, 1)
        front, tail = self.get(x), self.dot(rest, rest, count - 1)
        size, (limit, power) = f.fma(front, front, tail), _RANGES[self.element.bits]
        is_small, is_great = f.cmp("lt", size, 2.0**-limit), f.cmp("gt", size, 2.0**limit)

        def scaled() -> tuple[Value, Value, Value]:
            factor = f.select(is_small, self.number(2.0**power), self.number(2.0**-power))
            self.scale(x, factor, count)
            return factor, self.get(x), self.dot(rest, rest, count - 1)

        unscaled = self.number(1), front, tail
        factor, front, tail = f.branch(is_small | is_great, scaled, lambda: unscaled, unlikely=True)
        return factor, front, tail

    def multiply_reflections(self, q: Value, rows: int, columns: int) -> None:
        """Replace the vectors v of reflections, in row k from column k on, by the first rows of their product."""
        f = self.f
        with f.loop(0, rows) as step:
            k = f.sub(rows - 1, step)
            v, count = self.at(q, k * (columns + 1)), f.sub(columns, k)
            rest = self.at(v, 1)
            tail = self.dot(rest, rest, count - 1)
            scale = f.select(f.cmp("eq", tail, 0), 0.0, f.div(2.0, tail + 1.0))
            with f.loop(k + 1, rows) as i:
                row = self.at(q, i * columns + k)
                self.add(row, f.neg(scale * self.dot(row, v, count)), v, count)
            self.fill(self.at(q, k * columns), 0, k)
            self.scale(v, f.neg(scale), count)
            self.put(self.get(v) + 1.0, v)
