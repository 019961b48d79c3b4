"""`mxforge convert`: conversions are reversible, and an ONNX file computes the same as the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.frontend.artifacts import BFloat16Data, CSRData, read_params, write_params
from mxforge.frontend.artifacts.named_arrays import read_npz, read_safetensors

DTYPES = ("float16", "float32", "float64", "int8", "uint8", "int32", "int64", "bool")


def arrays() -> dict[str, Any]:
    found: dict[str, Any] = {f"arg:{d}": np.arange(6).reshape(2, 3).astype(d) for d in DTYPES}
    return found | {"aux:empty": np.zeros((0, 2), np.float32), "aux:odd name/é": np.ones(3, np.float32)}


@pytest.fixture
def params(tmp_path: Path) -> Path:
    path = tmp_path / "a.params"
    write_params(path, list(arrays()), list(arrays().values()))
    return path


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_parameters_are_converted_back(mxforge: Any, params: Path, suffix: str) -> None:
    there, back = params.with_suffix(suffix), params.with_name("b.params")
    assert mxforge("convert", params, there).status == 0
    assert mxforge("convert", there, back).status == 0
    assert back.read_bytes() == params.read_bytes()


def test_a_list_without_names_is_converted_back(mxforge: Any, tmp_path: Path) -> None:
    write_params(tmp_path / "a.params", [], [np.ones(2, np.float32), np.zeros(3, np.int32)])
    assert mxforge("convert", tmp_path / "a.params", tmp_path / "a.npz").status == 0
    assert mxforge("convert", tmp_path / "a.npz", tmp_path / "b.params").status == 0
    assert (tmp_path / "b.params").read_bytes() == (tmp_path / "a.params").read_bytes()


def test_names_lose_their_prefixes_and_get_them_back(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    params, symbol = f"{convnet}-0000.params", f"{convnet}-symbol.json"
    assert mxforge("convert", params, tmp_path / "a.npz", "--plain-names").status == 0
    assert not any(":" in name for name in read_npz(tmp_path / "a.npz"))
    assert mxforge("convert", tmp_path / "a.npz", tmp_path / "b.params", "--symbol", symbol).status == 0
    assert sorted(read_params(tmp_path / "b.params").names) == sorted(read_params(Path(params)).names)


def test_bfloat16_goes_to_safetensors_only(mxforge: Any, tmp_path: Path) -> None:
    bits = np.array([0x3F80, 0x4000], np.uint16)
    write_params(tmp_path / "a.params", ["x"], [BFloat16Data(bits)])
    assert "use .safetensors" in mxforge("convert", tmp_path / "a.params", tmp_path / "a.npz").err
    assert mxforge("convert", tmp_path / "a.params", tmp_path / "a.safetensors").status == 0
    stored = read_safetensors(tmp_path / "a.safetensors")["x"]
    assert isinstance(stored, BFloat16Data) and stored.bits.tolist() == bits.tolist()


def test_safetensors_files_follow_the_specification(mxforge: Any, tmp_path: Path) -> None:
    write_params(tmp_path / "a.params", ["w"], [np.array([[1, 2]], np.int32)])
    mxforge("convert", tmp_path / "a.params", tmp_path / "a.safetensors")
    data = (tmp_path / "a.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    assert json.loads(data[8 : 8 + size]) == {"w": {"dtype": "I32", "shape": [1, 2], "data_offsets": [0, 8]}}
    assert size % 8 == 0 and data[8 + size :] == b"\1\0\0\0\2\0\0\0"


def test_sparse_parameters_are_refused(mxforge: Any, tmp_path: Path) -> None:
    matrix = CSRData((1, 2), np.ones(1, np.float32), np.zeros(1, np.int64), np.array([0, 1]))
    write_params(tmp_path / "a.params", ["x"], [matrix])
    done = mxforge("convert", tmp_path / "a.params", tmp_path / "a.npz")
    assert done.status == 1 and "'x' is sparse" in done.err and not (tmp_path / "a.npz").exists()


@pytest.mark.parametrize("damage", [b"", b"\xff" * 8, b"\x02" + b"\0" * 7 + b"[]", b"\x40" + b"\0" * 7 + b"{" * 64])
def test_a_damaged_safetensors_file_is_refused(mxforge: Any, tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "a.safetensors").write_bytes(damage)
    done = mxforge("convert", tmp_path / "a.safetensors", tmp_path / "a.params")
    assert done.status == 1 and "not a safetensors file" in done.err and done.err.count("\n") == 1


@pytest.mark.parametrize(
    "entry",
    [
        {"dtype": "F32", "shape": [2], "data_offsets": [0, 99]},
        {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]},
        {"dtype": "F8", "shape": [2], "data_offsets": [0, 2]},
        {"dtype": "F32", "shape": [2]},
        7,
    ],
)
def test_an_invalid_entry_is_refused(mxforge: Any, tmp_path: Path, entry: Any) -> None:
    head = json.dumps({"x": entry}).encode()
    (tmp_path / "a.safetensors").write_bytes(len(head).to_bytes(8, "little") + head + b"\0" * 8)
    done = mxforge("convert", tmp_path / "a.safetensors", tmp_path / "a.params")
    assert done.status == 1 and "not a safetensors file" in done.err


def test_an_old_symbol_is_upgraded(mxforge: Any, tmp_path: Path) -> None:
    old = Path(__file__).resolve().parents[1] / "data" / "fixtures" / "save_000800.json"
    assert mxforge("convert", old, tmp_path / "new.json").status == 0
    assert json.loads((tmp_path / "new.json").read_text())["attrs"]["mxnet_version"] == ["int", 10901]
    assert mx.sym.load(str(tmp_path / "new.json")).list_arguments() == mx.sym.load(str(old)).list_arguments()


def test_an_onnx_model_computes_the_same(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    target = tmp_path / "net.onnx"
    done = mxforge("convert", convnet, target, "--input-shape", "data=2,3,32,32", "--verify")
    assert done.status == 0, done.err
    assert "differs by" in done.out and target.exists()


def test_nan_is_not_verified(mxforge: Any, tmp_path: Path) -> None:
    logarithm = mx.sym.log(mx.sym.var("data"), name="log")
    logarithm.save(str(tmp_path / "net-symbol.json"))
    done = mxforge("convert", tmp_path / "net", tmp_path / "net.onnx", "--input-shape", "data=2,3", "--verify")
    assert done.status == 1
    assert "log_output of mxforge has " in done.err and "NaN: nothing can be compared" in done.err


def test_contradictions_are_reported(mxforge: Any, params: Path, tmp_path: Path) -> None:
    both = "--plain-names", "--symbol", "a-symbol.json"
    assert "contradict" in mxforge("convert", params, tmp_path / "a.npz", *both).err
    assert "files of parameters" in mxforge("convert", "a.json", tmp_path / "b.json", "--plain-names").err
    assert mxforge("convert", params, tmp_path / "a.npz", "--verify").status == 2
    assert "give a .params" in mxforge("convert", params, tmp_path / "a.txt").err
    (tmp_path / "file").touch()
    assert mxforge("convert", params, tmp_path / "file" / "a.npz").status == 1
    assert mxforge("convert", params, tmp_path / "new" / "folder" / "a.npz").status == 0


def test_stablehlo_computes_the_same(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is not installed")
    from stablehlo_judge import evaluated

    target = tmp_path / "net.mlir"
    done = mxforge("convert", convnet, target, "--input-shape", "data=1,3,16,16")
    assert done.status == 0 and done.out.startswith("wrote "), done.err
    data = np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)
    np.save(tmp_path / "data.npy", data)
    mxforge("run", convnet, "--input", f"data={tmp_path / 'data.npy'}", "--output", tmp_path / "out.npz")
    (ours,) = np.load(tmp_path / "out.npz").values()
    (theirs,) = evaluated(target.read_text(), data)
    np.testing.assert_allclose(theirs, ours, 1e-4, 1e-5)


def test_a_portable_artifact(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is not installed")
    target, shape = tmp_path / "net.mlirbc", ("--input-shape", "data=1,3,16,16")
    assert mxforge("convert", convnet, target, *shape, "--stablehlo-version", "1.0.0").status == 0
    assert target.read_bytes().startswith(b"ML\xefR\rStableHLO_v1.0.0")
    for version in ("99.0.0", "1.0", "0.0.1", "one"):
        done = mxforge("convert", convnet, tmp_path / "other.mlirbc", *shape, "--stablehlo-version", version)
        assert done.status == 1 and "use a version from" in done.err and not (tmp_path / "other.mlirbc").exists()
    assert mxforge("convert", convnet, tmp_path / "a.mlir", *shape, "--stablehlo-version", "1.0.0").status == 2


def test_one_module_for_all_batch_sizes(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is not installed")
    from stablehlo_judge import evaluated, refined

    shape = "--input-shape", "data=1,3,16,16", "--dynamic-batch"
    assert mxforge("convert", convnet, tmp_path / "net.mlir", *shape).status == 0
    assert mxforge("convert", convnet, tmp_path / "net.mlirbc", *shape).status == 0
    text = (tmp_path / "net.mlir").read_text()
    assert 'tensor<?x3x16x16xf32> {mxforge.name = "data"}' in text
    for batch in (1, 3):
        data = np.random.default_rng(0).standard_normal((batch, 3, 16, 16)).astype(np.float32)
        np.save(tmp_path / "data.npy", data)
        mxforge("run", convnet, "--input", f"data={tmp_path / 'data.npy'}", "--output", tmp_path / "out.npz")
        (ours,) = np.load(tmp_path / "out.npz").values()
        (theirs,) = evaluated(refined(text, data), data)
        np.testing.assert_allclose(theirs, ours, 1e-4, 1e-5)


def test_what_a_dynamic_batch_requires(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    done = mxforge("convert", convnet, tmp_path / "a.json", "--dynamic-batch")
    assert done.status == 2 and "only for .onnx, .mlir" in done.err
    mx.sym.dot(mx.sym.var("a"), mx.sym.var("b")).save(str(tmp_path / "sum-symbol.json"))
    done = mxforge(
        *("convert", tmp_path / "sum", tmp_path / "sum.mlir", "--dynamic-batch"),
        *("--input-shape", "a=2,3", "--input-shape", "b=3,2"),
    )
    assert done.status == 2 and "the first extents of the inputs differ: a (2, 3), b (3, 2)" in done.err


def test_the_command_line_knows_all_losses() -> None:
    from mxforge.frontend import training_step
    from mxforge.tools import convert_grammar

    assert tuple(training_step.LOSSES) == convert_grammar.LOSSES


def test_a_training_step(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    """From a model with parameters, and from its symbol alone; the loss of the first step is that of the model."""
    pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is not installed")
    from stablehlo_judge import evaluated

    symbol = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc")
    symbol.save(str(tmp_path / "net-symbol.json"))
    weights = {"fc_weight": mx.nd.ones((3, 4)), "fc_bias": mx.nd.zeros(3)}
    command = "--input-shape", "data=2,4", "label=2,3", "--training", "--loss", "l2"
    adam = "--optimizer", "adam", "--learning-rate", "0.1"
    assert mxforge("convert", tmp_path / "net", tmp_path / "a.mlir", *command, *adam).status == 0
    mx.nd.save(str(tmp_path / "net-0000.params"), {f"arg:{name}": array for name, array in weights.items()})
    assert mxforge("convert", tmp_path / "net", tmp_path / "b.mlir", *command, *adam).status == 0
    text = (tmp_path / "a.mlir").read_text()
    assert text == (tmp_path / "b.mlir").read_text()
    results = text.partition("->")[2]
    for name in ("fc_weight", "fc_bias", "fc_weight_mean", "fc_bias_var", "update_count"):
        assert text.count(f'{{mxforge.name = "{name}"}}') == 2 and f'"{name}"' in results
    zeros = [np.zeros((3, 4), np.float32)] * 2 + [np.zeros(3, np.float32)] * 2
    data, label = np.full((2, 4), 0.5, np.float32), np.zeros((2, 3), np.float32)
    operands = [a.asnumpy() for a in weights.values()]
    loss, weight, *_, count = evaluated(text, *operands, *zeros, np.array(0, np.int32), data, label)
    assert loss == [2.0] and count == 1
    np.testing.assert_allclose(weight, np.full((3, 4), 0.9), 1e-6)
    for wrong, message in (
        (("--optimizer", "sgdd"), "'sgdd' is unknown. Did you mean 'sgd'?"),
        (("--optimizer", "lars"), "LARS cannot be part of an exported step"),
        (("--optimizer-params", "mom=1"), "'mom'"),
        (("--optimizer-params", "momentum"), "is not NAME=X"),
    ):
        done = mxforge("convert", tmp_path / "net", tmp_path / "c.mlir", *command, *wrong)
        assert done.status != 0 and message in done.err
    assert mxforge("convert", tmp_path / "net", tmp_path / "c.mlir", *command[:3], *adam).status == 2
    assert mxforge("convert", tmp_path / "net", tmp_path / "c.onnx", *command[:3], "--training").status == 2


@mx.operator.register("exported")
class Exported(mx.operator.CustomOpProp):
    def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> mx.operator.CustomOp:
        return mx.operator.CustomOp()


def test_a_model_that_stablehlo_cannot_express(mxforge: Any, tmp_path: Path) -> None:
    mx.sym.Custom(mx.sym.var("data"), op_type="exported", name="custom0").save(str(tmp_path / "net-symbol.json"))
    done = mxforge("convert", tmp_path / "net", tmp_path / "net.mlir", "--input-shape", "data=2,3")
    assert done.status != 0 and "custom0" in done.err and not (tmp_path / "net.mlir").exists()
    assert mxforge("convert", tmp_path / "net", tmp_path / "net.mlir", "--verify").status == 2
