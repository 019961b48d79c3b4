"""The support module compiles for both architectures, and needs only the C library and Python's stable interface."""

from __future__ import annotations

import re

import pytest
from mxforge.codegen.llvm.compile import emit_assembly
from mxforge.codegen.llvm.support import support_module
from mxforge.codegen.llvm.target import AVX2, NEON, CpuTarget

DECLARED = re.compile(r"^declare [^@]*@([\w.]+)\(", re.MULTILINE)
C_LIBRARY = {
    *("pthread_create", "pthread_join", "pthread_setaffinity_np", "pthread_sigmask"),
    *("sched_getaffinity", "sched_getcpu", "sched_yield", "clock_gettime", "calloc", "free", "syscall"),
}
PYTHON = {"PyLong_AsVoidPtr", "PyErr_Occurred", "PyErr_SetString", "PyErr_BadArgument", "Py_IncRef"}


@pytest.mark.parametrize(
    ("target", "pause", "futex"), [(AVX2, "pause", "$202"), (NEON, "yield", "#98")], ids=["x86", "arm"]
)
def test_compiles_for(target: CpuTarget, pause: str, futex: str) -> None:
    assembly = emit_assembly(support_module(target.triple, 65536), target)
    assert re.search(rf"^\s+{pause}$", assembly, re.MULTILINE)
    assert futex in assembly
    assert all(
        f"\n{name}:" in assembly
        for name in ("mxf_run", "mxf_call", "mxf_pieces", "mxf_copy", "mxf_resize", "mxf_stop", "mxf_state")
    )


@pytest.mark.parametrize("target", [AVX2, NEON], ids=["x86", "arm"])
def test_requires_only_the_c_library_and_python(target: CpuTarget) -> None:
    declared = DECLARED.findall(support_module(target.triple, 4096))
    assert {name for name in declared if not name.startswith("llvm.")} == C_LIBRARY | PYTHON


def test_other_architectures_are_named() -> None:
    with pytest.raises(ValueError, match="riscv64"):
        support_module("riscv64-unknown-linux-gnu", 4096)
