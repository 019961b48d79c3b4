"""Functions that read their numbers from a table, so that functions that differ only in numbers share one body of code.

The numbers are integers (extents, strides, offsets) and addresses of other functions and tables. A network has dozens
of loop nests around micro-kernels, and of kernels that run once, which differ in nothing else. LLVM takes 4 ms for such
a nest; a shared body is compiled once for many programs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from .arithmetic import Operand, Value
from .emitter import CarryLoop, FunctionBuilder
from .types import I64, PTR, Number, Type, constant

_STACKS = (256, 1024, 4096)
"""Stack memory has room for so many elements, or for a power of two."""

_BODY = "@body"

NUMBERS = "%numbers"
"""The address of the table in a function's code."""


class NumberedFunction(FunctionBuilder):
    """A function that reads symbols, and integers if it `shares`, from a table, whose address is its last argument:
    `numbers` is the content. With `shares` its stack memory has room for the next power of two."""

    __slots__ = ("_kept", "_shares", "_stack", "numbers")

    def begin_numbers(self, shares: bool) -> None:
        """Start without numbers. Called once, before the first instruction."""
        self.numbers: list[int | str] = []
        self._shares = shares
        self._stack: set[str] = set()
        self._kept = ", !invariant.load " + self.module.metadata("!{}")

    def body(self) -> tuple[str, str]:
        """The name of the body, which is a digest of its code, and the code."""
        _, *lines = self.text_lines()
        parameters = ", ".join([repr(a) for a in self.args])
        text = "\n".join((f"define void {_BODY}({parameters}, ptr {NUMBERS}) nounwind noinline {{", *lines))
        name = f"body.{hashlib.blake2s(text.encode(), digest_size=10).hexdigest()}"
        return name, text.replace(_BODY, f"@{name}", 1)

    def const(self, type: Type, number: Number) -> Value:
        if not self._shares or type.element != "i64":
            return super().const(type, number)
        value = self._read(constant(I64, number), int(number))
        return value if type is I64 else self.splat(value, type)

    def _pair(self, a: Operand, b: Operand) -> tuple[Type, str, str]:
        if isinstance(a, Value):
            return super()._pair(a, b if isinstance(b, Value) else self.const(a.type, b))
        return super()._pair(self.const(b.type, a) if isinstance(b, Value) else a, b)

    def _text(self, a: Operand, type: Type) -> str:
        return super()._text(a if isinstance(a, Value) else self.const(type, a), type)

    def gep(self, pointer: Value, index: Operand, element: Type) -> Value:
        """See `Instructions.gep`. Positions in stack memory are part of the code."""
        if isinstance(index, int) and pointer.text in self._stack:
            return super().gep(pointer, self.fixed(index), element)
        return super().gep(pointer, index if isinstance(index, Value) else self.const(I64, index), element)

    def extract(self, a: Value, lane: Operand) -> Value:
        return super().extract(a, lane if isinstance(lane, Value) else super().const(I64, lane))

    def insert(self, a: Value, scalar: Operand, lane: Operand) -> Value:
        return super().insert(a, scalar, lane if isinstance(lane, Value) else super().const(I64, lane))

    def lane_mask(self, begin: Value, end: Operand, lanes: int) -> Value:
        """A mask of known lanes is constant in the code: `masked_store` must see masks of one lane."""
        known = self._known(begin)
        if lanes > 1 and known is not None and isinstance(end, int):
            return self.first_lanes(lanes, end - known)
        return super().lane_mask(begin, end, lanes)

    def _known(self, value: Value) -> int | None:
        """The number that a value is; None if it is computed."""
        if value.text.isdecimal():
            return int(value.text)
        number = self.numbers[int(value.text[2:])] if value.text.startswith("%k") else None
        return number if isinstance(number, int) else None

    def alloca(self, type: Type, count: int = 1, align: int = 64) -> Value:
        room = next((n for n in _STACKS if n >= count), 1 << (count - 1).bit_length()) if self._shares else count
        memory = super().alloca(type, room, align)
        self._stack.add(memory.text)
        return memory

    @contextmanager
    def carry_loop(
        self, low: Operand, high: Operand, carry: Sequence[Value], step: Operand = 1
    ) -> Generator[CarryLoop]:
        """See `FunctionBuilder.carry_loop`. Starts of 0 and steps of 1 are part of the code, which is faster with
        them."""
        if not self._shares:
            with super().carry_loop(low, high, carry, step) as loop:
                yield loop
            return
        type = next((x.type for x in (low, high, step) if isinstance(x, Value)), I64)
        start = super().const(type, 0) if low == 0 else low
        with super().carry_loop(start, high, carry, super().const(type, 1) if step == 1 else step) as loop:
            yield loop

    def address(self, symbol: str) -> Value:
        return self._read(PTR.text, symbol.removeprefix("@"))

    def _call(self, callee: str | Value, result: str, operands: Sequence[Value]) -> str:
        is_number = isinstance(callee, str) and not self.module.is_inlined(callee)
        return super()._call(self.address(callee) if is_number else callee, result, operands)  # type: ignore[arg-type]

    def _read(self, what: str, number: int | str) -> Value:
        """The next number, as the code reads it from the table."""
        n, type = len(self.numbers), I64 if isinstance(number, int) else PTR
        self.numbers.append(number)
        self.lines.append(f"  %k{n}.p = getelementptr i64, ptr {NUMBERS}, i64 {n}")
        self.lines.append(f"  %k{n} = load {type.text}, ptr %k{n}.p, align 8{self._kept}")
        return Value(f"%k{n}", type, self)
