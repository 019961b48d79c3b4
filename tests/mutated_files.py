"""Passes damaged files to all readers: each read must succeed, or raise the reader's error, which names the file.

    python tests/mutated_files.py --cases 10000
    python tests/mutated_files.py --format npz --first 1234 --cases 1 --keep folder

Each case is determined by its number. A read may take `SECONDS`, and `_MEMORY` bytes in addition to the process's
memory. Every violation and every other error is printed with the command that repeats it, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import mutated_onnx
import mutated_torch
import mxforge as mx
import numpy as np
from mutations import Random, mutate_bytes, mutate_text_of_json
from mxforge.codegen.llvm.schedule.kinds import RegisterTile, TileSchedule, WinogradSchedule
from mxforge.codegen.llvm.schedule.tuned import entry_of
from mxforge.frontend.artifacts import ArtifactError, pickles
from mxforge.frontend.artifacts.named_arrays import read_safetensors, write_safetensors
from mxforge.frontend.artifacts.numpy_files import read_npy, read_npz
from mxforge.frontend.artifacts.torch_files import read_torch
from mxforge.frontend.optimizer import states
from mxforge.frontend.optimizer.updater import load_states
from mxforge.ir.manifest import ManifestError, program_from_bytes
from mxforge.ir.program_table import tables_from_bytes
from mxforge.runtime.compiled_folder import MANIFEST, PROGRAM, CompiledFolderError
from mxforge.runtime.compiled_shapes import StoredShapes, read_folder
from mxforge.runtime.host.threads import get_num_threads, set_num_threads
from mxforge.runtime.host.tuning import TuningError, read_tables, write_tables
from mxforge.tools.main import main as mxforge_command
from random_pickles import mutate_pickle

DATA = Path(__file__).parent / "data"
SECONDS = 5.0
_MEMORY = 64 << 20
_ADDRESSES = 4 << 30  # the address space of the process, in bytes

Mutate = Callable[[bytes, Random], bytes]


@dataclass(frozen=True)
class Format:
    """Valid files, the functions that damage them, the function that reads them, and the errors that it may raise."""

    samples: tuple[Path, ...]
    mutations: tuple[Mutate, ...]
    read: Callable[[Path], Any]
    errors: tuple[type[Exception], ...]
    names_file: bool = True


# --- samples ----------------------------------------------------------------------------------------------------------


def _arrays() -> dict[str, Any]:
    return {"w": np.arange(12, dtype=np.float32).reshape(3, 4), "b": np.arange(3), "é": np.ones((2, 1, 2), np.float16)}


def _params(folder: Path) -> list[Path]:
    path = folder / "sparse.params"
    dense = mx.nd.array([[0, 1, 0], [2, 0, 3]])
    mx.nd.save(str(path), {"csr": dense.tostype("csr"), "rows": dense.tostype("row_sparse"), "x": dense})
    fixtures = DATA / "fixtures"
    old = sorted((DATA / "artifacts").glob("*.params"))
    return [path, *old, fixtures / "arrays_dict.params", fixtures / "mlp-0003.params", fixtures / "legacy_ndarray.v0"]


def _npz(folder: Path) -> list[Path]:
    paths = [folder / "stored.npz", folder / "deflated.npz"]
    np.savez(paths[0], **_arrays())
    np.savez_compressed(paths[1], **_arrays())
    return paths


def _npy(folder: Path) -> list[Path]:
    paths = [folder / "x.npy", folder / "columns.npy"]
    np.save(paths[0], _arrays()["w"])
    np.save(paths[1], np.asfortranarray(_arrays()["w"]))
    return paths


def _safetensors(folder: Path) -> list[Path]:
    write_safetensors(folder / "x.safetensors", dict(_arrays()))
    return [folder / "x.safetensors"]


def _symbols(folder: Path) -> list[Path]:
    fixtures = [DATA / "fixtures" / name for name in ("mlp-symbol.json", "convnet-symbol.json", "save_000800.json")]
    return [*fixtures, *sorted((DATA / "artifacts").glob("*-symbol.json")), DATA / "fixtures" / "tagger-symbol.json"]


def _states(folder: Path) -> list[Path]:
    updater = mx.optimizer.get_updater(
        mx.optimizer.Adam(lr_scheduler=mx.lr_scheduler.FactorScheduler(3, base_lr=0.001))
    )
    weight = mx.nd.ones((2, 3))
    updater(0, weight, weight.copy())
    (folder / "own.states").write_bytes(updater.get_states(dump_optimizer=True))
    return [folder / "own.states", DATA / "fixtures" / "adam.states", DATA / "fixtures" / "mlp-0003.states"]


def _records(folder: Path) -> list[Path]:
    path = folder / "x.rec"
    writer = mx.recordio.MXIndexedRecordIO(str(path.with_suffix(".idx")), str(path), "w")
    for i, record in enumerate((b"abc", b"", b"\x0a\x23\xd7\xce" * 3, bytes(range(40)))):
        writer.write_idx(i, mx.recordio.pack(mx.recordio.IRHeader(0, [1, 2], i, 0), record))
    writer.close()
    return [path]


def _tunings(folder: Path) -> list[Path]:
    tile = TileSchedule(lanes=8, main=RegisterTile(4, 3), last=RegisterTile(6, 1), points=9, panels=2)
    winograd = WinogradSchedule(output=4, lanes=8, main=RegisterTile(4, 3), last=None, tiles=9, fused=True)
    write_tables(folder / "x-tuning.json", {"target": {"a": entry_of(tile), "b": entry_of(winograd)}, "other": {}})
    return [folder / "x-tuning.json"]


def _folders(folder: Path) -> list[Path]:
    target = folder / "compiled"
    if not target.exists():
        arguments = ["compile", str(DATA / "fixtures" / "mlp"), "-o", str(target), "--input-shape", "data=2,12"]
        with redirect_stdout(StringIO()):
            assert mxforge_command(arguments) == 0
    return [target / MANIFEST, target / PROGRAM, target / "memory.bin"]


def _shapes(folder: Path) -> list[Path]:
    target = folder / "shapes"
    if not target.exists():
        arguments = ["compile", str(DATA / "fixtures" / "mlp"), "-o", str(target), "--input-shape", "data=1..3,12"]
        with redirect_stdout(StringIO()):
            assert mxforge_command(arguments) == 0
    return [target / MANIFEST, target / PROGRAM]


def _programs(folder: Path) -> list[Path]:
    return [_folders(folder)[1]]


def _network() -> mx.gluon.nn.HybridSequential:
    net = mx.gluon.nn.HybridSequential(prefix="net_")
    net.add(mx.gluon.nn.Dense(3, in_units=2), mx.gluon.nn.Dropout(0.5))
    return net


def _models(folder: Path) -> list[Path]:
    net = _network()
    net.initialize()
    net.hybridize()
    net(mx.nd.ones((1, 2)))
    net.save(str(folder / "net"))
    return [folder / "net-model.json"]


# --- reading ----------------------------------------------------------------------------------------------------------


def _read_symbol(path: Path) -> None:
    symbol = mx.sym.load(str(path))
    for ask in (symbol.list_arguments, symbol.list_outputs, symbol.attr_dict, symbol.tojson):
        ask()


def _infer(path: Path) -> None:
    """Read and infer, as bind does. Errors of inference name the node, but not the file."""
    try:
        symbol = mx.sym.load(str(path))
    except mx.MXNetError:
        return
    inputs = {name: (4, 3, 32, 32) for name in symbol.list_arguments() if name == "data"}
    symbol.infer_shape_partial(**inputs)
    symbol.infer_type_partial()


def _read_records(path: Path) -> None:
    reader = mx.recordio.MXRecordIO(str(path), "r")
    for record in iter(reader.read, None):
        with _expected(mx.MXNetError):
            mx.recordio.unpack(record)  # type: ignore[arg-type]


def _read_index(path: Path) -> None:
    reader = mx.recordio.MXIndexedRecordIO(str(path), str(path.with_name("x.rec")), "r")
    for key in reader.keys:
        with _expected(mx.MXNetError):  # a position where no record starts
            reader.read_idx(key)


@contextmanager
def _expected(error: type[Exception]) -> Iterator[None]:
    try:
        yield
    except error as raised:
        assert str(raised)


def _read_states(path: Path) -> None:
    """Read states, and check that no class, no module and no context has changed."""
    before = _shared()
    try:
        load_states(mx.optimizer.get_updater(mx.optimizer.SGD()), path)
    finally:
        assert _shared() == before, "the file has changed a class, a module or a context"


def _shared() -> list[Any]:
    """What a program shares with the states that it reads."""
    classes = [*_subclasses(mx.optimizer.Optimizer), *_subclasses(mx.lr_scheduler.LRScheduler), *_SHARED]
    modules = (states, pickles, mx.optimizer, mx.lr_scheduler, mx.context, os, sys)
    return [mx.current_context().device_id, *({k: id(v) for k, v in vars(at).items()} for at in (*classes, *modules))]


_SHARED = (mx.nd.NDArray, mx.nd.sparse.RowSparseNDArray, mx.Context, pickles.Name, pickles.Unfinished)


def _subclasses(cls: type) -> Iterator[type]:
    yield cls
    for sub in cls.__subclasses__():
        yield from _subclasses(sub)


def _read_folder(path: Path) -> None:
    threads = get_num_threads()
    try:
        stored = read_folder(path.parent)
        if isinstance(stored, StoredShapes):
            for shapes in stored.rows:
                stored.model(shapes)
    finally:
        set_num_threads(threads)


def _read_model(path: Path) -> None:
    _network().load(str(path).removesuffix("-model.json"))


def _sign(path: Path) -> None:
    """Write the size and checksum of a damaged program into the manifest in its folder."""
    manifest = json.loads((path.parent / MANIFEST).read_bytes())
    data = path.read_bytes()
    manifest["files"][path.name] = {"bytes": len(data), "blake2b": hashlib.blake2b(data, digest_size=16).hexdigest()}
    (path.parent / MANIFEST).write_text(json.dumps(manifest))


def _read_tables(path: Path) -> None:
    for table in tables_from_bytes(path.read_bytes()):
        table.input_shapes(0)
        for row in range(len(table)):
            table.program(row)


def _read_program(path: Path) -> None:
    program_from_bytes(path.read_bytes())


def _mutate_head(data: bytes, rng: Random) -> bytes:
    """Damage the JSON header of a program or of safetensors; the length of the header is updated."""
    skip = 8 if data[:3] == b"mxf" else 0
    end = skip + 8 + int.from_bytes(data[skip : skip + 8], "little")
    head = mutate_text_of_json(data[skip + 8 : end], rng)
    return data[:skip] + len(head).to_bytes(8, "little") + head + data[end:]


ONNX = mutate_bytes, mutated_onnx.mutate_model
BOTH = (mutate_bytes, mutate_text_of_json, mutate_text_of_json)


def formats(folder: Path) -> dict[str, Format]:
    """All formats by name, their samples in `folder`."""
    onnx = {
        "onnx": Format(tuple(mutated_onnx.samples(folder)), ONNX, mutated_onnx.read, (mx.MXNetError,)),
        "nodes": Format(
            tuple(mutated_onnx.samples(folder)), ONNX[1:], mutated_onnx.infer, (mx.MXNetError,), names_file=False
        ),
    }
    return {
        **(onnx if mutated_onnx.AVAILABLE else {}),
        "params": Format(tuple(_params(folder)), (mutate_bytes,), lambda p: mx.nd.load(str(p)), (mx.MXNetError,)),
        "npz": Format(tuple(_npz(folder)), (mutate_bytes,), read_npz, (ArtifactError,)),
        "npy": Format(tuple(_npy(folder)), (mutate_bytes,), read_npy, (ArtifactError,)),
        "safetensors": Format(
            tuple(_safetensors(folder)), (mutate_bytes, _mutate_head), read_safetensors, (ArtifactError,)
        ),
        "torch": Format(mutated_torch.SAMPLES, mutated_torch.MUTATIONS, read_torch, (ArtifactError,)),
        "symbol": Format(tuple(_symbols(folder)), BOTH, _read_symbol, (mx.MXNetError,)),
        "infer": Format(tuple(_symbols(folder)), (mutate_text_of_json,), _infer, (mx.MXNetError,), names_file=False),
        "states": Format(
            tuple(_states(folder)), (mutate_bytes, mutate_pickle), _read_states, (pickle.UnpicklingError,)
        ),
        "record": Format(tuple(_records(folder)), (mutate_bytes,), _read_records, (mx.MXNetError,)),
        "index": Format((folder / "x.idx",), (mutate_bytes,), _read_index, (mx.MXNetError,)),
        "folder": Format(tuple(_folders(folder)), BOTH, _read_folder, (CompiledFolderError,)),
        "signed": Format(tuple(_programs(folder)), (mutate_bytes, _mutate_head), _read_folder, (CompiledFolderError,)),
        "shapes": Format(tuple(_shapes(folder)), BOTH, _read_folder, (CompiledFolderError,)),
        "tables": Format(
            tuple(_shapes(folder)[1:]), (mutate_bytes, _mutate_head), _read_tables, (ManifestError,), names_file=False
        ),
        "tuning": Format(tuple(_tunings(folder)), BOTH, read_tables, (TuningError,)),
        "model": Format(tuple(_models(folder)), (mutate_text_of_json,), _read_model, (ValueError, AssertionError)),
        "program": Format(
            tuple(_programs(folder)), (mutate_bytes, _mutate_head), _read_program, (ManifestError,), names_file=False
        ),
    }


# --- cases ------------------------------------------------------------------------------------------------------------


class TooSlow(BaseException):
    """A read took too long. Readers do not catch it, since it is a BaseException."""


@contextmanager
def _limited() -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooSlow(f"more than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def damaged(name: str, kind: Format, number: int, folder: Path) -> Path:
    """Write the file of a case into `folder`, with the other files of its sample's folder."""
    rng = random.Random(f"{name} {number}")
    sample = rng.choice(kind.samples)
    mutate = rng.choice(kind.mutations)
    data = sample.read_bytes()
    if mutate is mutate_text_of_json and sample.suffix != ".json":
        mutate = mutate_bytes
    shutil.rmtree(folder, ignore_errors=True)
    if name in ("folder", "signed", "index", "model"):
        shutil.copytree(sample.parent, folder, ignore=shutil.ignore_patterns("case", "compiled"))
    folder.mkdir(exist_ok=True)
    path = folder / sample.name
    path.write_bytes(mutate(data, rng))
    if name == "signed":
        _sign(path)
    return path


def check_read(kind: Format, path: Path) -> tuple[str, str]:
    """The outcome of a read ("read", "refused" or "wrong"), and the problem or ""."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with _limited():
            kind.read(path)
        outcome, wrong = "read", ""
    except kind.errors as error:
        names = str(path) in str(error) or str(path.parent) in str(error)
        outcome = "refused"
        wrong = "" if names or not kind.names_file else f"the error does not name the file: {error}"
        wrong = wrong or ("allow_pickle is advised" if "allow_pickle" in str(error) else "")
    except (Exception, TooSlow):
        outcome, wrong = "wrong", traceback.format_exc()
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    return outcome, wrong or (f"{grown >> 20} MiB of memory" if grown > _MEMORY else "")


def run(names: Sequence[str], first: int, count: int, keep: Path | None = None) -> int:
    """Run `count` cases of each format; returns the number of failures."""
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="mutated-") as made:
        known = formats(Path(made))
        for name in names or known:
            begin, outcomes = time.perf_counter(), Counter[str]()
            for number in range(first, first + count):
                path = damaged(name, known[name], number, Path(made) / "case")
                outcome, problem = check_read(known[name], path)
                outcomes[outcome] += 1
                if problem:
                    wrong += 1
                    print(f"{name} {number}: {problem}\n  again: --format {name} --first {number} --cases 1")
                if keep is not None:
                    shutil.copytree(path.parent, keep / f"{name}-{number}", dirs_exist_ok=True)
            print(f"{name}: {dict(sorted(outcomes.items()))} in {time.perf_counter() - begin:.1f} s", flush=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--cases", type=int, default=1000, help="of each format (default 1000)")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case (default 0)")
    parser.add_argument("--format", action="append", default=[], help="only this one; may be given several times")
    parser.add_argument("--keep", type=Path, help="a folder that receives the damaged files")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    warnings.simplefilter("ignore")
    wrong = run(options.format, options.first, options.cases, options.keep)
    print(f"{wrong} cases went wrong" if wrong else "every read ended as it should")
    return 1 if wrong else 0


if __name__ == "__main__":
    os.environ.setdefault("MXFORGE_CACHE", "0")
    sys.exit(main())
