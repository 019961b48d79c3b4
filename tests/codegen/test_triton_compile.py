"""Compilation to cubins without a GPU: tensor cores, wide copies, registers, shared memory, a missing Triton."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is not installed: pip install mxforge[cuda]")

from contraction_kernels import gemm_kernel
from mxforge.codegen.driver import compile_graph
from mxforge.codegen.statistics import statistics
from mxforge.codegen.triton import compile as compiling
from mxforge.codegen.triton.compile import compile_kernel, compile_triton
from mxforge.codegen.triton.cubin import read_resources
from mxforge.codegen.triton.emit import TritonSource, emit_triton
from mxforge.codegen.triton.schedule import schedule_triton
from mxforge.codegen.triton.target import SM90, GpuTarget
from mxforge.ir.code_store import MemoryStore
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.settings import settings
from mxforge.ir.types import DType, TensorType

SM80 = GpuTarget(80, 163 << 10, 108)
BF16 = DType.BF16


def gemm_source(n: int, dtype: DType = BF16, target: GpuTarget = SM90, **changes: object) -> TritonSource:
    kernel = gemm_kernel((), n, n, n, dtype)
    return emit_triton(kernel, replace(schedule_triton(kernel, target), **changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [BF16, DType.F32], ids=lambda d: d.value)
def test_large_gemm_fits_the_machine(dtype: DType) -> None:
    """The largest tile uses asynchronous copies of 16 bytes and warp-group products, and spills no register."""
    compiled = compile_triton(gemm_source(4096, dtype), SM90)
    assert "wgmma.mma_async" in compiled.ptx
    assert "cp.async.cg.shared.global" in compiled.ptx
    assert compiled.resources.stack == 0
    assert compiled.resources.registers <= 65536 // (32 * compiled.num_warps)
    assert 48 << 10 < compiled.shared <= SM90.shared_bytes


def test_kernels_that_spill_get_more_warps() -> None:
    source = gemm_source(512, DType.F32)
    dims = tuple(replace(d, block={"z": 1, "k": 32}.get(d.name, 128)) for d in source.schedule.dims)
    schedule = replace(source.schedule, dims=dims, num_stages=2, split=1)
    source = emit_triton(gemm_kernel((), 512, 512, 512, DType.F32), schedule)
    assert compile_triton(source, SM90).resources.stack > 16
    code = compile_kernel(source, SM90)
    assert code.num_warps == 2 * schedule.num_warps
    assert read_resources(code.code, code.name).stack <= 16


def test_alignment_decides_the_width_of_copies() -> None:
    aligned, unaligned = (compile_triton(gemm_source(512, aligned=a), SM90) for a in (True, False))
    assert "tt.divisibility = 16" in aligned.ttir
    assert "tt.divisibility" not in unaligned.ttir
    assert "cp.async.cg.shared.global" in aligned.ptx
    assert "cp.async.cg.shared.global" not in unaligned.ptx


def test_divisible_extents_decide_the_width_of_copies() -> None:
    names = ("rows", "columns", "inner")
    kernel = replace(gemm_kernel((), *names, BF16), extents=names)  # type: ignore[arg-type]
    schedule = schedule_triton(kernel, SM90, dict.fromkeys(names, 1024))
    for divisible in (frozenset[str](), frozenset(names)):
        compiled = compile_triton(emit_triton(kernel, replace(schedule, divisible=divisible)), SM90)
        assert ("cp.async.cg.shared.global" in compiled.ptx) == bool(divisible)


def test_other_architectures_compile() -> None:
    compiled = compile_triton(gemm_source(256, target=SM80), SM80)
    assert ".target sm_80" in compiled.ptx
    assert "mma.sync" in compiled.ptx
    assert compiled.resources.stack == 0


def test_cubin_describes_the_arguments_of_its_kernel() -> None:
    source = gemm_source(64)
    compiled = compile_triton(source, SM90)
    assert compiled.cubin.startswith(b"\x7fELF")
    sizes = [size for _, size in compiled.resources.parameters]
    assert set(sizes) == {8}
    assert len(sizes) - len(source.signature) in (1, 2)  # scratch pointers: one in Triton 3.4, two later
    assert 0 < compiled.resources.registers <= 255
    with pytest.raises(ValueError, match="does not contain kernel other"):
        read_resources(compiled.cubin, "other")
    with pytest.raises(ValueError, match="not a cubin"):
        read_resources(b"text", "gemm")


def test_too_much_shared_memory_is_refused() -> None:
    with pytest.raises(ValueError, match=r"gemm needs \d+ bytes of shared memory, a block has 1024"):
        compile_triton(gemm_source(128), replace(SM90, shared_bytes=1024))


def test_no_code_of_a_folder_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other users can write to the folder of the cache."""
    source = gemm_source(64)
    planted = tmp_path / "triton" / f"{source.name}_{sha256(source.text.encode()).hexdigest()[:24]}.py"
    planted.parent.mkdir()
    planted.write_text("raise AssertionError('code of another user has run')")
    tmp_path.chmod(0o777)
    monkeypatch.setenv("MXFORGE_CACHE_DIR", str(tmp_path))
    settings.cache_clear()
    try:
        compile_triton(source, SM90)
    finally:
        settings.cache_clear()
    assert list(tmp_path.rglob("*.*")) == [planted]


def test_two_kernels_of_one_name_have_their_own_text() -> None:
    assert compile_triton(gemm_source(64), SM90).ttir != compile_triton(gemm_source(128), SM90).ttir


def test_a_stored_kernel_is_not_compiled_again() -> None:
    b = CoreBuilder("g")
    x = b.input(TensorType((64, 64), DType.F32), "x")
    graph, store = b.build([b.exp(x)]), MemoryStore()
    first = compile_graph(graph, SM90, kernels=store)
    before = statistics.modules
    assert compile_graph(graph, SM90, kernels=store).code == first.code
    assert statistics.modules == before and list(store.code.values()) == list(first.code)
    wider = replace(gemm_source(64).schedule, num_warps=8)
    assert replace(gemm_source(64), schedule=wider).identity != gemm_source(64).identity


def test_missing_triton_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton.compiler", None)
    compiling._import_triton.cache_clear()
    with pytest.raises(ModuleNotFoundError, match=r"pip install mxforge\[cuda\]"):
        compile_triton(gemm_source(64), SM90)
    compiling._import_triton.cache_clear()


def test_emitting_needs_no_triton_and_compiling_no_torch() -> None:
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from contraction_kernels import gemm_kernel
from mxforge.codegen.triton.compile import compile_triton
from mxforge.codegen.triton.emit import emit_triton
from mxforge.codegen.triton.schedule import schedule_triton
from mxforge.codegen.triton.target import SM90
kernel = gemm_kernel((), 32, 32, 32)
source = emit_triton(kernel, schedule_triton(kernel, SM90))
assert "triton" not in sys.modules
compile_triton(source, SM90)
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
