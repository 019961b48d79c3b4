"""`mxforge doctor` and `mxforge cache`."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mxforge.runtime.cache import DiskCache
from mxforge.tools import doctor


def test_a_working_installation(mxforge: Any) -> None:
    done = mxforge("doctor")
    assert done.status == 0, done.out
    for word in ("mxforge  ", "package     numpy ", "processor   ", "threads     ", "cache       ", "self-test   "):
        assert word in done.out
    assert done.out.endswith("everything works\n")


def test_problems_are_listed(mxforge: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor, "_REQUIRED", ("numpy", "no-such-package"))
    tmp_path.chmod(0o777)
    monkeypatch.setenv("MXFORGE_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("MXNET_HOME", "/data")
    done = mxforge("doctor")
    assert done.status == 1
    assert "problem     no-such-package is not installed: pip install no-such-package" in done.out
    assert "other users can write to it" in done.out and "setting     MXNET_HOME=/data" in done.out
    assert "self-test" not in done.out and done.out.endswith("2 problems\n")


def test_misspelled_variables_are_problems(mxforge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MXFORGE_NUM_THREAD", "4")
    done = mxforge("doctor")
    assert done.status == 1 and done.out.endswith("\n1 problem\n")
    assert "problem     nothing reads MXFORGE_NUM_THREAD. Did you mean 'MXFORGE_NUM_THREADS'?" in done.out


def test_reports_as_json(mxforge: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MXFORGE_CACHE_DIR", str(tmp_path / "cache"))
    report = json.loads(mxforge("doctor", "--json").out)
    assert report["problems"] == [] and report["self_test_seconds"] > 0 and report["packages"]["numpy"]
    cache = json.loads(mxforge("cache", "--json").out)
    assert cache["folder"] == report["cache"]["folder"] and cache["bytes"] >= 0


def test_an_error_of_the_self_test_is_a_problem(mxforge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(context: Any) -> None:
        raise ImportError("libLLVM.so is missing")

    monkeypatch.setattr(doctor, "_differences", fail)
    done = mxforge("doctor")
    assert done.status == 1 and "cannot be compiled: ImportError: libLLVM.so is missing" in done.out


def test_a_wrong_result_is_a_problem(mxforge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_TOLERANCE", -1.0)
    done = mxforge("doctor")
    assert done.status == 1 and "the gradient of a compiled convolution differs from NumPy's by " in done.out


def test_the_cache_is_shown_and_emptied(mxforge: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    monkeypatch.setenv("MXFORGE_CACHE_DIR", str(folder))
    stored = DiskCache(folder, 10 << 20)
    for number in range(3):
        stored.put(f"{number:016x}", bytes(700 << 10))
    assert f"{folder}  3 programs and objects, 2.1 MiB of at most 2.00 GiB" in mxforge("cache").out
    assert "2 programs" in mxforge("cache", "--shrink", "2").out
    assert stored.get(f"{2:016x}") is not None
    assert "0 programs and objects, 0 bytes" in mxforge("cache", "--clear").out
    assert mxforge("cache", "--clear", "--shrink", "1").status == 2
    (tmp_path / "file").touch()
    monkeypatch.setenv("MXFORGE_CACHE_DIR", str(tmp_path / "file"))
    refused = mxforge("cache")
    assert refused.status == 1 and "cannot use" in refused.err


def test_a_missing_gpu_is_no_problem(mxforge: Any) -> None:
    done = mxforge("doctor")
    assert done.status == 0 and "\nGPU         none: " in done.out and "install" in done.out


def test_gpus_are_listed(mxforge: Any, fake_cuda: Any) -> None:
    lines = mxforge("doctor").out.splitlines()
    gpus = "GPU         gpu(0) sm_90, 1.00 GiB of 1.00 GiB free, gpu(1) sm_90, 1.00 GiB of 1.00 GiB free"
    assert [line for line in lines if line.startswith("GPU")] == [gpus]


def test_a_network_is_tested_on_the_gpu(mxforge: Any, fake_cuda: Any) -> None:
    done = mxforge("doctor")
    assert done.status == 0 and "self-test   the same on gpu(0) in " in done.out, done.out


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (None, "the package cuda-bindings is not installed: pip install mxforge[cuda]"),
        ("no library", "cannot be loaded: install NVIDIA's driver, version 525 or newer"),
        ("old driver", "the NVIDIA driver is for CUDA 11.4: install NVIDIA's driver, version 525 or newer"),
        ("no GPU", "the NVIDIA driver finds no GPU: see nvidia-smi, and CUDA_VISIBLE_DEVICES in the environment"),
    ],
)
def test_what_gpus_lack_is_named(mxforge: Any, monkeypatch: pytest.MonkeyPatch, module: Any, text: str) -> None:
    pytest.importorskip("ml_dtypes")
    from support import fake_cuda, fake_gpu

    drivers = {
        "no library": SimpleNamespace(),
        "old driver": fake_cuda.FakeCuda(version=11040),
        "no GPU": fake_cuda.FakeCuda(devices=0),
    }
    fake_gpu.install(monkeypatch, drivers.get(module))  # type: ignore[arg-type]
    done = mxforge("doctor")
    (line,) = [line for line in done.out.splitlines() if line.startswith("GPU")]
    assert done.status == 0 and line.startswith("GPU         none: ") and text in line
    assert done.out.endswith("everything works\n")


def test_without_triton_a_gpu_is_a_problem(mxforge: Any, fake_cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    version = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "triton" else version(name))
    done = mxforge("doctor")
    assert done.status == 1
    assert "problem     kernels for GPUs cannot be compiled without Triton: pip install mxforge[cuda]" in done.out
    assert "optional    triton is not installed: compiles kernels for GPUs (pip install mxforge[cuda])" in done.out


def test_a_gpu_that_cannot_be_used_is_a_problem(mxforge: Any, fake_cuda: Any) -> None:
    fake_cuda.errors["cuStreamCreate"] = [1]
    done = mxforge("doctor")
    assert done.status == 1 and "problem     gpu(0) cannot be used: gpu(0): CUDA_ERROR_INVALID_VALUE" in done.out
