"""`mxforge profile`: rows, their sums, what is marked, files and errors. Times themselves are not tested."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.runtime.host import probes
from mxforge.runtime.host.probes import RunTimes
from mxforge.tools.profile import peaks
from mxforge.tools.profile.report import Profile
from mxforge.tools.profile.rows import Row
from mxforge.tools.profile.text import as_text
from mxforge.tools.schemas.common import Machine
from mxforge.tools.schemas.profile import Parallelism, Times

SHAPE = ("--input-shape", "data=2,3,32,32")
QUICK = ("--repeat", "2")


@pytest.fixture(autouse=True)
def short_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_SECONDS", 0.005)
    monkeypatch.setattr(peaks, "_LEAST_BYTES", 1 << 20)
    monkeypatch.setattr(peaks, "last_cache_bytes", lambda: 1 << 20)


def profile(mxforge: Any, *arguments: object) -> dict[str, Any]:
    done = mxforge("profile", *arguments, *QUICK, "--json")
    assert done.status == 0, done.err
    return json.loads(done.out)


def saved(symbol: Any, folder: Path, **parameters: Any) -> Path:
    """Write a model; returns its prefix."""
    symbol.save(str(folder / "net-symbol.json"))
    mx.nd.save(str(folder / "net-0000.params"), {f"arg:{name}": value for name, value in parameters.items()})
    return folder / "net"


def test_report(mxforge: Any, convnet: Path) -> None:
    report = profile(mxforge, convnet, *SHAPE)
    inspected = json.loads(mxforge("inspect", convnet, *SHAPE, "--json").out)
    assert report["inputs"] == inspected["inputs"]
    assert [x["name"] for x in report["launches"]] == [x["label"] for x in inspected["launches"]]
    assert report["runs"] == 2 and report["machine"]["threads"] >= 1
    assert report["peaks"].pop("measured") == "multiply-adds in registers, and reads"
    assert all(value > 0 for value in report["peaks"].values())
    assert 0 < report["seconds"]["min"] <= report["seconds"]["p50"] <= report["seconds"]["p90"]
    assert all(x["kind"] and x["kernel"] for x in report["launches"])
    operators = {op for layer in report["layers"] for op in layer["operators"]}
    assert {"Convolution", "BatchNorm", "Deconvolution", "FullyConnected"} <= operators


def test_narrow_weights_are_half_of_the_bytes(mxforge: Any, tmp_path: Path) -> None:
    net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=64, no_bias=True, name="fc")
    prefix = saved(net, tmp_path, fc_weight=mx.nd.ones((64, 512)))
    found = [
        profile(mxforge, prefix, "--input-shape", "data=1,512", "--weights", w)["total"]["bytes"]
        for w in ("f32", "bf16")
    ]
    assert found[0] - found[1] == 2 * 64 * 512


def test_layers_sum_their_launches(mxforge: Any, convnet: Path) -> None:
    report = profile(mxforge, convnet, *SHAPE)
    launches = report["launches"]
    assert sorted(n for x in report["layers"] for n in x["launches"]) == list(range(len(launches)))
    assert len(report["layers"]) < len(launches)
    for layer in report["layers"]:
        for key in ("seconds", "flop", "bytes", "multiply_adds", "share"):
            own = [launches[n][key] for n in layer["launches"]]
            assert layer[key] == pytest.approx(sum(own), abs=len(own) if key != "seconds" else 0.0)
        assert all(
            set(launches[n]["name"].split(" (")[0].split(" + ")) <= set(layer["name"].split(" + "))
            for n in layer["launches"]
        )
    assert report["launch_seconds"] == pytest.approx(sum(x["seconds"] for x in launches))


def test_work_is_that_of_the_layers(mxforge: Any, convnet: Path) -> None:
    layers = {x["name"]: x for x in profile(mxforge, convnet, *SHAPE)["layers"]}
    inspected = json.loads(mxforge("inspect", convnet, *SHAPE, "--json").out)["layers"]
    for layer in inspected:
        if layer["multiply_adds"]:
            (row,) = (x for name, x in layers.items() if layer["name"] in name.split(" + "))
            assert row["multiply_adds"] == layer["multiply_adds"]
            assert row["flop"] >= 2 * row["multiply_adds"]
    dense = next(x for name, x in layers.items() if "dense0" in name)
    assert dense["bytes"] == 4 * (2 * 8 + 8 * 10 + 10 + 2 * 10)  # input, weight, bias and output
    assert dense["flop"] == 2 * 2 * 8 * 10 + 2 * 10
    pool = next(x for name, x in layers.items() if "pool0" in name)
    assert pool["multiply_adds"] == 0 and pool["flop"] > 0


def test_roof(mxforge: Any, convnet: Path) -> None:
    report = profile(mxforge, convnet, *SHAPE)
    peak = report["peaks"]
    for row in (*report["layers"], *report["launches"], report["total"]):
        times = row["flop"] / peak["flop_per_second"], row["bytes"] / peak["bytes_per_second"]
        assert row["roof_share"] == pytest.approx(max(times) / row["seconds"], rel=1e-2)
        assert row["bound"] == ("memory" if times[1] > times[0] else "compute")
        assert row["flop_per_second"] == pytest.approx(row["flop"] / row["seconds"], rel=1e-2, abs=1e9)


def test_text(mxforge: Any, convnet: Path) -> None:
    done = mxforge("profile", convnet, *SHAPE, *QUICK)
    assert done.status == 0, done.err
    assert "measured peaks:" in done.out and "layers (7)" in done.out and "% of roof" in done.out
    assert "convnet_dense0_fwd" in done.out and "between them" in done.out
    launches = mxforge("profile", convnet, *SHAPE, *QUICK, "--by", "launch", "--top", "2").out
    assert re.search(r"launches \(\d+\), the 2 slowest", launches)
    table = launches.partition("slowest\n")[2].partition("\n\n")[0]
    assert len(table.splitlines()) == 3


def test_plain_loops_are_marked(mxforge: Any, tmp_path: Path) -> None:
    x, y = (mx.sym.cast(mx.sym.var(name), dtype="int32") for name in ("data", "weight"))
    model = saved(mx.sym.dot(x, y, name="dense0"), tmp_path, weight=mx.nd.ones((4, 5)))
    reason = "no schedule supports products of i32 by i32 in i32"
    text = mxforge("profile", model, "--input-shape", "data=3,4", *QUICK).out
    assert "LOOPS" in text and "plain loops (1)" in text and reason in text
    report = profile(mxforge, model, "--input-shape", "data=3,4", "--plot", tmp_path / "plot.svg")
    assert [x["fallback"] for x in report["layers"] if "dense0" in x["name"]] == [reason]
    assert [x["fallback"] for x in report["launches"] if x["kind"] == "contract"] == [reason]
    assert "plain loops" in (tmp_path / "plot.svg").read_text()


def test_a_layer_of_many_launches(mxforge: Any, tmp_path: Path) -> None:
    cell = mx.rnn.FusedRNNCell(4, mode="lstm", prefix="lstm_")
    outputs, _ = cell.unroll(5, mx.sym.var("data"), layout="TNC", merge_outputs=True)
    outputs.save(str(tmp_path / "net-symbol.json"))
    report = profile(mxforge, tmp_path / "net", "--input-shape", "data=5,2,3", "--allow-missing")
    (layer,) = (x for x in report["layers"] if "RNN" in x["operators"])
    assert len(layer["launches"]) > 5
    assert layer["multiply_adds"] == 5 * 2 * 4 * 4 * 3 + 4 * 2 * 4 * 4 * 4  # the first state is zero


def test_winograd_is_marked(mxforge: Any, tmp_path: Path) -> None:
    conv = mx.sym.Convolution(mx.sym.var("data"), kernel=(3, 3), num_filter=64, pad=(1, 1), no_bias=True, name="conv0")
    model = saved(conv, tmp_path, conv0_weight=mx.nd.ones((64, 64, 3, 3)))
    (layer,) = (x for x in profile(mxforge, model, "--input-shape", "data=1,64,32,32")["layers"] if x["winograd"])
    assert layer["multiply_adds"] == 32 * 32 * 64 * 64 * 9  # of the definition


def test_rows_of_a_table_that_are_not_read_do_not_count(mxforge: Any, tmp_path: Path) -> None:
    table = mx.sym.Embedding(mx.sym.var("data"), input_dim=1000, output_dim=8, name="embedding0")
    model = saved(table, tmp_path, embedding0_weight=mx.nd.ones((1000, 8)))
    (layer,) = profile(mxforge, model, "--input-shape", "data=4")["layers"]
    assert 4 * (4 + 2 * 4 * 8) <= layer["bytes"] < 500 and layer["multiply_adds"] == 0


def test_pieces_of_a_concatenation_are_copied(mxforge: Any, tmp_path: Path) -> None:
    x = mx.sym.var("data")
    model = saved(mx.sym.concat(x, x, dim=0, name="concat0"), tmp_path)
    (layer,) = profile(mxforge, model, "--input-shape", "data=4,8")["layers"]
    assert (layer["bytes"], layer["flop"]) == (4 * 4 * 8 * 2 * 2, 0)


def test_work_that_depends_on_data_is_blank(mxforge: Any, tmp_path: Path) -> None:
    model = saved(mx.sym.linalg.potrf(mx.sym.var("data"), name="potrf0") + 1, tmp_path)
    report = profile(mxforge, model, "--input-shape", "data=4,4")
    (potrf,) = (x for x in report["launches"] if x["kind"] == "cholesky")
    keys = ("multiply_adds", "flop", "bytes", "flop_per_second", "bytes_per_second", "roof_share", "bound")
    assert [potrf[key] for key in keys] == [None] * len(keys) and potrf["seconds"] > 0
    assert report["total"]["flop"] is None


def test_disturbed_runs_are_named() -> None:
    row = Row("conv0", (0,), "contract", "k", seconds=1e-3, busy_seconds=2e-3, operations=1e6, nbytes=1e6)
    none = np.zeros((1, 1), np.int64)
    quiet = Profile(
        model="net",
        inputs=(),
        machine=Machine(cpu="cpu", vector_bits=256, threads=2),
        peaks=peaks.Peaks(1e12, 1e11, None),
        runs=3,
        seconds=Times(min=1.0e-3, p50=1.1e-3, p90=1.2e-3),
        between_seconds=1e-5,
        layers=[row],
        launches=[row],
        total=row,
        timeline=RunTimes(none, none, none),
        parallelism=Parallelism(
            dependences=0,
            work_seconds=1e-3,
            span_seconds=1e-3,
            parallelism=1.0,
            critical_path=(0,),
            data_span_seconds=1e-3,
            data_parallelism=1.0,
        ),
    )
    assert "other processes" not in as_text(quiet, quiet.layers, None)
    assert "last cache" not in as_text(quiet, quiet.layers, None)  # its size is not known
    assert "other processes" in as_text(
        replace(quiet, seconds=Times(min=1.0e-3, p50=2.0e-3, p90=3.0e-3)), quiet.layers, None
    )


def test_csv(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    path = tmp_path / "new" / "rows.csv"
    done = mxforge("profile", convnet, *SHAPE, *QUICK, "--by", "launch", "--top", "1", "--csv", path)
    assert done.status == 0, done.err
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert len(rows) > 8  # their number depends on the schedules of the processor
    assert [row["launches"] for row in rows] == [str(n) for n in range(len(rows))]
    assert all(float(row["seconds"]) >= 0 and int(row["bytes"]) > 0 for row in rows)


def test_trace(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    path = tmp_path / "new" / "trace.json"
    report = profile(mxforge, convnet, *SHAPE, "--trace", path)
    events = json.loads(path.read_text())["traceEvents"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert list(tracks.values())[:2] == ["program", "thread 0"]
    spans = [e for e in events if e["ph"] == "X" and tracks[e["tid"]] == "program"]
    assert [e["name"] for e in spans] == [x["name"] for x in report["launches"]]
    assert spans[0]["ts"] == 0
    for before, after in pairwise(spans):
        assert before["ts"] + before["dur"] <= after["ts"] + 1e-3
    parts = [e for e in events if e["ph"] == "X" and e["tid"]]
    assert {e["name"] for e in parts} == {e["name"] for e in spans}


@pytest.mark.parametrize(("suffix", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")])
@pytest.mark.usefixtures("matplotlib")
def test_plot(mxforge: Any, convnet: Path, tmp_path: Path, suffix: str, start: bytes) -> None:
    path = tmp_path / "new" / f"plot{suffix}"
    done = mxforge("profile", convnet, *SHAPE, *QUICK, "--plot", path)
    assert done.status == 0, done.err
    assert path.read_bytes().startswith(start)


def test_a_compiled_folder_has_times_alone(mxforge: Any, convnet: Path, compiled: Path) -> None:
    whole, frozen = profile(mxforge, convnet, *SHAPE), profile(mxforge, compiled)
    assert [x["name"] for x in frozen["launches"]] == [x["name"] for x in whole["launches"]]
    assert [x["launches"] for x in frozen["layers"]] == [x["launches"] for x in whole["layers"]]
    assert all(x["flop"] is None and x["bytes"] is None and x["roof_share"] is None for x in frozen["launches"])
    assert "does not contain the work" in mxforge("profile", compiled, *QUICK).out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ((), 2, "--input-shape data="),
        (("--input-shape", "image=1,3,8,8"), 2, "no input 'image'"),
        ((*SHAPE, "--csv", "rows.txt"), 2, "rows.txt: is not a .csv file"),
        ((*SHAPE, "--trace", "trace.csv"), 2, "trace.csv: is not a .json file"),
        ((*SHAPE, "--plot", "plot.gif"), 2, "plot.gif: a plot is a .png, .svg or .pdf file"),
        ((*SHAPE, "--csv", "file/rows.csv"), 1, "there is no folder"),
        ((*SHAPE, "--trace", "folder.json"), 1, "folder.json: is a folder"),
        ((*SHAPE, "--plot", "folder.png"), 1, "folder.png: is a folder"),
        ((*SHAPE, "--by", "operator"), 2, "'operator' is not one of layer, launch"),
        ((*SHAPE, "--top", "0"), 2, "'0' is not a positive whole number"),
    ],
)
def test_errors(
    mxforge: Any,
    convnet: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    status: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    for name in ("folder.json", "folder.png"):
        (tmp_path / name).mkdir()
    if "folder.png" in arguments:
        pytest.importorskip("matplotlib")
    done = mxforge("profile", convnet, *arguments)
    assert (done.status, done.out) == (status, "")
    assert message in done.err and len(done.err.splitlines()) == 1


def test_options_that_a_compiled_folder_excludes(mxforge: Any, compiled: Path, tmp_path: Path) -> None:
    done = mxforge("profile", compiled, *SHAPE)
    assert done.status == 2 and "omit --input-shape" in done.err
    done = mxforge("profile", compiled, "--plot", tmp_path / "plot.png")
    assert done.status == 2 and "profile the symbol" in done.err


def test_missing_parameters(mxforge: Any, convnet: Path, tmp_path: Path) -> None:
    (tmp_path / "net-symbol.json").write_bytes(Path(f"{convnet}-symbol.json").read_bytes())
    done = mxforge("profile", tmp_path / "net", *SHAPE)
    assert done.status == 1 and "--allow-missing" in done.err
    done = mxforge("profile", tmp_path / "net", *SHAPE, *QUICK, "--allow-missing")
    assert done.status == 0 and "15 parameters have no value" in done.out


@pytest.mark.usefixtures("matplotlib")
def test_a_model_of_moves_has_a_plot_without_dots(mxforge: Any, tmp_path: Path) -> None:
    model = saved(mx.sym.transpose(mx.sym.var("data"), name="transpose0"), tmp_path)
    report = profile(mxforge, model, "--input-shape", "data=4,8", "--plot", tmp_path / "plot.svg")
    assert [x["flop"] for x in report["launches"]] == [0]
    assert "not shown: 1 without operations, 100 % of the time" in (tmp_path / "plot.svg").read_text()


def test_a_model_without_launches(mxforge: Any, tmp_path: Path) -> None:
    model = saved(mx.sym.identity(mx.sym.var("data"), name="identity0"), tmp_path)
    done = mxforge("profile", model, "--input-shape", "data=4", *QUICK, "--trace", tmp_path / "trace.json")
    assert done.status == 0, done.err
    assert "layers (0)" in done.out
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {e["ph"] for e in events} == {"M"}
