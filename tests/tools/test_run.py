"""`mxforge run` on MXNet's files: every form of model, input and output, against MXNet's results."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest

from .conftest import FIXTURES


def expected(name: str) -> np.ndarray:
    return np.load(FIXTURES / f"{name}.npz")["y0"]


def assert_close(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("name", ["convnet", "mlp", "tagger"])
@pytest.mark.parametrize("target", ["cpu", "mlir", "reference"])
def test_results_agree_with_mxnets(mxforge: Any, tmp_path: Path, name: str, target: str) -> None:
    if target == "mlir":
        pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is not installed")
    out = tmp_path / "y.npy"
    done = mxforge("run", FIXTURES / name, "--input", FIXTURES / f"{name}.npz", "--output", out, "--target", target)
    assert done.status == 0, done.err
    assert_close(np.load(out), expected(name))
    assert f"({target})" in done.out


def test_summary_shows_types_and_classes(mxforge: Any, tmp_path: Path) -> None:
    labels = tmp_path / "labels"
    labels.write_text("\n".join(f"class{i}" for i in range(10)))
    done = mxforge("run", FIXTURES / "convnet", "--input", FIXTURES / "convnet.npz", "--labels", labels)
    best = expected("convnet")[0].argmax()
    assert "float32 (2, 10)" in done.out
    lines = done.out.splitlines()
    assert lines[1:3] == ["  row 0", f"    class{best}  {expected('convnet')[0].max():.4g}"]
    assert sum("    class" in line for line in lines) == 2 * 5


@pytest.mark.parametrize("model", ["convnet", "convnet-symbol.json"])
def test_ways_to_name_model_and_input(mxforge: Any, tmp_path: Path, model: str) -> None:
    x = tmp_path / "a=b.npy"
    np.save(x, np.load(FIXTURES / "convnet.npz")["x0"].astype(np.float64))  # converted to float32
    for given in (f"data={x}", str(x)):
        params = FIXTURES / "convnet-0000.params"
        done = mxforge("run", FIXTURES / model, "--input", given, "--params", params, "--output", tmp_path / "y")
        assert done.status == 0, done.err
        assert_close(np.load(next((tmp_path / "y").iterdir())), expected("convnet"))


def test_an_archive_of_outputs(mxforge: Any, tmp_path: Path) -> None:
    out = tmp_path / "y.npz"
    assert (
        mxforge("run", FIXTURES / "mlp", "--epoch", "3", "--input", FIXTURES / "mlp.npz", "--output", out).status == 0
    )
    with np.load(out) as archive:
        assert archive.files == ["softmax_output"]
        assert_close(archive["softmax_output"], expected("mlp"))


def test_images_make_a_batch(mxforge: Any, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), np.uint8)
    paths = [tmp_path / f"{i}.png" for i in range(2)]
    for path, values in zip(paths, pixels, strict=True):
        image.fromarray(values).save(path)
    x = (pixels.transpose(0, 3, 1, 2).astype(np.float32) / 255 - 0.5) / np.array([1, 2, 4], np.float32).reshape(3, 1, 1)
    np.save(tmp_path / "x.npy", x)
    images = ["--input", paths[0], "--input", paths[1], "--mean", "0.5", "--std", "1,2,4"]
    assert mxforge("run", FIXTURES / "convnet", *images, "--output", tmp_path / "a.npy").status == 0
    assert (
        mxforge("run", FIXTURES / "convnet", "--input", tmp_path / "x.npy", "--output", tmp_path / "b.npy").status == 0
    )
    assert_close(np.load(tmp_path / "a.npy"), np.load(tmp_path / "b.npy"))
    image.new("L", (64, 48)).save(tmp_path / "grey.gif")
    resized = ["--input", paths[0], "--input", tmp_path / "grey.gif", "--size", "32"]
    assert mxforge("run", FIXTURES / "convnet", *resized).status == 0


def test_errors_name_the_problem(mxforge: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 32, 32), np.float32))
    np.save(tmp_path / "small.npy", np.zeros((1, 5, 32, 32), np.float32))
    np.save(tmp_path / "complex.npy", np.zeros((1, 3, 32, 32), np.complex64))
    (tmp_path / "text.npy").write_text("hello")
    np.savez(tmp_path / "other.npz", other=np.zeros(1))
    model, x = FIXTURES / "convnet", tmp_path / "x.npy"
    cases: list[tuple[list[Any], int, str]] = [
        ([], 2, "input 'data'"),
        (["--input", f"image={x}"], 2, "no input 'image'"),
        (["--input", x, "--input", x], 2, "already"),
        (["--input", tmp_path / "absent.npy"], 1, "absent.npy"),
        (["--input", tmp_path / "text.npy"], 1, "text.npy"),
        (["--input", tmp_path / "other.npz"], 1, "other"),
        (["--input", tmp_path / "complex.npy"], 1, "complex64"),
        (["--input", tmp_path / "small.npy"], 1, "convnet_conv"),
        (["--input", x, "--epoch", "7"], 1, "convnet-0007.params"),
        (["--input", FIXTURES / "convnet-symbol.json"], 2, ".npy"),
    ]
    for arguments, status, text in cases:
        done = mxforge("run", model, *arguments)
        assert (done.status, text in done.err) == (status, True), (arguments, done.err)
        assert done.err.count("\n") == 1


def test_nothing_runs_when_the_output_does_not_fit(mxforge: Any, tmp_path: Path) -> None:
    from mxforge.tools.errors import UsageError
    from mxforge.tools.outputs import check_output

    with pytest.raises(UsageError, match="2 outputs"):
        check_output(tmp_path / "y.npy", ["a", "b"])


def test_options_that_do_not_apply_are_refused(mxforge: Any, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("cat\ndog\n")
    cases: list[tuple[list[Any], str]] = [
        (["--labels", tmp_path / "names.txt"], "the file has 2 labels, but the outputs have 10 classes"),
        (["--size", "32"], "--size is for images, and no --input is an image"),
        (["--mean", "0.5"], "--mean is for images"),
        (["--output", tmp_path / "out.txt"], "a .npz or .npy file, or to a folder without a suffix"),
        (["--inp", "x.npy"], "unrecognized arguments: --inp"),
    ]
    for arguments, text in cases:
        done = mxforge("run", FIXTURES / "convnet", "--input", FIXTURES / "convnet.npz", *arguments)
        assert (done.status, text in done.err) == (2, True), (arguments, done.err)
    assert [p.name for p in tmp_path.iterdir()] == ["names.txt"]


def test_classes_of_nan_are_not_ranked(mxforge: Any, tmp_path: Path) -> None:
    """Of a layer without a rectifier, which replaces NaN by 0."""
    mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=10, name="dense").save(str(tmp_path / "net-symbol.json"))
    mx.nd.save(
        str(tmp_path / "net-0000.params"),
        {"arg:dense_weight": mx.nd.ones((10, 3)), "arg:dense_bias": mx.nd.ones((10,))},
    )
    np.save(tmp_path / "x.npy", np.full((2, 3), np.nan, np.float32))
    target = tmp_path / "a" / "b" / "y.npy"
    done = mxforge("run", tmp_path / "net", "--input", tmp_path / "x.npy", "--output", target)
    assert done.status == 0, done.err
    assert "row 0: 10 of 10 values are NaN" in done.out and "\n    " not in done.out
    assert np.isnan(np.load(target)).all()


def test_text_is_not_an_input(mxforge: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array(["a", "b"]))
    np.savez(tmp_path / "x.npz", x0=np.array(["a", "b"]))
    for file in ("x.npy", "x.npz"):
        done = mxforge("run", FIXTURES / "convnet", "--input", tmp_path / file)
        assert done.status == 1
        assert f"{file}: an input must contain numbers, not dtype <U1" in done.err


def test_inputs_without_a_shape(mxforge: Any) -> None:
    done = mxforge("run", FIXTURES / "convnet")
    assert done.status == 2
    assert "--input data=FILE" in done.err and "--input-shape data=" in done.err


def test_random_inputs_are_timed(mxforge: Any) -> None:
    done = mxforge("run", FIXTURES / "convnet", "--input-shape", "data=4,3,32,32", "--repeat", "3", "--json")
    assert done.status == 0, done.err
    found = json.loads(done.out)
    assert found["runs"] == 3 and found["batch"] == 4 and found["outputs"][0]["shape"] == [4, 10]
    assert 0 < found["seconds"]["p50"] <= found["seconds"]["p90"] <= found["seconds"]["p99"]
    text = mxforge("run", FIXTURES / "convnet", "--input", FIXTURES / "convnet.npz", "--repeat", "2").out
    assert "2 runs: p50 " in text and " per second, 2 at a time" in text


def test_probabilities_of_the_best_classes(mxforge: Any) -> None:
    given = "--input", FIXTURES / "convnet.npz", "--json", "--top-k", "10", "--softmax"
    [output] = json.loads(mxforge("run", FIXTURES / "convnet", *given).out)["outputs"]
    for row, scores in zip(output["rows"], expected("convnet"), strict=True):
        assert [c["class"] for c in row["classes"]] == np.argsort(-scores).tolist()
        assert sum(c["value"] for c in row["classes"]) == pytest.approx(1)


def test_outputs_that_cannot_be_written(mxforge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mxforge.tools.run_model.load_model", lambda _: pytest.fail("the model was read"))
    (tmp_path / "file").touch()
    (tmp_path / "d.npz").mkdir()
    for name, why in (("file/y.npz", "there is no folder"), ("file", "is a file"), ("d.npz", "is a folder")):
        path = tmp_path / name
        done = mxforge("run", FIXTURES / "convnet", "--input", FIXTURES / "convnet.npz", "--output", path)
        assert done.status == 1
        assert f"{path}: {why}" in done.err


def test_warnings_print_one_line(mxforge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def warn(_: object) -> int:
        warnings.warn("two\nlines", RuntimeWarning, stacklevel=1)
        return 0

    monkeypatch.setattr("mxforge.tools.run_model.run", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        done = mxforge("run", FIXTURES / "convnet")
    assert done.status == 0
    assert done.err == "mxforge: warning: two lines\n"
