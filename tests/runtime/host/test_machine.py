"""The host's description: from flags of real machines to LLVM's features and the schedules' parameters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mxforge.codegen.llvm.compile import compile_object
from mxforge.runtime.host import machine
from mxforge.runtime.host.machine import (
    cache_sizes,
    cpu_quota,
    default_threads,
    host_target,
    limited,
    read_cpuinfo,
    target_from_cpuinfo,
)

SSE = "fpu sse sse2 ht pni ssse3 cx16 sse4_1 sse4_2 popcnt"
AVX2 = f"{SSE} movbe avx f16c abm bmi1 avx2 fma bmi2"
AVX512 = f"{AVX2} avx512f avx512dq avx512cd avx512bw avx512vl"
CACHES = {1: 48 << 10, 2: 2 << 20}


def cpuinfo(vendor: str, family: int, flags: str, model: int = 100) -> dict[str, str]:
    return {"vendor_id": vendor, "cpu family": str(family), "model": str(model), "flags": flags}


@pytest.mark.parametrize(
    ("info", "cpu", "bits", "registers", "fmas"),
    [
        (cpuinfo("GenuineIntel", 6, AVX512), "x86-64-v4", 512, 32, 2),
        (cpuinfo("AuthenticAMD", 26, AVX512), "x86-64-v4", 512, 32, 2),  # Zen 5
        (cpuinfo("AuthenticAMD", 25, AVX512), "x86-64-v4", 256, 32, 2),  # Zen 4
        (cpuinfo("AuthenticAMD", 25, AVX2), "x86-64-v3", 256, 16, 2),  # Zen 3
        (cpuinfo("AuthenticAMD", 23, AVX2, 0x31), "x86-64-v3", 256, 16, 2),  # Zen 2
        (cpuinfo("AuthenticAMD", 23, AVX2, 1), "x86-64-v3", 256, 16, 1),  # Zen 1
        (cpuinfo("GenuineIntel", 6, AVX2 + " avx512f"), "x86-64-v3", 256, 16, 2),  # AVX-512 without VL
    ],
)
def test_x86(info: dict[str, str], cpu: str, bits: int, registers: int, fmas: int) -> None:
    target = target_from_cpuinfo("x86_64", info, CACHES, 3)
    assert (target.cpu, target.vector_bits, target.vector_registers, target.fma_per_cycle) == (
        cpu,
        bits,
        registers,
        fmas,
    )
    assert (target.triple, target.l1_bytes, target.l2_bytes, target.threads) == (
        "x86_64-unknown-linux-gnu",
        48 << 10,
        2 << 20,
        3,
    )
    assert ("+avx512vl" in target.features) == (registers == 32)
    assert ("+fma" in target.features) == (bits >= 256)
    assert compile_object("define void @f() {\n  ret void\n}\n", target)


def test_a_processor_without_avx2_is_refused() -> None:
    with pytest.raises(RuntimeError, match=r"AVX2 and FMA .* this one lacks abm, avx2, .*MXFORGE_TARGET=reference"):
        target_from_cpuinfo("x86_64", cpuinfo("GenuineIntel", 6, SSE + " avx"), {}, 1)


@pytest.mark.parametrize(("level", "bits", "registers"), [("x86-64-v3", 256, 16), ("x86-64-v4", 512, 32)])
def test_an_older_processor(level: str, bits: int, registers: int) -> None:
    """Features that the level does not guarantee are omitted, here VNNI; the vendor still determines widths."""
    host = cpuinfo("GenuineIntel", 6, f"{AVX512} avx_vnni avx512_vnni")
    target = target_from_cpuinfo("x86_64", limited(host, level), CACHES, 2)
    assert (target.cpu, target.vector_bits, target.vector_registers) == (level, bits, registers)
    assert "vnni" not in target.features
    assert limited(host, "host") is host


def test_a_newer_or_unknown_processor_is_refused() -> None:
    with pytest.raises(ValueError, match="MXFORGE_CPU='x86-64-v4': this processor lacks avx512bw, avx512cd"):
        limited(cpuinfo("GenuineIntel", 6, AVX2), "x86-64-v4")
    with pytest.raises(ValueError, match="MXFORGE_CPU='pentium' is unknown: use host, x86-64-v3 or x86-64-v4"):
        limited(cpuinfo("GenuineIntel", 6, AVX2), "pentium")


def test_the_environment_selects_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXFORGE_CPU", "x86-64-v3")
    assert (host_target().cpu, host_target().vector_bits) == ("x86-64-v3", 256)


def test_aarch64() -> None:
    info = {"Features": "fp asimd atomics asimddp fphp sve"}
    target = target_from_cpuinfo("aarch64", info, {}, 4)
    assert target.features == "+neon,+fp-armv8,+lse,+fullfp16,+dotprod"
    assert (target.vector_bits, target.vector_registers, target.triple) == (128, 32, "aarch64-unknown-linux-gnu")
    assert target.l1_bytes > 0


def test_a_system_without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(machine, "_CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(machine, "_CACHES", tmp_path)
    monkeypatch.delenv("MXFORGE_CPU", raising=False)
    monkeypatch.setattr(machine.platform, "machine", lambda: "aarch64")
    assert host_target().features == "+neon,+fp-armv8"
    monkeypatch.setattr(machine.platform, "machine", lambda: "x86_64")
    with pytest.raises(RuntimeError, match=r"this one lacks abm, .* MXFORGE_TARGET=reference interprets"):
        host_target()


def test_other_machines_are_named() -> None:
    with pytest.raises(RuntimeError, match="riscv64"):
        target_from_cpuinfo("riscv64", {}, {}, 1)


def test_features_are_known_to_llvm(capfd: pytest.CaptureFixture[str]) -> None:
    """LLVM prints a warning to stderr for an unknown feature."""
    everything = " ".join({*machine._X86_SSE, *machine._X86_AVX2, *machine._X86_AVX512})
    for target in (
        target_from_cpuinfo("x86_64", cpuinfo("GenuineIntel", 6, everything), {}, 1),
        target_from_cpuinfo("aarch64", {"Features": " ".join(machine._AARCH64)}, {}, 1),
    ):
        compile_object("define void @f() {\n  ret void\n}\n", target)
    assert capfd.readouterr().err == ""


def test_cpuinfo_is_of_the_first_processor() -> None:
    text = "processor\t: 0\nflags\t\t: a b\n\nprocessor\t: 1\nflags\t\t: c\n"
    assert read_cpuinfo(text) == {"processor": "0", "flags": "a b"}


def test_cache_sizes(tmp_path: Path) -> None:
    for i, (level, kind, size) in enumerate(
        [("1", "Data", "32K"), ("1", "Instruction", "64K"), ("2", "Unified", "512K")]
    ):
        folder = tmp_path / f"index{i}"
        folder.mkdir()
        for name, text in (("level", level), ("type", kind), ("size", size)):
            (folder / name).write_text(text + "\n")
    (tmp_path / "index9").mkdir()
    assert cache_sizes(tmp_path) == {1: 32 << 10, 2: 512 << 10}
    assert cache_sizes(tmp_path / "none") == {}


@pytest.mark.parametrize(
    ("own", "openmp", "threads"), [("3", "5", 3), ("", "5", 5), ("", "4,2", 4), ("", "auto", None), ("", "", None)]
)
def test_threads_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, own: str, openmp: str, threads: int | None
) -> None:
    monkeypatch.setenv("MXFORGE_NUM_THREADS", own)
    monkeypatch.setenv("OMP_NUM_THREADS", openmp)
    if threads is None:
        assert 1 <= default_threads() <= len(os.sched_getaffinity(0))
    else:
        assert default_threads() == threads


@pytest.mark.parametrize("text", ["1.5", "-1", "many"])
def test_wrong_number_of_threads_is_named(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("MXFORGE_NUM_THREADS", text)
    with pytest.raises(ValueError, match="MXFORGE_NUM_THREADS"):
        default_threads()


@pytest.mark.parametrize(("text", "cpus"), [("150000 100000", 2), ("50000 100000", 1), ("400000 100000", 4)])
def test_cgroup_quota(tmp_path: Path, text: str, cpus: int) -> None:
    (tmp_path / "cpu.max").write_text(text + "\n")
    assert cpu_quota(tmp_path / "cpu.max") == cpus


def test_without_quota(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert cpu_quota(tmp_path / "cpu.max") > 1 << 20
    assert cpu_quota(tmp_path / "absent") > 1 << 20


def test_this_machine_is_described_without_llvm() -> None:
    probe = (
        "import sys; from mxforge.runtime.host import machine; machine.host_target(); "
        "assert 'llvmlite' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", probe], check=False).returncode == 0
    assert host_target(2).threads == 2
