"""Descriptions of the machines that programs are compiled for: numbers only, from which schedules are derived."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CpuTarget:
    """A CPU as the schedule formulas see it.

    `triple`, `cpu` and `features` go to LLVM; the rest are the numbers that tile sizes are derived from. Caches are
    in bytes, per core.
    """

    triple: str
    cpu: str
    features: str
    vector_bits: int
    vector_registers: int
    l1_bytes: int = 32 << 10
    l2_bytes: int = 512 << 10
    fma_per_cycle: int = 2
    fma_latency: int = 4
    threads: int = 1

    def lanes(self, bits: int = 32) -> int:
        """Elements of `bits` width in one vector register."""
        return self.vector_bits // bits


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """An NVIDIA GPU as the Triton schedules see it. `capability` is 90 for sm_90; `shared_bytes` per block."""

    capability: int
    shared_bytes: int
    multiprocessors: int


AVX2 = CpuTarget("x86_64-unknown-linux-gnu", "znver3", "", 256, 16)
AVX512 = CpuTarget("x86_64-unknown-linux-gnu", "skylake-avx512", "", 512, 32, l2_bytes=1 << 20)
NEON = CpuTarget("aarch64-unknown-linux-gnu", "neoverse-n1", "", 128, 32, l1_bytes=64 << 10, l2_bytes=1 << 20)
SM90 = GpuTarget(90, 227 << 10, 132)
