"""Published figures of GPUs, from which times are estimated."""

from __future__ import annotations

from ...codegen.triton.target import GpuTarget
from ...ir.lazy_dataclass import dataclass


@dataclass(frozen=True)
class GpuData:
    """A GPU. `clock` is its boost clock in Hz, at which `halves` and `tf32` are the operations per second of tensor
    cores on 16-bit floats (summed in float32) and tf32 numbers, without sparsity, and `singles` those of float32
    numbers without tensor cores; a multiply-add is two. `bandwidth` are the bytes per second of the memory, `cache` the
    bytes of the L2 cache. `shared` are the bytes of shared memory of a multiprocessor, of which a block can have
    `block_shared`; `warps` is how many of them it can run."""

    name: str
    capability: int
    multiprocessors: int
    clock: float
    halves: float
    tf32: float
    singles: float
    bandwidth: float
    cache: int
    shared: int
    block_shared: int
    warps: int = 64

    @property
    def target(self) -> GpuTarget:
        """What programs for it are compiled for."""
        return GpuTarget(self.capability, self.block_shared, self.multiprocessors)


_T, _G, _M, _K = 1e12, 1e9, 1 << 20, 1 << 10
_AMPERE, _ADA = (100 * _K, 99 * _K, 48), (100 * _K, 99 * _K, 48)
_LARGE_AMPERE, _HOPPER = (164 * _K, 163 * _K, 64), (228 * _K, 227 * _K, 64)

GPUS = {
    "a100": GpuData(
        "A100 SXM 80 GB", 80, 108, 1.41e9, 312 * _T, 156 * _T, 19.5 * _T, 2039 * _G, 40 * _M, *_LARGE_AMPERE
    ),
    "a100-40gb": GpuData(
        "A100 40 GB", 80, 108, 1.41e9, 312 * _T, 156 * _T, 19.5 * _T, 1555 * _G, 40 * _M, *_LARGE_AMPERE
    ),
    "a10": GpuData("A10", 86, 72, 1.695e9, 125 * _T, 62.5 * _T, 31.2 * _T, 600 * _G, 6 * _M, *_AMPERE),
    "a40": GpuData("A40", 86, 84, 1.74e9, 149.7 * _T, 74.8 * _T, 37.4 * _T, 696 * _G, 6 * _M, *_AMPERE),
    "rtx3090": GpuData("GeForce RTX 3090", 86, 82, 1.695e9, 71 * _T, 35.6 * _T, 35.6 * _T, 936 * _G, 6 * _M, *_AMPERE),
    "l4": GpuData("L4", 89, 58, 2.04e9, 121 * _T, 60 * _T, 30.3 * _T, 300 * _G, 48 * _M, *_ADA),
    "l40s": GpuData("L40S", 89, 142, 2.52e9, 362 * _T, 183 * _T, 91.6 * _T, 864 * _G, 96 * _M, *_ADA),
    "rtx4090": GpuData(
        "GeForce RTX 4090", 89, 128, 2.52e9, 165.2 * _T, 82.6 * _T, 82.6 * _T, 1008 * _G, 72 * _M, *_ADA
    ),
    "h100": GpuData("H100 SXM 80 GB", 90, 132, 1.83e9, 989 * _T, 494 * _T, 67 * _T, 3352 * _G, 50 * _M, *_HOPPER),
    "h100-pcie": GpuData("H100 PCIe", 90, 114, 1.755e9, 756 * _T, 378 * _T, 51 * _T, 2039 * _G, 50 * _M, *_HOPPER),
    "h200": GpuData("H200 SXM", 90, 132, 1.83e9, 989 * _T, 494 * _T, 67 * _T, 4800 * _G, 50 * _M, *_HOPPER),
    "b200": GpuData("B200", 100, 148, 1.85e9, 2250 * _T, 1125 * _T, 75 * _T, 7700 * _G, 126 * _M, *_HOPPER),
}
"""GPUs by the names that `--estimate` takes. Data sheets of NVIDIA, as of 2025."""
