"""Functions for dynamic shapes: where an emitter uses a symbolic number as a constant, the function loads it from the
arguments of its launch.

So every emitter emits code for dynamic shapes if extents are symbolic (`ir/symbolic.py`). Known numbers are part of the
code. A decision that depends on a symbolic number adds a guard to its trace.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from ...ir.symbolic import deferred, is_symbolic
from .arithmetic import Operand, Value
from .cpu import Cpu
from .emitter import FunctionBuilder, Header, ModuleBuilder
from .inner_kernels import InnerKernels
from .kernel_module import KernelModule
from .numbered import NumberedFunction
from .types import I1, I64, PTR, Number, Type, scalar_constant

_BYTES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8}
_PACKED = {"i8": "b", "i16": "h", "i32": "i", "i64": "q"}


class DynamicFunction(NumberedFunction):
    """A function with a kernel's signature. `operands` are the symbolic numbers that it reads from argument `first` on;
    they are loaded at its entry, before any loop. Its `numbers` are the functions that it calls and its tables."""

    __slots__ = ("_entry", "_loaded", "_tables", "first", "operands")

    first: int

    def begin_operands(self, first: int) -> None:
        """Read symbolic numbers from argument `first` on."""
        self.begin_numbers(shares=False)
        self.first = first
        self.operands: list[int] = []
        self._entry: list[str] = []
        self._loaded: dict[tuple[str, Type], Value] = {}
        self._tables: dict[tuple[Type, tuple[str, ...]], Value] = {}

    def rename(self, name: str) -> None:
        """Give the function another name. It must not have been called yet."""
        self._head = self._head.replace(f" {self.symbol}(", f" @{name}(")
        self.symbol = f"@{name}"

    def text_lines(self) -> list[str]:
        head, label, *rest = super().text_lines()
        return [head, label, *self._entry, *rest]

    # -- where numbers are used

    def const(self, type: Type, number: Number) -> Value:
        return self._number(type, number) if is_symbolic(number) else super().const(type, number)

    def _pair(self, a: Operand, b: Operand) -> tuple[Type, str, str]:
        if isinstance(a, Value):
            return super()._pair(a, self._number(a.type, b) if is_symbolic(b) else b)
        return super()._pair(self._number(b.type, a) if isinstance(b, Value) and is_symbolic(a) else a, b)

    def _text(self, a: Operand, type: Type) -> str:
        return super()._text(self._number(type, a) if is_symbolic(a) else a, type)

    def gep(self, pointer: Value, index: Operand, element: Type) -> Value:
        return super().gep(pointer, self._number(I64, index) if is_symbolic(index) else index, element)

    def alloca(self, type: Type, count: int = 1, align: int = 64) -> Value:
        if not is_symbolic(count):
            return super().alloca(type, count, align)
        size, n = self._number(I64, count), self._fresh()
        self._entry.append(f"  %v{n} = alloca {type.text}, i64 {size.text}, align {align}")
        return Value(f"%v{n}", PTR, self)

    def lane_mask(self, begin: Value, end: Operand, lanes: int) -> Value:
        return super().lane_mask(begin, self._number(I64, end) if is_symbolic(end) else end, lanes)

    def iota(self, type: Type, start: int = 0, step: int = 1) -> Value:
        if not is_symbolic(start) and not is_symbolic(step):
            return super().iota(type, start, step)
        return self.add(self.mul(super().iota(type), step), start)

    def vector_const(self, type: Type, numbers: Sequence[Number]) -> Value:
        if not any(map(is_symbolic, numbers)):
            return super().vector_const(type, numbers)
        vector = Value("poison", type, self)
        for lane, number in enumerate(numbers):
            vector = self.insert(vector, number, lane)
        return vector

    def table(self, type: Type, numbers: Sequence[Number], align: int = 64) -> Value:
        """See `FunctionBuilder.table`. A table of symbolic numbers is part of the launch's arguments."""
        if not any(map(is_symbolic, numbers)):
            return super().table(type, numbers, align)
        words = deferred(_packed_words, type.element, tuple(numbers))
        slot = self.first + len(self.operands)
        self.operands += words
        return self._enter(f"getelementptr i64, ptr {self.args[0].text}, i64 {slot}", PTR)

    # -- loading them

    def _number(self, type: Type, number: Operand) -> Value:
        """The value of a symbolic number."""
        assert not isinstance(number, Value)
        key = f"{number.name}", type  # type: ignore[union-attr]
        loaded = self._loaded.get(key)
        if loaded is None:
            loaded = self._loaded[key] = self._load_number(type, number)
        return loaded

    def _load_number(self, type: Type, number: Number) -> Value:
        if type.lanes > 1:
            scalar = self._number(type.scalar, number)
            first = self._enter(f"insertelement {type.text} poison, {type.scalar.text} {scalar.text}, i64 0", type)
            lanes = f"<{type.lanes} x i32> zeroinitializer"
            return self._enter(f"shufflevector {type.text} {first.text}, {type.text} {first.text}, {lanes}", type)
        if type is not I64:
            return self._narrowed(type, number)
        slot = self.first + len(self.operands)
        self.operands.append(number)  # type: ignore[arg-type]
        place = self._enter(f"getelementptr i64, ptr {self.args[0].text}, i64 {slot}", PTR)
        return self._enter(f"load i64, ptr {place.text}, align 8", I64)

    def _narrowed(self, type: Type, number: Number) -> Value:
        """A number as a scalar of a type other than i64: its bits are the low bits of an argument."""
        if type is I1:
            return self._enter(f"icmp ne i64 {self._number(I64, number).text}, 0", I1)
        if not type.is_float:
            return self._enter(f"trunc i64 {self._number(I64, number).text} to {type.text}", type)
        bits = self._number(I64, deferred(number_bits, type.element, number)).text
        if type.element == "double":
            return self._enter(f"bitcast i64 {bits} to double", type)
        low = self._enter(f"trunc i64 {bits} to i{type.bits}", type)
        return (
            low if type.text != type.element else self._enter(f"bitcast i{type.bits} {low.text} to {type.text}", type)
        )

    def _enter(self, text: str, type: Type) -> Value:
        """Append an instruction to the function's entry."""
        n = self._fresh()
        self._entry.append(f"  %v{n} = {text}")
        return Value(f"%v{n}", type, self)


def number_bits(element: str, number: float) -> int:
    """The bits of a number rounded to a float type."""
    if element == "double":
        return struct.unpack("<q", struct.pack("<d", number))[0]
    text = scalar_constant(element, number)
    if element == "float":
        (rounded,) = struct.unpack("<d", struct.pack("<Q", int(text, 16)))
        return struct.unpack("<I", struct.pack("<f", rounded))[0]
    return int(text.removeprefix("0xH"), 16 if element == "half" else 10)


def _packed_words(element: str, numbers: Sequence[Number]) -> tuple[int, ...]:
    """The little-endian 64-bit words of an array of integers."""
    raw = struct.pack(f"<{len(numbers)}{_PACKED[element]}", *numbers)
    raw += bytes(-len(raw) % 8)
    return struct.unpack(f"<{len(raw) // 8}q", raw)


class DynamicModule(KernelModule):
    """A module of kernels with symbolic numbers. Kernels are named by a digest of their code, so that programs can
    share them."""

    __slots__ = ("_later", "_open")

    def __init__(self, target: Cpu, kernels: InnerKernels) -> None:
        super().__init__(target, kernels, shares=False)
        self._open: tuple[int, list[DynamicFunction]] | None = None  # the kernel that is being emitted
        self._later: dict[str, Callable[[], None]] = {}

    def helper(self, name: str, emit: Callable[[], None]) -> str:
        """See `ModuleBuilder.helper`. `emit` runs in `release`: most kernels that call helpers are already compiled and
        are undone."""
        if name not in self._names:
            self._claim(name)
            self._later[name] = emit
        return "@" + name

    def inner(self, name: str, emit: Callable[[ModuleBuilder], None]) -> str:
        """See `ModuleBuilder.inner` and `helper`."""
        return self.helper(name, lambda: self._add_inner(name, emit))

    def _add_inner(self, name: str, emit: Callable[[ModuleBuilder], None]) -> None:
        self.kernels.parameters_of(name, emit)

    def undo(self, mark: tuple[int, frozenset[str]]) -> None:
        super().undo(mark)
        self._later = {name: emit for name, emit in self._later.items() if name in self._names}

    def release(self) -> None:
        """See `KernelModule.release`. Called once, when all kernels are emitted."""
        while self._later:
            name, emit = self._later.popitem()
            self._names.discard(name)
            emit()
        super().release()

    def begin_kernel(self, first: int) -> None:
        """Start a kernel: external functions created until `end_kernel` belong to it. Its numbers are arguments from
        `first` on."""
        self._open = first, []

    def _create(self, header: Header, shares: bool) -> FunctionBuilder:
        if header.linkage or self._open is None:
            return super()._create(header, shares)
        function = DynamicFunction(self, *header)
        first, functions = self._open
        function.begin_operands(first)
        functions.append(function)
        return function

    def end_kernel(self, symbol: str) -> DynamicKernel:
        """The functions created since `begin_kernel`, whose names start with `symbol`."""
        assert self._open is not None
        (_, functions), self._open = self._open, None
        text = "\n".join([line for f in functions for line in (*f.text_lines(), *map(str, f.numbers))])
        digest = blake2b(text.replace(f"@{symbol}", "@kernel").encode(), digest_size=12).hexdigest()
        return DynamicKernel(digest, symbol, tuple(functions))

    def rename(self, kernel: DynamicKernel, symbol: str) -> None:
        """Replace the symbol with which the names of a kernel's functions start."""
        for f in kernel.functions:
            name = symbol + f.symbol.removeprefix(f"@{kernel.symbol}")
            self._claim(name)
            f.rename(name)


class DynamicKernel(NamedTuple):
    """The functions of one kernel, a digest of their code, and the symbol with which their names start."""

    digest: str
    symbol: str
    functions: tuple[DynamicFunction, ...]

    def numbers(self, symbol: str) -> tuple[int, ...]:
        """The symbolic numbers that function `symbol` reads."""
        return next(tuple(f.operands) for f in self.functions if f.symbol == f"@{symbol}")
