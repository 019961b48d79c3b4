"""GPUs of the fake driver (`fake_cuda.py`): the project's own CUDA devices, for kernels in Triton's MLIR."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from mxforge.codegen.triton.kernel_code import KernelCode
from mxforge.codegen.triton.target import GpuTarget
from mxforge.ir.caches import clear_caches
from mxforge.runtime import devices, idle
from mxforge.runtime.cuda import device, driver
from mxforge.runtime.cuda.device import TARGETS as OF_CUDA
from mxforge.runtime.cuda.device import device_count, unavailable

from .counted_gpu import CountedGpu
from .fake_cuda import FakeCuda

if TYPE_CHECKING:
    import pytest

__all__ = ["ADDED", "TARGETS", "FakeGpu", "device_count", "install", "open_device", "unavailable", "use_one_driver"]

TARGETS = {name: replace(target, form="ttir") for name, target in OF_CUDA.items()}
"""Those of the real provider, for kernels that this driver loads."""

ADDED = 2
"""The parameters that Triton adds to those of a kernel."""


class FakeGpu(CountedGpu):
    """A device of the fake driver."""

    def _make_target(self) -> GpuTarget:
        return replace(super()._make_target(), form="ttir")

    def parameters_of(self, kernel: KernelCode) -> int:
        return len(kernel.parameters) + ADDED


_kept: dict[int, FakeGpu] = {}
_one: list[FakeCuda] = []


def open_device(number: int) -> FakeGpu:
    """A new device; the one of the tests before if they use one driver."""
    if not _one or driver._state.module is not _one[0]:
        return FakeGpu(number)
    if number not in _kept:
        _kept[number] = FakeGpu(number)
    return _kept[number]


def use_one_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all tests use the same driver and devices, until one of them breaks it: programs stay compiled."""
    if not _one or _one[0].lost:
        _kept.clear()
        clear_caches()
        _one[:] = [FakeCuda()]
        _state.append(driver._State())
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", cast(ModuleType, _one[0]))
    monkeypatch.setattr(driver, "_state", _state[-1])
    monkeypatch.setattr(device, "_found", cache(device._found.__wrapped__))


_state: list[Any] = []


def install(monkeypatch: pytest.MonkeyPatch, fake: FakeCuda) -> None:
    """Let mxforge find this driver until the end of the test, as in a process that has used no GPU."""
    clear_caches()
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", cast(ModuleType, fake))
    monkeypatch.setattr(driver, "_state", driver._State())
    monkeypatch.setattr(device, "_found", cache(device._found.__wrapped__))
    monkeypatch.setattr(idle, "caches_of_blocks", list(idle.caches_of_blocks))
    monkeypatch.setitem(devices.PROVIDERS, "gpu", "support.fake_gpu")
    monkeypatch.setattr(devices, "_opened", {})
