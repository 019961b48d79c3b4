"""Builds LLVM modules as text: functions with structured control flow, constants and tables, declarations.

Building text takes about a microsecond per instruction, a tenth of the time of llvmlite.ir. The same calls always give
the same text. No fast-math flag is ever set, except `contract` (multiply-add fusion), an option of a function.

    module = ModuleBuilder(target)
    f = module.function("scale", None, [("x", PTR, "noalias"), ("n", I64, "")])
    x, n = f.args
    with f.loop(0, n) as i:
        p = f.gep(x, i, F32)
        f.store(f.load(p, F32) * 2.0, p)
    f.ret()
    module.text()
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

from .arithmetic import Operand, Value
from .cpu import Cpu
from .instructions import Instructions
from .types import I64, PTR, Number, Type, constant, table_constant

Parameter = tuple[str, Type, str]


class Header(NamedTuple):
    """What a function is created with: see `ModuleBuilder.function`."""

    name: str
    result: Type | None
    parameters: Sequence[Parameter]
    linkage: str
    attributes: str
    contract: bool


class ModuleBuilder:
    """A module under construction. Equal declarations, tables and metadata are stored once; their names follow from
    their content, so that texts of modules can be joined."""

    __slots__ = (
        "_declared", "_functions", "_globals", "_inlined", "_intrinsics", "_metadata", "_names", "_tables", "target"
    )  # fmt: skip

    def __init__(self, target: Cpu) -> None:
        self.target = target
        self._declared: dict[str, str] = {}
        self._intrinsics: dict[tuple[str, Type, int], str] = {}
        self._tables: dict[tuple[str, int], str] = {}
        self._globals: dict[str, str] = {}
        self._metadata: dict[str, str] = {}
        self._inlined: set[str] = set()
        self._functions: list[FunctionBuilder] = []
        self._names: set[str] = set()

    def function(
        self,
        name: str,
        result: Type | None,
        parameters: Sequence[Parameter],
        *,
        linkage: str = "",
        attributes: str = "nounwind",
        contract: bool = False,
        shares: bool = False,
    ) -> FunctionBuilder:
        """Create a function; a parameter is (name, type, attributes such as "noalias" or "").

        It is external by default; helpers have linkage "internal", often with `attributes="nounwind alwaysinline"`.
        `shares`: its speed does not depend on its numbers, so that it can share code with others (`kernel_module.py`).
        AssertionError if the module already has the name.
        """
        self._claim(name)
        if "alwaysinline" in attributes:
            self._inlined.add("@" + name)
        function = self._create(Header(name, result, parameters, linkage, attributes, contract), shares)
        self._functions.append(function)
        return function

    def _create(self, header: Header, shares: bool) -> FunctionBuilder:
        """The builder of a new function."""
        return FunctionBuilder(self, *header)

    def has_functions(self) -> bool:
        """True if the module defines a function."""
        return bool(self._functions)

    def is_inlined(self, symbol: str) -> bool:
        """True for an intrinsic of LLVM, and for a helper that LLVM inlines."""
        return symbol in self._inlined or symbol.startswith("@llvm.")

    def has_function(self, name: str) -> bool:
        """True if the module has a function or a global of this name."""
        return name in self._names

    def helper(self, name: str, emit: Callable[[], None]) -> str:
        """The symbol of internal function `name`; `emit` adds it if the module does not have it."""
        if name not in self._names:
            emit()
        return "@" + name

    def inner(self, name: str, emit: Callable[[ModuleBuilder], None]) -> str:
        """The symbol of inner kernel `name`, a function without a result in which other functions spend their time;
        `emit(module)` adds it to the module that has the inner kernels of this one: itself, unless they are compiled
        separately (`kernel_module.py`)."""
        return self.helper(name, lambda: emit(self))

    def mark(self) -> tuple[int, frozenset[str]]:
        """The current functions, for `undo`."""
        return len(self._functions), frozenset(self._names)

    def undo(self, mark: tuple[int, frozenset[str]]) -> None:
        """Remove the functions created since a mark. Declarations and tables are not removed; they change no code."""
        count, names = mark
        del self._functions[count:]
        self._names = set(names)

    def _claim(self, name: str) -> None:
        assert name not in self._names, f"the module already has a @{name}"
        self._names.add(name)

    def declare(self, name: str, result: Type | None, parameters: Sequence[Type]) -> str:
        """Declare an external function (of libm or the runtime) and return its symbol for `call`."""
        text = result.text if result else "void"
        return self.declare_raw(name, text, ", ".join([p.text for p in parameters]))

    def declare_raw(self, name: str, result: str, parameters: str) -> str:
        """`declare` with types as LLVM text, for intrinsics."""
        if name not in self._declared:
            self._declared[name] = f"declare {result} @{name}({parameters})"
        return "@" + name

    def uniform_intrinsic(self, name: str, type: Type, count: int) -> str:
        """`call type @llvm.NAME.type`, declared with `count` operands of the same type."""
        key = (name, type, count)
        callee = self._intrinsics.get(key)
        if callee is None:
            symbol = self.declare_raw(f"llvm.{name}.{type.mangled}", type.text, ", ".join([type.text] * count))
            callee = self._intrinsics[key] = f"call {type.text} {symbol}"
        return callee

    def table(self, type: Type, numbers: Sequence[Number], align: int = 64) -> str:
        """The symbol of an internal constant array of integers, by default aligned to a cache line. Equal tables are
        shared."""
        key = (table_constant(type, numbers), align)
        symbol = self._tables.get(key)
        if symbol is None:
            digest = blake2b(repr(key).encode(), digest_size=8).hexdigest()
            symbol = self._tables[key] = f"@table.{digest}"
            self._globals[symbol] = f"{symbol} = internal constant {key[0]}, align {align}"
        return symbol

    def metadata(self, text: str) -> str:
        """The reference (`!3`) of a metadata node such as `!{i32 1}`."""
        reference = f"!{crc32(text.encode()) >> 1}"
        self._metadata[reference] = f"{reference} = {text}"
        return reference

    def nontemporal(self) -> str:
        return ", !nontemporal " + self.metadata("!{i32 1}")

    def unlikely(self) -> str:
        return ", !prof " + self.metadata('!{!"branch_weights", i32 1, i32 100000}')

    def text(self) -> str:
        """The whole module in LLVM assembly. ValueError if a function was not finished with `ret`."""
        bodies = self._bodies()
        head = [f'target triple = "{self.target.triple}"', *self._globals.values(), *self._declared.values()]
        return "\n".join(head + bodies + list(self._metadata.values())) + "\n"

    def _bodies(self) -> list[str]:
        """The lines of all functions."""
        return [line for f in self._functions for line in f.text_lines()]


class CarryLoop:
    """The loop that `FunctionBuilder.carry_loop` yields: `index` and `values` inside it, `results` after it."""

    __slots__ = ("index", "next_values", "values")

    def __init__(self, index: Value, values: tuple[Value, ...]) -> None:
        self.index, self.values = index, values
        self.next_values: tuple[Value, ...] | None = None

    def next(self, *values: Value) -> None:
        """Set the values with which the next iteration starts, in the order of `carry`. Called once, at the end of the
        body."""
        if [v.type for v in values] != [v.type for v in self.values]:
            raise TypeError(f"the loop carries {self.values}, not {values}")
        self.next_values = values

    @property
    def results(self) -> tuple[Value, ...]:
        """The carried values after the last iteration (the initial values if there was none)."""
        return self.values


class FunctionBuilder(Instructions):
    """One function: the instructions, and structured control flow. `args` are its parameters in order."""

    __slots__ = ("_allocas", "_block", "_ended", "_head", "args", "result", "symbol")

    def __init__(
        self,
        module: ModuleBuilder,
        name: str,
        result: Type | None,
        parameters: Sequence[Parameter],
        linkage: str,
        attributes: str,
        contract: bool,
    ) -> None:
        super().__init__(module, contract)
        self.symbol, self.result = "@" + name, result
        self.args = [Value("%" + n, t, self) for n, t, _ in parameters]
        signature = ", ".join([" ".join(filter(None, (t.text, attribute, "%" + n))) for n, t, attribute in parameters])
        words = ("define", linkage, result.text if result else "void", f"{self.symbol}({signature})", attributes, "{")
        self._head = " ".join(filter(None, words))
        self._allocas: list[str] = []
        self._block, self._ended = "entry", False

    @property
    def is_internal(self) -> bool:
        """True if other objects cannot call the function."""
        return self._head.startswith("define internal ")

    @property
    def is_finished(self) -> bool:
        """True after `ret`."""
        return self._ended

    def text_lines(self) -> list[str]:
        """The function's lines. ValueError if it is not finished."""
        if not self._ended:
            raise ValueError(f"function {self.symbol} was not finished with ret")
        return [self._head, "entry:", *self._allocas, *self.lines, "}"]

    def ret(self, value: Value | None = None) -> None:
        """Finish the function. No call on it can follow."""
        type = None if value is None else value.type
        if type is not self.result:
            raise TypeError(f"{self.symbol} returns {self.result}, not {type}")
        self.lines.append("  ret void" if value is None else f"  ret {value.type.text} {value.text}")
        self._ended = True

    def alloca(self, type: Type, count: int = 1, align: int = 64) -> Value:
        """Stack memory for `count` elements, allocated once, at the function's entry."""
        self._count = n = self._count + 1
        self._allocas.append(f"  %v{n} = alloca {type.text}, i64 {count}, align {align}")
        return Value(f"%v{n}", PTR, self)

    def address(self, symbol: str) -> Value:
        """A pointer to a global or a function, from its symbol, which starts with @."""
        return Value(symbol, PTR, self)

    def table(self, type: Type, numbers: Sequence[Number], align: int = 64) -> Value:
        """The address of a constant array (`ModuleBuilder.table`)."""
        return self.address(self.module.table(type, numbers, align))

    # Control flow

    def _label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self._block = name

    def _fresh(self) -> int:
        self._count = n = self._count + 1
        return n

    @contextmanager
    def loop(self, low: Operand, high: Operand, step: Operand = 1) -> Generator[Value]:
        """`for i in range(low, high, step)` with step > 0. Yields i, of the operands' integer type, else i64."""
        with self.carry_loop(low, high, (), step) as loop:
            yield loop.index

    @contextmanager
    def carry_loop(
        self, low: Operand, high: Operand, carry: Sequence[Value], step: Operand = 1
    ) -> Generator[CarryLoop]:
        """A counted loop with accumulators, whose initial values are `carry`.

        `with f.carry_loop(0, n, [zero]) as loop: loop.next(loop.values[0] + term(loop.index))`; then
        `(total,) = loop.results`.
        """
        n = self._fresh()
        type = next((x.type for x in (low, high, step) if isinstance(x, Value)), I64)
        start, before = self._text(low, type), self._block
        self.lines.append(f"  br label %head{n}")
        self._label(f"head{n}")
        phis = len(self.lines)
        index = Value(f"%i{n}", type, self)
        loop = CarryLoop(index, tuple(Value(f"%c{n}.{k}", v.type, self) for k, v in enumerate(carry)))
        self.lines.extend([""] * (1 + len(carry)))
        more = self.cmp("lt", index, high)
        self.lines.append(f"  br i1 {more.text}, label %body{n}, label %done{n}")
        self._label(f"body{n}")
        yield loop
        if len(loop.next_values or ()) != len(carry):
            raise ValueError("a loop that carries values needs loop.next(...) at the end of its body")
        self.lines.append(f"  %n{n} = add nsw {type.text} {index.text}, {self._text(step, type)}")
        self.lines.append(f"  br label %head{n}")
        self.lines[phis] = f"  {index.text} = phi {type.text} [{start}, %{before}], [%n{n}, %{self._block}]"
        for k, (first, phi, later) in enumerate(zip(carry, loop.values, loop.next_values or (), strict=True)):
            arms = f"[{first.text}, %{before}], [{later.text}, %{self._block}]"
            self.lines[phis + 1 + k] = f"  {phi.text} = phi {phi.type.text} {arms}"
        self._label(f"done{n}")

    def while_loop(
        self,
        carry: Sequence[Value],
        condition: Callable[..., Value],
        body: Callable[..., Sequence[Value]],
    ) -> tuple[Value, ...]:
        """Repeat `carry = body(*carry)` while `condition(*carry)`, an i1. Returns the last carry."""
        n, before = self._fresh(), self._block
        self.lines.append(f"  br label %head{n}")
        self._label(f"head{n}")
        phis = len(self.lines)
        values = tuple(Value(f"%c{n}.{k}", v.type, self) for k, v in enumerate(carry))
        self.lines.extend([""] * len(carry))
        self.lines.append(f"  br i1 {condition(*values).text}, label %body{n}, label %done{n}")
        done_from = self._block
        self._label(f"body{n}")
        later = body(*values)
        self.lines.append(f"  br label %head{n}")
        for k, (first, phi, new) in enumerate(zip(carry, values, later, strict=True)):
            if new.type is not phi.type:
                raise TypeError(f"the loop carries {phi!r}, not {new!r}")
            arms = f"[{first.text}, %{before}], [{new.text}, %{self._block}]"
            self.lines[phis + k] = f"  {phi.text} = phi {phi.type.text} {arms}"
        self._block = done_from
        self._label(f"done{n}")
        return values

    @contextmanager
    def when(self, condition: Value, unlikely: bool = False) -> Generator[None]:
        """Run the body only if the scalar i1 `condition` is true. Values of the body cannot be used after it: see
        `branch`."""
        n = self._fresh()
        weights = self.module.unlikely() if unlikely else ""
        self.lines.append(f"  br i1 {condition.text}, label %then{n}, label %join{n}{weights}")
        self._label(f"then{n}")
        yield
        self.lines.append(f"  br label %join{n}")
        self._label(f"join{n}")

    def branch(
        self,
        condition: Value,
        then: Callable[[], Sequence[Value]],
        otherwise: Callable[[], Sequence[Value]],
        unlikely: bool = False,
    ) -> tuple[Value, ...]:
        """if / else on a scalar i1: each callable emits its side and returns its values. The results are phis of these.

        Both return the same number of values and types (an empty tuple for side effects only). `unlikely` refers to
        `then`.
        """
        n = self._fresh()
        weights = self.module.unlikely() if unlikely else ""
        self.lines.append(f"  br i1 {condition.text}, label %then{n}, label %else{n}{weights}")
        sides: list[tuple[Sequence[Value], str]] = []
        for name, side in ((f"then{n}", then), (f"else{n}", otherwise)):
            self._label(name)
            sides.append((side(), self._block))
            self.lines.append(f"  br label %join{n}")
        self._label(f"join{n}")
        (ours, from_ours), (theirs, from_theirs) = sides
        return tuple(self._phi(a, from_ours, b, from_theirs) for a, b in zip(ours, theirs, strict=True))

    def _phi(self, a: Value, from_a: str, b: Value, from_b: str) -> Value:
        if a.type is not b.type:
            raise TypeError(f"the two sides differ in type: {a!r} and {b!r}")
        return self.op(f"phi {a.type.text} [{a.text}, %{from_a}], [{b.text}, %{from_b}]", a.type)


__all__ = ["CarryLoop", "FunctionBuilder", "ModuleBuilder", "Operand", "Parameter", "Value", "constant"]
