"""The memory that this process can use: the machine's, or the limit of its cgroup."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import out_of_memory

_QUOTA = Path("/sys/fs/cgroup/memory.max")


def physical_memory() -> int:
    """The most memory in bytes that this process can use: the machine's, or the cgroup's limit if that is less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        return min(machine, int(_QUOTA.read_text()))
    except (OSError, ValueError):  # no cgroup v2, or "max"
        return machine


_physical = physical_memory()


def require_memory(nbytes: int) -> None:
    """MemoryError (see `errors.raise_as`) if `nbytes` is more than the memory of the machine."""
    if nbytes > _physical:
        raise out_of_memory(f"cannot allocate {nbytes:,} bytes: the machine has {_physical:,} bytes of memory")
