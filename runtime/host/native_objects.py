"""Finds the native code that every process needs: the thread pool, and the calls of short programs from Python.

The sources are in `native`. `python -m mxforge.tools.make_native` compiles them into `objects`.
"""

from __future__ import annotations

from pathlib import Path

OBJECTS = Path(__file__).parent / "objects"
"""The objects of the package, for all processors of an architecture that mxforge supports."""

SOURCES = Path(__file__).parent / "native"
"""The C sources. Libraries for programs in C contain some of them (`mxforge compile --emit c`)."""

POOL, PYTHON_CALLS, CUDA_LAUNCHES, MODEL, PREDICT = "pool", "python_calls", "cuda_launches", "model", "predict"
"""The names of the objects. Only `PYTHON_CALLS` calls functions of Python; it needs `POOL`. `MODEL` runs models in
libraries for programs in C, and needs `POOL`; `PREDICT` is MXNet's C predict API for them."""


X86_64, AARCH64, MACOS = "x86_64-linux", "aarch64-linux", "aarch64-macos"
"""The machines that there are objects for: an architecture and a system. Objects for macOS are in libraries alone."""


def machine_of(triple: str) -> str:
    """The machine that a target triple of LLVM names."""
    architecture, _, system = triple.partition("-")
    return f"{architecture}-{'macos' if system.startswith('apple') else 'linux'}"


def native_object(name: str, machine: str) -> bytes:
    """The content of an object for a machine."""
    return object_file(name, machine).read_bytes()


def object_file(name: str, machine: str) -> Path:
    """The path of an object."""
    return OBJECTS / f"{machine}-{name}.o"
