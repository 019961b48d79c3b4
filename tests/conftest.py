"""Settings of every test session: verification after each pass, and an empty compile cache."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from order import place

TESTS = Path(__file__).resolve().parent

# Set before mxforge is imported, which reads its settings once.
os.environ["MXFORGE_VERIFY"] = "1"
os.environ["MXFORGE_COMPILE_PROCESSES"] = "1"  # the kernels of tests take less time than to start a process
if "PYTEST_XDIST_WORKER" not in os.environ:  # workers inherit the cache of the session, and share what they compile
    os.environ["MXFORGE_CACHE_DIR"] = tempfile.mkdtemp(prefix="mxforge-tests-")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden texts of emitted code anew")
    kinds, text = ("simulated", "fake", "hardware"), "GPUs of tests: simulated, of a fake CUDA driver, or real ones"
    parser.addoption("--gpus", choices=kinds, default="simulated", help=text)
    text = "run every N-th case of each test; 1: all, the default: the number of the marker `sampled`"
    parser.addoption("--sample", type=int, metavar="N", help=text)
    parser.addoption("--skip", type=int, default=0, metavar="K", help="a sample starts with case K")


def pytest_configure(config: pytest.Config) -> None:
    """Lets `--dist loadfile` keep the order of files, which otherwise starts those with many tests first."""
    config.option.loadscopereorder = False
    config.addinivalue_line("markers", "any_processor: the vector width makes no difference")
    config.addinivalue_line("markers", "sampled(N): every N-th case runs by default")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Orders tests. With the option --gpus only those of GPUs run, with --sample a part of the cases of each test. A
    case that the command names itself runs."""
    if config.getoption("--gpus") != "simulated":
        items[:] = [item for item in items if "simulated_gpus" in getattr(item, "fixturenames", ())]
    if not any("::" in argument for argument in config.args):
        cases: dict[str, list[pytest.Item]] = {}
        for item in items:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
        items[:] = [item for own in cases.values() for item in sample(own, config)]
    items.sort(key=lambda item: place(item.path.relative_to(TESTS).as_posix()))


def sample(cases: list[pytest.Item], config: pytest.Config) -> list[pytest.Item]:
    """Every N-th case of a test, at least one."""
    marker = cases[0].get_closest_marker("sampled")
    step = int(config.getoption("--sample") or (marker.args[0] if marker else 1))
    first = int(config.getoption("--skip") or 0) % step
    return cases[min(first, len(cases) - 1) :: step]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Removes the session's compile cache."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(os.environ["MXFORGE_CACHE_DIR"], ignore_errors=True)


@pytest.fixture(scope="module")
def few_objects_to_traverse() -> Iterator[None]:
    """Exempts what exists before a file, such as all tests and records, from garbage collections: tests that collect
    garbage often would traverse it each time, and forked processes would copy it."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture
def simulated_gpus(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[None]:
    """Two GPUs, `mx.gpu(0)` and `mx.gpu(1)`, during the test: simulated ones, or those of the option --gpus."""
    from mxforge.runtime import devices

    for package in ("triton", "ml_dtypes"):  # in the development dependencies; the tests of other Pythons have neither
        pytest.importorskip(package)
    kind = request.config.getoption("--gpus")
    monkeypatch.setitem(devices.PROVIDERS, "gpu", f"support.{kind}_gpu")
    monkeypatch.setattr(devices, "_opened", {})
    if kind == "fake":
        from support.fake_gpu import use_one_driver

        use_one_driver(monkeypatch)
    yield
    if kind == "hardware":
        from support.hardware_gpu import end_if_lost

        end_if_lost()


@pytest.fixture
def fake_cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The CUDA driver during the test: a fake one with two GPUs, `mx.gpu(0)` and `mx.gpu(1)`."""
    for package in ("triton", "ml_dtypes"):
        pytest.importorskip(package)
    from mxforge.ir.caches import clear_caches
    from support.fake_cuda import FakeCuda
    from support.fake_gpu import install

    fake = FakeCuda()
    install(monkeypatch, fake)
    yield fake
    clear_caches()  # of programs on its devices
