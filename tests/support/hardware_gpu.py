"""Two GPUs for tests on hardware: `mx.gpu(0)` and `mx.gpu(1)`, which are one GPU if the machine has no more."""

from __future__ import annotations

import os
from functools import cache

from mxforge.runtime.cuda import device
from mxforge.runtime.cuda.device import TARGETS, unavailable

from .counted_gpu import CountedGpu

__all__ = ["COUNT", "TARGETS", "device_count", "end_if_lost", "open_device", "unavailable"]

COUNT = 2


def device_count() -> int:
    return COUNT if device.device_count() else 0


@cache
def open_device(number: int) -> CountedGpu:
    return CountedGpu(number, number % device.device_count())


def end_if_lost() -> None:
    """End this process after an error that it cannot recover from: the tests go on in a new one."""
    if device.device_count() and any(open_device(number).lost for number in range(COUNT)):
        os._exit(1)
