"""Writes the files of a library.

    shared   libNAME.so, which needs only the C library
    object   NAME.o, for a program that is linked without shared libraries
    c        NAME.c, the C code of the library, and NAME_code.o with its tables, kernels and weights

and with each of them NAME.h, mxforge.h, NAME.hpp (C++) and NAME.cmake. No compiler and no linker are needed. For macOS
objects are Mach-O; there are no shared libraries, which need a signature.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...codegen.elf.merge import link_object
from ...codegen.elf.reader import LARGEST_SECTION
from ...codegen.elf.relocations import Architecture, architecture_of
from ...codegen.elf.shared import Buffer, shared_library
from ...codegen.elf.writer import CONSTANTS, ObjectWriter
from ...codegen.macho.writer import link_macho
from ...ir.suggestions import see
from ...runtime.atomic import write_atomically
from ...runtime.compiled_folder import CompiledFolderError
from ...runtime.host.loader import resolve_libc
from ...runtime.host.native_objects import MODEL as MODEL_CODE
from ...runtime.host.native_objects import POOL, SOURCES, machine_of, native_object
from ...runtime.host.native_objects import PREDICT as PREDICT_CODE
from ..errors import ToolError
from .c_source import c_source, kernel_names
from .data import ObjectData
from .header import FUNCTIONS, PREDICT_FUNCTIONS, c_header, c_name, cmake, cpp_header
from .needs import needs_of
from .tables import MEMORY, MODEL, PREDICT, LibraryModel, describe_files, describe_model
from .targets import is_macos

LIBRARIES = ("libc.so.6", "libm.so.6", "libpthread.so.0")
"""The libraries that a shared library names; since glibc 2.34 the first contains the last."""

_ONLY_DARWIN = frozenset({"__error", "clock_gettime_nsec_np", "pthread_atfork"})
"""Functions of macOS that the C code of libraries calls, and that the C library of Linux does not export."""

PUBLIC_HEADER = "mxforge.h"


def write_library(folder: Path, model: LibraryModel, machine: Mapping[str, Any], emit: str) -> int:
    """Write the files into a folder, for a machine that `HostDevice.requirements` describes. Returns the bytes of the
    library. ToolError for weights that an object cannot hold."""
    name = c_name(model.name)
    files = _EMITTERS[emit](name, model, machine)
    texts = {
        f"{name}.h": c_header(name, model),
        f"{name}.hpp": cpp_header(name, model),
        f"{name}.cmake": cmake(name, emit, has_predict=bool(model.files)),
        PUBLIC_HEADER: (SOURCES / PUBLIC_HEADER).read_text(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    files |= {file: [text.encode()] for file, text in texts.items()}
    for file, parts in files.items():
        write_atomically(folder / file, parts)  # programs that use the old library keep it
    return sum(len(part) for file, parts in files.items() if file not in texts for part in parts)


Files = dict[str, "list[Buffer]"]


def _shared(name: str, model: LibraryModel, machine: Mapping[str, Any]) -> Files:
    if is_macos(machine["triple"]):
        raise ToolError(
            "shared libraries for macOS are linked and signed there: pass --emit object, and run there "
            f"clang -dynamiclib {name}.o -o lib{name}.dylib{see('deploy-c')}"
        )
    file = f"lib{name}.so"
    memory = MEMORY.symbol, model.memory.data
    objects = _objects(model, machine)
    return {
        file: shared_library(
            objects, _exports(name, model), name=file, needs=LIBRARIES, provided=_in_c_library, memory=memory
        )
    }


def _object(name: str, model: LibraryModel, machine: Mapping[str, Any]) -> Files:
    objects = [*_objects(model, machine), _memory_object(model, architecture_of(machine["triple"]))]
    return {f"{name}.o": [_linker(machine)(objects, _exports(name, model), provided=_in_c_library)]}


def _source(name: str, model: LibraryModel, machine: Mapping[str, Any]) -> Files:
    objects = [*_tables(model, machine), *model.code, _memory_object(model, architecture_of(machine["triple"]))]
    symbols = {MODEL: f"{name}_data", **({PREDICT: f"{name}_predict_data"} if model.files else {})}
    files: Files = {f"{name}_code.o": [_linker(machine)(objects, symbols, kernel_names(name), _in_c_library)]}
    files[f"{name}.c"] = [c_source(name).encode()]
    if model.files:
        files[f"{name}_predict.c"] = [c_source(name, "predict").encode()]
    return files


_EMITTERS: Mapping[str, Callable[[str, LibraryModel, Mapping[str, Any]], Files]] = {
    "shared": _shared,
    "object": _object,
    "c": _source,
}


def _linker(machine: Mapping[str, Any]) -> Callable[..., bytes]:
    """The function that links objects for a machine into one."""
    return link_macho if is_macos(machine["triple"]) else link_object


def _in_c_library(symbol: str) -> bool:
    """True for a function of the C library, as far as this machine knows."""
    return symbol in _ONLY_DARWIN or bool(resolve_libc(symbol))


def _exports(name: str, model: LibraryModel) -> dict[str, str]:
    own = {f"model_{function}": f"{name}_{function}" for function in FUNCTIONS}
    return own | ({function: function for function in PREDICT_FUNCTIONS} if model.files else {})


def _objects(model: LibraryModel, machine: Mapping[str, Any]) -> Sequence[bytes]:
    """All objects of a library except that of the weights."""
    names = (MODEL_CODE, POOL, *((PREDICT_CODE,) if model.files else ()))
    own = [native_object(name, machine_of(machine["triple"])) for name in names]
    return [*own, *_tables(model, machine), *model.code]


def _tables(model: LibraryModel, machine: Mapping[str, Any]) -> list[bytes]:
    """The objects with what the C code reads."""
    architecture = architecture_of(machine["triple"])
    needs = needs_of(machine["triple"], machine["features"])
    data = ObjectData(architecture)
    tables = [data.object(MODEL, describe_model(model, needs, machine["threads"], data))]
    if model.files:
        data = ObjectData(architecture)
        tables.append(data.object(PREDICT, describe_files(model.files, data)))
    return tables


def _memory_object(model: LibraryModel, architecture: Architecture) -> bytes:
    if len(model.memory) > LARGEST_SECTION:
        raise ToolError(f"{model.name} has {len(model.memory)} bytes of weights, too many for an object: use shared")
    writer = ObjectWriter(architecture)
    writer.define(MEMORY.symbol, CONSTANTS, writer.add(CONSTANTS, model.memory.data), len(model.memory))
    return writer.finish()


def check_free(folder: str | os.PathLike[str], replace_existing: bool) -> None:
    """CompiledFolderError if the folder of a library cannot be written: it contains something, and is not replaced."""
    path = Path(folder)
    if path.exists() and (not path.is_dir() or (any(path.iterdir()) and not replace_existing)):
        raise CompiledFolderError(f"{folder}: already exists")
