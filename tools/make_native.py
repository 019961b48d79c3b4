"""Compiles the C sources of the package (`runtime/host/native`) into the objects that every process loads.

python -m mxforge.tools.make_native        run it after a change of a C source; a test checks that the objects are
                                           current

It needs gcc for each architecture: on Debian the packages gcc and gcc-aarch64-linux-gnu. Users need no compiler: the
package contains the objects.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ..runtime.atomic import write_atomically
from ..runtime.host.native_objects import CUDA_LAUNCHES, MODEL, POOL, PREDICT, PYTHON_CALLS, SOURCES, object_file

MACHINES = ("x86_64", "aarch64")
DIGEST_SECTION = ".mxforge.sources"
"""The section of an object that has the digest of its sources."""

_FLAGS = (
    *("-std=c11", "-O2", "-g0", "-Wall", "-Wextra", "-Wpedantic"),
    "-falign-jumps=64",  # a launch of nothing takes a fifth longer if the loop of mxf_run crosses a cache line
    # The loader has no thread-local data, no constructors and no unwind tables, and code can be at any address.
    *("-ffreestanding", "-fPIE", "-fno-plt", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"),
    # What distributions switch on, and needs symbols or instructions that other systems lack.
    *("-fno-stack-protector", "-fno-stack-clash-protection", "-U_FORTIFY_SOURCE"),
)
_FLAGS_OF_MACHINE = {
    "x86_64": ("-march=x86-64-v3", "-fcf-protection=none"),
    "aarch64": ("-march=armv8-a", "-mno-outline-atomics", "-mbranch-protection=none"),
}


_FLAGS_OF_ANY = {"x86_64": ("-march=x86-64",), "aarch64": ()}
"""Flags for code that runs before the processor is known."""


class CompilerMissing(RuntimeError):
    """There is no C compiler for an architecture."""


def compiler(machine: str) -> str:
    """The path of gcc for an architecture. CompilerMissing names what to install."""
    name = f"{machine}-linux-gnu-gcc"
    path = shutil.which(name)
    if path is None:
        raise CompilerMissing(
            f"{name} is missing: install gcc for {machine} (Debian: gcc-{machine.replace('_', '-')}-linux-gnu)"
        )
    return path


def source_digest(machine: str) -> str:
    """The digest of all that determines the objects of an architecture: the C sources and the flags."""
    digest = hashlib.sha256(repr((_flags(machine), _FLAGS_OF_ANY[machine])).encode())
    for file in sorted(SOURCES.iterdir()):
        digest.update(f"\0{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def compile_source(name: str, machine: str) -> bytes:
    """The object of `native/{name}.c`. CompilerMissing, or CalledProcessError if the source does not compile."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"{name}.o")
        define = f'-DMXF_SOURCES="{source_digest(machine)}"'
        flags = (*_flags(machine), *(_FLAGS_OF_ANY[machine] if name in (MODEL, PREDICT) else ()))
        command = [compiler(machine), *flags, define, "-c", f"{name}.c", "-o", file]
        subprocess.run(command, cwd=SOURCES, check=True)
        return file.read_bytes()


def _flags(machine: str) -> tuple[str, ...]:
    return (*_FLAGS, *_FLAGS_OF_MACHINE[machine])


def write_objects() -> None:
    """Compile all objects, and write them if all compile."""
    objects = {
        object_file(name, machine): compile_source(name, machine)
        for machine in MACHINES
        for name in (POOL, PYTHON_CALLS, CUDA_LAUNCHES, MODEL, PREDICT)
    }
    for file, data in objects.items():
        write_atomically(file, data)
        print(f"{file.name}: {len(data)} bytes", file=sys.stderr)


if __name__ == "__main__":
    try:
        write_objects()
    except CompilerMissing as error:
        raise SystemExit(str(error)) from None
