"""`mxforge inspect`: the report agrees with the model and with the program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mxforge as mx
import pytest
from mxforge.tools.inspect_text import size

SHAPE = ("--input-shape", "data=2,3,32,32")


def test_report(mxforge: Any, convnet: Path) -> None:
    done = mxforge("inspect", convnet, *SHAPE, "--profile", "--json")
    report = json.loads(done.out)
    assert report["inputs"] == [{"name": "data", "shape": [2, 3, 32, 32], "dtype": "float32"}]
    assert report["outputs"][0]["shape"] == [2, 10]
    assert report["operators"]["Convolution"] == 2
    assert report["parameters"]["bytes"] == 4 * report["parameters"]["elements"] > 0
    memory = report["memory"]
    assert memory["peak"] == sum(n for name, n in memory.items() if name != "peak")
    assert memory["inputs"] == 2 * 3 * 32 * 32 * 4
    assert any(launch["kind"] == "contract" for launch in report["launches"])
    assert all(launch["kind"] and launch["label"] for launch in report["launches"] + report["prepare"])
    assert all(launch["seconds"] > 0 for launch in report["launches"])
    assert report["profiled_seconds"] == pytest.approx(sum(launch["seconds"] for launch in report["launches"]))


def test_text(mxforge: Any, convnet: Path) -> None:
    done = mxforge("inspect", convnet, *SHAPE)
    assert "data  float32 (2, 3, 32, 32)" in done.out
    assert "Convolution" in done.out and "arena" in done.out and "launches (" in done.out
    assert "time " not in done.out
    assert "time " in mxforge("inspect", convnet, *SHAPE, "--profile").out


def test_a_compiled_folder(mxforge: Any, convnet: Path, compiled: Path) -> None:
    whole, frozen = (json.loads(mxforge("inspect", *a, "--json").out) for a in ((convnet, *SHAPE), (compiled,)))
    for key in ("inputs", "outputs"):
        assert whole[key] == frozen[key]
    assert [launch["kernel"] for launch in whole["launches"]] == [launch["kernel"] for launch in frozen["launches"]]
    assert [(launch["kind"], launch["label"]) for launch in whole["launches"]] == [
        (launch["kind"], launch["label"]) for launch in frozen["launches"]
    ]
    assert frozen["prepare"] == []
    assert frozen["memory"]["inputs"] == whole["memory"]["inputs"]


def test_contractions_without_a_schedule_are_listed(mxforge: Any, tmp_path: Path) -> None:
    x, y = (mx.sym.cast(mx.sym.var(name), dtype="int32") for name in ("data", "weight"))
    mx.sym.cast(mx.sym.dot(x, y, name="dense0"), dtype="float32", name="cast0").save(str(tmp_path / "net-symbol.json"))
    mx.nd.save(str(tmp_path / "net-0000.params"), {"arg:weight": mx.nd.ones((4, 5))})
    model, shape = tmp_path / "net", ("--input-shape", "data=3,4")
    reason = "no schedule supports products of i32 by i32 in i32"
    done = mxforge("inspect", model, *shape)
    assert "plain loops (1)" in done.out and reason in done.out
    (launch,) = (x for x in json.loads(mxforge("inspect", model, *shape, "--json").out)["launches"] if x["fallback"])
    assert (launch["label"], launch["fallback"]) == ("dense0 + cast0", reason)


def test_dump_has_every_stage(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    folder = tmp_path / "stages"
    assert mxforge("inspect", convnet, *SHAPE, "--dump", folder).status == 0
    stages = {path.name[5:] for path in folder.iterdir()}
    assert {
        "input.mlir",
        "decompose.mlir",
        "fuse.mlir",
        "kernel.mlir",
        "inner0.ll",
        "thunks.txt",
        "inner0.s",
        "program.mlir",
    } <= stages


def test_dump_of_the_target_mlir(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    upstream = pytest.importorskip("mxforge.codegen.stablehlo.upstream")
    pytest.importorskip("torch_mlir.ir", reason="the torch-mlir wheel, which holds upstream MLIR, is not installed")
    from mxforge.codegen.mlir.pipeline import STAGES

    folder = tmp_path / "stages"
    assert mxforge("inspect", convnet, *SHAPE, "--dump", folder, "--target", "mlir").status == 0
    stages = {path.name[5:]: path for path in folder.iterdir()}
    assert {"decompose.mlir", "outline.mlir", "stablehlo.mlir", "program.mlir"} <= stages.keys()
    mlir = upstream.Upstream()
    with mlir.context():
        for stage in STAGES:
            assert mlir.ir.Module.parse(stages[f"{stage}.mlir"].read_text()).operation.verify()
    for suffix in ("ll", "s"):
        assert any(name.startswith("m_") and name.endswith(suffix) for name in stages)


def test_layers_have_costs_and_launches(mxforge: Any, convnet: Path) -> None:
    report = json.loads(mxforge("inspect", convnet, *SHAPE, "--json").out)
    layers = {layer["operator"]: layer for layer in report["layers"] if layer["name"] != "convnet_conv1_fwd"}
    assert layers["Convolution"]["output"] == [2, 8, 32, 32]
    assert layers["Convolution"]["parameters"] == 8 * 3 * 3 * 3
    assert layers["Convolution"]["multiply_adds"] == 2 * 32 * 32 * 8 * 3 * 3 * 3
    assert layers["FullyConnected"]["multiply_adds"] == 2 * 10 * 8
    assert layers["Deconvolution"]["multiply_adds"] == 2 * 14 * 14 * 8 * 16 * 4 * 4 // 4  # a stride of 2 x 2
    assert sum(layer["parameters"] for layer in report["layers"]) == report["parameters"]["elements"]
    for layer in report["layers"]:
        for number in layer["launches"]:
            assert layer["name"] in report["launches"][number]["label"]
    assert "layers (11)  2,730 parameters" in mxforge("inspect", convnet, *SHAPE).out


def test_steps_of_loops_count(mxforge: Any, tmp_path: Path) -> None:
    cell = mx.rnn.FusedRNNCell(4, mode="lstm", prefix="lstm_")
    outputs, _ = cell.unroll(5, mx.sym.var("data"), layout="TNC", merge_outputs=True)
    outputs.save(str(tmp_path / "net-symbol.json"))
    shape = ("--input-shape", "data=5,2,3", "--allow-missing", "--json")
    done = mxforge("inspect", tmp_path / "net", *shape)
    assert done.status == 0, done.err
    assert sum(x["multiply_adds"] for x in json.loads(done.out)["layers"]) == 5 * 2 * 4 * 4 * (3 + 4)


def test_a_model_without_shapes(mxforge: Any, convnet: Path) -> None:
    done = mxforge("inspect", convnet)
    assert done.status == 0, done.err
    assert "parameters  15 arrays" in done.out and "--input-shape NAME=" in done.out and "launches" in done.out
    report = json.loads(mxforge("inspect", convnet, "--json").out)
    assert report["inputs"] == [{"name": "data", "shape": None, "dtype": None}]
    known = {key: value for key, value in report["layers"][0].items() if value is not None}
    assert known == {"name": "convnet_conv0_fwd", "operator": "Convolution"}
    assert report["memory"] is None and report["target"] is None
    assert report["launches"] == []


def test_an_unknown_shape_is_requested(mxforge: Any, convnet: Path) -> None:
    done = mxforge("inspect", convnet, "--profile")
    assert done.status == 2
    assert "--input-shape data=" in done.err
    done = mxforge("inspect", convnet, "--input-shape", "image=1,3,8,8")
    assert done.status == 2
    assert "no input 'image'" in done.err


def test_sizes_are_formatted() -> None:
    assert [size(n) for n in (0, 1023, 1536, 5 << 20, 3 << 30)] == [
        "0 bytes",
        "1023 bytes",
        "1.5 KiB",
        "5.0 MiB",
        "3.00 GiB",
    ]
