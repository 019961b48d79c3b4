"""mx.test_utils beyond the recorded programs: downloads, gradients, blocks."""

from __future__ import annotations

import gzip
import os
import struct
import zipfile
from pathlib import Path

import mxforge as mx
import numpy as np
import pytest

tu = mx.test_utils
NET = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="f")
LOCATION = [np.ones((3, 4)), np.ones((2, 4)), np.ones(2)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_failed_download_names_the_path_for_the_file(folder: Path) -> None:
    with pytest.raises(mx.MXNetError, match=r"http://127.0.0.1:9/x.bin cannot be downloaded .*put the file at d/x.bin"):
        tu.download("http://127.0.0.1:9/x.bin", dirname="d", retries=0)


def test_existing_files_are_not_downloaded(folder: Path) -> None:
    images = np.arange(2 * 28 * 28, dtype=np.uint8).reshape(2, 28, 28)
    for start in ("train", "t10k"):
        with gzip.open(f"{start}-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">II", 2049, 2) + bytes([3, 7]))
        with gzip.open(f"{start}-images-idx3-ubyte.gz", "wb") as file:
            file.write(struct.pack(">IIII", 2051, 2, 28, 28) + images.tobytes())
    found = tu.get_mnist()
    assert found["test_label"].tolist() == [3, 7] and found["train_data"].shape == (2, 1, 28, 28)
    assert found["train_data"].max() == pytest.approx(1)
    (folder / "data").mkdir()
    with zipfile.ZipFile("data/mnist.zip", "w") as packed:
        for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
            packed.writestr(f"{name}-ubyte", name)
    tu.get_mnist_ubyte()
    assert (folder / "data" / "t10k-labels-idx1-ubyte").read_text() == "t10k-labels-idx1"
    (folder / "imagenet1k-resnet-18-symbol.json").write_text("{}")
    (folder / "imagenet1k-resnet-18-0000.params").write_text("")
    assert tu.download_model("imagenet1k-resnet-18", str(folder)) == (str(folder / "imagenet1k-resnet-18"), 0)


def test_checks_of_gradients() -> None:
    tu.check_numeric_gradient(NET, LOCATION)
    found = tu.check_symbolic_backward(
        mx.sym.square(mx.sym.var("x")), [np.full(3, 2.0)], [np.ones(3)], [np.full(3, 4.0)]
    )
    assert found["x"].asnumpy().tolist() == [4, 4, 4]
    with pytest.raises(AssertionError):
        tu.check_symbolic_backward(mx.sym.square(mx.sym.var("x")), [np.full(3, 2.0)], [np.ones(3)], [np.full(3, 5.0)])
    tu.check_consistency(NET, [{"ctx": mx.cpu(i), "data": (2, 3)} for i in range(2)])


def test_functions_of_comparison() -> None:
    bound = mx.sym.square(mx.sym.var("x")).simple_bind(mx.cpu(), x=(2, 2))
    x = np.array([[1.0, 2.0], [3.0, -4.0]])
    found = tu.numeric_grad(bound, {"x": x.copy()}, eps=2.0**-7)
    tu.assert_almost_equal(found["x"], 2 * x, rtol=1e-2)


def test_blocks_are_consistent() -> None:
    def net(prefix: str) -> mx.gluon.nn.HybridSequential:
        made = mx.gluon.nn.HybridSequential(prefix=prefix)
        with made.name_scope():
            made.add(mx.gluon.nn.Dense(3, in_units=2), mx.gluon.nn.Dense(1, in_units=3))
        return made

    data = [mx.nd.ones((4, 2))]
    tu.check_gluon_hybridize_consistency(net, data, test_grad=False)
    with pytest.raises(AssertionError, match="exceeds tolerance"):
        tu.check_gluon_hybridize_consistency(net, data, numpy_func=lambda x: np.full((4, 1), 7.0), test_grad=False)


def test_standard_error_is_discarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open(tmp_path / "errors", "w") as file:
        monkeypatch.setattr("sys.stderr", file)
        with tu.discard_stderr():
            os.write(file.fileno(), b"noise")
        os.write(file.fileno(), b"signal")
    assert (tmp_path / "errors").read_text() == "signal"
