"""Functions that are equal except for numbers share one body, and each computes with its own numbers."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from mxforge.codegen.elf.kernels import function_names
from mxforge.codegen.llvm import inner_kernels
from mxforge.codegen.llvm.compile import compile_object
from mxforge.codegen.llvm.contract.tiles import KERNEL_PARAMETERS
from mxforge.codegen.llvm.emitter import ModuleBuilder
from mxforge.codegen.llvm.inner_kernels import InnerKernels
from mxforge.codegen.llvm.kernel_module import KernelModule
from mxforge.codegen.llvm.target import AVX2, NEON, CpuTarget
from mxforge.codegen.llvm.types import I32, I64, PTR
from mxforge.ir.code_store import NO_STORE, CodeStore, MemoryStore
from mxforge.runtime.host.loader import LoadedObject, load_objects
from mxforge.runtime.host.machine import host_target


class Module(KernelModule):
    """A module with the texts that LLVM compiles."""

    def __init__(self, target: CpuTarget, store: CodeStore = NO_STORE, has_thunks: bool = True) -> None:
        self.texts: list[str] = []
        super().__init__(target, InnerKernels(target, store, self._add), has_thunks)

    def _add(self, text: str) -> int:
        self.texts.append(text)
        return len(self.texts) - 1

    def finish(self) -> None:
        """Let functions move, and collect the texts of all modules."""
        self.release()
        self.kernels.finish_module()
        if self.has_functions():
            self.texts.append(self.text())

    def objects(self) -> list[bytes]:
        self.finish()
        compiled = [compile_object(text, self.target) for text in self.texts]
        own = compiled[-1:] if self.has_functions() else []
        return [*self.kernels.objects(compiled, self.thunks, self.constants), *own]

    def load(self) -> list[LoadedObject]:
        return load_objects(self.objects())


def call(objects: list[LoadedObject], name: str, out: np.ndarray) -> None:
    """Call a kernel on an array, as a launch of one unit."""
    owner = next(loaded for loaded in objects if name in loaded.symbols)
    arguments = (ctypes.c_void_p * 1)(out.ctypes.data)
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 2, ctypes.c_int32)(owner.address(name))
    kernel(arguments, 0, 1, 0)


def add_step(module: ModuleBuilder, name: str, step: int) -> None:
    """An internal function: returns its argument plus `step`."""
    f = module.function(name, I64, [("x", I64, "")], linkage="internal", attributes="nounwind noinline")
    f.ret(f.args[0] + step)


def add_kernel(
    module: ModuleBuilder, name: str, count: int, table: list[int], callee: str, shares: bool = True
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


def module_of_two(target: CpuTarget, shares: bool = True, store: CodeStore = NO_STORE) -> Module:
    module = Module(target, store)
    add_step(module, "one_more", 1)
    add_step(module, "ten_more", 10)
    add_kernel(module, "short", 3, [5, 6, 7], "one_more", shares)
    add_kernel(module, "long", 6, [1, 2, 3, 4, 5, 6], "ten_more", shares)
    return module


def check_both(objects: list[LoadedObject]) -> None:
    for name, expected in (("short", [16, 19, 22]), ("long", [16, 22, 28, 34, 40, 46])):
        out = np.zeros(6, np.int64)
        call(objects, name, out)
        assert out.tolist() == expected + [0] * (6 - len(expected))


@pytest.mark.parametrize("shares", [True, False])
def test_numbers_tables_callees_and_stack_memory_can_differ(shares: bool) -> None:
    check_both(module_of_two(host_target(), shares).load())


@pytest.mark.parametrize("target", [AVX2, NEON])
def test_equal_functions_share_a_body_on_every_target(target: CpuTarget) -> None:
    module, again = module_of_two(target), module_of_two(target)
    code = module.objects()
    (text,) = module.texts
    assert text.count("define void @body.") == 1
    assert {"short", "long"} <= {name for data in code for name in function_names(data)}
    assert (again.objects(), again.texts) == (code, module.texts)


def test_functions_that_do_not_share_have_their_numbers_in_the_code() -> None:
    module = module_of_two(host_target(), shares=False)
    module.finish()
    assert module.texts[0].count("define void @body.") == 2
    numbers = {name: len(thunk.numbers) for name, thunk in module.thunks.items()}
    assert (numbers["short"], numbers["long"]) == (2, 2)  # the table and the callee


def test_stored_code_is_not_compiled_again() -> None:
    store = MemoryStore()
    module_of_two(host_target(), store=store).objects()
    assert len(store.code) == 3  # a body and the functions that it calls
    again = module_of_two(host_target(), store=store)
    check_both(again.load())
    assert not again.texts


def add_twice(module: ModuleBuilder, callee: str) -> None:
    """An inlined function, which has no table for the addresses of others."""
    inlined = module.function("twice", I64, [("x", I64, "")], linkage="internal", attributes="nounwind alwaysinline")
    inlined.ret(inlined.call(callee, I64, inlined.call(callee, I64, inlined.args[0])))


def test_a_kernel_contains_the_functions_that_it_calls_by_name() -> None:
    module = Module(host_target())
    add_step(module, "one_more", 1)
    add_twice(module, "@one_more")
    add_kernel(module, "short", 3, [5, 6, 7], "twice")
    objects = module.load()
    assert not module.has_functions() and module.thunks
    out = np.zeros(3, np.int64)
    call(objects, "short", out)
    assert out.tolist() == [17, 20, 23]


def test_a_function_that_calls_other_objects_stays_with_its_numbers() -> None:
    module = Module(host_target())
    add_twice(module, module.declare("labs", I64, [I64]))
    add_kernel(module, "short", 3, [-5, -6, 7], "twice")
    objects = module.load()
    assert module.has_functions() and not module.thunks
    out = np.zeros(3, np.int64)
    call(objects, "short", out)
    assert out.tolist() == [15, 18, 21]


def test_each_function_of_shared_objects_is_complete() -> None:
    store, compiled = MemoryStore(), list[int]()
    for _ in range(2):
        module = Module(host_target(), store, has_thunks=False)
        add_step(module, "one_more", 1)
        add_kernel(module, "short", 3, [5, 6, 7], "one_more", shares=False)
        out = np.zeros(3, np.int64)
        call(module.load(), "short", out)
        assert out.tolist() == [16, 19, 22]
        compiled.append(len(module.texts))
    assert compiled == [1, 0]


def test_full_modules_are_compiled_while_others_are_emitted(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Module(host_target())
    f = module.function("all", None, KERNEL_PARAMETERS)
    monkeypatch.setattr(inner_kernels, "_FULL", 1)
    out = f.load(f.gep(f.args[0], 0, PTR), PTR)
    for number in (3, 4, 3):
        f.call_void(module.inner(f"store{number}", lambda owner, n=number: store_at(owner, f"store{n}", n)), out)
    f.ret()
    assert [text.count("define") for text in module.texts] == [1, 1]
    found = np.zeros(6, np.int64)
    call(module.load(), "all", found)
    assert found.tolist() == [0, 0, 0, 3, 4, 0]


def test_an_inner_kernel_that_calls_another_function() -> None:
    def calling(owner: ModuleBuilder) -> None:
        add_step(owner, "one_more", 1)
        f = owner.function("calling", None, [("x", PTR, "")], linkage="internal", attributes="nounwind noinline")
        f.store(f.call("@one_more", I64, f.const(I64, 6)), f.args[0])
        f.ret()

    store = MemoryStore()
    first, second = Module(host_target(), store), Module(host_target(), store)
    for module in (first, second):
        f = module.function("both", None, KERNEL_PARAMETERS)
        out = f.load(f.gep(f.args[0], 0, PTR), PTR)
        f.call_void(module.inner("calling", calling), out)
        f.call_void(module.inner("store2", lambda owner: store_at(owner, "store2", 2)), out)
        f.ret()
        found = np.zeros(3, np.int64)
        call(module.load(), "both", found)
        assert found.tolist() == [7, 0, 2]
    assert any("@calling" in text for text in store.code)
    assert not second.texts


def store_at(module: ModuleBuilder, name: str, number: int) -> None:
    f = module.function(name, None, [("x", PTR, "")], linkage="internal", attributes="nounwind noinline")
    f.store(f.const(I64, number), f.gep(f.args[0], number, I64))
    f.ret()


def test_masks_of_known_lanes_are_constant() -> None:
    """LLVM folds them in the function, where stores under a mask of one lane must be scalar (`masked_store`)."""
    f = Module(AVX2).function("f", None, [("n", I64, "")], shares=True)
    assert f.lane_mask(f.const(I64, 8), 9, 4).text == f.first_lanes(4, 1).text
    assert f.lane_mask(f.args[0], 9, 4).text != f.first_lanes(4, 1).text
