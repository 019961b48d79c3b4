"""The command that runs the tests of GPUs and measures the rows of the hardware table, on the fake driver."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpu_rows import markdown, table
from gpu_rows.rows import Row, rows, selected
from gpu_rows.timing import adam_shapes, microseconds

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.hardware", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def conditions(**changes: Any) -> table.Conditions:
    values = dict(gpus="fake", torch=sys.executable, variants=["eager"], limit=60.0, seconds=0.0)
    return table.Conditions(**{**values, "end": time.monotonic() + 60, **changes})


def test_results(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    output = tmp_path / "results.json"
    done = run("--gpus", "fake", "--output", str(output), "--rows", "copy", "frontend/test_gpu_loops")
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(output.read_text())
    assert results["schema"] == "hardware/2"
    assert results["tests"]["passed"] >= 3 and results["tests"]["failures"] == []
    assert results["machine"] == {"gpu": "fake"} and "numpy" in results["packages"]
    row = results["rows"]["copy"]
    assert row["unit"] == "TB/s" and row["mxforge"]["value"] > 0
    assert list(row["peers"]) in (["eager"], ["torch"])  # with PyTorch, or its error


def test_without_a_gpu_it_names_what_to_install(tmp_path: Path) -> None:
    from mxforge.runtime import devices

    if devices.device_count("gpu"):
        pytest.skip("this machine has a GPU")
    done = run("--output", str(tmp_path / "results.json"))
    assert done.returncode == 2 and "install" in done.stderr and not list(tmp_path.iterdir())


def test_rows_are_selected_by_patterns() -> None:
    assert [row.name for row in selected("bert float32*, copy")] == ["copy", "bert float32 b1", "bert float32 b8"]
    assert selected("none") == [] and len(selected("all")) == len(rows()) == len({row.name for row in rows()})
    with pytest.raises(ValueError, match="no row 'resnet'; rows are eager"):
        selected("resnet")


def test_a_row_of_another_kind_is_an_error_of_that_row() -> None:
    pytest.importorskip("triton")
    (result,) = table.measure([Row("other", "ms", {"kind": "other", "peers": ("eager",)})], conditions(variants=[]))
    assert result["mxforge"] == {"error": "KeyError: 'other'"} and "ratio" not in result
    assert "KeyError" in table.summary("other", result)


def test_a_process_is_killed_after_its_time(tmp_path: Path) -> None:
    program = 'import time; print(\'{"variant": "eager"}\', flush=True); time.sleep(60)'
    assert table.run([sys.executable, "-c", program], 2, {}) == (['{"variant": "eager"}\n'], "no end after 2 s")
    assert table.run([str(tmp_path / "none")], 2, {})[1].startswith("cannot run")
    assert table.run([sys.executable, "-c", "raise SystemExit('why')"], 9, {})[1] == "status 1: why"


def test_a_row_that_ends_its_process_does_not_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows after it are measured by a new process."""
    program = """
import json, os, sys
for part in json.loads(sys.argv[1]):
    if part["spec"]["kind"] == "dies":
        os._exit(3)
    print('{"variant": "mxforge", "us": 1}', '{"end": true}', sep="\\n", flush=True)
"""
    command = table._command
    monkeypatch.setattr(table, "_command", lambda *given: [sys.executable, "-c", program, command(*given)[3]])
    rows = [Row(kind, "us", {"kind": kind, "peers": ()}) for kind in ("works", "dies", "works")]
    results = table.measure(rows, conditions(variants=[]))
    assert [result.get("mxforge", {}).get("us") for result in results] == [1, None, 1]
    assert results[1]["process"]["error"].startswith("status 3")


def test_no_process_starts_after_the_end() -> None:
    (result,) = table.measure(selected("copy"), conditions(end=time.monotonic()))
    assert result["process"] == {"error": "no time left"} == result["peers"]["process"]


def test_values_ratios_and_differences(tmp_path: Path) -> None:
    row = Row("copy", "TB/s", {}, work=1e9)
    assert row.value(1000) == 1 and Row("step", "ms", {}).value(1500) == 1.5
    np.save(tmp_path / "mxforge.npy", np.array([1.0, 2.0]))
    np.save(tmp_path / "eager.npy", np.array([1.0, 4.0]))
    assert table._difference(tmp_path, "eager") == 0.5 and table._difference(tmp_path, "graph") is None
    peers = {"eager": {"us": 4.0}, "graph": {"us": 2.0}, "compile": {"error": "none"}}
    assert table._ratio({"mxforge": {"us": 1.0}, "peers": peers}) == {"best_peer": "graph", "ratio": 0.5}


def test_times_are_those_of_calls_and_the_wait() -> None:
    calls: list[str] = []
    found = microseconds(lambda: calls.append("call"), lambda: calls.append("wait"), 0)
    assert found["calls"] == 1 and calls == ["call", "wait"] * 3


def test_arrays_of_the_optimizer() -> None:
    shapes = adam_shapes(12)
    assert len(shapes) == 197 and sum(int(np.prod(shape)) for shape in shapes) == 108_891_648


def test_results_as_markdown() -> None:
    row = {"unit": "ms", "mxforge": {"value": 0.4512}, "ratio": 0.9, "best_peer": "graph"}
    row["peers"] = {"eager": {"value": 2.0}, "graph": {"value": 0.5013, "difference": 1e-6}}
    failed = {"unit": "us", "process": {"error": "no end | after 9 s"}, "peers": {"torch": {"error": "no torch"}}}
    common = {"schema": "hardware/2", "machine": {"gpu": "H100", "cuda": 13000}, "packages": {"torch": "2.11"}}
    results = [{**common, "rows": {"resnet": failed}}, {**common, "rows": {"resnet": row, "lstm": failed}}]
    lines = list(markdown.section(markdown.joined(results)))
    assert lines[0] == "## On an H100" and "driver for CUDA 13.0; torch 2.11." in lines[2]
    assert lines[-2:] == [
        "| resnet | 0.451 ms | 0.501 ms | graph | **0.90** | 1.0e-06 |",
        "| lstm | (no end / after 9 s) | (no torch) |  |  |  |",
    ]
    with pytest.raises(ValueError, match="different GPUs: H100, H200"):
        markdown.joined([common, {**common, "machine": {"gpu": "H200"}}])
    with pytest.raises(ValueError, match="'hardware/1', not 'hardware/2'"):
        markdown.joined([{"schema": "hardware/1"}])
