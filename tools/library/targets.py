"""Processors that libraries are compiled for, other than this machine's."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from ...codegen.target import Target
from ...ir.settings import settings
from ...runtime.host.machine import X86_LEVELS, cpu_flags, default_threads, target_from_cpuinfo
from ...runtime.host.requirements import requirements

AARCH64, MACOS = "aarch64-linux", "aarch64-macos"

_RESERVED = "+reserve-x18"  # the register that belongs to the system on macOS
_APPLE = "atomics asimdrdm fphp asimddp"
"""The instruction sets that all processors of Apple's computers have, as Linux names them."""

_APPLE_CACHES = {1: 64 << 10, 2: 4 << 20}  # of the smaller kind of cores
MACOS_TRIPLE = "aarch64-apple-macosx11.0.0"


def other_target(name: str | None) -> Target | None:
    """The target of this name if this machine cannot run its code; None for one that it can, or for no name.

    What is computed of weights is then computed when the library is loaded. The setting MXFORGE_CPU is removed.
    """
    if name is None or name == "host" or (name in X86_LEVELS and cpu_flags() >= X86_LEVELS[name]):
        return None
    os.environ.pop("MXFORGE_CPU", None)
    settings.cache_clear()
    if name == AARCH64:
        return target_from_cpuinfo("aarch64", {}, {}, default_threads())
    if name == MACOS:
        target = target_from_cpuinfo("aarch64", {"Features": _APPLE}, _APPLE_CACHES, default_threads())
        return replace(target, features=f"{target.features},{_RESERVED}")
    return target_from_cpuinfo("x86_64", {"flags": " ".join(sorted(X86_LEVELS[name]))}, {}, default_threads())


def requirements_of(target: Any) -> dict[str, Any]:
    """What code for a target of `other_target` needs, as `HostDevice.requirements` describes it. Kernels for macOS are
    compiled as objects for Linux, whose functions are called in the same way, and linked for macOS."""
    needs = requirements(target)
    return {**needs, "triple": MACOS_TRIPLE} if _RESERVED in target.features else needs


def is_macos(triple: str) -> bool:
    """True for the triple of requirements for macOS."""
    return triple == MACOS_TRIPLE
