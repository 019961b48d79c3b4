"""Processors that libraries are compiled for, other than this machine's."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from ...codegen.llvm.target import CpuTarget
from ...ir.settings import settings
from ...runtime.host.machine import X86_LEVELS, cpu_flags, default_threads, smallest_target, target_from_cpuinfo
from ...runtime.host.requirements import requirements

AARCH64 = "aarch64-linux"


def other_target(name: str | None) -> CpuTarget | None:
    """The target of this name if this machine cannot run its code; None for one that it can, or for no name.

    What is computed of weights is then computed when the library is loaded. The setting MXFORGE_CPU is removed.
    """
    if name is None or name == "host" or (name in X86_LEVELS and cpu_flags() >= X86_LEVELS[name]):
        return None
    os.environ.pop("MXFORGE_CPU", None)
    settings.cache_clear()
    threads = default_threads()
    if name == AARCH64:
        return replace(smallest_target("aarch64"), threads=threads)
    return target_from_cpuinfo("x86_64", {"flags": " ".join(sorted(X86_LEVELS[name]))}, {}, threads)


def requirements_of(target: Any) -> dict[str, Any]:
    """What code for a target of `other_target` needs, as `HostDevice.requirements` describes it."""
    return requirements(target)
