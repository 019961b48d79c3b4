"""`--weights bf16`: the commands that take it, the error that `compile` reports, and wrong uses."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.tools.bench import command
from mxforge.tools.bench.engines import Mxforge
from mxforge.tools.bench.measure import Figures, Outcome, Participant
from mxforge.tools.differences import difference

from .conftest import FIXTURES

SHAPE = ("--input-shape", "data=2,3,32,32")
INPUT = ("--input", FIXTURES / "convnet.npz")
BF16 = ("--weights", "bf16")


def result(command: Any, file: Path, *arguments: Any) -> np.ndarray:
    done = command("run", *arguments, *INPUT, "--output", file)
    assert done.status == 0, done.err
    return np.load(file)


def test_a_folder_has_the_bits_of_run_and_of_hybridize(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    done = mxforge("compile", convnet, "-o", folder, *INPUT, *BF16)
    assert done.status == 0, done.err
    found = result(mxforge, tmp_path / "folder.npy", folder)
    np.testing.assert_array_equal(found, result(mxforge, tmp_path / "run.npy", convnet, *BF16))
    block = mx.gluon.SymbolBlock.imports(f"{convnet}-symbol.json", ["data"], f"{convnet}-0000.params")
    block.hybridize(weights="bfloat16")
    x = mx.nd.array(np.load(FIXTURES / "convnet.npz")["x0"])
    np.testing.assert_array_equal(found, block(x).asnumpy())
    exact = result(mxforge, tmp_path / "exact.npy", convnet, "--weights", "f32")
    np.testing.assert_array_equal(exact, result(mxforge, tmp_path / "default.npy", convnet))
    reported = re.fullmatch(
        r"compiled .*\nweights in bf16: on the given inputs the outputs differ by (.*) of their largest element\n",
        done.out,
    )
    assert reported
    expected = float(np.abs(found - exact).max() / np.abs(exact).max())
    assert float(reported[1]) == pytest.approx(expected, rel=0.1) and 1e-5 < expected < 2e-2


def test_random_inputs_without_any(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    done = mxforge("compile", convnet, "-o", tmp_path / "folder", *SHAPE, *BF16)
    assert done.status == 0 and "\nweights in bf16: on random inputs the outputs differ by " in done.out
    assert "weights" not in mxforge("compile", convnet, "-o", tmp_path / "exact", *SHAPE).out


def test_inputs_give_the_shapes_of_a_folder(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    assert mxforge("compile", convnet, "-o", tmp_path / "folder", *INPUT).status == 0
    assert mx.load_compiled(tmp_path / "folder").inputs[0].shape == (2, 3, 32, 32)


def test_the_reference_target_rounds_too(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    ours = result(mxforge, tmp_path / "cpu.npy", convnet, *BF16)
    meant = result(mxforge, tmp_path / "reference.npy", convnet, *BF16, "--target", "reference")
    np.testing.assert_allclose(ours, meant, rtol=1e-4, atol=1e-6)
    assert np.abs(ours - result(mxforge, tmp_path / "exact.npy", convnet)).max() > 1e-5


def test_inspect(mxforge: Any, convnet: Path) -> None:
    def prepared(*options: str) -> int:
        return json.loads(mxforge("inspect", convnet, *SHAPE, *options, "--json").out)["memory"]["prepared"]

    assert prepared(*BF16) < prepared("--weights", "f32") == prepared()


def test_bench_compares_with_exact_peers(mxforge: Any, convnet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Participant] = []

    def measure(participants: Sequence[Participant], *_: object) -> Outcome:
        seen.extend(participants)
        figures = [Figures(p.engine, "1", "3", 0.1, 0.1, difference=0.04, samples=[1.0]) for p in participants]
        return Outcome(figures, ())

    monkeypatch.setattr(command, "measure", measure)
    options = ("bench", convnet, *SHAPE, "--threads", "1", "--against", "mxforge")
    done = mxforge(*options, *BF16)
    assert done.status == 0 and done.out.startswith(
        "convnet, weights of mxforge in bf16: data (2, 3, 32, 32); 1 thread"
    )
    assert mxforge(*options, *BF16, "--tolerance", "0.01").status == 1
    assert mxforge(*options).status == 1
    ours, peer, *_ = (Mxforge("mxforge").load(p.spec, [np.ones((2, 3, 32, 32), np.float32)]) for p in seen)
    for program in (ours, peer):
        program.run(1)
    assert 1e-5 < difference(ours.outputs(), peer.outputs(), "mxforge") < 2e-2


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["run", "MODEL", *BF16[:1], "bf61"], "'bf61' is not one of f32, bf16. Did you mean 'bf16'?"),
        (["compile", "MODEL", "-o", "x", "--weights", "f16"], "'f16' is not one of f32, bf16. Did you mean 'bf16'?"),
        (["run", "FOLDER", *BF16], "omit --weights"),
        (["inspect", "FOLDER", *BF16], "omit --weights"),
        (["profile", "FOLDER", *BF16], "omit --weights"),
        (["bench", "FOLDER", *BF16], "omit --weights"),
        (["bench", "--suite", "mlp", *BF16], "omit --weights"),
        (["compile", "FOLDER", "-o", "x", *BF16], "already compiled"),
    ],
)
def test_wrong_uses(mxforge: Any, convnet: Path, compiled: Path, arguments: list[str], text: str) -> None:
    places = {"MODEL": convnet, "FOLDER": compiled}
    done = mxforge(*(places.get(a, a) for a in arguments))
    assert done.status == 2 and done.err.startswith("mxforge: error: ")
    assert text in done.err and done.err.count("\n") == 1
