"""`mxforge profile --estimate`: estimates against measured times, what they depend on, reports and errors."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import mxforge as mx
import pytest
from gpu_rows.estimates import estimate, table
from gpu_rows.rows import selected
from mxforge.codegen.driver import compile_steps
from mxforge.codegen.triton.describe import described
from mxforge.codegen.triton.launch_work import LaunchWork
from mxforge.frontend.symbol.function import SymbolFunction
from mxforge.ir.types import DType, TensorType
from mxforge.tools.profile.estimate import EstimatedStep, estimate_program
from mxforge.tools.profile.gpu_data import GPUS
from mxforge.tools.profile.gpu_model import estimate_launch, resident_programs
from mxforge.tools.profile.grammar import ESTIMATED

MEASURED = json.loads((Path(__file__).parents[1] / "gpu_rows" / "h100.json").read_text())["rows"]
"""The times of an H100 with which the constants of the model were chosen."""
NEAR = (
    "copy",
    "softmax",
    "sum",
    "product float32 4096",
    "product float16 4096",
    "bert float16 b1",
    "resnet50 float32 b1",
)
SHAPE = ("--input-shape", "data=1,3,32,32")


def steps_of(symbol: Any, shapes: dict[str, tuple[int, ...]], gpu: str = "h100") -> list[EstimatedStep]:
    function = SymbolFunction(symbol, [])
    types = [TensorType(shapes[name], DType.F32) for name in symbol.list_inputs()]
    target = described(GPUS[gpu].target)
    options = replace(function.options(training=False), static_shape=True)
    program = compile_steps(function.graph(types), target, options).program
    return estimate_program(program, target.kernels, GPUS[gpu])


@pytest.mark.parametrize("name", NEAR)
def test_estimates_are_near_measured_times(name: str) -> None:
    (row,) = selected(name)
    microseconds, bounds = estimate(row.spec)
    assert microseconds == pytest.approx(MEASURED[name]["mxforge"]["us"], rel=0.25)
    assert sum(bounds.values()) == pytest.approx(1)


def test_the_table_has_rows_that_were_measured() -> None:
    lines = list(table({"copy": MEASURED["copy"], "eager a + b": MEASURED["eager a + b"]}))
    assert len(lines) == 3 and lines[2].startswith("| copy | 180.5 | ") and "memory" in lines[2]


def test_nothing_is_compiled(mxforge: Any, convnet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "triton"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "triton", None)  # its import fails
    done = mxforge("profile", convnet, *SHAPE, "--estimate", "a100", "--json")
    assert done.status == 0, done.err
    report = json.loads(done.out)
    assert report["schema"] == "estimate/1" and report["gpu"] == "A100 SXM 80 GB"
    assert report["target"] == {"gpu": "sm_80", "multiprocessors": 108, "shared_bytes": 163 << 10}
    launches = report["launches"]
    assert report["seconds"] == pytest.approx(sum(launch["seconds"] for launch in launches))
    assert report["seconds"] == pytest.approx(sum(report["by_bound"].values()))
    assert any("conv0" in launch["name"] and launch["kind"] == "contract" for launch in launches)
    assert all(launch["bytes"] >= launch["memory_bytes"] >= 0 and launch["programs"] > 0 for launch in launches)


def test_rows_of_text(mxforge: Any, convnet: Path) -> None:
    layers = mxforge("profile", convnet, *SHAPE, "--estimate", "h100", "--ctx", "gpu", "--top", "2").out
    assert "estimated for H100 SXM 80 GB (sm_90)" in layers and ", the 2 slowest" in layers
    assert "run  " in layers and "limited by latency" in layers
    launches = mxforge("profile", convnet, *SHAPE, "--estimate", "h100", "--by", "launch").out
    assert "\nlaunches (" in launches


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--estimate", "h100", "--csv", "x.csv"), "--csv is for measured times: omit it with --estimate"),
        (("--estimate", "h100", "--threads", "2"), "--threads is for programs on the CPU: omit it with --estimate"),
        (("--estimate", "h10"), "'h10' is not one of a100, "),
    ],
)
def test_wrong_options(mxforge: Any, convnet: Path, arguments: tuple[str, ...], text: str) -> None:
    done = mxforge("profile", convnet, *SHAPE, *arguments)
    assert done.status == 2 and text in done.err and done.err.count("\n") == 1


def test_names_of_gpus_are_those_with_data() -> None:
    assert tuple(GPUS) == ESTIMATED


def test_a_copy_takes_the_time_of_the_memory() -> None:
    symbol, shapes = mx.sym.relu(mx.sym.var("x")), {"x": (1 << 26,)}
    times = {gpu: sum(s.seconds for s in steps_of(symbol, shapes, gpu)) for gpu in ("h100", "h200")}
    assert times["h100"] / times["h200"] == pytest.approx(4800 / 3352, rel=0.02)


def test_data_of_the_launch_before_is_in_the_cache() -> None:
    x = mx.sym.var("x")
    product = mx.sym.dot(mx.sym.softmax(x), mx.sym.var("w"))
    first, second = steps_of(product, {"x": (1024, 1024), "w": (1024, 1024)})
    assert first.missed == second.missed == 0  # the run before had all of it
    large, after = steps_of(product, {"x": (1 << 16, 1024), "w": (1024, 1024)})
    assert large.missed == large.read + large.written and after.missed >= after.read


def test_steps_of_a_loop_are_counted() -> None:
    data, state = mx.sym.var("data"), mx.sym.var("state")
    _, (outputs,) = mx.sym.contrib.foreach(lambda x, s: (x, [mx.sym.tanh(mx.sym.dot(s[0], s[0]) + x)]), data, [state])
    steps = steps_of(outputs, {"data": (40, 8, 8), "state": (8, 8)})
    assert 40 <= sum(s.times for s in steps if s.work is not None) <= 44


def test_what_the_host_computes_has_no_time() -> None:
    steps = steps_of(mx.sym.linalg.potrf(mx.sym.var("x")), {"x": (4, 4)})
    assert any(s.estimate is None for s in steps) and all(s.seconds >= 0 for s in steps)


def test_kernels_written_by_hand_have_the_time_of_their_memory() -> None:
    (step, *_) = steps_of(mx.sym.sort(mx.sym.var("x")), {"x": (1 << 16, 256)})
    assert step.estimate is not None and step.seconds > 1e-5 and step.read > 0


def test_limits_of_a_launch() -> None:
    gpu = GPUS["h100"]
    small = LaunchWork(programs=1, warps=4, steps=100, stages=3, products=1e6, unit=DType.F16)
    assert estimate_launch(small, 0, gpu).bound == "latency"
    large = replace(small, programs=13200, products=1e8)
    assert estimate_launch(large, 0, gpu).bound == "tensor cores"
    assert estimate_launch(replace(large, unit=DType.F32), 0, gpu).seconds > estimate_launch(large, 0, gpu).seconds
    assert estimate_launch(small, 1e9, gpu).bound == "memory"
    assert estimate_launch(replace(small, arrives=True), 0, gpu).seconds > estimate_launch(small, 0, gpu).seconds
    assert resident_programs(replace(small, shared=100 << 10), gpu) == 2
    assert resident_programs(replace(small, warps=8, registers=255), gpu) == 1
