"""Compiles LLVM assembly to relocatable objects or machine assembly. Only this file calls LLVM."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# (llvmlite has no types)

from __future__ import annotations

import os
import re
import sys
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from threading import Thread
from types import ModuleType
from typing import TYPE_CHECKING

from ...ir.locks import ForkSafeLock, Section
from ...ir.settings import settings
from ..statistics import statistics
from .cpu import Cpu

if TYPE_CHECKING:
    from .library import binding

_LIGHT_PASSES = (
    "add_always_inliner_pass",  # the math library consists of small functions marked alwaysinline
    "add_global_dead_code_eliminate_pass",  # removes them after inlining
    "add_instruction_combine_pass",  # simplifies the inlined functions
)
_OPTIONS = ("-disable-lsr",)  # a fifth of the time of code generation, and no gain for loops as they are emitted
_MASKED_STORE = re.compile(
    r"call void @llvm\.masked\.store\S*\(<\d+ x i\d+> (?P<value>%\S+), .*?<\d+ x i1> <(?P<mask>i1 [^>]*)>\)"
)
_PARSE_ERROR = re.compile(r"<string>:(\d+):\d+: (?:error: )?(.*)")


_loading = ForkSafeLock()
_calls = Section()  # of LLVM: it and its Python binding have locks, which a forked child could inherit locked
_intervals: list[float] = []  # between switches of threads, before LLVM was called
_SWITCH_SECONDS = 0.0005


class CompileError(RuntimeError):
    """LLVM rejected a module. `line` is the line of its text, counted from 1; None if LLVM names none."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def compile_object(ir_text: str, target: Cpu, *, optimize: int = 1) -> bytes:
    """The relocatable ELF object of a module, position independent, in the small code model.

    `optimize` is 0 for no IR passes, 1 for a few (inlining, simplification of expressions), 2 for LLVM's
    O2 without its vectorizers (kernels are emitted vectorized), 3 for O2 with them. Raises CompileError, which names
    the line of `ir_text`.
    """
    return compile_objects((ir_text,), target, optimize=optimize)[0]


class Compilations:
    """Compiles modules on all processors, also while the caller emits more.

    By plain threads: those of concurrent.futures take locks that a fork holds while it waits for LLVM.
    """

    def __init__(self, target: Cpu, *, optimize: int = 1) -> None:
        self._target, self._optimize = target, optimize
        self._count = 0
        self._waiting: deque[tuple[int, str, int]] = deque()
        self._found: dict[int, bytes] = {}
        self._errors: list[BaseException] = []
        self._threads: list[Thread] = []

    def add(self, ir_text: str, optimize: int | None = None) -> None:
        """Add a module, which `begin` or `objects` compiles, perhaps at another level than the others."""
        self._waiting.append((self._count, ir_text, self._optimize if optimize is None else optimize))
        self._count += 1

    def begin(self) -> None:
        """Compile the modules so far on another thread, if there is a processor for it. This thread imports LLVM: if it
        waited for an import of another when Ctrl-C is pressed, Python would never release its lock of imports."""
        load_llvm()
        busy = sum(thread.is_alive() for thread in self._threads)
        if busy + 1 < len(os.sched_getaffinity(0)):
            thread = Thread(target=self._work, name="mxforge-llvm")
            self._threads.append(thread)
            thread.start()

    def objects(self) -> list[bytes]:
        """The objects of all modules in order; see `compile_object`. Raises the error of a module that failed."""
        for _ in range(len(self._waiting) - 1):
            self.begin()
        self._work()
        for thread in self._threads:
            while thread.is_alive():
                try:
                    thread.join()
                except KeyboardInterrupt as error:  # raised when no thread runs LLVM any more
                    self._errors.append(error)
        if self._errors:
            raise self._errors[0]
        return [self._found[number] for number in range(self._count)]

    def _work(self) -> None:
        try:
            for number, ir_text, optimize in iter(self._next, None):
                with _llvm():
                    self._found[number] = _object(ir_text, self._target, optimize)
        except BaseException as error:
            self._errors.append(error)

    def _next(self) -> tuple[int, str, int] | None:
        try:
            return self._waiting.popleft()
        except IndexError:
            return None


def compile_objects(ir_texts: Sequence[str], target: Cpu, *, optimize: int = 1) -> list[bytes]:
    """`compile_object` of several modules, whose code is generated at the same time on all processors."""
    compilations = Compilations(target, optimize=optimize)
    for text in ir_texts:
        compilations.add(text)
    return compilations.objects()


def emit_assembly(ir_text: str, target: Cpu, *, optimize: int = 1) -> str:
    """The assembly of a module, for dumps and tests. The target can have another architecture than this machine."""
    with _llvm():
        return _assembly(ir_text, target, optimize)


def load_llvm() -> None:
    """Load LLVM, if this process has not."""
    with _llvm():
        pass


@contextmanager
def _llvm() -> Generator[None]:
    """Load LLVM, and let forks by other threads wait for the body."""
    try:
        with _calls.run():
            _switch_quickly()
            with _loading:
                _initialized()
            yield
    finally:
        if not _calls.is_run:
            _switch_as_before()


def _switch_quickly() -> None:
    """Let threads take turns often: after each of its ten calls of LLVM, a thread waits for Python's lock until another
    thread has held it for an interval."""
    interval = sys.getswitchinterval()
    if interval > 2 * _SWITCH_SECONDS:
        _intervals[:] = [interval]
        sys.setswitchinterval(_SWITCH_SECONDS)


def _switch_as_before() -> None:
    with suppress(IndexError):  # another thread did it
        sys.setswitchinterval(_intervals.pop())


def _object(ir_text: str, target: Cpu, optimize: int) -> bytes:
    from .library import emit_unlocked

    statistics.modules += 1
    with _optimized_module(ir_text, target, optimize) as (machine, module):
        return emit_unlocked(machine, module)


def _assembly(ir_text: str, target: Cpu, optimize: int) -> str:
    with _optimized_module(ir_text, target, optimize) as (machine, module):
        return machine.emit_assembly(module)


def _target_machine(target: Cpu) -> binding.TargetMachine:
    binding = _initialized()
    try:
        machine = binding.Target.from_triple(target.triple)
    except RuntimeError as error:
        raise CompileError(f"LLVM does not know the target {target.triple!r}: {error}") from None
    return machine.create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="small"
    )


@cache
def _initialized() -> ModuleType:
    """LLVM's binding, with targets and options. Options hold for all users of the library in this process."""
    from .library import binding

    for option in _OPTIONS:
        binding.set_option("mxforge", option)
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding


@contextmanager
def _optimized_module(
    ir_text: str, target: Cpu, optimize: int
) -> Generator[tuple[binding.TargetMachine, binding.ModuleRef]]:
    """A machine, and the module in an LLVM context of its own. LLVM crashes if a module outlives its context, as when
    the garbage collector finds both in a cycle, so both are closed here."""
    machine = _target_machine(target)
    with closing(_initialized().create_context()) as context, closing(_parsed_module(ir_text, context)) as module:
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        if optimize == 1:
            _run_light_passes(module, machine)
        elif optimize >= 2:
            _run_default_passes(module, machine, vectorize=optimize > 2)
        if settings().verify:
            check_masked_stores(str(module))
        yield machine, module


def check_masked_stores(optimized: str) -> None:
    """CompileError if a truncated vector is stored under a constant mask of one lane.

    LLVM 22 compiles it to a scalar store of the element before its truncation, which writes past the element
    (X86ISelLowering, truncating masked stores). `Instructions.masked_store` avoids such stores; this check finds masks
    that became constant in LLVM's passes.
    """
    for store in _MASKED_STORE.finditer(optimized):
        if store["mask"].count("true") == 1 and f"  {store['value']} = trunc " in optimized:
            raise CompileError(f"LLVM would store more than one lane of {store[0]}")


def _parsed_module(ir_text: str, context: binding.ContextRef) -> binding.ModuleRef:
    """The module, verified if the settings require it: LLVM crashes on some invalid modules that are not."""
    try:
        module = _initialized().parse_assembly(ir_text, context)
    except RuntimeError as error:
        raise _parse_error(str(error), ir_text) from None
    if settings().verify:
        try:
            module.verify()
        except RuntimeError as error:
            module.close()
            raise _verify_error(str(error), ir_text) from None
    return module


def _parse_error(message: str, ir_text: str) -> CompileError:
    match = _PARSE_ERROR.search(message)
    if match is None:
        return CompileError(message)
    return _error_at(int(match[1]), match[2], ir_text)


def _verify_error(message: str, ir_text: str) -> CompileError:
    """The error of LLVM's verifier. Its line is the first line of the text that the message quotes."""
    lines = [line.strip() for line in ir_text.splitlines()]
    for quoted in message.splitlines()[1:]:
        if quoted.strip() in lines:
            return _error_at(lines.index(quoted.strip()) + 1, message.strip(), ir_text)
    return CompileError(f"invalid LLVM IR: {message.strip()}")


def _error_at(line: int, message: str, ir_text: str) -> CompileError:
    lines = ir_text.splitlines()
    text = lines[line - 1].strip() if line <= len(lines) else "end of text"
    return CompileError(f"invalid LLVM IR, line {line}: {message}\n  {text}", line)


def _run_light_passes(module: binding.ModuleRef, machine: binding.TargetMachine) -> None:
    from .library import binding

    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=1))
    manager = binding.create_new_module_pass_manager()
    for add in _LIGHT_PASSES:
        getattr(manager, add)()
    manager.run(module, builder)


def _run_default_passes(module: binding.ModuleRef, machine: binding.TargetMachine, vectorize: bool) -> None:
    from .library import binding

    options = binding.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = vectorize
    options.loop_unrolling = False
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
