"""Processors that libraries are compiled for, other than this machine's."""

from __future__ import annotations

import os
from typing import Any

from ...codegen.target import Target
from ...ir.settings import settings
from ...runtime.host.machine import X86_LEVELS, cpu_flags, default_threads, target_from_cpuinfo
from ...runtime.host.requirements import requirements

AARCH64 = "aarch64-linux"


def other_target(name: str | None) -> Target | None:
    """The target of this name if this machine cannot run its code; None for one that it can, or for no name.

    What is computed of weights is then computed when the library is loaded. The setting MXFORGE_CPU is removed.
    """
    if name is None or name == "host" or (name in X86_LEVELS and cpu_flags() >= X86_LEVELS[name]):
        return None
    os.environ.pop("MXFORGE_CPU", None)
    settings.cache_clear()
    machine, flags = ("aarch64", "") if name == AARCH64 else ("x86_64", " ".join(sorted(X86_LEVELS[name])))
    return target_from_cpuinfo(machine, {"flags": flags}, {}, default_threads())


def requirements_of(target: Any) -> dict[str, Any]:
    """What code for a target of `other_target` needs, as `HostDevice.requirements` describes it."""
    return requirements(target)
