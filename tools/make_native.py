"""Compiles the C sources of the package (`runtime/host/native`) into the objects that every process loads.

python -m mxforge.tools.make_native        run it after a change of a C source; a test checks that the objects are
                                           current

It needs gcc for each architecture of Linux, and clang for macOS: on Debian the packages gcc, gcc-aarch64-linux-gnu and
clang. Users need no compiler: the package contains the objects.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ..runtime.atomic import write_atomically
from ..runtime.host.native_objects import (
    AARCH64,
    CUDA_LAUNCHES,
    MACOS,
    MODEL,
    POOL,
    PREDICT,
    PYTHON_CALLS,
    SOURCES,
    X86_64,
    object_file,
)

OBJECTS = {
    X86_64: (POOL, PYTHON_CALLS, CUDA_LAUNCHES, MODEL, PREDICT),
    AARCH64: (POOL, PYTHON_CALLS, CUDA_LAUNCHES, MODEL, PREDICT),
    MACOS: (POOL, MODEL, PREDICT),  # mxforge does not run there: only its libraries do
}
"""The objects of each machine."""

DIGEST_SECTION = ".mxforge.sources"
"""The section of an object that has the digest of its sources."""

_FLAGS = (
    *("-std=c11", "-O2", "-g0", "-Wall", "-Wextra", "-Wpedantic"),
    # The loader has no thread-local data, no constructors and no unwind tables, and code can be at any address.
    *("-ffreestanding", "-fPIE", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"),
    # What distributions switch on, and needs symbols or instructions that other systems lack.
    *("-fno-stack-protector", "-U_FORTIFY_SOURCE"),
)
_GCC = (
    "-fno-plt",
    "-falign-jumps=64",  # a launch of nothing takes a fifth longer if the loop of mxf_run crosses a cache line
    "-fno-stack-clash-protection",
)
DARWIN = ("-target", "arm64-apple-macos11", "-mno-outline", "-nostdlibinc", "-include", "darwin.h")
"""The flags of clang for macOS, with the declarations of `native/darwin.h` instead of Apple's headers."""

_FLAGS_OF_MACHINE = {
    X86_64: (*_GCC, "-march=x86-64-v3", "-fcf-protection=none"),
    AARCH64: (*_GCC, "-march=armv8-a", "-mno-outline-atomics", "-mbranch-protection=none"),
    MACOS: DARWIN,
}

_FLAGS_OF_ANY = {X86_64: ("-march=x86-64",), AARCH64: (), MACOS: ()}
"""Flags for code that runs before the processor is known."""

_DARWIN_HEADERS = ("errno", "pthread", "sched", "signal", "stdio", "stdlib", "string", "sys/mman", "time", "unistd")
"""The headers of macOS that `darwin.h` replaces."""


class CompilerMissing(RuntimeError):
    """There is no C compiler for an architecture."""


def compiler(machine: str) -> str:
    """The path of the compiler for a machine. CompilerMissing names what to install."""
    name, package = "clang", "clang"
    if machine != MACOS:
        name = machine + "-gnu-gcc"
        package = f"gcc-{name.removesuffix('-gcc').replace('_', '-')}"
    path = shutil.which(name)
    if path is None:
        raise CompilerMissing(f"{name} is missing: install a C compiler for {machine} (Debian: {package})")
    return path


def source_digest(machine: str) -> str:
    """The digest of all that determines the objects of a machine: the C sources and the flags."""
    digest = hashlib.sha256(repr((_flags(machine), _FLAGS_OF_ANY[machine])).encode())
    for file in sorted(SOURCES.iterdir()):
        digest.update(f"\0{file.name}\0".encode() + file.read_bytes())
    return digest.hexdigest()


def compile_source(name: str, machine: str) -> bytes:
    """The object of `native/{name}.c`. CompilerMissing, or CalledProcessError if the source does not compile."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, f"{name}.o")
        section = f"__TEXT,{DIGEST_SECTION}" if machine == MACOS else DIGEST_SECTION
        defines = (f'-DMXF_SOURCES="{source_digest(machine)}"', f'-DMXF_SOURCES_SECTION="{section}"')
        flags = (*_flags(machine), *(_FLAGS_OF_ANY[machine] if name in (MODEL, PREDICT) else ()))
        if machine == MACOS:
            flags += darwin_headers(Path(folder))
        command = [compiler(machine), *flags, *defines, "-c", f"{name}.c", "-o", file]
        subprocess.run(command, cwd=SOURCES, check=True)
        return file.read_bytes()


def darwin_headers(folder: Path) -> tuple[str, ...]:
    """Write empty headers of macOS, and return the flags with which the compiler finds them."""
    for name in _DARWIN_HEADERS:
        header = folder / f"{name}.h"
        header.parent.mkdir(parents=True, exist_ok=True)
        header.touch()
    return ("-isystem", str(folder))


def _flags(machine: str) -> tuple[str, ...]:
    return (*_FLAGS, *_FLAGS_OF_MACHINE[machine])


def write_objects() -> None:
    """Compile all objects, and write them if all compile."""
    objects = {
        object_file(name, machine): compile_source(name, machine) for machine in OBJECTS for name in OBJECTS[machine]
    }
    for file, data in objects.items():
        write_atomically(file, data)
        print(f"{file.name}: {len(data)} bytes", file=sys.stderr)


if __name__ == "__main__":
    try:
        write_objects()
    except CompilerMissing as error:
        raise SystemExit(str(error)) from None
