"""GPUs of the fake driver (`fake_cuda.py`): the project's own CUDA devices, for kernels in Triton's MLIR."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, cast

from mxforge.codegen.triton.kernel_code import KernelCode
from mxforge.codegen.triton.target import GpuTarget
from mxforge.ir.caches import clear_caches
from mxforge.runtime import devices, idle
from mxforge.runtime.cuda import device, driver
from mxforge.runtime.cuda.device import CudaDevice, device_count, unavailable

from .fake_cuda import FakeCuda

if TYPE_CHECKING:
    import pytest

__all__ = ["ADDED", "FakeGpu", "device_count", "install", "open_device", "unavailable"]

ADDED = 2
"""The parameters that Triton adds to those of a kernel."""


class FakeGpu(CudaDevice):
    """A device of the fake driver."""

    def _make_target(self) -> GpuTarget:
        return replace(super()._make_target(), form="ttir")

    def parameters_of(self, kernel: KernelCode) -> int:
        return len(kernel.parameters) + ADDED


def open_device(number: int) -> FakeGpu:
    return FakeGpu(number)


def install(monkeypatch: pytest.MonkeyPatch, fake: FakeCuda) -> None:
    """Let mxforge find this driver until the end of the test, as in a process that has used no GPU."""
    clear_caches()
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", cast(ModuleType, fake))
    monkeypatch.setattr(driver, "_state", driver._State())
    monkeypatch.setattr(device, "_found", cache(device._found.__wrapped__))
    monkeypatch.setattr(idle, "caches_of_blocks", list(idle.caches_of_blocks))
    monkeypatch.setitem(devices.PROVIDERS, "gpu", "support.fake_gpu")
    monkeypatch.setattr(devices, "_opened", {})
