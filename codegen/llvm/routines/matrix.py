"""Rows of numbers in memory, and the vector loops over them that factorizations are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....ir.types import DType
from ..arithmetic import Operand, Value
from ..emitter import FunctionBuilder
from ..types import I64, Type, type_of


@dataclass(frozen=True, slots=True)
class Rows:
    """What a routine says about rows of one dtype: an address and a number of elements are a row."""

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
            old, given = (f.load(self.at(row, index), type) for row in (y, x))
            f.store(f.fma(f.splat(scale, type), given, old), self.at(y, index))

        self._each(count, step)

    def turn(self, x: Value, y: Value, cosine: Value, sine: Value, count: Operand) -> None:
        """x, y become cosine x - sine y, sine x + cosine y."""
        f = self.f

        def step(type: Type, index: Value) -> None:
            a, b = (f.load(self.at(row, index), type) for row in (x, y))
            c, s = f.splat(cosine, type), f.splat(sine, type)
            f.store(f.fma(c, a, f.neg(s * b)), self.at(x, index))
            f.store(f.fma(s, a, c * b), self.at(y, index))

        self._each(count, step)

    def scale(self, x: Value, factor: Value, count: Operand) -> None:
        """x *= factor."""
        f = self.f

        def step(type: Type, index: Value) -> None:
            f.store(f.load(self.at(x, index), type) * f.splat(factor, type), self.at(x, index))

        self._each(count, step)

    def fill(self, x: Value, value: float, count: Operand) -> None:
        self._each(count, lambda type, i: self.f.store(self.f.const(type, value), self.at(x, i)))

    def copy(self, x: Value, y: Value, count: Operand) -> None:
        """y becomes x."""
        f = self.f
        self._each(count, lambda type, i: f.store(f.load(self.at(x, i), type), self.at(y, i)))

    def swap(self, x: Value, y: Value, count: Operand) -> None:
        f = self.f

        def step(type: Type, index: Value) -> None:
            a, b = (f.load(self.at(row, index), type) for row in (x, y))
            f.store(b, self.at(x, index))
            f.store(a, self.at(y, index))

        self._each(count, step)

    def _each(self, count: Operand, step: Callable[[Type, Value], None]) -> None:
        """`step` of whole vectors of elements, then of each element that is left."""
        f = self.f
        count = count if isinstance(count, Value) else f.const(I64, count)
        whole = f.sub(count, f.urem(count, self.lanes))
        with f.loop(0, whole, self.lanes) as i:
            step(self.element.with_lanes(self.lanes), i)
        with f.loop(whole, count) as i:
            step(self.element, i)

    # -- Householder's reflections

    def reflect_out(self, x: Value, count: Value) -> tuple[Value, Value]:
        """Makes row x the direction of the reflection, with 1 in front, that turns it into one number at its front;
        returns that number and the reflection's scale: I - scale v v^T."""
        f = self.f
        rest = self.at(x, 1)
        tail = self.dot(rest, rest, count - 1)
        front = self.get(x)
        flat = f.cmp("eq", tail, 0)
        length = f.neg(f.copysign(f.sqrt(f.fma(front, front, tail)), front))
        self.scale(rest, f.div(1.0, f.select(flat, 1.0, front - length)), count - 1)
        self.put(self.number(1), x)
        scale = f.div(length - front, f.select(flat, self.number(1), length))
        return f.select(flat, front, length), f.select(flat, 0.0, scale)

    def rotate_back(self, q: Value, rows: int, columns: int) -> None:
        """Rows of directions v of reflections, row k from column k on, become the first rows of their product."""
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
