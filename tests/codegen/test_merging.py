"""Functions that are equal except for numbers share one body, and each computes with its own numbers."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from mxforge.codegen.llvm import merging
from mxforge.codegen.llvm.compile import compile_object, compile_objects
from mxforge.codegen.llvm.contract.tiles import KERNEL_PARAMETERS
from mxforge.codegen.llvm.emitter import ModuleBuilder
from mxforge.codegen.llvm.merging import InnerModules, MergingModule
from mxforge.codegen.llvm.target import AVX2, NEON, CpuTarget
from mxforge.codegen.llvm.types import I32, I64, PTR
from mxforge.runtime.elf import LinkError, load_object
from mxforge.runtime.host import host_target


def add_step(module: MergingModule, name: str, step: int) -> None:
    """An internal function: returns its argument plus `step`."""
    f = module.function(name, I64, [("x", I64, "")], linkage="internal", attributes="nounwind noinline")
    f.ret(f.args[0] + step)


def add_kernel(
    module: MergingModule, name: str, count: int, table: list[int], callee: str, shares: bool = True
) -> None:
    """out[i] = callee(table[i] * count) for i < count, by way of stack memory."""
    f = module.function(name, None, KERNEL_PARAMETERS, shares=shares)
    out, room, numbers = f.load(f.gep(f.args[0], 0, PTR), PTR), f.alloca(I64, count), f.table(I32, table)
    with f.loop(0, count) as i:
        number = f.convert(f.load(f.gep(numbers, i, I32), I32), "i64")
        f.store(f.call(f"@{callee}", I64, number * count), f.gep(room, i, I64))
    with f.loop(0, count) as i:
        f.store(f.load(f.gep(room, i, I64), I64), f.gep(out, i, I64))
    f.ret()


def module_of_two(target: CpuTarget, shares: bool = True) -> MergingModule:
    module = MergingModule(target)
    add_step(module, "one_more", 1)
    add_step(module, "ten_more", 10)
    add_kernel(module, "short", 3, [5, 6, 7], "one_more", shares)
    add_kernel(module, "long", 6, [1, 2, 3, 4, 5, 6], "ten_more", shares)
    return module


@pytest.mark.parametrize("shares", [True, False])
def test_numbers_tables_callees_and_stack_memory_can_differ(shares: bool) -> None:
    loaded = load_object(compile_object(module_of_two(host_target(), shares).text(), host_target()))
    for name, expected in (("short", [16, 19, 22]), ("long", [16, 22, 28, 34, 40, 46])):
        out = np.zeros(6, np.int64)
        arguments = (ctypes.c_void_p * 1)(out.ctypes.data)
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 2, ctypes.c_int32)(loaded.address(name))(
            arguments, 0, 1, 0
        )
        assert out.tolist() == expected + [0] * (6 - len(expected))


@pytest.mark.parametrize("target", [AVX2, NEON])
def test_equal_functions_share_a_body_on_every_target(target: CpuTarget) -> None:
    text = module_of_two(target).text()
    assert text.count("@short.body(") == 3  # its definition and two calls
    assert text == module_of_two(target).text()
    assert compile_object(text, target)


def test_a_function_without_an_equal_has_no_body() -> None:
    module = MergingModule(host_target())
    add_step(module, "one_more", 1)
    add_kernel(module, "alone", 3, [5, 6, 7], "one_more")
    f = module.function("other", None, KERNEL_PARAMETERS, shares=True)
    f.ret()
    text = module.text()
    assert ".body" not in text
    assert "%k" not in text


def test_inner_kernels_are_objects_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    target = host_target()
    full: list[ModuleBuilder] = []
    inner = InnerModules(target, full.append)
    module = MergingModule(target, inner)
    f = module.function("twice", None, KERNEL_PARAMETERS)
    monkeypatch.setattr(merging, "_FULL", 1)
    for number in (3, 4, 3):
        f.call_void(module.inner(f"store{number}", lambda owner, n=number: store_at(owner, f"store{n}", n)), f.args[0])
    f.ret()
    assert [m.text().count("define") for m in full] == [1, 1]
    assert not inner.last.has_functions()
    first, second, code = compile_objects([m.text() for m in (*full, module)], target)
    with pytest.raises(LinkError, match="store3, store4"):
        load_object(code)
    loaded = load_object(code, others=[load_object(first), load_object(second)])
    out = np.zeros(6, np.int64)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 2, ctypes.c_int32)(loaded.address("twice"))(
        out.ctypes.data, 0, 1, 0
    )
    assert out.tolist() == [0, 0, 0, 3, 4, 0]


def store_at(module: ModuleBuilder, name: str, number: int) -> None:
    f = module.function(name, None, [("x", PTR, "")], linkage="internal", attributes="nounwind noinline")
    f.store(f.const(I64, number), f.gep(f.args[0], number, I64))
    f.ret()


def test_masks_of_known_lanes_are_constant() -> None:
    """LLVM folds them in the function, where stores under a mask of one lane must be scalar (`masked_store`)."""
    f = MergingModule(AVX2).function("f", None, [("n", I64, "")], shares=True)
    assert f.lane_mask(f.const(I64, 8), 9, 4).text == f.first_lanes(4, 1).text
    assert f.lane_mask(f.args[0], 9, 4).text != f.first_lanes(4, 1).text
