"""StableHLO files as models of the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mxforge.runtime import stablehlo

pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is not installed")

MODULES = Path(__file__).resolve().parents[1] / "data" / "jax_modules"
RECURRENT, BATCHES = MODULES / "recurrent.mlir", MODULES / "convolutional.mlirbc"


def known(path: Path) -> tuple[dict[str, Any], list[Any]]:
    """The inputs and the results that JAX computed."""
    arrays = dict(np.load(path.with_suffix(".npz")))
    results = [arrays.pop(name) for name in sorted(n for n in arrays if n.startswith("result"))]
    return arrays, results


def test_run(mxforge: Any, tmp_path: Path) -> None:
    inputs, expected = known(RECURRENT)
    np.savez(tmp_path / "in.npz", **inputs)
    done = mxforge("run", RECURRENT, "--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz", "--json")
    assert done.status == 0, done.err
    report = json.loads(done.out)
    assert report["target"] == "mlir" and [x["name"] for x in report["outputs"]] == ["result0", "result1"]
    for ours, theirs in zip(np.load(tmp_path / "out.npz").values(), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-5, 1e-6)


def test_programs_are_in_the_disk_cache(mxforge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = "--input-shape", "argument0=2,8,8,3"
    assert mxforge("run", BATCHES, *shape).status == 0

    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(stablehlo.subprocess, "run", refuse)
    assert mxforge("run", BATCHES, *shape).status == 0
    with pytest.raises(AssertionError, match="compiled again"):
        mxforge("run", BATCHES, "--input-shape", "argument0=1,8,8,3", "--traceback")


def test_a_compiled_folder(mxforge: Any, tmp_path: Path) -> None:
    (data,), expected = (list(x.values()) if isinstance(x, dict) else x for x in known(BATCHES))
    shape = "--input-shape", "argument0=3,8,8,3"
    assert mxforge("compile", BATCHES, "-o", tmp_path / "folder", *shape).status == 0
    np.save(tmp_path / "in.npy", data)
    done = mxforge("run", tmp_path / "folder", "--input", tmp_path / "in.npy", "--output", tmp_path / "out.npy")
    assert done.status == 0, done.err
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected[0], 1e-4, 1e-5)


def test_inspect_and_profile(mxforge: Any, tmp_path: Path) -> None:
    done = mxforge("inspect", RECURRENT, "--json", "--profile", "--dump", tmp_path / "stages")
    assert done.status == 0, done.err
    report = json.loads(done.out)
    assert [x["name"] for x in report["inputs"]] == ["words", "inner", "state"]
    assert [x["kind"] for x in report["launches"]] == ["module"] and report["profiled_seconds"] > 0
    assert any(path.name.endswith("linalg.mlir") for path in (tmp_path / "stages").iterdir())
    done = mxforge("profile", RECURRENT, "--json", "--repeat", "2")
    assert done.status == 0 and json.loads(done.out)["runs"] == 2, done.err


def test_bench(mxforge: Any) -> None:
    done = mxforge("bench", RECURRENT, "--json", "--repeat", "1")
    assert done.status == 0, done.err


def test_what_convert_wrote(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    """A model as one module for all batch sizes runs as the model does."""
    shape = "--input-shape", "data=1,3,16,16"
    assert mxforge("convert", convnet, tmp_path / "net.mlirbc", *shape, "--dynamic-batch").status == 0
    data = np.random.default_rng(0).standard_normal((2, 3, 16, 16)).astype(np.float32)
    np.save(tmp_path / "data.npy", data)
    given = "--input", f"data={tmp_path / 'data.npy'}"
    assert mxforge("run", convnet, *given, "--output", tmp_path / "ours.npy").status == 0
    done = mxforge(
        *("run", tmp_path / "net.mlirbc", *given, "--input-shape", "data=2,3,16,16", "--output", tmp_path / "out.npy")
    )
    assert done.status == 0, done.err
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), np.load(tmp_path / "ours.npy"), 1e-4, 1e-5)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("run", "FILE", "--input-shape", "words=1,2,8"), 1, r"does not fit the argument 'words'"),
        (("run", "FILE", "--input-shape", "word=1,2,8"), 1, r"no argument 'word'; it has words, inner, state"),
        (("run", "FILE", "--input-shape", "words=4,2,8:float16"), 2, "the dtype of 'words' is fixed"),
        (("run", "FILE", "--weights", "bf16"), 2, "omit --weights"),
        (("run", "FILE", "--epoch", "1"), 2, "omit --epoch"),
        (("run", "FILE", "--target", "reference"), 2, "runs on the target mlir"),
        (("run", BATCHES), 1, "pass its shape, argument0=D,8,8,3"),
        (("bisect", "FILE"), 2, "a StableHLO file has no graph"),
        (("tune", "FILE"), 2, "a StableHLO file has no schedules"),
        (("profile", "FILE", "--plot", "a.png"), 2, "a StableHLO file does not contain the work"),
        (("run", "missing.mlir"), 1, "no such file"),
    ],
)
def test_mistakes(mxforge: Any, arguments: tuple[Any, ...], status: int, message: str) -> None:
    done = mxforge(*(RECURRENT if a == "FILE" else a for a in arguments))
    assert done.status == status and message in done.err, done.err
