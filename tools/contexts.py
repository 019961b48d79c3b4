"""The device of a command: `--ctx`, and how reports describe it."""

from __future__ import annotations

import argparse
from typing import Any

from ..frontend.context import GPU, Context, as_context, device_of
from ..runtime.device import Device
from .errors import UsageError
from .schemas.common import Gpu, Machine

_OF_CPUS = ("target", "cpu", "threads")
"""Options that only programs for the CPU have."""


def context_of(options: argparse.Namespace) -> Context:
    """The context that `--ctx` names. UsageError if other options are for CPUs only, MXNetError if there is no such
    GPU, with the reason."""
    context = as_context(options.ctx)
    if context.device_typeid == GPU:
        refuse_of_cpus(options, f"--ctx {options.ctx}")
        device_of(context)
    return context


def refuse_of_cpus(options: argparse.Namespace, reason: str) -> None:
    """UsageError for options that only programs on the CPU have; `reason` is the option that names a GPU."""
    for name in _OF_CPUS:
        if getattr(options, name, None):
            raise UsageError(f"--{name} is for programs on the CPU: omit it with {reason}")


def is_gpu(options: argparse.Namespace) -> bool:
    """Whether `--ctx` names a GPU."""
    return as_context(options.ctx).device_typeid == GPU


def machine_of(device: Device) -> Machine | Gpu:
    """What the programs of a device are compiled for."""
    return described_target(device.target)


def described_target(target: Any) -> Machine | Gpu:
    """A target in reports."""
    if hasattr(target, "capability"):
        return gpu_of(target)
    return Machine(cpu=target.cpu, vector_bits=target.vector_bits, threads=target.threads)


def gpu_of(target: Any) -> Gpu:
    """A target for GPUs in reports."""
    sizes = {"multiprocessors": target.multiprocessors, "shared_bytes": target.shared_bytes}
    return Gpu(gpu=f"sm_{target.capability}", **sizes)


def target_text(device: Device) -> str:
    """A device and what its programs are compiled for, in a line."""
    return f"{device.name}, {machine_text(machine_of(device))}"


def machine_text(machine: Machine | Gpu) -> str:
    """What programs are compiled for, in a line."""
    if isinstance(machine, Gpu):
        return f"{machine.gpu}, {machine.multiprocessors} multiprocessors"
    return f"{machine.cpu}, vectors of {machine.vector_bits} bits, {machine.threads} threads"
