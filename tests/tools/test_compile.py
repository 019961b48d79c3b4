"""`mxforge compile`: its output, its errors, and that `run` accepts the folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.runtime.host.threads import get_num_threads, get_pool

from .conftest import FIXTURES

SHAPE = ("--input-shape", "data=2,3,32,32")


def test_a_folder_runs_like_the_model(mxforge: Any, convnet: Path, compiled: Path, tmp_path: Path) -> None:
    outputs = [tmp_path / "model.npy", tmp_path / "folder.npy"]
    for model, output in zip((convnet, compiled), outputs, strict=True):
        done = mxforge("run", model, "--input", FIXTURES / "convnet.npz", "--output", output)
        assert done.status == 0, done.err
    np.testing.assert_array_equal(*map(np.load, outputs))


def test_existing_folders_are_kept(mxforge: Any, convnet: Path, compiled: Path, tmp_path: Path) -> None:
    done = mxforge("compile", convnet, "-o", compiled, *SHAPE)
    assert done.status == 1
    assert "already exists" in done.err
    done = mxforge("compile", convnet, "-o", compiled, *SHAPE, "--force")
    assert done.status == 0
    assert f"compiled convnet to {compiled}" in done.out
    assert mxforge("compile", convnet, "-o", tmp_path, *SHAPE, "--force").status == 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["compiled"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run", "FOLDER", "--epoch", "1", "--input", "x.npy"], "omit --epoch"),
        (["run", "FOLDER", "--target", "reference"], "code for a CPU, and the target is 'reference'"),
        (["run", "FOLDER", "--input-shape", "data=2,3,32,32"], "omit --input-shape"),
        (["compile", "FOLDER", "-o", "other"], "already compiled"),
    ],
)
def test_invalid_options(mxforge: Any, compiled: Path, arguments: list[str], text: str) -> None:
    done = mxforge(*[compiled if a == "FOLDER" else a for a in arguments])
    assert done.status == 2
    assert text in done.err and done.err.count("\n") == 1


def test_shapes_of_a_folder_are_fixed(mxforge: Any, compiled: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 32, 32), np.float32))
    done = mxforge("run", compiled, "--input", tmp_path / "x.npy")
    assert done.status == 1
    assert "has shape (2, 3, 32, 32), not (1, 3, 32, 32)" in done.err


def test_code_for_an_older_processor(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    done = mxforge("compile", convnet, "-o", tmp_path / "v3", *SHAPE, "--target", "x86-64-v3")
    assert done.status == 0, done.err
    machine = json.loads((tmp_path / "v3" / "manifest.json").read_text())["machine"]
    assert machine["cpu"] == "x86-64-v3"
    assert "avx512" not in machine["features"]
    assert mxforge("run", tmp_path / "v3", "--input", convnet.with_suffix(".npz")).status == 0


def test_code_of_upstream_mlir(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is not installed")
    done = mxforge("compile", convnet, "-o", tmp_path / "net", *SHAPE, "--target", "mlir")
    assert done.status == 0 and "(1 launch," in done.out, done.err
    found = mx.load_compiled(tmp_path / "net")(np.load(convnet.with_suffix(".npz"))["x0"])
    for target in ("inspect", "run", "profile"):
        assert mxforge(target, tmp_path / "net", "--target", "mlir").status == 2
    mxforge("compile", convnet, "-o", tmp_path / "other", *SHAPE, "--target", "x86-64-v3")
    (expected,) = mx.load_compiled(tmp_path / "other")(np.load(convnet.with_suffix(".npz"))["x0"])
    np.testing.assert_allclose(found[0], expected, 1e-4, 1e-5)


def test_no_more_threads_than_the_code_has_room_for(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    assert mxforge("compile", convnet, "-o", tmp_path / "one", *SHAPE, "--threads", "1").status == 0
    get_pool().resize(2)
    mx.load_compiled(tmp_path / "one")
    assert get_num_threads() == 1


def test_models_that_onednn_fused_are_compiled(mxforge: Any, tmp_path: Path) -> None:
    fused = FIXTURES.parent / "fused" / "exported"
    with np.load(f"{fused}.npz") as values:
        data, expected = values["data"], values["output0"]
    np.save(tmp_path / "data.npy", data)
    folder, unfused = tmp_path / "folder", tmp_path / "net-symbol.json"
    assert mxforge("compile", fused, "-o", folder, "--input-shape", "data=2,3,8,8").status == 0
    assert mxforge("convert", f"{fused}-symbol.json", unfused).status == 0
    parameters = ("--params", f"{fused}-0000.params")
    for model in ((folder,), (f"{fused}-symbol.json", *parameters), (unfused, *parameters)):
        output = tmp_path / "output.npy"
        done = mxforge("run", *model, "--input", tmp_path / "data.npy", "--output", output)
        assert done.status == 0, done.err
        np.testing.assert_allclose(np.load(output), expected, rtol=1e-5, atol=1e-6)
