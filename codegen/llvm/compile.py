"""LLVM assembly in, relocatable object or machine assembly out: the only file that talks to LLVM."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
# (llvmlite has no types)

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ir.locks import ForkSafeLock, await_at_fork
from ...ir.settings import settings
from .cpu import Cpu

if TYPE_CHECKING:
    from .library import binding

_LIGHT_PASSES = (
    "add_always_inliner_pass",  # the math library is small functions marked alwaysinline
    "add_global_dead_code_eliminate_pass",  # ... of which a module uses few
    "add_sroa_pass",
    "add_simplify_cfg_pass",
    "add_instruction_combine_pass",
    "add_new_gvn_pass",
    "add_dead_code_elimination_pass",
)
_MASKED_STORE = re.compile(
    r"call void @llvm\.masked\.store\S*\(<\d+ x i\d+> (?P<value>%\S+), .*?<\d+ x i1> <(?P<mask>i1 [^>]*)>\)"
)
_PARSE_ERROR = re.compile(r"<string>:(\d+):\d+: (?:error: )?(.*)")


@dataclass
class Statistics:
    """What this process has compiled: a call that finds its machine code again adds nothing."""

    modules: int = 0


statistics = Statistics()

# LLVM and its Python binding have locks of their own, which a forked child would find held: forks wait for LLVM.
_calling = await_at_fork(ForkSafeLock())


class CompileError(RuntimeError):
    """LLVM refused a module. `line` counts the lines of its text from 1; None when LLVM names none."""

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def compile_object(ir_text: str, target: Cpu, *, optimize: int = 1) -> bytes:
    """The relocatable ELF object of a module, position independent, in the small code model.

    `optimize` is 0 for no IR passes, 1 for a light list (inlining, scalars out of memory, common subexpressions), 2 for
    LLVM's O2 without its vectorizers: kernels come vectorized. Raises CompileError, which names the line of `ir_text`.
    """
    with _calling:
        return _object(ir_text, target, optimize)


def emit_assembly(ir_text: str, target: Cpu, *, optimize: int = 1) -> str:
    """The assembly of a module, for dumps and tests; the target may be of another architecture than this machine."""
    with _calling:
        return _assembly(ir_text, target, optimize)


# What these make of LLVM's is freed when they return, while the caller holds the lock.


def _object(ir_text: str, target: Cpu, optimize: int) -> bytes:
    machine = _target_machine(target)
    module = _optimized_module(ir_text, machine, optimize)
    statistics.modules += 1
    return machine.emit_object(module)


def _assembly(ir_text: str, target: Cpu, optimize: int) -> str:
    machine = _target_machine(target)
    module = _optimized_module(ir_text, machine, optimize)
    return machine.emit_assembly(module)


def _target_machine(target: Cpu) -> binding.TargetMachine:
    from .library import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    try:
        found = binding.Target.from_triple(target.triple)
    except RuntimeError as error:
        raise CompileError(f"LLVM does not know the target {target.triple!r}: {error}") from None
    return found.create_target_machine(cpu=target.cpu, features=target.features, opt=2, reloc="pic", codemodel="small")


def _optimized_module(ir_text: str, machine: binding.TargetMachine, optimize: int) -> binding.ModuleRef:
    module = _verified_module(ir_text)
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    if optimize == 1:
        _run_light_passes(module, machine)
    elif optimize >= 2:
        _run_default_passes(module, machine)
    if settings().verify:
        check_masked_stores(str(module))
    return module


def check_masked_stores(optimized: str) -> None:
    """CompileError if a truncated vector is stored under a constant mask of one lane.

    LLVM 22 makes it a scalar store of the element from before the truncation, so it writes past the element
    (X86ISelLowering, truncating masked stores). `Instructions.masked_store` avoids it; this check finds masks that
    only LLVM's passes have made constant.
    """
    for found in _MASKED_STORE.finditer(optimized):
        if found["mask"].count("true") == 1 and f"  {found['value']} = trunc " in optimized:
            raise CompileError(f"LLVM would store more than one lane of {found[0]}")


def _verified_module(ir_text: str) -> binding.ModuleRef:
    from .library import binding

    try:
        module = binding.parse_assembly(ir_text)
    except RuntimeError as error:
        raise _parse_error(str(error), ir_text) from None
    try:
        module.verify()
    except RuntimeError as error:
        raise _verify_error(str(error), ir_text) from None
    return module


def _parse_error(message: str, ir_text: str) -> CompileError:
    found = _PARSE_ERROR.search(message)
    if found is None:
        return CompileError(message)
    return _error_at(int(found[1]), found[2], ir_text)


def _verify_error(message: str, ir_text: str) -> CompileError:
    """The verifier quotes instructions as LLVM prints them: the place is the first that stands so in the text."""
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


def _run_default_passes(module: binding.ModuleRef, machine: binding.TargetMachine) -> None:
    from .library import binding

    options = binding.create_pipeline_tuning_options(speed_level=2)
    options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
