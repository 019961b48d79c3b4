"""The ELF loader: contents of compiled programs, damaged objects, and AArch64 relocations decoded by hand."""

from __future__ import annotations

import ctypes
import dataclasses
import itertools
import math
import platform
import random
from pathlib import Path

import numpy as np
import pytest
from mxforge.codegen.elf.reader import read_object
from mxforge.codegen.llvm.compile import compile_object
from mxforge.codegen.llvm.target import AVX2, NEON
from mxforge.runtime.host.loader import Image, LinkError, LoadedObject, load_object, resolve_libc
from mxforge.runtime.host.machine import host_target

EVERYTHING = """
@counter = global i32 7
@zeros = internal global [1000 x i8] zeroinitializer, align 64
@table = constant [2 x ptr] [ptr @wave, ptr @count]
@stdout = external global ptr
declare float @sinf(float)
declare double @pow(double, double)
define float @wave(float %x) {
  %a = call float @sinf(float %x)
  %b = fadd float %a, 1.25
  ret float %b
}
define double @power(double %x, double %y) {
  %r = tail call double @pow(double %x, double %y)
  ret double %r
}
define i32 @count(i32 %x) {
  %a = load i32, ptr @counter
  %b = add i32 %a, %x
  store i32 %b, ptr @counter
  %p = getelementptr i8, ptr @zeros, i64 999
  %z = load i8, ptr %p
  %z32 = zext i8 %z to i32
  %c = add i32 %b, %z32
  store i8 100, ptr %p
  ret i32 %c
}
define ptr @address_of_stdout() {
  ret ptr @stdout
}
define i32 @choose(i32 %x) {
  switch i32 %x, label %other [ i32 0, label %a
    i32 1, label %b
    i32 2, label %c
    i32 3, label %d
    i32 4, label %e ]
a:
  call void @side(i32 1)
  ret i32 10
b:
  call void @side(i32 2)
  ret i32 25
c:
  ret i32 3
d:
  call void @side(i32 4)
  ret i32 77
e:
  ret i32 -1
other:
  ret i32 0
}
define internal void @side(i32 %x) noinline {
  store volatile i32 %x, ptr @counter
  ret void
}
"""


@pytest.fixture(scope="module")
def everything() -> bytes:
    return compile_object(EVERYTHING, host_target(1))


@pytest.fixture(scope="module")
def loaded(everything: bytes) -> LoadedObject:
    return load_object(everything)


def permissions(address: int) -> str:
    for line in Path("/proc/self/maps").read_text().splitlines():
        begin, end = (int(x, 16) for x in line.split()[0].split("-"))
        if begin <= address < end:
            return line.split()[1]
    raise AssertionError(f"{address:#x} is not mapped")


def test_calls_into_the_math_library(loaded: LoadedObject) -> None:
    wave = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(loaded.address("wave"))
    power = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double)(loaded.address("power"))
    assert wave(0.5) == pytest.approx(math.sin(0.5) + 1.25, rel=1e-6)
    assert power(1.5, 2.5) == 1.5**2.5


def test_globals_and_zeros(everything: bytes) -> None:
    fresh = load_object(everything)
    count = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(fresh.address("count"))
    assert [count(1), count(1)] == [8, 109]
    assert ctypes.c_int.from_address(fresh.address("counter")).value == 9


def test_table_of_addresses_and_external_data(loaded: LoadedObject) -> None:
    table = (ctypes.c_void_p * 2).from_address(loaded.address("table"))
    assert list(table) == [loaded.address("wave"), loaded.address("count")]
    address = ctypes.CFUNCTYPE(ctypes.c_void_p)(loaded.address("address_of_stdout"))
    assert address() == resolve_libc("stdout")


def test_switch(loaded: LoadedObject) -> None:
    choose = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(loaded.address("choose"))
    assert [choose(i) for i in range(-1, 6)] == [0, 10, 25, 3, 77, -1, 0]


def test_no_page_is_writable_and_executable(loaded: LoadedObject) -> None:
    assert permissions(loaded.address("wave"))[:3] == "r-x"
    assert permissions(loaded.address("table"))[:3] == "r--"
    assert permissions(loaded.address("counter"))[:3] == "rw-"


def test_internal_symbols_are_not_exported(loaded: LoadedObject) -> None:
    with pytest.raises(KeyError, match=r"no symbol 'side'.*'wave'"):
        loaded.address("side")


def test_the_passed_resolver_is_used() -> None:
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda x: x * 3)
    text = "declare i32 @triple(i32)\ndefine i32 @f(i32 %x) {\n  %r = call i32 @triple(i32 %x)\n  ret i32 %r\n}\n"
    address = ctypes.cast(callback, ctypes.c_void_p).value or 0
    program = load_object(compile_object(text, host_target(1)), {"triple": address}.__getitem__)
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(program.address("f"))(14) == 42


def test_unknown_function_is_named() -> None:
    text = "declare void @no_such_function()\ndefine void @f() {\n  call void @no_such_function()\n  ret void\n}\n"
    with pytest.raises(LinkError, match="no_such_function, which nothing provides"):
        load_object(compile_object(text, host_target(1)))


def test_foreign_object_is_refused() -> None:
    other = NEON if platform.machine() == "x86_64" else AVX2
    with pytest.raises(LinkError, match="this machine is"):
        load_object(compile_object("define void @f() {\n  ret void\n}\n", other))


def test_thread_local_data_is_refused() -> None:
    text = "@x = thread_local global i32 1\ndefine ptr @f() {\n  ret ptr @x\n}\n"
    with pytest.raises(LinkError, match="thread-local"):
        load_object(compile_object(text, host_target(1)))


def test_empty_module_loads() -> None:
    assert load_object(compile_object("", host_target(1))).symbols == {}


def test_truncated_objects_are_refused(everything: bytes) -> None:
    """Any truncation is detected, since the section table is at the end."""
    for length in itertools.chain(range(0, 64), range(64, len(everything), 97), (len(everything) - 1,)):
        with pytest.raises(LinkError):
            load_object(everything[:length])


def test_damaged_objects_cause_no_access_out_of_bounds(everything: bytes) -> None:
    """Random bytes at any position give an error or an object, but no other exception and no crash. No code runs."""
    chance = random.Random(0)
    refused = 0
    for _ in range(600):
        data = bytearray(everything)
        for _ in range(chance.randrange(1, 8)):
            data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        try:
            load_object(bytes(data))
        except LinkError:
            refused += 1
    assert 0 < refused < 600


def test_damaged_tables_are_refused(everything: bytes) -> None:
    """Each 4-byte word of the section table is set to extreme values."""
    start = int.from_bytes(everything[40:48], "little")
    for position in range(start, len(everything) - 3, 4):
        for word in (b"\xff\xff\xff\xff", b"\0\0\0\x80", b"\xff\xff\xff\x7f"):
            data = everything[:position] + word + everything[position + 4 :]
            try:
                load_object(data)
            except LinkError:
                continue


AARCH64 = """
@counter = dso_local global i64 7
@vector = internal constant <4 x float> <float 1.0, float 2.0, float 3.0, float 4.0>
@table = constant [2 x ptr] [ptr @load, ptr @call]
@outside = external global i64
declare i64 @helper(i64)
define i64 @load() {
  %a = load i64, ptr @counter
  ret i64 %a
}
define ptr @place() {
  ret ptr @vector
}
define i64 @call(i64 %x) {
  %a = call i64 @helper(i64 %x)
  %b = add i64 %a, 1
  ret i64 %b
}
define ptr @got() {
  ret ptr @outside
}
"""
OUTSIDE = {"helper": 0x7123_4567_89A0, "outside": 0x7000_0000_1238}


@pytest.fixture(scope="module")
def image() -> Image:
    made = Image(read_object(compile_object(AARCH64, NEON)))
    made.link(OUTSIDE.__getitem__)
    return made


def instructions(image: Image, name: str, count: int) -> tuple[int, list[int]]:
    address = image.exported()[name]
    words = image.bytes[address - image.start :][: 4 * count].view("<u4")
    return address, words.tolist()


def adrp_target(address: int, word: int) -> int:
    """The page address that an ADRP at `address` computes, by the manual."""
    assert word & 0x9F000000 == 0x90000000
    pages = ((word >> 5) & 0x7FFFF) << 2 | (word >> 29) & 3
    return (address & ~0xFFF) + ((pages - (1 << 21) if pages >> 20 else pages) << 12)


def find(words: list[int], mask: int, value: int) -> int:
    return next(i for i, word in enumerate(words) if word & mask == value)


def word_at(image: Image, address: int) -> int:
    return int(image.bytes[address - image.start :][:8].view("<u8")[0])


def test_aarch64_load_of_a_global(image: Image) -> None:
    address, words = instructions(image, "load", 4)
    at = find(words, 0x9F000000, 0x90000000)
    load = words[find(words, 0xFFC00000, 0xF9400000)]  # ldr x, [x, #imm * 8]
    assert adrp_target(address + 4 * at, words[at]) + ((load >> 10) & 0xFFF) * 8 == image.exported()["counter"]


def test_aarch64_address_of_a_constant(image: Image) -> None:
    address, words = instructions(image, "place", 4)
    at = find(words, 0x9F000000, 0x90000000)
    add = words[find(words, 0xFFC00000, 0x91000000)]
    place = adrp_target(address + 4 * at, words[at]) + ((add >> 10) & 0xFFF) - image.start
    assert image.bytes[place : place + 16].view("<f4").tolist() == [1, 2, 3, 4]


def test_aarch64_external_call_goes_through_a_stub(image: Image) -> None:
    address, words = instructions(image, "call", 4)
    at = find(words, 0xFC000000, 0x94000000)
    distance = words[at] & 0x3FFFFFF
    stub = address + 4 * at + 4 * (distance - (1 << 26) if distance >> 25 else distance)
    load, branch = image.bytes[stub - image.start :][:8].view("<u4").tolist()
    assert (load & 0xFF00001F, branch) == (0x58000010, 0xD61F0200)
    assert word_at(image, stub + ((load >> 5) & 0x7FFFF) * 4) == OUTSIDE["helper"]


def test_aarch64_got_and_table(image: Image) -> None:
    address, words = instructions(image, "got", 4)
    at = find(words, 0x9F000000, 0x90000000)
    load = words[find(words, 0xFFC00000, 0xF9400000)]
    slot = adrp_target(address + 4 * at, words[at]) + ((load >> 10) & 0xFFF) * 8
    assert word_at(image, slot) == OUTSIDE["outside"]
    symbols = image.exported()
    assert [word_at(image, symbols["table"] + 8 * i) for i in (0, 1)] == [symbols["load"], symbols["call"]]


def test_unknown_relocation_is_named(everything: bytes) -> None:
    object_file = read_object(everything)
    table = object_file.relocations[0]
    strange = dataclasses.replace(table, type=np.full_like(table.type, 250))
    with pytest.raises(LinkError, match="relocation type 250"):
        Image(dataclasses.replace(object_file, relocations=[strange])).link(resolve_libc)


def test_address_out_of_reach_is_named() -> None:
    made = Image(read_object(compile_object(AARCH64, NEON)))
    made.addresses += 1 << 40
    with pytest.raises(LinkError, match=r"R_AARCH64_\w+ in section '.text': an address is out of reach"):
        made.link(OUTSIDE.__getitem__)
