"""The command that runs the tests of GPUs, on the fake driver."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.hardware", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_results(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    output = tmp_path / "results.json"
    done = run("--gpus", "fake", "--output", str(output), "frontend/test_gpu_loops")
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(output.read_text())
    assert results["tests"]["passed"] >= 3 and results["tests"]["failures"] == []
    assert results["machine"] == {"gpu": "fake"} and "numpy" in results["packages"]


def test_without_a_gpu_it_names_what_to_install(tmp_path: Path) -> None:
    from mxforge.runtime import devices

    if devices.device_count("gpu"):
        pytest.skip("this machine has a GPU")
    done = run("--output", str(tmp_path / "results.json"))
    assert done.returncode == 2 and "install" in done.stderr and not list(tmp_path.iterdir())
