"""Compiled folders: they are written atomically, run without a compiler, and are refused if invalid."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.base import MXNetError
from mxforge.runtime import compiled_folder, compiled_shapes
from mxforge.runtime.compiled_folder import CompiledFolderError, StoredModel, write_folder
from mxforge.runtime.devices import HOST
from mxforge.runtime.host.machine import host_target
from mxforge.runtime.host.requirements import requirements
from mxforge.tools.main import main

FIXTURES = Path(__file__).resolve().parents[1] / "data" / "fixtures"
SHAPES = {"convnet": "data=2,3,32,32", "mlp": "data=64,12", "tagger": "data=9,3"}

START = """
import json, sys
import numpy as np
import mxforge as mx
model = mx.load_compiled(sys.argv[1])
y = model(np.load(sys.argv[2]))
np.save(sys.argv[3], y[0])
print(json.dumps([type(y[0]).__name__, sorted(sys.modules)]))
"""


def compile_model(name: str, folder: Path) -> Path:
    assert main(["compile", str(FIXTURES / name), "-o", str(folder), "--input-shape", SHAPES[name]]) == 0
    return folder


def stored_model(folder: Path) -> StoredModel:
    stored = compiled_shapes.read_folder(folder)
    assert isinstance(stored, StoredModel)
    return stored


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_model("convnet", tmp_path_factory.mktemp("models") / "convnet")


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """A copy of the folder, which tests can damage."""
    made = tmp_path / "copy"
    made.mkdir()
    for file in folder.iterdir():
        (made / file.name).write_bytes(file.read_bytes())
    return made


@pytest.mark.parametrize("name", sorted(SHAPES))
def test_results_agree_with_mxnets(tmp_path: Path, name: str) -> None:
    model = mx.load_compiled(compile_model(name, tmp_path / name))
    arrays = np.load(FIXTURES / f"{name}.npz")
    label = [np.zeros(a.type.shape) for a in model.inputs[1:]]
    (y,) = model(arrays["x0"], *label)
    assert np.abs(y - arrays["y0"]).max() <= 1e-5 * np.abs(arrays["y0"]).max()


def test_starts_without_a_compiler(folder: Path, tmp_path: Path) -> None:
    arrays = np.load(FIXTURES / "convnet.npz")
    np.save(tmp_path / "x.npy", arrays["x0"])
    files = [str(folder), str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    done = subprocess.run([sys.executable, "-c", START, *files], capture_output=True, check=True)
    kind, modules = json.loads(done.stdout)
    assert kind == "ndarray"
    assert "llvmlite" not in modules
    assert not [m for m in modules if m.startswith(("mxforge.passes", "mxforge.ir.dialects", "mxforge.codegen.driver"))]
    y = np.load(tmp_path / "y.npy")
    assert np.abs(y - arrays["y0"]).max() <= 1e-5 * np.abs(arrays["y0"]).max()


def test_no_compile_cache_is_needed(folder: Path, tmp_path: Path) -> None:
    """As in a container whose disk is read-only, where warnings are errors."""
    (tmp_path / "file").touch()
    np.save(tmp_path / "x.npy", np.load(FIXTURES / "convnet.npz")["x0"])
    environment = {**os.environ, "MXFORGE_CACHE": "1", "MXFORGE_CACHE_DIR": str(tmp_path / "file" / "cache")}
    files = [str(folder), str(tmp_path / "x.npy"), str(tmp_path / "y.npy")]
    for command in (["-c", START, *files], ["-m", "mxforge", "run", files[0], "--input", files[1]]):
        call = [sys.executable, "-W", "error", *command]
        done = subprocess.run(call, capture_output=True, check=False, env=environment)
        assert done.returncode == 0 and done.stderr == b"", done.stderr


def test_a_folder_runs_whatever_compiles_other_programs(folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.load(FIXTURES / "convnet.npz")["x0"])
    command = [sys.executable, "-m", "mxforge", "run", str(folder), "--input", str(tmp_path / "x.npy")]
    environments = [{**os.environ, "MXFORGE_TARGET": target} for target in ("cpu", "mlir")]
    done = [subprocess.run(command, capture_output=True, check=True, env=e) for e in environments]
    top = [call.stdout.partition(b"first run")[0] for call in done]
    assert top[0] and top[0] == top[1]


def test_the_object_describes_its_inputs(folder: Path) -> None:
    model = mx.load_compiled(folder)
    assert model.input_names == ("data",)
    assert model.inputs[0].type.shape == (2, 3, 32, 32)
    assert model.output_names == ("convnet_dense0_fwd_output",)
    assert "data: f32[2, 3, 32, 32]" in repr(model)


def test_inputs_by_name(folder: Path) -> None:
    model = mx.load_compiled(folder)
    x = np.random.default_rng(0).standard_normal(model.inputs[0].shape).astype(model.inputs[0].dtype)
    np.testing.assert_array_equal(model(x)[0], model(data=x)[0])
    with pytest.raises(MXNetError, match=r"'dta' is unknown\. Did you mean 'data'"):
        model(dta=x)
    with pytest.raises(MXNetError, match="'data' is given twice"):
        model(x, data=x)


def test_arrays_of_both_kinds(folder: Path) -> None:
    model = mx.load_compiled(folder)
    x = np.random.default_rng(0).standard_normal((2, 3, 32, 32))
    (plain,) = model(x)
    (array,) = model(mx.nd.array(x, dtype="float32"))
    assert isinstance(plain, np.ndarray) and isinstance(array, mx.nd.NDArray)
    np.testing.assert_array_equal(plain, array.asnumpy())
    np.testing.assert_array_equal(plain, model(x.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2))[0])
    with pytest.raises(MXNetError, match="takes 1 inputs"):
        model(x, x)
    with pytest.raises(MXNetError, match=r"has shape \(2, 3, 32, 32\)"):
        model(x[:1])


def test_parameters_that_are_outputs(tmp_path: Path) -> None:
    """One output is a parameter, one is a constant, and one contains random numbers."""
    x: Any = mx.sym.var("data")
    w: Any = mx.sym.var("weight")
    symbol = mx.sym.Group([x + w, w * 2, mx.sym.identity(w), mx.sym.random.uniform(shape=(3,))])
    symbol.save(str(tmp_path / "small-symbol.json"))
    weight = np.arange(3, dtype=np.float32)
    mx.nd.save(str(tmp_path / "small-0000.params"), {"arg:weight": mx.nd.array(weight)})
    folder = tmp_path / "compiled"
    assert main(["compile", str(tmp_path / "small"), "-o", str(folder), "--input-shape", "data=3"]) == 0
    model = mx.load_compiled(folder)
    first, second = (model(np.ones(3, np.float32)) for _ in range(2))
    np.testing.assert_array_equal(first[0], weight + 1)
    np.testing.assert_array_equal(first[1], weight * 2)
    np.testing.assert_array_equal(first[2], weight)
    assert not np.array_equal(first[3], second[3])


# Damage.

Change = Callable[[dict[str, Any]], Any]


def edit(folder: Path, change: Change) -> None:
    path = folder / compiled_folder.MANIFEST
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(compiled_folder.sealed(manifest)))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda m: m.update(version=99), "compile the model again"),
        (lambda m: m.update(format="other"), "not the manifest"),
        (lambda m: m["machine"].update(features="+avx,+quantum"), "needs quantum"),
        (lambda m: m["machine"].update(triple="aarch64-unknown-linux-gnu"), "compiled for 'aarch64"),
        (lambda m: m["machine"].update(threads=-1), "-1 threads"),
        (lambda m: m.pop("machine"), "damaged"),
        (lambda m: m.update(inputs=3), "damaged"),
        (lambda m: m["inputs"][0].update(shape=[2, 3, 32, 33]), "do not agree"),
        (lambda m: m["inputs"][0].update(shape=[-2]), "damaged"),
        (lambda m: m["inputs"][0].update(dtype="f31"), "damaged"),
        (lambda m: m.update(outputs=[]), "do not agree"),
        (lambda m: m["files"]["memory.bin"].update(bytes=5), "instead of 5"),
        (lambda m: m["files"].pop("program.bin"), "damaged"),
    ],
)
def test_an_inconsistent_manifest(copy: Path, change: Change, text: str) -> None:
    edit(copy, change)
    with pytest.raises(CompiledFolderError, match=text):
        mx.load_compiled(copy)


@pytest.mark.parametrize("file", ["program.bin", "memory.bin"])
def test_files_cut_short_or_missing(copy: Path, file: str) -> None:
    data = (copy / file).read_bytes()
    (copy / file).write_bytes(data[:-1])
    with pytest.raises(CompiledFolderError, match="damaged"):
        mx.load_compiled(copy)
    (copy / file).unlink()
    with pytest.raises(CompiledFolderError, match="missing"):
        mx.load_compiled(copy)


@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("file", ["program.bin", "memory.bin"])
def test_flipped_bits(copy: Path, file: str, place: float) -> None:
    data = bytearray((copy / file).read_bytes())
    data[int(place * (len(data) - 1))] ^= 64
    (copy / file).write_bytes(data)
    with pytest.raises(CompiledFolderError, match=f"{file}: its checksum does not match: the file is damaged"):
        mx.load_compiled(copy)


def test_flipped_bits_in_the_manifest(copy: Path) -> None:
    """Bits in names, numbers and checksums."""
    file = copy / compiled_folder.MANIFEST
    good = file.read_bytes()
    meaning = json.loads(good)
    for at in range(len(good)):
        damaged = good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]
        file.write_bytes(damaged)
        try:
            mx.load_compiled(copy)
        except CompiledFolderError as error:
            assert compiled_folder.MANIFEST in str(error)
        else:
            assert json.loads(damaged) == meaning


def test_a_missing_folder(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("[" * 100_000)
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(CompiledFolderError):
            mx.load_compiled(path)


# Writing.


KILLED = """
import os, shutil, signal, sys
from mxforge.runtime import compiled_folder, compiled_shapes
from mxforge.runtime.devices import HOST
stored = compiled_shapes.read_folder(sys.argv[1])
def kill(*args, **options):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(shutil if sys.argv[3] == "rmtree" else compiled_folder, sys.argv[3], kill)
compiled_folder.write_folder(sys.argv[2], stored, HOST.requirements(), replace_existing=True)
"""


@pytest.mark.parametrize("step", ["_write", "_put_in_place", "rmtree"])
def test_a_killed_process_leaves_a_whole_model(folder: Path, tmp_path: Path, step: str) -> None:
    """Killed during writing, before the folders are swapped, and after; then the old folder is left over."""
    made = tmp_path / "made"
    write_folder(made, stored_model(folder), HOST.requirements())
    call = [sys.executable, "-c", KILLED, folder, made, step]
    assert subprocess.run(call, check=False).returncode == -9
    assert len(list(tmp_path.iterdir())) == 2
    mx.load_compiled(made)
    write_folder(made, stored_model(folder), HOST.requirements(), replace_existing=True)
    assert [p.name for p in tmp_path.iterdir()] == ["made"]
    mx.load_compiled(made)


def test_a_failed_write_leaves_the_old_model(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = stored_model(folder)
    target = replace(host_target(), threads=2)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(compiled_folder, "_put_in_place", fail)
        with pytest.raises(OSError, match="No space"):
            write_folder(tmp_path / "made", stored, requirements(target))
    assert list(tmp_path.iterdir()) == []
    write_folder(tmp_path / "made", stored, requirements(target))
    with pytest.raises(CompiledFolderError, match="already exists"):
        write_folder(tmp_path / "made", stored, requirements(target))
    write_folder(tmp_path / "made", stored, requirements(target), replace_existing=True)
    assert [p.name for p in tmp_path.iterdir()] == ["made"]
    mx.load_compiled(tmp_path / "made")


def test_other_folders_are_never_replaced(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("data")
    stored = stored_model(folder)
    with pytest.raises(CompiledFolderError, match="is not a compiled model"):
        write_folder(tmp_path, stored, HOST.requirements(), replace_existing=True)
    assert (tmp_path / "precious").read_text() == "data"
