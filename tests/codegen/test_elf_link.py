"""Objects that are linked without a linker: into one object, and into shared libraries that the system loads."""

from __future__ import annotations

import ctypes
import platform
from pathlib import Path

import numpy as np
import pytest
from mxforge.codegen.elf.kernels import function_names
from mxforge.codegen.elf.merge import link_object, self_contained
from mxforge.codegen.elf.reader import LinkError, read_object, read_sections
from mxforge.codegen.elf.relocations import AARCH64, X86_64, Architecture
from mxforge.codegen.elf.shared import shared_library
from mxforge.codegen.elf.writer import CONSTANTS, DATA, RELOCATED, TEXT, ObjectWriter

pytestmark = pytest.mark.any_processor

RETURNS_42 = {X86_64.name: bytes.fromhex("b82a000000c3"), AARCH64.name: bytes.fromhex("40058052c0035fd6")}
JUMPS = {X86_64.name: (bytes.fromhex("e900000000"), 1, 4, -4), AARCH64.name: (bytes.fromhex("00000014"), 0, 282, 0)}
"""A jump: its code, and the place, type and addend of its relocation."""
HOST = {"x86_64": X86_64, "aarch64": AARCH64}[platform.machine()]


def jumping(architecture: Architecture, name: str, target: str) -> bytes:
    """An object with a function that jumps to another one."""
    writer = ObjectWriter(architecture)
    code, place, type, addend = JUMPS[architecture.name]
    writer.refer(TEXT, writer.function(name, code) + place, type, target, addend)
    return writer.finish()


def defining(architecture: Architecture, name: str) -> bytes:
    """An object with a function that returns 42."""
    writer = ObjectWriter(architecture)
    writer.function(name, RETURNS_42[architecture.name])
    return writer.finish()


def loaded(path: Path, objects: list[bytes], exports: dict[str, str], memory: bytes = b"weights") -> ctypes.CDLL:
    parts = shared_library(
        objects,
        exports,
        name=path.name,
        needs=("libc.so.6",),
        provided=lambda name: name in ("getpid", "abs"),
        memory=("memory", memory),
    )
    path.write_bytes(b"".join(parts))
    return ctypes.CDLL(str(path))


def test_a_library_calls_itself_and_others(tmp_path: Path) -> None:
    objects = [jumping(HOST, "f", "g"), defining(HOST, "g"), jumping(HOST, "h", "abs")]
    library = loaded(tmp_path / "libx.so", objects, {"f": "answer", "h": "absolute"})
    assert library.answer() == 42
    assert library.absolute(-3) == 3
    assert not hasattr(library, "g") and not hasattr(library, "f")


def test_addresses_and_memory(tmp_path: Path) -> None:
    writer = ObjectWriter(HOST)
    table = writer.add(RELOCATED, bytes(32))
    writer.add(DATA, b"data")
    constants = writer.add(CONSTANTS, b"constants\0")
    for word, (symbol, addend) in enumerate(((CONSTANTS, constants), ("memory", 2), (DATA, 0), ("g", 0))):
        writer.refer(RELOCATED, table + 8 * word, HOST.address, symbol, addend)
    writer.define("table", RELOCATED, table)
    library = loaded(tmp_path / "liby.so", [writer.finish(), defining(HOST, "g")], {"table": "table"})
    words = (ctypes.c_uint64 * 4).in_dll(library, "table")
    assert ctypes.string_at(words[0]) == b"constants"
    assert ctypes.string_at(words[1], 5) == b"ights"
    assert ctypes.string_at(words[2], 4) == b"data"
    ctypes.memmove(words[2], b"DATA", 4)
    assert ctypes.CFUNCTYPE(ctypes.c_int)(words[3])() == 42


@pytest.mark.parametrize("architecture", [X86_64, AARCH64], ids=lambda a: a.name)
def test_segments_map_the_file(architecture: Architecture) -> None:
    objects = [jumping(architecture, "f", "getpid"), defining(architecture, "g")]
    writer = ObjectWriter(architecture)
    writer.add(DATA, b"data")
    objects.append(writer.finish())
    parts = shared_library(
        objects, {"f": "f"}, name="libz.so", needs=(), provided=lambda name: True, memory=("m", b"12")
    )
    data = b"".join(parts)
    assert data[16:18] == b"\3\0"
    headers = np.frombuffer(data, "<u8", 8 * 7, 64).reshape(8, 7)
    loads = headers[headers[:, 0] & 0xFFFFFFFF == 1]
    flags = [int(n) >> 32 for n in loads[:, 0]]
    assert flags == [4, 5, 6, 6, 4]
    assert all((row[1] - row[2]) % architecture.page == 0 for row in loads.astype(np.int64))
    ends = loads[:, 2] + loads[:, 5]
    assert (loads[1:, 2] // architecture.page > (ends[:-1] - 1) // architecture.page).all()
    sections = read_sections(data)
    assert sections[".memory"].content == b"12"
    assert b"libz.so" in sections[".dynstr"].content and b"getpid" in sections[".dynstr"].content


def test_what_nothing_defines_is_refused() -> None:
    objects = [jumping(HOST, "f", "nowhere")]
    with pytest.raises(LinkError, match="the objects refer to nowhere, which nothing defines"):
        shared_library(objects, {"f": "f"}, name="x", needs=(), provided=lambda name: False)
    with pytest.raises(LinkError, match="no object defines 'g'"):
        shared_library(objects, {"g": "g"}, name="x", needs=(), provided=lambda name: True)
    with pytest.raises(LinkError, match="several architectures"):
        link_object([defining(X86_64, "f"), defining(AARCH64, "g")], {})


def test_code_with_narrow_addresses_is_refused() -> None:
    writer = ObjectWriter(X86_64)
    offset = writer.function("f", bytes.fromhex("b800000000c3"))
    writer.refer(TEXT, offset + 1, 10, CONSTANTS, 0)
    with pytest.raises(LinkError, match="R_X86_64_32: the code cannot run at any address"):
        shared_library([writer.finish()], {"f": "f"}, name="x", needs=(), provided=lambda name: True)


def test_one_object_of_several_exports_only_what_it_should() -> None:
    data = link_object(
        [jumping(HOST, "f", "g"), defining(HOST, "g"), jumping(HOST, "h", "abs")], {"f": "answer"}, {"abs": "own"}
    )
    assert function_names(data) == ["answer"]
    symbols = read_object(data).symbols
    assert [symbols.name(i) for i in range(len(symbols)) if symbols.section[i] == 0 and i] == ["own"]


def test_objects_that_refer_to_each_other_become_one(tmp_path: Path) -> None:
    alone = [defining(HOST, "f"), defining(HOST, "g")]
    assert self_contained(alone) == alone
    [data] = self_contained([jumping(HOST, "f", "g"), defining(HOST, "g")])
    assert sorted(function_names(data)) == ["f", "g"]
    assert loaded(tmp_path / "libw.so", [data], {"f": "f"}).f() == 42
