"""Folders of compiled models, which `mxforge compile` writes and `load_compiled` reads.

    FOLDER/manifest.json   version, inputs and outputs, the machine that the code needs, sizes and checksums
    FOLDER/program.bin     launches and machine code: ir/manifest.py's format
    FOLDER/memory.bin      parameters, packed weights and constants, laid out as the kernels read them

The program in the folder has no parameters. They are in one block, its last input, which is mapped from `memory.bin`.
So loading copies nothing, and processes share the pages. A program for a GPU keeps its parameters as inputs: the
manifest lists where each is in `memory.bin`, from which they are copied to the GPU, which packs them in the first run.

Each file is read once when it is loaded and compared with its CRC-32, which detects any flipped bit. It detects damage,
not forgery: the folder contains machine code. On one machine CRC-32 reads 6.5 GB/s, SHA-1 2.0, SHA-256 1.9 and BLAKE2b
1.3; sums with NumPy reach 17, but miss pairs of flipped bits.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import zlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..ir.file_errors import names_file
from ..ir.lazy_dataclass import dataclass
from ..ir.manifest import ManifestError, program_from_bytes, program_to_bytes
from ..ir.program import Program
from ..ir.types import DType, TensorType
from .atomic import new_folder, sync_folder, temporary_beside
from .device import Device
from .devices import HOST

FORMAT, VERSION, GPU_VERSION, SHAPES_VERSION = "mxforge-compiled", 2, 3, 4
MANIFEST, PROGRAM, MEMORY = "manifest.json", "program.bin", "memory.bin"
_LARGEST_MANIFEST = 16 << 20
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # Linux's constants for renameat2


class CompiledFolderError(ValueError):
    """The folder contains no compiled model, a damaged one, or one that this machine or version cannot run."""


@dataclass(frozen=True)
class Argument:
    """One input or output of a compiled model."""

    name: str
    type: TensorType

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of its axes."""
        return self.type.shape

    @property
    def dtype(self) -> np.dtype:
        """NumPy's dtype; uint16, which holds the bits, for bfloat16."""
        return self.type.dtype.memory


@dataclass(frozen=True, eq=False)
class StoredModel:
    """The content of a folder. The program's last input is `memory`; or the program packs its parameters itself, on a
    GPU and if the model is `unpacked`. Then `bound` are the positions of the inputs that are parameters, and their
    first bytes in `memory`. `gpu` is the architecture, such as sm_90, "" for the host."""

    name: str
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    program: Program
    memory: np.ndarray
    gpu: str = ""
    bound: tuple[tuple[int, int], ...] = ()
    unpacked: bool = False

    @property
    def packs(self) -> bool:
        """True if the program packs its parameters."""
        return self.unpacked or bool(self.gpu)

    def operands(self) -> dict[int, np.ndarray]:
        """The inputs of the program that are in `memory`, by position."""
        if not self.packs:
            return {len(self.program.inputs) - 1: self.memory}
        types = [(i, start, self.program.inputs[i]) for i, start in self.bound]
        return {i: self.memory[at : at + t.nbytes].view(t.dtype.memory).reshape(t.shape) for i, at, t in types}


def is_compiled_folder(path: str | os.PathLike[str]) -> bool:
    """True if `path` is the folder of a compiled model, even if it is damaged."""
    return (Path(path) / MANIFEST).is_file()


# --- writing ----------------------------------------------------------------------------------------------------------


def write_folder(
    folder: str | os.PathLike[str], model: StoredModel, machine: Mapping[str, Any], *, replace_existing: bool = False
) -> None:
    """Write the model, for a machine that `HostDevice.requirements` describes; `folder` appears whole or not at all.
    CompiledFolderError as from `check_free`, and for programs that call Python functions."""
    path = Path(os.path.abspath(folder))
    check_free(path, replace_existing)
    require_no_functions(model.program, model.name)
    contents = {PROGRAM: program_to_bytes(model.program), MEMORY: model.memory.data}
    write_files(folder, _manifest(model), machine, contents)


def require_no_functions(program: Program, name: str) -> None:
    """CompiledFolderError for a program that calls Python functions."""
    if program.calls_python:
        names = ", ".join(f.label for f in program.functions if f.op is None)
        raise CompiledFolderError(f"{name} calls Python functions, which cannot be written: {names}")


def write_files(
    folder: str | os.PathLike[str],
    fields: Mapping[str, Any],
    machine: Mapping[str, Any],
    contents: Mapping[str, bytes | memoryview],
) -> None:
    """Write the files of a folder and its manifest, which has these fields; the folder appears whole or not at all."""
    path = Path(os.path.abspath(folder))
    files = {name: {"bytes": len(data), "crc32": zlib.crc32(data)} for name, data in contents.items()}
    manifest = sealed({"format": FORMAT, **fields, "machine": dict(machine), "files": files})
    with names_file(folder), temporary_beside(path, new_folder) as (temporary, descriptor):
        for name, data in contents.items():
            _write(temporary / name, data)
        _write(temporary / MANIFEST, json.dumps(manifest, indent=1).encode())
        os.fsync(descriptor)
        _put_in_place(temporary, path)
    sync_folder(path.parent)


def check_free(folder: str | os.PathLike[str], replace_existing: bool = False) -> None:
    """CompiledFolderError if the path exists, unless it is an empty folder, or a compiled model to replace."""
    path = Path(os.path.abspath(folder))
    if not path.exists() and not path.is_symlink():
        return
    if path.is_dir() and not any(path.iterdir()):
        return
    if not (replace_existing and is_compiled_folder(path)):
        what = "" if is_compiled_folder(path) else ", and is not a compiled model"
        raise CompiledFolderError(f"{folder}: already exists{what}")


def _write(path: Path, data: bytes | memoryview) -> None:
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _put_in_place(temporary: Path, path: Path) -> None:
    """Rename the folder to its path, or swap it with an older model, in one step."""
    if is_compiled_folder(path):
        _exchange(temporary, path)
    else:
        temporary.rename(path)


def _exchange(one: Path, other: Path) -> None:
    """Swap two paths in one step. OSError if the file system does not support it."""
    libc = ctypes.CDLL(None, use_errno=True)
    names = os.fsencode(one), os.fsencode(other)
    if libc.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        problem = f"cannot be replaced in one step ({os.strerror(number)}): remove it first"
        raise OSError(number, problem, os.fspath(other))


def _manifest(model: StoredModel) -> dict[str, Any]:
    return {
        "version": GPU_VERSION if model.gpu else VERSION,
        "name": model.name,
        "inputs": [_argument_to_json(a) for a in model.inputs],
        "outputs": [_argument_to_json(a) for a in model.outputs],
        **({"bound": [list(pair) for pair in model.bound]} if model.gpu else {}),
    }


def sealed(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with the checksum of all its other fields."""
    content = {key: value for key, value in manifest.items() if key != "crc32"}
    return {**content, "crc32": zlib.crc32(json.dumps(content, sort_keys=True).encode())}


def _argument_to_json(argument: Argument) -> dict[str, Any]:
    return {"name": argument.name, "shape": list(argument.type.shape), "dtype": argument.type.dtype.value}


# --- reading ----------------------------------------------------------------------------------------------------------


def read_model(path: Path, manifest: Mapping[str, Any]) -> StoredModel:
    """The model of one shape in a folder with this manifest, checked; its memory is mapped. CompiledFolderError
    describes the first problem."""
    with damage_reported(path):
        gpu, bound = gpu_and_bound(manifest, path)
        program = program_from_bytes(read_file(path / PROGRAM, manifest["files"][PROGRAM]))
        memory = map_memory(path / MEMORY, manifest["files"][MEMORY])
        inputs, outputs = (tuple(map(_argument_from_json, manifest[k])) for k in ("inputs", "outputs"))
        model = StoredModel(text_of(manifest["name"]), inputs, outputs, program, memory, gpu, bound)
    check_types(model, path)
    return model


@contextmanager
def damage_reported(path: Path) -> Generator[None]:
    """Raise CompiledFolderError for errors of the body about the content of the folder's files."""
    try:
        yield
    except ManifestError as error:
        raise CompiledFolderError(f"{path / PROGRAM}: {error}") from None
    except CompiledFolderError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CompiledFolderError(f"{path / MANIFEST}: damaged ({type(error).__name__}: {error})") from None


def read_manifest(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    if not file.is_file():
        raise CompiledFolderError(f"{path}: not a compiled model (there is no {MANIFEST})")
    if file.stat().st_size > _LARGEST_MANIFEST:
        raise CompiledFolderError(f"{file}: too large for a manifest")
    try:
        manifest: Any = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise CompiledFolderError(f"{file}: not JSON ({error})") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise CompiledFolderError(f"{file}: not the manifest of a compiled model")
    if manifest.get("version") not in (VERSION, GPU_VERSION, SHAPES_VERSION):
        version = manifest.get("version")
        known = f"{VERSION} to {SHAPES_VERSION}"
        raise CompiledFolderError(
            f"{file}: has version {version!r}, this mxforge reads {known}: compile the model again"
        )
    if manifest != sealed(manifest):
        raise CompiledFolderError(f"{file}: its checksum does not match: the file is damaged")
    return manifest


def gpu_and_bound(manifest: Mapping[str, Any], path: Path) -> tuple[str, tuple[tuple[int, int], ...]]:
    """`StoredModel.gpu` and `StoredModel.bound`. CompiledFolderError if the folder is for another CPU."""
    gpu = text_of(manifest["machine"].get("gpu", ""))
    if not gpu:
        _check_machine(manifest["machine"], path)
    if manifest["version"] == VERSION or "bound" not in manifest:
        return "", ()
    listed = manifest["bound"]
    if any(len(pair) != 2 or any(type(n) is not int or n < 0 for n in pair) for pair in listed):
        raise TypeError(f"bound {listed!r}")
    return gpu, tuple((position, start) for position, start in listed)


def check_gpu(gpu: str, device: Device, folder: str | os.PathLike[str]) -> None:
    """CompiledFolderError unless code for this architecture, or "" for CPUs, is for the device: code for a GPU runs on
    its own architecture only."""
    capability = getattr(device.target, "capability", None)
    own = "" if capability is None else f"sm_{capability}"
    if gpu == own:
        return
    if not gpu:
        raise CompiledFolderError(f"{folder}: compiled for a CPU, not for {device.name}: compile it with --ctx gpu")
    if not own:
        raise CompiledFolderError(f"{folder}: compiled for GPUs ({gpu}): it does not run on the CPU, use gpu(0)")
    again = f"compile it with --target cuda-{own.replace('_', '')}"
    raise CompiledFolderError(f"{folder}: compiled for {gpu}, but {device.name} is {own}: {again}")


def _check_machine(machine: Mapping[str, Any], path: Path) -> None:
    """CompiledFolderError unless this machine can run the code."""
    try:
        HOST.meet(machine)
    except ValueError as error:
        raise CompiledFolderError(f"{path}: {error}") from None


def read_file(file: Path, record: Mapping[str, Any]) -> bytes:
    """The content of a file, checked."""
    _check_size(file, record)
    data = file.read_bytes()
    _check_sum(file, data, record)
    return data


def map_memory(file: Path, record: Mapping[str, Any]) -> np.ndarray:
    """The content of a file, mapped and checked."""
    _check_size(file, record)
    with file.open("rb") as opened:
        memory = np.frombuffer(mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ), np.uint8)
    _check_sum(file, memory.data, record)
    return memory


def _check_sum(file: Path, data: bytes | memoryview, record: Mapping[str, Any]) -> None:
    if zlib.crc32(data) != record["crc32"]:
        raise CompiledFolderError(f"{file}: its checksum does not match: the file is damaged")


def _check_size(file: Path, record: Mapping[str, Any]) -> None:
    size = file.stat().st_size if file.is_file() else None
    if size is None:
        raise CompiledFolderError(f"{file}: the file is missing")
    if size != record["bytes"] or size == 0:
        raise CompiledFolderError(f"{file}: has {size} bytes instead of {record['bytes']}: the file is damaged")


def _argument_from_json(record: Mapping[str, Any]) -> Argument:
    shape = record["shape"]
    if not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in shape):
        raise TypeError(f"shape {shape!r}")
    try:
        return Argument(text_of(record["name"]), TensorType(tuple(shape), DType(record["dtype"])))
    except ValueError:
        raise TypeError(f"dtype {record['dtype']!r}") from None


def text_of(value: Any) -> str:
    """The value, which is text. TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def check_types(model: StoredModel, path: Path) -> None:
    """CompiledFolderError unless manifest, program and memory agree: addresses are computed from these types."""
    listed = tuple(a.type for a in model.inputs), tuple(a.type for a in model.outputs)
    if model.packs:
        _check_bound(model, listed, path)
        return
    if (model.program.inputs[: len(listed[0])], model.program.results) != listed:
        raise CompiledFolderError(f"{path}: {MANIFEST} and {PROGRAM} do not agree on inputs and outputs")
    extra = model.program.inputs[len(listed[0]) :]
    expected = TensorType((len(model.memory),), DType.U8)
    if not extra or extra[-1] != expected or extra[:-1] not in ((), (TensorType((4,), DType.U32),)):
        raise CompiledFolderError(f"{path}: {PROGRAM} and {MEMORY} do not agree")


def _check_bound(model: StoredModel, listed: tuple[tuple[TensorType, ...], tuple[TensorType, ...]], path: Path) -> None:
    """`check_types` for a program that packs its parameters."""
    program, bound = model.program, dict(model.bound)
    random = () if program.random is None else (program.random.input,)
    others = [t for i, t in enumerate(program.inputs) if i not in bound and i not in random]
    if (tuple(others), program.results) != listed:
        raise CompiledFolderError(f"{path}: {MANIFEST} and {PROGRAM} do not agree on inputs and outputs")
    ends = [start + program.inputs[i].nbytes for i, start in bound.items() if i < len(program.inputs)]
    if len(ends) != len(model.bound) or max(ends, default=0) > len(model.memory):
        raise CompiledFolderError(f"{path}: {MANIFEST} and {MEMORY} do not agree")
