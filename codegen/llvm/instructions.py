"""Instructions for memory, calls and lanes as methods, in addition to those of `arithmetic.py`.

`Instructions` is the base of `emitter.FunctionBuilder`, which adds control flow.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from .arithmetic import Arithmetic, Operand, Value
from .types import I1, I32, I64, PTR, Number, Type, constant, scalar_constant

_ONLY_FIRST = re.compile(r"<i1 true(, i1 false)+>")


@cache
def _picks(lanes: tuple[int, ...]) -> str:
    """The text of the numbers of selected lanes."""
    return f"<{len(lanes)} x i32> <{', '.join(['i32 poison' if i < 0 else f'i32 {i}' for i in lanes])}>"


def _vector(type: Type) -> str:
    if type.lanes == 1:
        raise ValueError(f"masked access to a scalar {type.text}: use `when`")
    return type.text


class Instructions(Arithmetic):
    """All instructions that do not branch."""

    __slots__ = ()

    # Memory

    def gep(self, pointer: Value, index: Operand, element: Type) -> Value:
        """The address `index` elements after `pointer`; for a vector of indices, a vector of pointers."""
        if not isinstance(index, Value):
            return self.op(f"getelementptr {element.text}, ptr {pointer.text}, i64 {index}", PTR) if index else pointer
        result = PTR.with_lanes(index.type.lanes)
        return self.op(f"getelementptr {element.text}, ptr {pointer.text}, {index.type.text} {index.text}", result)

    def load(self, pointer: Value, type: Type, align: int = 0, nontemporal: bool = False) -> Value:
        """Load a scalar or vector. `align` is in bytes; 0 means the alignment of one element, which every buffer
        has."""
        hint = self.module.nontemporal() if nontemporal else ""
        return self.op(f"load {type.text}, ptr {pointer.text}, align {align or type.bytes}{hint}", type)

    def store(self, value: Value, pointer: Value, align: int = 0, nontemporal: bool = False) -> None:
        """Store a scalar or vector; for `align` see `load`. Non-temporal stores require `align` to be the size of the
        vector, and a `store_fence` before other threads read the memory."""
        type = value.type
        hint = self.module.nontemporal() if nontemporal else ""
        self.lines.append(f"  store {type.text} {value.text}, ptr {pointer.text}, align {align or type.bytes}{hint}")

    def store_fence(self) -> None:
        """Order non-temporal stores before all later stores of this thread."""
        if self.module.target.triple.startswith("x86_64"):
            self.call_void(self.module.declare_raw("llvm.x86.sse.sfence", "void", ""))
        else:
            self.lines.append("  fence seq_cst")

    def lane_mask(self, begin: Value, end: Operand, lanes: int) -> Value:
        """Lane i is true where begin + i < end (unsigned i64)."""
        type = I1.with_lanes(lanes)
        if lanes == 1:
            return self.cmp("ult", begin, end)
        if begin.text.isdecimal() and isinstance(end, int):
            return self.first_lanes(lanes, end - int(begin.text))
        symbol = self.module.declare_raw(f"llvm.get.active.lane.mask.{type.mangled}.i64", type.text, "i64, i64")
        return self.op(f"call {type.text} {symbol}(i64 {begin.text}, i64 {self._text(end, I64)})", type)

    def first_lanes(self, lanes: int, count: int) -> Value:
        """The constant mask of the first `count` lanes."""
        return self.vector_const(I1.with_lanes(lanes), [int(k < count) for k in range(lanes)])

    def rest_mask(self, begin: Value, end: Operand, lanes: int) -> Value:
        """`lane_mask` for begin < end, with fewer instructions: for loop bodies."""
        if lanes == 1:
            return self.cmp("ult", begin, end)
        type = I32.with_lanes(lanes)
        count = self.convert(self.smin(self.sub(end, begin), lanes), "i32")
        return self.cmp("lt", self.iota(type), self.splat(count, type))

    def masked_load(self, pointer: Value, type: Type, mask: Value, other: Operand = 0, align: int = 0) -> Value:
        """Load the lanes where `mask` is true; the others are `other`, and their memory is not accessed. Vectors
        only."""
        t, m = _vector(type), mask.type.text
        symbol = self.module.declare_raw(f"llvm.masked.load.{type.mangled}.p0", t, f"ptr, i32, {m}, {t}")
        operands = f"ptr {pointer.text}, i32 {align or type.bytes}, {m} {mask.text}, {t} {self._text(other, type)}"
        return self.op(f"call {t} {symbol}({operands})", type)

    def masked_store(self, value: Value, pointer: Value, mask: Value, align: int = 0) -> None:
        """Store the lanes where `mask` is true. Vectors only.

        A constant mask of only the first lane is emitted as a scalar store: for a truncated vector, LLVM 22 would store
        the whole element before its truncation (X86ISelLowering, truncating masked stores).
        """
        type = value.type
        if _ONLY_FIRST.fullmatch(mask.text):
            self.store(self.extract(value, 0), pointer, align)
            return
        t, m = _vector(type), mask.type.text
        symbol = self.module.declare_raw(f"llvm.masked.store.{type.mangled}.p0", "void", f"{t}, ptr, i32, {m}")
        operands = f"{t} {value.text}, ptr {pointer.text}, i32 {align or type.bytes}, {m} {mask.text}"
        self.lines.append(f"  call void {symbol}({operands})")

    def gather(self, base: Value, index: Value, element: Type, mask: Value | None = None, other: Operand = 0) -> Value:
        """base[index] per lane (`index` in elements, i32 or i64, signed). Lanes where `mask` is false are `other`, and
        their memory is not accessed.

        A scalar index without a mask is a plain load.
        """
        pointers = self.gep(base, index, element)
        type = element.with_lanes(index.type.lanes)
        if type.lanes == 1 and mask is None:
            return self.load(pointers, type)
        t, p, m = _vector(type), pointers.type.text, f"<{type.lanes} x i1>"
        name = f"llvm.masked.gather.{type.mangled}.{pointers.type.mangled}"
        symbol = self.module.declare_raw(name, t, f"{p}, i32, {m}, {t}")
        which = constant(I1.with_lanes(type.lanes), 1) if mask is None else mask.text
        operands = f"{p} {pointers.text}, i32 {element.bytes}, {m} {which}, {t} {self._text(other, type)}"
        return self.op(f"call {t} {symbol}({operands})", type)

    def prefetch(self, pointer: Value, write: bool = False, locality: int = 3) -> None:
        """Prefetch a cache line; `locality` 3 keeps it in all caches, 0 in none. Any address is allowed."""
        symbol = self.module.declare_raw("llvm.prefetch.p0", "void", "ptr, i32, i32, i32")
        self.lines.append(f"  call void {symbol}(ptr {pointer.text}, i32 {int(write)}, i32 {locality}, i32 1)")

    # Calls

    def call(self, callee: str | Value, result: Type, *operands: Value) -> Value:
        """Call a symbol (`FunctionBuilder.symbol`, `ModuleBuilder.declare`) or a function pointer."""
        return self.op(self._call(callee, result.text, operands), result)

    def call_void(self, callee: str | Value, *operands: Value) -> None:
        self.lines.append("  " + self._call(callee, "void", operands))

    def _call(self, callee: str | Value, result: str, operands: Sequence[Value]) -> str:
        symbol = callee if isinstance(callee, str) else callee.text
        return f"call {result} {symbol}({', '.join([f'{x.type.text} {x.text}' for x in operands])})"

    # Lanes

    def splat(self, a: Operand, type: Type) -> Value:
        """A vector of `type` with a scalar in every lane (a number becomes a constant)."""
        if not isinstance(a, Value):
            return self.const(type, a)
        if type.lanes == 1:
            return a
        first = self.op(f"insertelement {type.text} poison, {a.type.text} {a.text}, i64 0", type)
        return self.shuffle(first, first, [0] * type.lanes)

    def iota(self, type: Type, start: int = 0, step: int = 1) -> Value:
        """The constant (start, start + step, ...)."""
        return self.vector_const(type, [start + step * i for i in range(type.lanes)])

    def vector_const(self, type: Type, numbers: Sequence[Number]) -> Value:
        """A constant with one number per lane."""
        if type.lanes == 1:
            return self.const(type, numbers[0])
        lanes = ", ".join([f"{type.scalar.text} {scalar_constant(type.element, x)}" for x in numbers])
        return Value(f"<{lanes}>", type, self)

    def extract(self, a: Value, lane: Operand) -> Value:
        """One lane as a scalar; a scalar is returned itself."""
        if a.type.lanes == 1:
            return a
        return self.op(f"extractelement {a.type.text} {a.text}, i64 {self._text(lane, I64)}", a.type.scalar)

    def insert(self, a: Value, scalar: Operand, lane: Operand) -> Value:
        """`a` with one lane replaced; if `a` is a scalar, the new scalar."""
        element = a.type.scalar
        if a.type.lanes == 1:
            return scalar if isinstance(scalar, Value) else self.const(element, scalar)
        text = f"{element.text} {self._text(scalar, element)}, i64 {self._text(lane, I64)}"
        return self.op(f"insertelement {a.type.text} {a.text}, {text}", a.type)

    def shuffle(self, a: Value, b: Value, lanes: Sequence[int]) -> Value:
        """A vector of selected lanes: numbers from 0 on are the lanes of a, then those of b, which has the same type;
        -1 leaves a lane undefined."""
        type = a.type.with_lanes(len(lanes))
        if type.lanes == 1:
            return self.extract(a, lanes[0]) if lanes[0] < a.type.lanes else self.extract(b, lanes[0] - a.type.lanes)
        text = f"{a.type.text} {a.text}, {b.type.text} {b.text}, {_picks(tuple(lanes))}"
        return self.op(f"shufflevector {text}", type)

    def concat(self, a: Value, b: Value) -> Value:
        """The lanes of a, then the lanes of b."""
        if a.type.lanes == 1:
            pair = Value("poison", a.type.with_lanes(2), self)
            return self.insert(self.insert(pair, a, 0), b, 1)
        return self.shuffle(a, b, range(2 * a.type.lanes))

    def interleave(self, vectors: Sequence[Value]) -> Value:
        """Lane 0 of two to four vectors of one type, then lane 1 of all, and so on."""
        n, lanes = len(vectors), vectors[0].type.lanes
        order = [j * lanes + i for i in range(lanes) for j in range(n)]
        if n == 2:
            return self.shuffle(vectors[0], vectors[1], order)
        return self.shuffle(self.concat(vectors[0], vectors[1]), self.concat(vectors[2], vectors[-1]), order)

    def slice_lanes(self, a: Value, start: int, count: int) -> Value:
        """`count` lanes of a from `start` on; a scalar if `count` is 1."""
        return self.shuffle(a, a, range(start, start + count)) if count > 1 else self.extract(a, start)

    def reduce(self, op: str, a: Value) -> Value:
        """All lanes combined by `op` to a scalar. The order is a fixed balanced tree of halves, so the result does not
        depend on the version of LLVM.

        `op` names a method with two operands: add mul min max smin smax umin umax and_ or_ xor min_or_second
        max_or_second.
        """
        combine = getattr(self, op)
        while a.type.lanes > 1:
            half, odd = divmod(a.type.lanes, 2)
            if odd:
                raise ValueError(f"reduce requires a power of two of lanes, not {a.type.text}")
            a = combine(self.slice_lanes(a, 0, half), self.slice_lanes(a, half, half))
        return a

    def any(self, mask: Value) -> Value:
        """An i1: true if any lane is true."""
        return self._mask_reduce("or", mask)

    def all(self, mask: Value) -> Value:
        """An i1: true if all lanes are true."""
        return self._mask_reduce("and", mask)

    def _mask_reduce(self, how: str, mask: Value) -> Value:
        if mask.type.lanes == 1:
            return mask
        t = mask.type
        symbol = self.module.declare_raw(f"llvm.vector.reduce.{how}.{t.mangled}", "i1", t.text)
        return self.op(f"call i1 {symbol}({t.text} {mask.text})", I1)
