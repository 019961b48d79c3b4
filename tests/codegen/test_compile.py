"""Compiling LLVM assembly: objects, assembly for three architectures, and errors with line numbers."""

from __future__ import annotations

import dataclasses
import re
import sys
from threading import Thread

import pytest
from mxforge.codegen.llvm.compile import CompileError, compile_object, compile_objects, emit_assembly
from mxforge.codegen.llvm.target import AVX2, AVX512, NEON, CpuTarget

MULTIPLY_ADD = """
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
define void @f(ptr %a, ptr %b) {
  %x = load <16 x float>, ptr %a, align 4
  %y = load <16 x float>, ptr %b, align 4
  %z = call <16 x float> @llvm.fma.v16f32(<16 x float> %x, <16 x float> %y, <16 x float> %y)
  store <16 x float> %z, ptr %a, align 4
  ret void
}
"""

INLINED = """
define internal i64 @square(i64 %x) alwaysinline {
  %place = alloca i64
  store i64 %x, ptr %place
  %a = load i64, ptr %place
  %b = load i64, ptr %place
  %y = mul i64 %a, %b
  ret i64 %y
}
define internal void @unused() {
  ret void
}
define i64 @f(i64 %x) {
  %y = call i64 @square(i64 %x)
  ret i64 %y
}
"""


@pytest.mark.parametrize(
    ("target", "instruction"),
    [(AVX2, r"vfmadd\d+ps.*%ymm"), (AVX512, r"vfmadd\d+ps.*%zmm"), (NEON, r"fmla\tv")],
    ids=["avx2", "avx512", "neon"],
)
def test_assembly_for_each_machine(target: CpuTarget, instruction: str) -> None:
    assert re.search(instruction, emit_assembly(MULTIPLY_ADD, target))


@pytest.mark.parametrize("optimize", [1, 2])
def test_passes_inline_and_drop(optimize: int) -> None:
    assembly = emit_assembly(INLINED, AVX2, optimize=optimize)
    body = assembly.partition("f:")[2]
    assert "imulq" in body
    assert "square" not in assembly
    assert "unused" not in assembly
    assert "rsp" not in body


def test_without_passes() -> None:
    assert "unused" in emit_assembly(INLINED, AVX2, optimize=0)


def test_object_is_relocatable_elf() -> None:
    data = compile_object(MULTIPLY_ADD, AVX2)
    assert (data[:4], data[16]) == (b"\x7fELF", 1)
    assert compile_object(MULTIPLY_ADD, AVX2) == data


def test_parse_error_names_the_line() -> None:
    with pytest.raises(CompileError, match=r"line 3: use of undefined value '%y'\n  %x = add i32 1, %y") as caught:
        compile_object("define i32 @f() {\nentry:\n  %x = add i32 1, %y\n  ret i32 %x\n}\n", AVX2)
    assert caught.value.line == 3


def test_verifier_error_names_the_line() -> None:
    text = (
        "define i32 @f(i1 %c) {\n  br i1 %c, label %a, label %b\na:\n  %x = add i32 1, 2\n  br label %b\n"
        "b:\n  ret i32 %x\n}\n"
    )
    with pytest.raises(CompileError, match="line 4: Instruction does not dominate") as caught:
        compile_object(text, AVX2)
    assert caught.value.line == 4


def test_unknown_target_is_named() -> None:
    with pytest.raises(CompileError, match="pdp11-dec-unix"):
        compile_object("", dataclasses.replace(AVX2, triple="pdp11-dec-unix"))


def test_threads_compile_at_the_same_time() -> None:
    alone = [compile_object(text, AVX2) for text in (MULTIPLY_ADD, INLINED)]
    found: list[list[bytes]] = []
    threads = [Thread(target=lambda: found.append(compile_objects((MULTIPLY_ADD, INLINED), AVX2))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [alone] * 4


def test_the_error_of_one_of_several_modules_is_raised() -> None:
    with pytest.raises(CompileError, match="line 1"):
        compile_objects((MULTIPLY_ADD, "defin", INLINED), AVX2)


def test_the_interval_of_thread_switches_is_as_before() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.004)
    try:
        compile_objects((MULTIPLY_ADD, INLINED, MULTIPLY_ADD), AVX2)
        assert sys.getswitchinterval() == pytest.approx(0.004)
    finally:
        sys.setswitchinterval(before)
