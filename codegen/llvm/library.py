"""LLVM's Python binding. Importing this file loads the library, so only functions that compile import it."""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportPrivateUsage=false, reportUnknownArgumentType=false
# (llvmlite has no types)

from __future__ import annotations

from ctypes import c_int, string_at

try:
    from llvmlite import binding
    from llvmlite.binding import ffi
except ImportError as error:
    ways = "pip install llvmlite (models that mxforge compile wrote run without it)"
    raise ImportError(
        f"code is compiled with the package llvmlite, which cannot be imported: {error}; {ways}"
    ) from error

__all__ = ["binding", "emit_unlocked"]

_emit = ffi.lib.LLVMPY_TargetMachineEmitToMemory._cfn


def emit_unlocked(machine: binding.TargetMachine, module: binding.ModuleRef) -> bytes:
    """`machine.emit_object(module)` without the lock that llvmlite holds during each call of LLVM.

    Threads can generate code at the same time, each with a machine and an LLVM context of its own. RuntimeError with
    LLVM's message if it cannot generate code.
    """
    with ffi.OutputString() as error:
        buffer = _emit(machine, module, c_int(1), error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        return string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)
