"""Describes the machine that this process runs on: its instruction sets for LLVM, caches and threads."""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from pathlib import Path

from ...codegen.llvm.target import CpuTarget
from ...ir.settings import read_settings
from ...ir.suggestions import see

_CPUINFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")

# Names in /proc/cpuinfo that LLVM spells differently; other names in the lists below are the same.
_LLVM_NAMES = {
    "pni": "sse3",
    "sse4_1": "sse4.1",
    "sse4_2": "sse4.2",
    "abm": "lzcnt",
    "bmi1": "bmi",
    "avx_vnni": "avxvnni",
    "avx512_vnni": "avx512vnni",
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16",
    "avx512_vbmi2": "avx512vbmi2",
    "avx512_bitalg": "avx512bitalg",
    "avx512_vpopcntdq": "avx512vpopcntdq",
    "fphp": "fullfp16",
    "asimddp": "dotprod",
    "atomics": "lse",
    "asimdrdm": "rdm",
}
_X86_SSE = ("cx16", "pni", "ssse3", "sse4_1", "sse4_2", "popcnt", "movbe")
_X86_AVX2 = ("avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "abm", "avx_vnni")
_X86_AVX512_BASE = ("avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl")
_X86_AVX512 = (
    *_X86_AVX512_BASE,
    "avx512ifma",
    "avx512vbmi",
    "avx512_vbmi2",
    "avx512_vnni",
    "avx512_bitalg",
    "avx512_vpopcntdq",
    "avx512_bf16",
    "avx512_fp16",
)
_AARCH64 = ("atomics", "asimdrdm", "fphp", "asimddp", "bf16", "i8mm")
_X86_AVX2_NEEDED = frozenset({"avx", "avx2", "fma", "f16c", "bmi1", "bmi2", "abm", "movbe"})

_X86_V3 = frozenset({"cx16", "pni", "ssse3", "sse4_1", "sse4_2", "popcnt"}) | _X86_AVX2_NEEDED
X86_LEVELS = {"x86-64-v3": _X86_V3, "x86-64-v4": _X86_V3 | frozenset(_X86_AVX512_BASE)}
"""The flags of /proc/cpuinfo that each level guarantees. Source: the System V ABI for AMD64, section 3.1.1."""


def host_target(threads: int | None = None) -> CpuTarget:
    """The CpuTarget that code for this machine is compiled for, with `threads` threads (default: `default_threads`).

    It describes the machine itself, or the smaller instruction set that MXFORGE_CPU names. It is read from /proc and
    /sys, so that a warm start does not import LLVM. RuntimeError on a machine that mxforge does not support, and
    ValueError if MXFORGE_CPU names an unknown processor or one whose instructions this machine lacks.
    """
    machine, info = platform.machine(), limited(_host_cpuinfo(), read_settings().cpu)
    return target_from_cpuinfo(machine, info, cache_sizes(_CACHES), default_threads() if threads is None else threads)


def limited(info: dict[str, str], level: str) -> dict[str, str]:
    """The fields of /proc/cpuinfo with only the instruction sets that an x86-64 level guarantees; all with "host".
    ValueError for an unknown level, or one that the machine lacks."""
    if level == "host":
        return info
    if level not in X86_LEVELS:
        raise ValueError(f"MXFORGE_CPU={level!r} is unknown: use host, {' or '.join(X86_LEVELS)}{see('debugging')}")
    if missing := X86_LEVELS[level] - set(info.get("flags", "").split()):
        raise ValueError(f"MXFORGE_CPU={level!r}: this processor lacks {', '.join(sorted(missing))}{see('debugging')}")
    return {**info, "flags": " ".join(sorted(X86_LEVELS[level]))}


def target_from_cpuinfo(machine: str, info: dict[str, str], caches: dict[int, int], threads: int) -> CpuTarget:
    """The target for a `machine` (the name that uname prints), the fields of /proc/cpuinfo and cache sizes by level, in
    bytes. RuntimeError for an unsupported machine."""
    if machine == "x86_64":
        cpu, features, bits, registers, fmas = _x86(info)
    elif machine in ("aarch64", "arm64"):
        cpu, features, bits, registers, fmas = _aarch64(info)
    else:
        raise RuntimeError(f"mxforge compiles for x86_64 and aarch64 CPUs, not for {machine!r}")
    triple = f"{'x86_64' if machine == 'x86_64' else 'aarch64'}-unknown-linux-gnu"
    target = CpuTarget(triple, cpu, features, bits, registers, fma_per_cycle=fmas, threads=threads)
    return replace(target, l1_bytes=caches.get(1, target.l1_bytes), l2_bytes=caches.get(2, target.l2_bytes))


def smallest_target(machine: str) -> CpuTarget:
    """The target whose code runs on all processors of an architecture that mxforge supports."""
    flags = " ".join(sorted(X86_LEVELS["x86-64-v3"])) if machine == "x86_64" else ""
    return target_from_cpuinfo(machine, {"flags": flags}, {}, threads=1)


def _x86(info: dict[str, str]) -> tuple[str, str, int, int, int]:
    """(CPU, features, vector bits, vector registers, FMAs per cycle). RuntimeError below x86-64-v3: without the FMA
    instruction each multiply-add would be a call of libm."""
    flags = set(info.get("flags", "").split())
    if missing := _X86_AVX2_NEEDED - flags:
        raise RuntimeError(
            "mxforge compiles for x86-64 processors with AVX2 and FMA (x86-64-v3: Intel since Haswell, AMD since "
            f"Excavator); this one lacks {', '.join(sorted(missing))}. MXFORGE_TARGET=reference interprets with NumPy"
        )
    if not flags.issuperset(_X86_AVX512_BASE):
        return "x86-64-v3", _features((*_X86_SSE, *_X86_AVX2), flags), 256, 16, 1 if _splits_avx2(info) else 2
    bits = 256 if _splits_avx512(info) else 512
    return "x86-64-v4", _features((*_X86_SSE, *_X86_AVX2, *_X86_AVX512), flags), bits, 32, 2


def _splits_avx512(info: dict[str, str]) -> bool:
    """True on Zen 4, which runs a 512-bit instruction as two halves: 256-bit vectors in AVX-512VL's 32 registers are as
    fast."""
    return info.get("vendor_id") == "AuthenticAMD" and info.get("cpu family") == "25"


def _splits_avx2(info: dict[str, str]) -> bool:
    """True on the first Zen cores (family 23 before model 0x30), which run a 256-bit instruction as two halves."""
    return (
        info.get("vendor_id") == "AuthenticAMD"
        and info.get("cpu family") == "23"
        and int(info.get("model", "255")) < 0x30
    )


def _aarch64(info: dict[str, str]) -> tuple[str, str, int, int, int]:
    return "generic", _features(_AARCH64, set(info.get("Features", "").split()), "+neon,+fp-armv8"), 128, 32, 2


def _features(names: tuple[str, ...], flags: set[str], base: str = "") -> str:
    features = [f"+{_LLVM_NAMES.get(name, name)}" for name in names if name in flags]
    return ",".join([base, *features] if base else features)


def read_cpuinfo(text: str) -> dict[str, str]:
    """The fields of the first processor that /proc/cpuinfo lists."""
    pairs = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _host_cpuinfo() -> dict[str, str]:
    """The fields of /proc/cpuinfo; none where it cannot be read. Then AArch64 code uses what all processors have."""
    try:
        return read_cpuinfo(_CPUINFO.read_text())
    except OSError:
        return {}


def cpu_flags() -> frozenset[str]:
    """The flags of the processor as /proc/cpuinfo spells them."""
    info = _host_cpuinfo()
    return frozenset(f"{info.get('flags', '')} {info.get('Features', '')}".split())


def cache_sizes(folder: Path) -> dict[int, int]:
    """The size in bytes of each level of data cache, from /sys; empty if /sys has none (on some virtual machines)."""
    sizes: dict[int, int] = {}
    for index in sorted(folder.glob("index*")):
        try:
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        if kind in ("Data", "Unified") and size.endswith("K"):
            sizes[int(level)] = int(size[:-1]) << 10
    return sizes


def last_cache_bytes() -> int:
    """The size in bytes of the last level of cache of one CPU, which several CPUs can share; 0 if /sys has none."""
    sizes = cache_sizes(_CACHES)
    return sizes[max(sizes)] if sizes else 0


def default_threads() -> int:
    """MXFORGE_NUM_THREADS, else OMP_NUM_THREADS, else the CPUs that affinity mask and cgroup quota allow."""
    if own := read_settings().num_threads:
        return own
    outermost = (
        os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    )  # a list has one entry for each nested level
    if outermost.isdecimal() and int(outermost) >= 1:
        return int(outermost)
    return min(len(os.sched_getaffinity(0)), cpu_quota(_CPU_QUOTA))


def cpu_quota(file: Path) -> int:
    """The CPU quota of a cgroup in whole CPUs, rounded up; `1 << 30` without a quota.

    More threads would use up the quota by spinning, and the whole process would be stopped for the rest of each period.
    """
    try:
        quota, period = file.read_text().split()
        return max(1, -(-int(quota) // int(period)))
    except (OSError, ValueError):  # no cgroup v2, or "max"
        return 1 << 30
