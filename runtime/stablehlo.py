"""Programs of StableHLO files.

A file is compiled in a process of its own: upstream MLIR ends the process on some malformed modules. The programs are
kept in the disk cache.
"""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..ir.manifest import ManifestError, program_from_bytes, program_to_bytes
from ..ir.program import Program
from ..ir.types import DType, TensorType
from ..passes.manager import Context, Options
from .compile import get_record, put_record, record_key
from .compiled_folder import Argument
from .devices import HOST

_READING, _BYTES_PER_SECOND = 20, 1 << 20
"""The seconds that reading a file can take, and the bytes that take another one: upstream reads some damaged files for
ever."""

Shapes = Mapping[str, Sequence[int]]
"""Shapes of arguments by name."""


class StablehloError(ValueError):
    """A file holds no module of StableHLO that can be compiled."""


class ModuleProgram(NamedTuple):
    """The program of a module, whose inputs and outputs are the arguments and the results of its function."""

    program: Program
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]


def read_stablehlo(path: Path, shapes: Shapes) -> ModuleProgram:
    """The program of a file: assembly, bytecode or a portable artifact. Arguments of unknown shape have those that are
    given. StablehloError names the operation that cannot be compiled, and its line or the name that it has."""
    from ..codegen.stablehlo.upstream import UpstreamError

    data = path.read_bytes()
    try:
        key = _key(data, shapes)
        answer = get_record(key)
        if answer is None:
            answer = _compile(data, shapes)
            put_record(key, answer)
        return _from_bytes(answer)
    except (UpstreamError, ManifestError) as error:
        raise StablehloError(f"{path}: {error}") from None


def _key(data: bytes, shapes: Shapes) -> str:
    from ..codegen.mlir.target import MlirTarget

    identity = MlirTarget.of(HOST.target_for()).identity
    digest = hashlib.sha256(data).hexdigest()
    return record_key("stablehlo", Options(), HOST, identity, digest, sorted(shapes.items()))


# -- the other process


def _compile(data: bytes, shapes: Shapes) -> bytes:
    """What the other process answers. UpstreamError with its message, or the signal that ended it."""
    from ..codegen.stablehlo.upstream import UpstreamError

    command = [sys.executable, "-m", __name__, json.dumps({name: list(shape) for name, shape in shapes.items()})]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    if done.returncode == 0:
        return done.stdout
    last = (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
    if done.returncode > 0:
        raise UpstreamError(last)
    name = signal.Signals(-done.returncode).name
    raise UpstreamError(f"upstream MLIR ended with {name}; MXFORGE_DUMP=DIR writes the stages before")


def main(arguments: Sequence[str]) -> int:
    """Compile the file on standard input; write its program to standard output, or one line to standard error."""
    import resource

    from ..codegen.mlir.foreign import ModuleFile
    from ..codegen.mlir.target import MlirTarget
    from ..codegen.stablehlo.upstream import UpstreamError

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    target = MlirTarget.of(HOST.target_for())
    try:
        data = sys.stdin.buffer.read()
        signal.alarm(_READING + len(data) // _BYTES_PER_SECOND)
        file = ModuleFile(data)
        signal.alarm(0)
        compiled = file.compile(json.loads(arguments[0]), target, Context(target))
    except UpstreamError as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    except MemoryError:
        print("the module needs more memory than there is", file=sys.stderr)
        return 1
    except (RuntimeError, UnicodeError) as error:  # of the bindings, for names that are not UTF-8
        print(f"the module is damaged ({error})", file=sys.stderr)
        return 1
    inputs, outputs = (tuple(Argument(*named) for named in listed) for listed in (compiled.inputs, compiled.outputs))
    sys.stdout.buffer.write(_to_bytes(ModuleProgram(compiled.program, inputs, outputs)))
    sys.stdout.flush()
    return 0


# -- bytes


def _to_bytes(compiled: ModuleProgram) -> bytes:
    """A line of JSON and the program."""
    lists = [[[a.name, a.type.dtype.value, a.type.shape] for a in x] for x in (compiled.inputs, compiled.outputs)]
    return json.dumps(lists).encode() + b"\n" + program_to_bytes(compiled.program)


def _from_bytes(data: bytes) -> ModuleProgram:
    line, _, program = data.partition(b"\n")
    inputs, outputs = json.loads(line)
    return ModuleProgram(program_from_bytes(program), _arguments(inputs), _arguments(outputs))


def _arguments(listed: Sequence[Any]) -> tuple[Argument, ...]:
    return tuple([Argument(name, TensorType(tuple(shape), DType(dtype))) for name, dtype, shape in listed])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
