"""The LLVM module of a program's kernels, which divides its functions into pieces that other programs can use.

A function that shares its body (`numbered.py`) becomes a thunk: it passes the body a table of numbers. Any other
function becomes an inner kernel (`inner_kernels.py`), with the functions of this module that it calls. What remains is
compiled as part of this module, such as calls of libm.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from hashlib import blake2s

from ..elf.kernels import Thunk
from .cpu import Cpu
from .emitter import FunctionBuilder, Header, ModuleBuilder
from .inner_kernels import InnerKernels
from .numbered import NUMBERS, NumberedFunction
from .types import Number, Type

_REFERENCE = re.compile(r"@[\w.$]+|!\d+")
_WHOLE = "@whole"
_PACKED = {"i8": "B", "i16": "H", "i32": "I", "i64": "Q"}


class KernelModule(ModuleBuilder):
    """A module whose functions move to `kernels` when `release` is called, as far as they can. `thunks` are the
    functions that are in `kernels`: by a body that they share, or, without numbers, by their own code. `constants` are
    the tables in their numbers. Without `shares` the numbers of a function are the symbols alone."""

    __slots__ = ("_called_text", "_inlined_text", "_moved", "_packed", "_shares", "kernels", "thunks")

    def __init__(self, target: Cpu, kernels: InnerKernels, shares: bool = True) -> None:
        super().__init__(target)
        self.kernels, self._shares = kernels, shares
        self.thunks: dict[str, Thunk] = {}
        self._packed: dict[str, bytes] = {}
        self._moved: dict[str, str] = {}  # declarations of functions that are not in this module any more
        self._inlined_text: dict[str, str] = {}
        self._called_text: dict[str, str] = {}  # helpers that are not inlined, as kernels contain them

    def inner(self, name: str, emit: Callable[[ModuleBuilder], None]) -> str:
        """See `ModuleBuilder.inner`."""
        return self.declare_raw(name, "void", self.kernels.parameters_of(name, emit))

    def table(self, type: Type, numbers: Sequence[Number], align: int = 64) -> str:
        symbol = super().table(type, numbers, align)
        if symbol not in self._packed:
            mask = (1 << type.bits) - 1
            self._packed[symbol] = struct.pack(
                f"<{len(numbers)}{_PACKED[type.element]}", *[int(n) & mask for n in numbers]
            )
        return symbol

    def _create(self, header: Header, shares: bool) -> FunctionBuilder:
        if header.linkage:
            is_inlined = "alwaysinline" in header.attributes
            return super()._create(header if is_inlined else header._replace(linkage=""), shares)
        function = NumberedFunction(self, *header)
        function.begin_numbers(shares and self._shares)
        return function

    @property
    def constants(self) -> dict[str, bytes]:
        """The tables that thunks refer to."""
        used = {n for thunk in self.thunks.values() for n in thunk.numbers if isinstance(n, str)}
        return {symbol[1:]: data for symbol, data in self._packed.items() if symbol[1:] in used}

    def describe_thunks(self) -> str:
        """One line for each thunk: its name, its body, and the numbers that the body reads."""
        rows = [
            f"{name} = {thunk.kernel}" + f" with {', '.join(map(str, thunk.numbers))}" * bool(thunk.numbers)
            for name, thunk in self.thunks.items()
        ]
        return "".join(f"{row}\n" for row in rows)

    # -- functions that move

    def release(self) -> None:
        """Let the functions that are finished become kernels and thunks, as far as they can."""
        functions, self._functions = self._functions, []
        for f in functions:
            if self.is_inlined(f.symbol):
                self._inlined_text[f.symbol] = "\n".join(f.text_lines())
            elif f.is_finished and not isinstance(f, NumberedFunction):
                self._called_text[f.symbol] = _external(f)
        for f in functions:
            if f.symbol not in self._inlined_text and (self._is_part(f) or not f.is_finished or not self._move(f)):
                self._functions.append(f)

    def _is_part(self, f: FunctionBuilder) -> bool:
        """True for a function that only functions of this module call."""
        return f.is_internal

    def _move(self, f: FunctionBuilder) -> bool:
        """True if the function is a kernel or a thunk now."""
        numbers = f.numbers if isinstance(f, NumberedFunction) else []
        name, text = f.body() if isinstance(f, NumberedFunction) and numbers else _whole(f)
        definitions = self._needed(name, text)
        if definitions is None:
            return False
        self.kernels.add(name, definitions)
        self.thunks[f.symbol[1:]] = Thunk(name, tuple(numbers))
        result = f.result.text if f.result else "void"
        self._moved[f.symbol] = f"declare {result} {f.symbol}({', '.join(a.type.text for a in f.args)})"
        return True

    def _needed(self, name: str, text: str) -> list[str] | None:
        """The definitions that code needs, in order, itself last; None if it calls a function of another object."""
        definitions: dict[str, str] = {}

        def collect(text: str) -> bool:
            for reference in dict.fromkeys(_REFERENCE.findall(text)):
                if reference in definitions or reference == f"@{name}":
                    continue
                definition = self._definition(reference)
                if definition is None:
                    return False
                definitions[reference] = definition
                if definition.startswith("define") and not collect(definition):
                    return False
            return True

        return [*definitions.values(), text] if collect(text) else None

    def _definition(self, reference: str) -> str | None:
        if reference.startswith("!"):
            return self._metadata[reference]
        if reference.startswith("@llvm."):
            return self._declared[reference[1:]]
        tables = self._inlined_text, self._globals, self._called_text
        return next((table[reference] for table in tables if reference in table), None)

    # -- what remains

    def has_functions(self) -> bool:
        return any(not self._is_part(f) for f in self._functions)

    def _bodies(self) -> list[str]:
        remaining = [line for f in self._functions for line in _with_numbers(f)]
        texts = [*self._inlined_text.values(), *remaining]
        used = set(_REFERENCE.findall("\n".join(texts)))
        return [line for symbol, line in self._moved.items() if symbol in used] + texts


def _with_numbers(f: FunctionBuilder) -> list[str]:
    """The code of a function, and the table of its numbers."""
    if not isinstance(f, NumberedFunction) or not f.numbers:
        return f.text_lines()
    words = [("i64", n) if isinstance(n, int) else ("ptr", f"@{n}") for n in f.numbers]
    types, content = ", ".join(t for t, _ in words), ", ".join(f"{t} {n}" for t, n in words)
    table = f"{f.symbol}.numbers"
    text = "\n".join(f.text_lines()).replace(NUMBERS, table)
    return [f"{table} = internal constant {{ {types} }} {{ {content} }}, align 64", text]


def _external(f: FunctionBuilder) -> str:
    """The code of a function, external: a call of an internal function leaves no relocation in an object."""
    return "\n".join(f.text_lines()).replace("define internal ", "define ", 1)


def _whole(f: FunctionBuilder) -> tuple[str, str]:
    """The name of a function's code, which is a digest of it, and the code under this name."""
    head, *lines = f.text_lines()
    text = "\n".join((head.replace(f"{f.symbol}(", f"{_WHOLE}(", 1), *lines))
    name = f"whole.{blake2s(text.encode(), digest_size=10).hexdigest()}"
    return name, text.replace(_WHOLE, f"@{name}", 1)
