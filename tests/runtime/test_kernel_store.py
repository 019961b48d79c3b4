"""Code of kernels in memory, on disk and in the package: found by its text, current, and refused if it is damaged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mxforge as mx
import numpy as np
import pytest
from mxforge.codegen.driver import compile_graph
from mxforge.codegen.llvm.target import CpuTarget
from mxforge.codegen.statistics import statistics
from mxforge.ir.caches import clear_caches
from mxforge.ir.code_store import MemoryStore
from mxforge.passes.manager import Options
from mxforge.runtime.cache import DiskCache
from mxforge.runtime.host import kernel_library
from mxforge.runtime.host.kernel_library import (
    AARCH64,
    KernelLibrary,
    is_portable,
    library_file,
    library_name,
    read_library,
    to_bytes,
)
from mxforge.runtime.host.machine import X86_LEVELS, cpu_flags, host_target, target_from_cpuinfo
from mxforge.runtime.kernel_store import KernelStore
from mxforge.tools.first_programs import CALLS, NETWORKS, Program
from mxforge.tools.make_kernels import LEVELS, kernels_captured, network_graphs, targets
from processes import run_apart

OWN = library_name(host_target())
CODES = {"define void @a": b"\xc3", "define void @b": b"\x90\xc3", "third": b""}


@pytest.fixture
def disk(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache", enabled=True)


def store_of(disk: DiskCache, identity: str = "this compiler", target: CpuTarget | None = None) -> KernelStore:
    found = target or host_target()
    return KernelStore(found.code_identity, read_library(library_name(found)), disk, identity)


def test_other_processes_find_code_on_disk(disk: DiskCache) -> None:
    store_of(disk).add("text of a kernel", b"code")
    assert store_of(disk).find("text of a kernel") == b"code"
    clear_caches()
    assert store_of(disk).find("text of a kernel") == b"code"
    assert store_of(disk).find("another text") is None


def test_other_compilers_and_processors_have_their_own_code(disk: DiskCache) -> None:
    store_of(disk).add("text of a kernel", b"code")
    other = targets(next(level for level in LEVELS if level != OWN))[0]
    assert store_of(disk, "another compiler").find("text of a kernel") is None
    assert store_of(disk, target=other).find("text of a kernel") is None


def test_a_damaged_entry_counts_as_missing(disk: DiskCache) -> None:
    store_of(disk).add("text of a kernel", b"code")
    clear_caches()
    assert disk.folder is not None
    (entry,) = disk.folder.iterdir()
    entry.write_bytes(entry.read_bytes()[:-1] + b"!")
    assert store_of(disk).find("text of a kernel") is None


def test_libraries_find_each_text() -> None:
    library = KernelLibrary(to_bytes(CODES))
    assert [library.find(text) for text in CODES] == list(CODES.values())
    assert library.find("define void @c") is None
    assert KernelLibrary(to_bytes({})).find("third") is None


def test_damaged_libraries_are_refused() -> None:
    data = to_bytes(CODES)
    for damaged in (b"", data[:20], data[:-1], b"x" + data[1:], data[:8] + b"\xff" * 8 + data[16:]):
        with pytest.raises(ValueError, match="library of kernels"):
            KernelLibrary(damaged)


def test_a_processor_without_a_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(kernel_library, "LIBRARIES", tmp_path)
    read_library.cache_clear()
    assert read_library(OWN).find("define void @a") is None
    read_library.cache_clear()


def test_narrow_floats_are_not_in_libraries() -> None:
    assert is_portable("%x = fadd float %y, %z")
    assert not is_portable("%x = fptrunc float %y to bfloat")


def test_each_processor_has_its_library() -> None:
    """All AArch64 processors share one; kernels of another processor are never found, even with the same text."""
    assert [library_name(targets(level)[0]) for level in LEVELS] == list(LEVELS)
    for features in ("", "atomics asimdrdm fphp asimddp bf16 i8mm"):
        assert library_name(target_from_cpuinfo("aarch64", {"Features": features}, {}, 3)) == AARCH64
    assert all(library_file(level).is_file() for level in LEVELS)


def test_what_is_captured_for_aarch64_is_its_code() -> None:
    """The program runs on this machine. The vectors of both have 128 bits."""
    if not X86_LEVELS["x86-64-v4"] <= cpu_flags():
        pytest.skip("the programs for AArch64 run as code for AVX-512")
    x, store = mx.nd.ones((2, 3)), MemoryStore()
    (target,) = (t for t in targets(AARCH64) if t.threads == 1)
    with kernels_captured(store, target):
        assert ((x * 2).exp() + 1).sum().asscalar() > 0
        x.sort()
    assert store.code and all("<8 x float>" not in text for text in store.code)
    code = b"".join(store.code.values())
    words = np.frombuffer(code[: len(code) // 4 * 4], "<u4")
    assert 0xD65F03C0 in words, "ret"


class _Misses:
    """The texts that a library lacks."""

    def __init__(self, target: CpuTarget) -> None:
        self.library, self.missing = read_library(library_name(target)), list[str]()

    def find(self, text: str) -> bytes | None:
        found = self.library.find(text)
        if found is None and is_portable(text):
            self.missing.append(text)
        return found

    def add(self, text: str, code: bytes) -> None:
        """A text that is missing, or not portable, is compiled."""


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("network", ["squeezenet1.1", "mobilenetv2_1.0"])
def test_the_libraries_of_the_package_are_current(network: str, level: str) -> None:
    """If this fails, run python -m mxforge.tools.make_kernels."""
    graph = next(network_graphs(network))
    target = targets(level)[0]
    misses = _Misses(target)
    compile_graph(graph, target, Options(), misses)
    assert not misses.missing, f"{len(misses.missing)} kernels are not in {library_file(library_name(target))}"


@pytest.mark.parametrize("level", [level for level in X86_LEVELS if X86_LEVELS[level] <= cpu_flags()][-1:])
@pytest.mark.parametrize("program", [*CALLS, *NETWORKS], ids=lambda program: program.__name__)
def test_the_libraries_have_the_kernels_of_first_programs(program: Program, level: str) -> None:
    """If this fails, run python -m mxforge.tools.make_kernels."""
    target = targets(level)[0]
    misses = _Misses(target)
    with kernels_captured(misses, target):
        program()
    assert not misses.missing, f"{len(misses.missing)} kernels are not in {library_file(library_name(target))}"


def test_captured_kernels_are_compiled_for_the_target() -> None:
    x, store = mx.nd.ones((2, 3)), MemoryStore()
    target = replace(host_target(), vector_bits=128, threads=1)
    assert (x * 2).sum().asscalar() == 12  # known before, and compiled again
    with kernels_captured(store, target):
        assert (x * 2).sum().asscalar() == 12
    texts = "".join(store.code)
    assert "<4 x float>" in texts and "<8 x float>" not in texts
    before = len(store.code)
    assert (x * 3).sum().asscalar() == 18
    assert len(store.code) == before


def test_a_first_call_loads_no_llvm(tmp_path: Path) -> None:
    call = "import sys, mxforge as mx; assert (mx.nd.ones((2, 3)) * 2).sum().asscalar() == 12"
    run_apart(f"{call}; assert 'llvmlite' not in sys.modules", tmp_path)


def test_a_network_of_the_library_needs_no_llvm(tmp_path: Path) -> None:
    before = statistics.modules
    target = targets(OWN)[0]
    program = compile_graph(
        next(network_graphs("squeezenet1.1")), target, Options(), store_of(DiskCache(tmp_path / "cache"), target=target)
    )
    assert statistics.modules == before
    assert len(program.code) == 1
    assert np.frombuffer(program.code[0][:4], "S4")[0] == b"\x7fELF"
