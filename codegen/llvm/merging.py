"""Functions that are equal except for numbers share one body, which reads these numbers from a table.

LLVM takes 4 ms for a loop nest around micro-kernels, and 0.3 ms for a function that passes a table to a body. A network
has dozens of such nests, and of kernels that run once; they are a few different ones except for extents, strides,
offsets and the micro-kernels that they call. Emitters mark functions that may share (`ModuleBuilder.function`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from .arithmetic import Operand, Value
from .cpu import Cpu
from .emitter import FunctionBuilder, Header, ModuleBuilder
from .types import I64, PTR, Number, Type, constant

_SLOT = re.compile(r"%k(\d+)\b|\0(\d+)\n")
_READ = "\0"  # starts a line that marks the first use of a slot
_FULL = 2500  # lines: about 40 ms of LLVM's time
_SIZE = re.compile(r"%size(\d+)\b")


class NumberedFunction(FunctionBuilder):
    """A function whose integers and symbols are slots, `%k0` and so on, until its text is needed. `slots` holds them in
    order of use, `sizes` the extents of its stack memory."""

    __slots__ = ("sizes", "slots")

    def begin_slots(self) -> None:
        """Start without slots. Called once, before the first instruction."""
        self.slots: list[str] = []
        self.sizes: list[int] = []

    def skeleton(self) -> str:
        """The code without the numbers: functions with equal skeletons can share a body."""
        return "\n".join([*self._allocas, *self.lines])

    def const(self, type: Type, number: Number) -> Value:
        return self._number(type, number) if type.kind == "i64" else super().const(type, number)

    def _pair(self, a: Operand, b: Operand) -> tuple[Type, str, str]:
        if isinstance(a, Value):
            return super()._pair(a, b if isinstance(b, Value) else self.const(a.type, b))
        return super()._pair(self.const(b.type, a) if isinstance(b, Value) else a, b)

    def _text(self, a: Operand, type: Type) -> str:
        return super()._text(a if isinstance(a, Value) else self.const(type, a), type)

    def gep(self, pointer: Value, index: Operand, element: Type) -> Value:
        return super().gep(pointer, index if isinstance(index, Value) else self.const(I64, index), element)

    def extract(self, a: Value, lane: Operand) -> Value:
        return super().extract(a, lane if isinstance(lane, Value) else super().const(I64, lane))

    def insert(self, a: Value, scalar: Operand, lane: Operand) -> Value:
        return super().insert(a, scalar, lane if isinstance(lane, Value) else super().const(I64, lane))

    def lane_mask(self, begin: Value, end: Operand, lanes: int) -> Value:
        """A mask of known lanes is constant in the skeleton: `masked_store` must see masks of one lane."""
        content = self.slots[int(begin.text[2:])] if begin.text.startswith("%k") else ""
        if lanes > 1 and content.isdecimal() and isinstance(end, int):
            return self.first_lanes(lanes, end - int(content))
        return super().lane_mask(begin, end, lanes)

    def alloca(self, type: Type, count: int = 1, align: int = 64) -> Value:
        n = self._fresh()
        self._allocas.append(f"  %v{n} = alloca {type.text}, i64 %size{len(self.sizes)}, align {align}")
        self.sizes.append(count)
        return Value(f"%v{n}", PTR, self)

    def address(self, symbol: str) -> Value:
        return Value(self._slot(symbol), PTR, self)

    def _call(self, callee: str | Value, result: str, operands: Sequence[Value]) -> str:
        shared = isinstance(callee, str) and not callee.startswith("@llvm.")
        return super()._call(self.address(callee) if shared else callee, result, operands)  # type: ignore[arg-type]

    def _number(self, type: Type, number: Number) -> Value:
        slot = Value(self._slot(constant(I64, number)), I64, self)
        return slot if type is I64 else self.splat(slot, type)

    def _slot(self, content: str) -> str:
        name = f"%k{len(self.slots)}"
        self.lines.append(f"{_READ}{len(self.slots)}")
        self.slots.append(content)
        return name

    def text_lines(self) -> list[str]:
        return self.lines_with(self.sizes, {})

    def lines_with(self, sizes: Sequence[int], reads: dict[int, str]) -> list[str]:
        """The function with these extents of stack memory; `reads` are the lines that define slots, all others are
        constants."""

        def text_of(found: re.Match[str]) -> str:
            use, first = found.groups()
            if first is not None:
                return reads.get(int(first), "")
            return found[0] if reads and int(use) in reads else self.slots[int(use)]

        head, label, *lines = super().text_lines()
        allocas = [_SIZE.sub(lambda size: str(sizes[int(size[1])]), line) for line in lines[: len(self._allocas)]]
        return [head, label, *allocas, _SLOT.sub(text_of, "\n".join(lines[len(self._allocas) :]))]


class InnerModule(ModuleBuilder):
    """A module of inner kernels, which functions of other modules call."""

    __slots__ = ()

    def _create(self, header: Header, shares: bool) -> FunctionBuilder:
        is_called = "noinline" in header.attributes
        return super()._create(header._replace(linkage="") if is_called else header, shares)

    def size(self) -> int:
        """The number of lines, to which the time of compilation is about proportional."""
        return sum(len(f.lines) for f in self._functions)

    def parameters_of(self, name: str) -> str:
        """The types of the parameters of a function."""
        return next(", ".join(a.type.text for a in f.args) for f in self._functions if f.symbol == f"@{name}")


class InnerModules:
    """The modules of the inner kernels of a program. Each that is full is passed to `compile`; `last` is still open."""

    def __init__(self, target: Cpu, compile: Callable[[ModuleBuilder], None]) -> None:
        self.last = InnerModule(target)
        self._target, self._compile = target, compile
        self._parameters: dict[str, str] = {}

    def parameters_of(self, name: str, emit: Callable[[ModuleBuilder], None]) -> str:
        """The types of the parameters of inner kernel `name`, which `emit` adds to a module if it is missing."""
        found = self._parameters.get(name)
        if found is None:
            emit(self.last)
            found = self._parameters[name] = self.last.parameters_of(name)
            if self.last.size() >= _FULL:
                self._compile(self.last)
                self.last = InnerModule(self._target)
        return found


class MergingModule(ModuleBuilder):
    """A module in which marked functions with equal skeletons share a body. Inner kernels are in the modules `inner`,
    which LLVM compiles at other times and on other threads; without `inner` they are in this module."""

    __slots__ = ("_inner",)

    def __init__(self, target: Cpu, inner: InnerModules | None = None) -> None:
        super().__init__(target)
        self._inner = inner

    def inner(self, name: str, emit: Callable[[ModuleBuilder], None]) -> str:
        """See `ModuleBuilder.inner`."""
        if self._inner is None:
            return super().inner(name, emit)
        return self.declare_raw(name, "void", self._inner.parameters_of(name, emit))

    def _create(self, header: Header, shares: bool) -> FunctionBuilder:
        if not shares:
            return super()._create(header, shares)
        function = NumberedFunction(self, *header)
        function.begin_slots()
        return function

    def _bodies(self) -> list[str]:
        groups: dict[str, list[NumberedFunction]] = {}
        for f in self._functions:
            if isinstance(f, NumberedFunction):
                groups.setdefault(f.skeleton(), []).append(f)
        shared = [group for group in groups.values() if len(group) > 1]
        merged = {f for group in shared for f in group}
        alone = [line for f in self._functions if f not in merged for line in f.text_lines()]
        return alone + [line for group in shared for line in self._shared(group)]

    def _shared(self, group: Sequence[NumberedFunction]) -> list[str]:
        """The body of functions with equal skeletons, and the functions, which call it."""
        first, body = group[0], f"{group[0].symbol}.body"
        columns = list(zip(*[f.slots for f in group], strict=True))
        varying = {column: k for k, column in enumerate(dict.fromkeys(c for c in columns if len(set(c)) > 1))}
        places = {slot: varying[column] for slot, column in enumerate(columns) if column in varying}
        kept = ", !invariant.load " + self.metadata("!{}")
        reads = {slot: _read(slot, k, first.slots[slot], kept) for slot, k in places.items()}
        sizes = [max(counts) for counts in zip(*[f.sizes for f in group], strict=True)]
        _, *lines = first.lines_with(sizes, reads)
        parameters = ", ".join(repr(a) for a in first.args)
        found = [f"define internal void {body}({parameters}, ptr %numbers) nounwind noinline {{", *lines]
        for number, f in enumerate(group):
            table = ", ".join(f"{_kind(column[number])} {column[number]}" for column in varying)
            types = ", ".join(_kind(column[number]) for column in varying)
            self.global_(f"{f.symbol[1:]}.numbers", f"internal constant {{ {types} }} {{ {table} }}, align 64")
            found += [
                f"define void {f.symbol}({parameters}) nounwind noinline optnone {{",
                f"  tail call void {body}({parameters}, ptr {f.symbol}.numbers)",
                "  ret void",
                "}",
            ]
        return found


def _kind(content: str) -> str:
    return "ptr" if content.startswith("@") else "i64"


def _read(slot: int, place: int, content: str, kept: str) -> str:
    address = f"  %k{slot}.p = getelementptr i64, ptr %numbers, i64 {place}\n"
    return f"{address}  %k{slot} = load {_kind(content)}, ptr %k{slot}.p, align 8{kept}\n"
