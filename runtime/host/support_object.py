"""Finds the native code of the thread pool, which every process needs.

The package has it compiled for x86-64 and AArch64. For machines with another size of memory pages it is compiled once
and stored in the disk cache.

    python -m mxforge.runtime.host.support_object    compiles the objects of the package anew, which a change of
                                                     codegen/llvm/support.py requires
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from ...codegen.llvm.support import support_module
from ...codegen.llvm.target import CpuTarget
from ..cache import DiskCache

OBJECTS = Path(__file__).parent / "objects"
"""The objects of the package, for all processors of an architecture that mxforge supports."""

_PRECOMPILED = (("x86_64", 4096), ("aarch64", 4096))  # architectures and the bytes of their memory pages


def support_object(target: CpuTarget, page_bytes: int, cache: DiskCache, objects: Path = OBJECTS) -> bytes:
    """The object of the support module. LLVM is imported only if neither `objects` nor the cache has it."""
    text = support_module(target.triple, page_bytes)
    try:
        return (objects / object_name(target.triple, text)).read_bytes()
    except FileNotFoundError:
        pass
    identity = "\0".join(("support", target.triple, target.cpu, target.features, text))
    key = hashlib.sha256(identity.encode()).hexdigest()
    data = cache.get(key)
    if data is None:
        from ...codegen.llvm.compile import compile_object

        data = compile_object(text, target)
        cache.put(key, data)
    return data


def object_name(triple: str, text: str) -> str:
    """The file of a support module: its name changes with the module's text."""
    return f"{triple.partition('-')[0]}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.o"


def write_objects(folder: Path) -> None:
    """Compile the objects of the package into an empty or an outdated folder."""
    from ...codegen.llvm.compile import compile_object
    from ..atomic import write_atomically
    from .machine import smallest_target

    for outdated in folder.glob("*.o"):
        outdated.unlink()
    for machine, page_bytes in _PRECOMPILED:
        target = smallest_target(machine)
        text = support_module(target.triple, page_bytes)
        write_atomically(folder / object_name(target.triple, text), compile_object(text, target))


if __name__ == "__main__":
    write_objects(OBJECTS)
