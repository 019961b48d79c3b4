"""Mach-O objects: what is linked refers to the same places as in ELF, and other readers take it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from llvmlite import binding
from mxforge.codegen.elf.merge import Merged, merge_files
from mxforge.codegen.elf.reader import LinkError, read_object
from mxforge.codegen.elf.writer import CONSTANTS, DATA, RELOCATED, TEXT, ObjectWriter
from mxforge.codegen.llvm.compile import compile_object
from mxforge.codegen.llvm.target import AVX2, NEON
from mxforge.codegen.macho import format as macho
from mxforge.codegen.macho.reader import read_any, read_macho
from mxforge.codegen.macho.writer import link_macho
from mxforge.runtime.host.native_objects import MACOS, MODEL, POOL, native_object

pytestmark = pytest.mark.any_processor

MODULE = """
@numbers = internal constant [3 x i64] [i64 1, i64 2, i64 3], align 16
@table = internal constant [2 x ptr] [ptr getelementptr (i8, ptr @numbers, i64 8), ptr @twice]
@count = internal global i32 7
@weights = external global [4 x float]
declare double @fmod(double, double)

define i64 @sum(i64 %i) {
  %p = getelementptr [3 x i64], ptr @numbers, i64 0, i64 %i
  %a = load i64, ptr %p
  %q = getelementptr [2 x ptr], ptr @table, i64 0, i64 %i
  %b = load ptr, ptr %q
  %c = ptrtoint ptr %b to i64
  %n = load i32, ptr @count
  %m = add i32 %n, 1
  store i32 %m, ptr @count
  %d = add i64 %a, %c
  ret i64 %d
}

define <4 x float> @twice(<4 x float> %x) {
  %w = load <4 x float>, ptr @weights
  %y = fmul <4 x float> %x, <float 0x3FF19999A0000000, float 2.0, float 3.0, float 4.0>
  %z = fadd <4 x float> %y, %w
  ret <4 x float> %z
}

define double @rest(double %x) {
  %y = call double @fmod(double %x, double 0.1)
  ret double %y
}
"""


def module() -> bytes:
    """An object for Linux with all kinds of references that kernels have."""
    return compile_object(MODULE, replace(NEON, features="+reserve-x18"))


def distances() -> bytes:
    """An object with distances of 4 and 8 bytes in data, which the code of switches has."""
    writer = ObjectWriter(read_object(module()).architecture)
    writer.define("start", CONSTANTS, writer.add(CONSTANTS, bytes(32)))
    writer.refer(CONSTANTS, 4, 261, TEXT, 12)
    writer.refer(CONSTANTS, 16, 260, CONSTANTS, 8)
    writer.function("code", bytes(16))
    return writer.finish()


def references(merged: Merged) -> set[tuple[str, int, int, str, int]]:
    """Each reference: where it is, its type, and the place or the symbol that it refers to."""
    found = set[tuple[str, int, int, str, int]]()
    for each in merged.fields:
        for offset, type, number, addend in zip(each.offset, each.type, each.symbol, each.addend, strict=True):
            symbol = merged.symbols[int(number)]
            type = 283 if type == 282 else int(type)  # a jump and a call are one type in Mach-O
            found.add((each.section, int(offset), type, symbol.section or symbol.name, symbol.offset + int(addend)))
    return found


def both(objects: Sequence[bytes], exports: dict[str, str]) -> tuple[Merged, Merged]:
    """The objects merged, before and after they were linked."""
    linked = link_macho(objects, exports)
    return merge_files([read_any(data) for data in objects]), merge_files([read_macho(linked)])


@pytest.mark.parametrize("make", [module, distances])
def test_references_of_a_linked_object_are_those_of_its_parts(make: Callable[[], bytes]) -> None:
    before, after = both([make()], {})
    assert references(before) == references(after)
    assert len(references(before)) >= 2
    for name in (TEXT, DATA):
        assert after.contents[name] == before.contents[name]
    assert len(after.contents[RELOCATED]) == len(before.contents[RELOCATED])


def test_symbols() -> None:
    linked = link_macho([module()], {"sum": "net_sum", "twice": "net_twice"}, {"weights": "net_weights"})
    file = read_macho(linked)
    symbols = file.symbols
    public = {symbols.name(i): int(symbols.section[i]) for i in range(len(symbols)) if not symbols.is_local[i]}
    assert {name for name, section in public.items() if section} == {"net_sum", "net_twice"}
    assert {name for name, section in public.items() if not section} == {"fmod", "net_weights"}
    assert b"\0_net_sum\0" in linked and b"\0_fmod\0" in linked
    local = [symbols.name(i) for i in np.flatnonzero(symbols.is_local).tolist()]
    assert all(name.startswith("l") for name in local if name)  # which linkers drop


def test_the_reader_of_llvm_takes_it() -> None:
    linked = link_macho([module(), native_object(POOL, MACOS)], {"mxf_run": "net_run"})
    found = binding.ObjectFileRef.from_data(linked)
    rows = [(s.name(), s.is_text(), s.address()) for s in found.sections()]  # a section lasts until the next one
    assert [(name, is_text) for name, is_text, _ in rows] == [
        *((b"__text", True), (b"__const", False), (b"__const", False), (b"__data", False))
    ]
    addresses = [address for _, _, address in rows]
    assert addresses == sorted(addresses) and all(address % 64 == 0 for address in addresses)


def test_code_has_no_absolute_addresses() -> None:
    file = read_macho(link_macho([module(), native_object(POOL, MACOS)], {}))
    for table in file.relocations:
        if not file.sections[table.section].is_data and file.sections[table.section].name != RELOCATED:
            assert macho.ABSOLUTE not in table.type


def test_what_cannot_be_linked() -> None:
    with pytest.raises(LinkError, match="refer to weights, fmod, which nothing defines"):
        link_macho([module()], {}, provided=lambda name: False)
    with pytest.raises(LinkError, match="objects for x86-64 cannot be linked for macOS"):
        link_macho([compile_object("define void @f() {\n ret void\n}\n", AVX2)], {})
    writer = ObjectWriter(read_object(module()).architecture)
    writer.function("code", bytes(8))
    writer.refer(TEXT, 0, 258, TEXT, 0)  # an address of 4 bytes
    with pytest.raises(LinkError, match="relocation type 258 has no equivalent for macOS"):
        link_macho([writer.finish()], {})


def test_damaged_objects_are_refused() -> None:
    data = native_object(MODEL, MACOS)
    random = np.random.default_rng(0)
    for length in random.integers(0, len(data), 100).tolist():
        with pytest.raises(LinkError):
            read_macho(data[:length])
    for _ in range(300):
        damaged = bytearray(data)
        for at in random.integers(0, 1200, 3).tolist():  # the commands
            damaged[at] = int(random.integers(256))
        try:
            merge_files([read_macho(bytes(damaged))])
        except LinkError:
            continue
