"""`mxforge convert` and `--params` take weights of PyTorch, whose names are matched with the model's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.artifacts import read_params
from mxforge.tools.errors import ToolError
from mxforge.tools.weight_names import match_names

FILES = Path(__file__).resolve().parents[1] / "data" / "torch_files"
NAMES = {
    "conv1.weight": "first_weight",
    "bn1.weight": "norm1_gamma",
    "bn1.bias": "norm1_beta",
    "bn1.running_mean": "norm1_moving_mean",
    "bn1.running_var": "norm1_moving_var",
    "conv2.weight": "second_weight",
    "bn2.weight": "norm2_gamma",
    "bn2.bias": "norm2_beta",
    "bn2.running_mean": "norm2_moving_mean",
    "bn2.running_var": "norm2_moving_var",
    "fc.weight": "head_weight",
    "fc.bias": "head_bias",
}


def network() -> Any:
    """The network of `make_torch_files.py`."""
    sym, window = mx.sym, {"kernel": (3, 3), "pad": (1, 1), "num_filter": 8, "no_bias": True}
    norm = {"fix_gamma": False, "eps": 1e-5}
    x = sym.Convolution(sym.var("data"), name="first", **window)
    x = sym.relu(sym.BatchNorm(x, name="norm1", **norm))
    y = sym.BatchNorm(sym.Convolution(x, name="second", **window), name="norm2", **norm)
    return sym.FullyConnected(sym.mean(sym.relu(x + y), axis=(2, 3)), num_hidden=5, name="head")


@pytest.fixture
def symbol(tmp_path: Path) -> Path:
    path = tmp_path / "net-symbol.json"
    network().save(str(path))
    return path


def test_weights_of_pytorch_are_converted_and_the_names_printed(mxforge: Any, symbol: Path, tmp_path: Path) -> None:
    params = tmp_path / "net-0000.params"
    done = mxforge("convert", FILES / "network.pth", params, "--symbol", symbol)
    assert done.status == 0, done.err
    assert done.out.splitlines()[:-1] == [f"{name} -> {other}" for name, other in NAMES.items()]
    assert "aux:norm1_moving_mean" in read_params(params).names and "arg:head_bias" in read_params(params).names
    with np.load(FILES / "network.npz") as expected:
        np.save(tmp_path / "x.npy", expected["x"])
        for model, option in ((tmp_path / "net", ()), (symbol, ("--params", FILES / "checkpoint.pt"))):
            done = mxforge(
                "run", model, *option, "--input", f"data={tmp_path / 'x.npy'}", "--output", tmp_path / "y.npy"
            )
            assert done.status == 0, done.err
            assert ("conv1.weight -> first_weight" in done.err) is bool(option)
            np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected["y"], rtol=1e-4, atol=1e-5)


def test_weights_are_converted_without_a_symbol(mxforge: Any, tmp_path: Path) -> None:
    done = mxforge("convert", FILES / "network.pth", tmp_path / "net.npz")
    assert done.status == 0 and done.out == f"wrote 14 arrays to {tmp_path / 'net.npz'}\n"
    done = mxforge("convert", FILES / "legacy.pt", tmp_path / "net.npz")
    assert done.status == 1 and "format of PyTorch before 1.6" in done.err and done.err.count("\n") == 1
    done = mxforge("convert", tmp_path / "net.npz", tmp_path / "net.pth")
    assert done.status == 2 and "give a .params" in done.err


def test_recurrent_layers_are_matched() -> None:
    layer = mx.gluon.rnn.LSTM(4, bidirectional=True, input_size=3, prefix="lstm_")
    layer.initialize()
    symbol = layer(mx.sym.var("data"))
    sides = {"ih": (16, 3), "hh": (16, 4)}
    shapes = {f"weight_{s}_l0{b}": shape for b in ("", "_reverse") for s, shape in sides.items()}
    shapes |= {f"bias_{s}_l0{b}": (16,) for b in ("", "_reverse") for s in sides}
    names = match_names(symbol, {f"rnn.{name}": shape for name, shape in shapes.items()})
    assert names["rnn.weight_ih_l0"] == "lstm_l0_i2h_weight"
    assert names["rnn.bias_hh_l0_reverse"] == "lstm_r0_h2h_bias" and len(set(names.values())) == 8


def test_parameters_without_an_array_are_named() -> None:
    with pytest.raises(ToolError, match=r"no array in the file fits head_weight \(not used: fc\.weight\)"):
        match_names(
            mx.sym.FullyConnected(mx.sym.var("data", shape=(1, 3)), num_hidden=2, no_bias=True, name="head"),
            {"fc.weight": (2, 4)},
        )


def test_arrays_that_no_layer_fits_are_named(mxforge: Any, tmp_path: Path) -> None:
    data = mx.sym.var("data", shape=(1, 3))
    mx.sym.FullyConnected(data, num_hidden=2, name="head").save(str(tmp_path / "net-symbol.json"))
    arrays = {"fc.weight": (2, 3), "fc.bias": (2,), "aux.weight": (9, 9), "fc.num_batches_tracked": ()}
    values: dict[str, Any] = {name: np.ones(shape, np.float32) for name, shape in arrays.items()}
    np.savez(tmp_path / "w.npz", **values)
    lines = ["fc.weight -> head_weight", "fc.bias -> head_bias", "aux.weight -> not used"]
    done = mxforge("convert", tmp_path / "w.npz", tmp_path / "w.params", "--symbol", tmp_path / "net-symbol.json")
    assert done.out.splitlines()[:-1] == lines
    assert sorted(read_params(tmp_path / "w.params").names) == ["arg:head_bias", "arg:head_weight"]
    done = mxforge("run", tmp_path / "net", "--params", tmp_path / "w.npz", "--input-shape", "data=1,3")
    assert done.status == 0 and all(f"  {line}\n" in done.err for line in lines)


def test_a_file_without_an_array_of_the_symbol_is_an_error(mxforge: Any, tmp_path: Path) -> None:
    """`w` has no role in a layer, and can be an input."""
    symbol, target = tmp_path / "net-symbol.json", tmp_path / "net.params"
    mx.sym.FullyConnected(mx.sym.var("data"), mx.sym.var("w"), num_hidden=4, no_bias=True).save(str(symbol))
    done = mxforge("convert", FILES / "network.pth", target, "--symbol", symbol)
    assert done.status == 1 and not target.exists()
    assert "(conv1.weight, bn1.weight, bn1.bias, bn1.running_mean and 10 more) has a name or a layer of" in done.err


def test_an_onnx_file_is_converted_to_the_files_of_mxnet(mxforge: Any, symbol: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    assert mxforge("convert", FILES / "network.pth", tmp_path / "net-0000.params", "--symbol", symbol).status == 0
    onnx = tmp_path / "net.onnx"
    done = mxforge("convert", tmp_path / "net", onnx, "--input-shape", "data=2,3,6,6", "--dynamic-batch")
    assert done.status == 0, done.err
    for name in ("back-symbol.json", "back-0000.params"):
        done = mxforge("convert", onnx, tmp_path / name)
        assert done.status == 0, done.err
    assert {"norm1_moving_mean", "head_bias"} <= {n[4:] for n in read_params(tmp_path / "back-0000.params").names}
    results = []
    for name in ("net", "back"):
        with np.load(FILES / "network.npz") as expected:
            np.save(tmp_path / "x.npy", expected["x"])
        done = mxforge("run", tmp_path / name, "--input", f"data={tmp_path / 'x.npy'}", "--output", tmp_path / "y.npy")
        assert done.status == 0, done.err
        results.append(np.load(tmp_path / "y.npy"))
    np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-6)


def names_of_torchvision(widths: tuple[int, ...] = (64, 128, 256, 512)) -> dict[str, tuple[int, ...]]:
    """The names and shapes of torchvision's ResNet-18, in its order."""
    shapes: dict[str, tuple[int, ...]] = {}

    def convolution(name: str, norm: str, out: int, into: int, size: int) -> None:
        shapes[f"{name}.weight"] = (out, into, size, size)
        shapes.update({f"{norm}.{role}": (out,) for role in ("weight", "bias", "running_mean", "running_var")})
        shapes[f"{norm}.num_batches_tracked"] = ()

    convolution("conv1", "bn1", 64, 3, 7)
    into = 64
    for i, width in enumerate(widths, 1):
        for block in range(2):
            stem = f"layer{i}.{block}"
            convolution(f"{stem}.conv1", f"{stem}.bn1", width, into, 3)
            convolution(f"{stem}.conv2", f"{stem}.bn2", width, width, 3)
            if into != width:
                convolution(f"{stem}.downsample.0", f"{stem}.downsample.1", width, into, 1)
            into = width
    return shapes | {"fc.weight": (1000, 512), "fc.bias": (1000,)}


def test_layers_of_parallel_branches_are_matched_as_they_are_created() -> None:
    """Symbols list the shortcut of a residual block before its other layers, torchvision after them."""
    net = mx.gluon.model_zoo.vision.resnet18_v1(prefix="net_")
    names = match_names(net(mx.sym.var("data")), names_of_torchvision())
    assert names["bn1.running_var"] == "net_batchnorm0_running_var"
    assert names["layer2.0.bn1.weight"] == "net_stage2_batchnorm0_gamma"
    assert names["layer2.0.bn2.bias"] == "net_stage2_batchnorm1_beta"
    assert names["layer2.0.downsample.0.weight"] == "net_stage2_conv2_weight"
    assert names["layer2.0.downsample.1.running_mean"] == "net_stage2_batchnorm2_running_mean"
    assert names["layer2.1.bn1.weight"] == "net_stage2_batchnorm3_gamma" and names["fc.weight"] == "net_dense0_weight"
    assert len(names) == 102
