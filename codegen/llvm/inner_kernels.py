"""Inner kernels: functions that call nothing, such as micro-kernels, transforms and the bodies of loop nests.

Their code is position independent and complete, so each is stored by its text, and any set of them is an object file
(`codegen/elf/kernels.py`). LLVM compiles only those that the store lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...ir.code_store import CodeStore
from ..elf.kernels import Thunk, link_kernels, split_kernels
from ..elf.relocations import architecture_of
from .cpu import Cpu
from .emitter import FunctionBuilder, Header, ModuleBuilder

_FULL = 150 << 10  # bytes of text: about 40 ms of LLVM's time


class InnerModule(ModuleBuilder):
    """The module of one inner kernel, which functions of other modules call."""

    __slots__ = ()

    def _create(self, header: Header, shares: bool) -> FunctionBuilder:
        is_inlined = "alwaysinline" in header.attributes
        return super()._create(header if is_inlined else header._replace(linkage=""), shares)

    def definitions(self) -> list[str]:
        """The text of the module without its target: declarations, tables, functions and metadata."""
        functions = ["\n".join(f.text_lines()) for f in self._functions]
        return [*self._globals.values(), *self._declared.values(), *functions, *self._metadata.values()]

    def parameters_of(self, name: str) -> str:
        """The types of the parameters of a function."""
        return next(", ".join(a.type.text for a in f.args) for f in self._functions if f.symbol == f"@{name}")


class InnerKernels:
    """The inner kernels of a program. LLVM compiles those that `store` lacks, several in one module: `compile` gets the
    text of each module that is full, and returns the position of its object."""

    def __init__(self, target: Cpu, store: CodeStore, compile: Callable[[str], int]) -> None:
        self._target, self._store, self._compile = target, store, compile
        self._parameters: dict[str, str] = {}
        self._known: dict[str, bytes | None] = {}  # in order; None: it is compiled
        self._missing: dict[str, str] = {}  # the text of each kernel that is compiled
        self._modules: list[int] = []
        self._waiting: dict[str, None] = {}  # definitions of kernels for the next module

    def parameters_of(self, name: str, emit: Callable[[ModuleBuilder], None]) -> str:
        """The types of the parameters of inner kernel `name`, which `emit` adds to a module if it is not known."""
        if name not in self._parameters:
            module = InnerModule(self._target)
            emit(module)
            self._parameters[name] = module.parameters_of(name)
            self.add(name, module.definitions())
        return self._parameters[name]

    def add(self, name: str, definitions: Sequence[str]) -> None:
        """Add a kernel, unless it is known: the definition of its function, and all that this needs."""
        if name in self._known:
            return
        self._known[name] = None
        text = "\n".join(definitions)
        code = self._store.find(text)
        if code is None:
            self._missing[name] = text
            self._waiting.update(dict.fromkeys(definitions))
            if sum(map(len, self._waiting)) >= _FULL:
                self.finish_module()
        else:
            self._known[name] = code

    def finish_module(self) -> None:
        """Compile the kernels that wait for a full module."""
        if self._waiting:
            text = "\n".join((f'target triple = "{self._target.triple}"', *self._waiting))
            self._waiting = {}
            self._modules.append(self._compile(text + "\n"))

    def objects(
        self, compiled: Sequence[bytes], thunks: Mapping[str, Thunk], constants: Mapping[str, bytes]
    ) -> list[bytes]:
        """The objects that define the kernels and the thunks. `compiled` are the objects of all modules."""
        whole: list[bytes] = []
        for data in [compiled[position] for position in self._modules]:
            kernels = split_kernels(data)
            complete = {name: code for name, code in kernels.items() if code is not None}
            for name, code in complete.items():
                if name in self._missing:  # not a function that only kernels of this module call
                    self._store.add(self._missing[name], code)
            if len(complete) == len(kernels):
                self._known.update({name: code for name, code in complete.items() if name in self._known})
            else:  # a kernel that needs the rest of its object
                whole.append(data)
        code = {name: code for name, code in self._known.items() if code is not None}
        if not code and not thunks:
            return whole
        return [link_kernels(code, thunks, constants, architecture_of(self._target.triple)), *whole]
