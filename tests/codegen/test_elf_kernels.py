"""Code of single functions: taken from objects, put into one, and called by way of thunks."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from mxforge.codegen.elf.kernels import ALIGNMENT, Thunk, function_names, link_kernels, split_kernels
from mxforge.codegen.elf.reader import LinkError, read_object
from mxforge.codegen.elf.relocations import AARCH64, X86_64, Architecture, architecture_of
from mxforge.codegen.llvm.compile import compile_object
from mxforge.runtime.host.loader import load_object, load_objects
from mxforge.runtime.host.machine import host_target

TRIPLE = f'target triple = "{host_target().triple}"\n'
CONSTANTS = """
define double @scaled(double %x) nounwind {
  %y = fmul double %x, 3.25
  %z = fadd double %y, 1.5
  ret double %z
}
define float @half(float %x) nounwind {
  %y = fmul float %x, 0.5
  ret float %y
}
define void @numbers(ptr %x) nounwind {
  store <8 x i32> <i32 1, i32 2, i32 5, i32 1, i32 2, i32 5, i32 9, i32 7>, ptr %x, align 4
  ret void
}
define i64 @entry(i64 %i) nounwind {
  %p = getelementptr i64, ptr @table, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}
@table = internal constant [3 x i64] [i64 7, i64 8, i64 9]
"""
BODY = """
define void @body(ptr %x, i64 %a, i64 %b, i32 %w, ptr %numbers) nounwind {
  %q = load ptr, ptr %numbers
  %m = load i64, ptr %q
  %p = getelementptr i64, ptr %numbers, i64 1
  %n = load i64, ptr %p
  %f = getelementptr i64, ptr %numbers, i64 2
  %g = load ptr, ptr %f
  %k = call i64 %g(i64 %b)
  %s = add i64 %n, %m
  %t = add i64 %s, %k
  store i64 %t, ptr %x
  ret void
}
define i64 @twice(i64 %x) nounwind {
  %y = add i64 %x, %x
  ret i64 %y
}
"""


ARCHITECTURE = architecture_of(host_target().triple)


def split(text: str) -> dict[str, bytes]:
    found = split_kernels(compile_object(TRIPLE + text, host_target()))
    return {name: code for name, code in found.items() if code is not None}


def test_code_keeps_its_constants() -> None:
    code = split(CONSTANTS)
    assert list(code) == ["scaled", "half", "numbers", "entry"]
    loaded = load_object(link_kernels(code, {}, {}, ARCHITECTURE))
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(loaded.address("scaled"))(2.0) == 8.0
    assert ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(loaded.address("half"))(3.0) == 1.5
    out = np.zeros(8, np.int32)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(loaded.address("numbers"))(out.ctypes.data)
    assert out.tolist() == [1, 2, 5, 1, 2, 5, 9, 7]
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(loaded.address("entry"))(2) == 9


def test_code_keeps_the_functions_that_it_calls() -> None:
    text = """
define double @half(double %x) nounwind noinline cold {
  %y = fmul double %x, 0x3FDFFFFFFFFFFFFF
  ret double %y
}
define double @quarter(double %x) nounwind noinline {
  %y = call double @half(double %x)
  %z = call double @half(double %y)
  ret double %z
}
define double @f(double %x) nounwind {
  %y = call double @quarter(double %x)
  %z = call double @half(double %x)
  %s = fadd double %y, %z
  ret double %s
}
"""
    code = split(text)
    loaded = load_object(link_kernels({"f": code["f"]}, {}, {}, ARCHITECTURE))
    found = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(loaded.address("f"))(8.0)
    assert abs(found - 6.0) < 1e-12


@pytest.mark.parametrize(
    "body", ["call double @cos(double %x)", "load double, ptr @variable"], ids=["function", "variable"]
)
def test_code_that_refers_to_other_code_or_data_is_not_taken(body: str) -> None:
    text = f"""
@variable = global double 1.5
declare double @cos(double)
define double @f(double %x) nounwind {{
  %y = {body}
  ret double %y
}}
define double @g(double %x) nounwind {{
  ret double %x
}}
"""
    found = split_kernels(compile_object(TRIPLE + text, host_target()))
    assert found["f"] is None and found["g"] is not None


def test_thunks_pass_numbers_tables_and_functions() -> None:
    code = split(BODY)
    thunks = {"first": Thunk("body", ("hundred", 5, "twice")), "second": Thunk("body", ("fifty", -7, "twice"))}
    tables = {"hundred": (100).to_bytes(8, "little"), "fifty": (50).to_bytes(8, "little")}
    data = link_kernels(code, thunks, tables, architecture_of(host_target().triple))
    assert function_names(data) == ["body", "twice", "first", "second"]
    loaded = load_object(data)
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int32)
    out = np.zeros(1, np.int64)
    for name, expected in (("first", 100 + 5 + 6), ("second", 50 - 7 + 6)):
        kernel(loaded.address(name))(out.ctypes.data, 0, 3, 0)
        assert out[0] == expected


def test_a_thunk_without_numbers_is_another_name() -> None:
    """Also for a kernel of another object, which gets all arguments: also the fifth."""
    arguments = "i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f"
    text = f"define i64 @sixth({arguments}) {{\n  %r = add i64 %e, %f\n  ret i64 %r\n}}\n"
    other = compile_object(f"{TRIPLE}{text}", host_target())
    architecture = architecture_of(host_target().triple)
    names = {"same": Thunk("twice", ()), "jump": Thunk("sixth", ())}
    own, _ = load_objects([link_kernels({"twice": split(BODY)["twice"]}, names, {}, architecture), other])
    sixth = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)
    assert own.address("same") == own.address("twice")
    assert sixth(own.address("jump"))(1, 2, 3, 4, 50, 600) == 650


def test_functions_of_other_objects_are_external() -> None:
    data = link_kernels({}, {"f": Thunk("body", ("twice",))}, {}, architecture_of(host_target().triple))
    with pytest.raises(LinkError, match=r"(body, twice|twice, body), which"):
        load_object(data)


@pytest.mark.parametrize("architecture", [X86_64, AARCH64], ids=["x86-64", "AArch64"])
def test_objects_have_known_relocations_and_aligned_code(architecture: Architecture) -> None:
    kernels, thunks = {"a": b"\xc3" * 5, "body": b"\xc3" * 70}, {"f": Thunk("body", (1, "t", "a"))}
    data = link_kernels(kernels, thunks, {"t": b"12345678"}, architecture)
    file = read_object(data)
    assert file.architecture is architecture
    assert {int(t) for table in file.relocations for t in table.type} <= set(file.architecture.relocations)
    assert not (file.symbols.value[~file.symbols.is_local & (file.symbols.section > 0)] % ALIGNMENT).any()


def test_code_of_a_damaged_object() -> None:
    data = compile_object(TRIPLE + BODY, host_target())
    for length in range(0, len(data), 97):
        with pytest.raises(LinkError):
            split_kernels(data[:length])
