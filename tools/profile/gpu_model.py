"""Estimates the time of a launch on a GPU from its work.

A launch takes as long as the slowest of

- the memory: bytes that are not in the L2 cache;
- the busiest multiprocessor: what its programs compute on tensor cores and on other units, and load from the L2 cache;
- the longest program: its start, and steps of a loop that wait for their loads;

and a constant time between launches. Branches and loops of a program are summed up by `estimate.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ...codegen.triton.launch_work import LaunchWork
from ...ir.lazy_dataclass import dataclass
from ...ir.types import DType
from .gpu_data import GpuData

Bound = Literal["memory", "cache", "tensor cores", "arithmetic", "latency"]
"""What limits a launch."""
_REGISTERS, _MOST_PROGRAMS, _LANES = 65536, 32, 32
_ARRIVAL = 3
"""Waits for memory at the end of programs that share a sum: a store, a count and a load."""
_RESERVED = 1024  # bytes of shared memory that a program has in addition


@dataclass(frozen=True)
class Model:
    """What data sheets do not have, measured on an H100. Times are in seconds.

    `between` passes from the end of a launch to the start of the next one in a CUDA graph, `start` until a program has
    its first block and after its last one. `latency` is that of a load. `memory`, `products` and `operations` are
    shares of the published peaks that kernels reach. `loads` are the bytes that a multiprocessor loads from the L2
    cache in a cycle, and `resident` is the share of that cache that keeps data from launch to launch.
    """

    between: float = 1.0e-6
    start: float = 0.85e-6
    latency: float = 0.48e-6
    memory: float = 0.87
    products: float = 0.85
    operations: float = 0.4
    loads: float = 33
    resident: float = 0.4


MODEL = Model()


@dataclass(frozen=True)
class Estimate:
    """`seconds` of a launch, with the time between launches, and what limits it."""

    seconds: float
    bound: Bound


def estimate_launch(work: LaunchWork, missed: float, gpu: GpuData, model: Model = MODEL) -> Estimate:
    """The time of a launch of which `missed` bytes are read from memory or written to it."""
    cycle = 1 / gpu.clock
    times: dict[Bound, float] = {
        "tensor cores": work.products / (_products_per_second(gpu, work.unit) / gpu.multiprocessors * model.products),
        "arithmetic": work.operations / (gpu.singles / 2 / gpu.multiprocessors * model.operations),
        "cache": (work.loaded + work.stored) / model.loads * cycle,
    }
    once = _of_program(times, work)
    busiest = -(-work.programs // gpu.multiprocessors)
    together = min(busiest, resident_programs(work, gpu))
    waits = work.steps * max(model.latency / max(1, work.stages - 1), once / work.steps)
    if work.arrives:
        waits += _ARRIVAL * model.latency
    bounds: dict[Bound, float] = {
        "memory": missed / (gpu.bandwidth * model.memory),
        max(times, key=lambda name: times[name]): busiest * once,
        "latency": -(-busiest // together) * waits,
    }
    bound = max(bounds, key=lambda name: bounds[name])
    return Estimate(model.between + model.start + bounds[bound], bound)


def _of_program(times: Mapping[Bound, float], work: LaunchWork) -> float:
    """The time of a program that has a multiprocessor for itself. Operations on the operands of tensor cores are
    between their products."""
    if work.products:
        return max(times["tensor cores"] + times["arithmetic"], times["cache"])
    return max(times.values())


def _products_per_second(gpu: GpuData, unit: DType) -> float:
    """Multiply-adds of tensor cores on all multiprocessors."""
    return {DType.F32: gpu.tf32, DType.I8: 2 * gpu.halves}.get(unit, gpu.halves) / 2


def resident_programs(work: LaunchWork, gpu: GpuData) -> int:
    """How many programs a multiprocessor runs at the same time."""
    by_shared = gpu.shared // (work.shared + _RESERVED)
    by_registers = _REGISTERS // (work.registers * work.warps * _LANES)
    return max(1, min(_MOST_PROGRAMS, gpu.warps // work.warps, by_shared, by_registers))
