"""Wrong arguments, files and surroundings: each gives one line that names what is wrong, and the documented status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mxforge.ir.file_errors import names_file

from .conftest import FIXTURES

X = np.load(FIXTURES / "convnet.npz")["x0"]


def refused(done: Any, status: int, *texts: str) -> None:
    assert done.status == status, done.err
    assert done.err.startswith("mxforge: error: ") and done.err.count("\n") == 1, done.err
    for text in texts:
        assert text in done.err


@pytest.mark.parametrize("command", ["run", "inspect", "profile", "tune", "compile", "bench"])
def test_damaged_onnx_files_are_refused(mxforge: Any, tmp_path: Path, command: str) -> None:
    pytest.importorskip("onnx")
    path = tmp_path / "x.onnx"
    path.write_bytes(b"\x08\x07\x93")
    more = ["-o", tmp_path / "out"] if command == "compile" else []
    refused(mxforge(command, path, *more), 1, "x.onnx", "not an ONNX model")


@pytest.mark.parametrize("target", ["y.json", "y.params", "y.onnx"])
def test_damaged_onnx_files_are_not_converted(mxforge: Any, tmp_path: Path, target: str) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(b"\x08\x07\x93")
    refused(mxforge("convert", path, tmp_path / target), 1, "x.onnx", "not an ONNX model")
    assert not (tmp_path / target).exists()


@pytest.mark.parametrize("target", ["y.json", "y.params", "y.npz", "y.onnx"])
def test_folders_are_not_converted(mxforge: Any, tmp_path: Path, compiled: Path, target: str) -> None:
    refused(
        mxforge("convert", compiled, tmp_path / target),
        2,
        f"{compiled}: is a {'folder' if target in ('y.params', 'y.npz') else 'compiled folder'}",
    )


@pytest.mark.parametrize("option", [["--epoch", "1"], ["--params", "x"], ["--allow-missing"], ["--verify"]])
def test_options_of_onnx_files_are_refused_for_others(mxforge: Any, tmp_path: Path, option: list[str]) -> None:
    done = mxforge("convert", FIXTURES / "convnet-0000.params", tmp_path / "y.npz", *option)
    refused(done, 2, f"{option[0]} is only for .onnx")


def test_a_prefix_is_converted_to_a_symbol(mxforge: Any, tmp_path: Path) -> None:
    done = mxforge("convert", FIXTURES / "convnet", tmp_path / "y.json")
    assert done.status == 0 and json.loads((tmp_path / "y.json").read_text())["nodes"]


def test_an_array_of_an_archive_for_one_input(mxforge: Any, tmp_path: Path) -> None:
    for name, arrays in {"only": {"a": X}, "named": {"data": X, "b": X[:1]}, "other": {"a": X, "b": X}}.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)
    for name in ("only", "named"):
        out = tmp_path / f"{name}.npy"
        done = mxforge("run", FIXTURES / "convnet", "--input", f"data={tmp_path / name}.npz", "--output", out)
        assert done.status == 0, done.err
        assert np.abs(np.load(out) - np.load(FIXTURES / "convnet.npz")["y0"]).max() < 1e-5
    done = mxforge("run", FIXTURES / "convnet", "--input", f"data={tmp_path / 'other.npz'}")
    refused(done, 1, "contains a, b, and none is 'data'")


def test_arrays_that_no_input_takes_are_named(mxforge: Any, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", data=X, labels=np.zeros(2))
    done = mxforge("run", FIXTURES / "convnet", "--input", tmp_path / "x.npz")
    assert done.status == 0
    assert "x.npz: not read, because no input of the model has the name: labels" in done.err


def test_results_are_not_written_to_stdout(mxforge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shape = ["--input-shape", "data=2,3,32,32"]
    refused(mxforge("run", FIXTURES / "convnet", *shape, "--output", "-"), 2, "--json")
    refused(mxforge("compile", FIXTURES / "convnet", *shape, "-o", "-"), 2, "name of a folder")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        (["data=2,3,32,32:int99"], ["'int99' is no dtype of input 'data'", "Did you mean 'int8'?"]),
        (["data=2,3,32,32:flot32"], ["Did you mean 'float32'?"]),
        (["data=2,3,32,32", "label=2,x"], ["'label=2,x' is not NAME=D,D,..."]),
        (["data=2x3,32"], ["'data=2x3,32' is not NAME=D,D,..."]),
        (["data=2,3,32,32", "dat=2"], ["the model has no input 'dat'"]),
    ],
)
def test_wrong_shapes(mxforge: Any, given: list[str], texts: list[str]) -> None:
    refused(mxforge("inspect", FIXTURES / "convnet", "--input-shape", *given), 2, *texts)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--input-shape", "a=1,3", "b=2x3:float16", "MODEL"],
        ["--input-shape=a=1,3", "b=2,3:float16", "MODEL"],
        ["MODEL", "--input-shape", "a=1x3", "--input-shape", "b=2,3:float16"],
    ],
    ids=" ".join,
)
def test_several_shapes_follow_one_option(arguments: list[str]) -> None:
    from mxforge.tools.grammar import parse

    options = parse(["inspect", *arguments])
    assert options.shapes == {"a": ((1, 3), None), "b": ((2, 3), "float16")} and options.model == "MODEL"


def test_unknown_options_name_the_command_and_the_nearest_option(mxforge: Any) -> None:
    refused(mxforge("run", "model", "--outptu", "y"), 2, "Did you mean '--output'?", "(see mxforge run --help)")


def test_every_kind_of_time_is_printed_as_json(mxforge: Any) -> None:
    shape = ["--input-shape", "data=2,3,32,32"]
    report = json.loads(mxforge("run", FIXTURES / "convnet", *shape, "--repeat", "5", "--json").out)
    seconds, samples = report["seconds"], report["samples"]
    assert list(seconds) == ["min", "mean", "p50", "p90", "p99"] and len(samples) == report["runs"] == 5
    assert seconds["min"] == min(samples) and seconds["mean"] == pytest.approx(sum(samples) / 5)


def test_compile_prints_json(mxforge: Any, tmp_path: Path) -> None:
    out, shape = tmp_path / "out", ["--input-shape", "data=2,3,32,32"]
    report = json.loads(mxforge("compile", FIXTURES / "convnet", *shape, "-o", out, "--json", "--weights", "bf16").out)
    assert (report["model"], report["folder"]) == ("convnet", str(out)) and report["launches"] > 0
    assert report["rounding"]["inputs"] == "random" and 0 < report["rounding"]["difference"] < 5e-2


def run_with(streams: str, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    """The command line in a shell that redirects its streams."""
    words = [sys.executable, "-m", "mxforge", *map(str, arguments)]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    return subprocess.run(
        ["bash", "-c", f'"$@" {streams}', "bash", *words], capture_output=True, check=False, env=environment
    )


def test_closed_streams_are_not_used_for_files(tmp_path: Path) -> None:
    out = tmp_path / "y.npy"
    done = run_with(">&- 2>&-", "run", FIXTURES / "convnet", "--input", FIXTURES / "convnet.npz", "--output", out)
    assert done.returncode == 0
    assert np.load(out).shape == (2, 10)


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    done = run_with(">/dev/full", "help")
    assert done.returncode == 1
    assert done.stderr == b"mxforge: error: standard output: No space left on device\n"


def test_errors_of_writes_name_their_file() -> None:
    with pytest.raises(OSError, match=r"No space left.*'a\.bin'"), names_file("a.bin"):
        raise OSError(28, "No space left on device")
    with pytest.raises(OSError, match="'b'"), names_file("a"):
        raise OSError(28, "No space left on device", "b")


def test_a_full_disk_names_the_file_that_was_to_be_written(
    mxforge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    shape = ["--input-shape", "data=2,3,32,32"]
    for command in (
        ["convert", FIXTURES / "convnet-0000.params", tmp_path / "y.npz"],
        ["compile", FIXTURES / "convnet", *shape, "-o", tmp_path / "y.npz"],
        ["run", FIXTURES / "convnet", *shape, "--output", tmp_path / "y.npz"],
    ):
        assert f"{tmp_path / 'y.npz'}: No space left on device\n" in mxforge(*command).err
    assert not list(tmp_path.iterdir())


def test_a_missing_llvmlite_gives_advice() -> None:
    code = """
import sys
sys.modules["llvmlite"] = None
from mxforge.tools.main import main
sys.exit(main(sys.argv[1:]))
"""
    arguments = ["run", FIXTURES / "convnet", "--input-shape", "data=2,3,32,32"]
    environment = {**os.environ, "MXFORGE_CACHE": "0"}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=False, text=True, env=environment)
    assert done.returncode == 1
    assert "pip install llvmlite" in done.stderr and done.stderr.count("\n") == 1
