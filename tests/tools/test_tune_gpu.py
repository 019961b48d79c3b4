"""`mxforge tune --ctx gpu` on the fake driver: what it stores, that compilations use it, and errors. Times are set."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.codegen.triton import choices
from mxforge.codegen.triton.choices import choice_in
from mxforge.frontend.context import device_of
from mxforge.ir.caches import clear_caches
from mxforge.runtime.cache import DiskCache
from mxforge.runtime.host import tuning
from mxforge.runtime.host.tuning import identity, read_tables
from mxforge.tools.tune import search
from mxforge.tools.tune.trial import Trial

SHAPE = ("--input-shape", "data=4,64")
GPU = ("--ctx", "gpu")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fake_cuda: Any) -> Iterator[DiskCache]:
    monkeypatch.setenv("MXFORGE_CACHE", "1")
    cache = DiskCache(tmp_path / "cache", enabled=True)
    monkeypatch.setattr(tuning, "default_cache", lambda: cache)
    device_of(mx.gpu(0)).refresh()  # type: ignore[attr-defined]
    yield cache


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every schedule that differs from the default takes half of its time; one alternative of each is measured."""
    alternatives = search.alternatives

    def compare(trials: Sequence[Trial], seconds: float, *, whole: bool = False) -> None:
        for trial, time in zip(trials, (2.0, 1.0), strict=True):
            trial.launch_seconds[:] = time
            trial.seconds = time

    monkeypatch.setattr(search, "compare", compare)
    monkeypatch.setattr(search, "alternatives", lambda *args: alternatives(*args)[:1])


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    """The prefix of the files of a dense layer with a softmax on (N, 64)."""
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Dense(32, activation="relu"), mx.gluon.nn.HybridLambda(lambda F, x: F.softmax(x)))
    net.initialize()
    net.hybridize()
    net(mx.nd.ones((4, 64)))
    net.export(str(tmp_path / "dense"))
    return tmp_path / "dense"


def tuned(mxforge: Any, dense: Path, *arguments: str) -> dict[str, Any]:
    done = mxforge("tune", dense, *SHAPE, *GPU, "--json", *arguments)
    assert done.status == 0, done.err
    return json.loads(done.out)


def counts(mxforge: Any, dense: Path, *arguments: str) -> list[object]:
    done = mxforge("inspect", dense, *SHAPE, *GPU, "--json", *arguments)
    assert done.status == 0, done.err
    report = json.loads(done.out)
    return [report["code_bytes"], *(x["count"] for x in report["launches"])]


def test_what_is_found_is_stored_and_used(mxforge: Any, dense: Path, own_cache: DiskCache) -> None:
    x = np.random.default_rng(0).standard_normal((4, 64), np.float32)
    np.save(dense.with_name("x.npy"), x)
    plain = counts(mxforge, dense)
    report = tuned(mxforge, dense)
    kernels = report["kernels"]
    assert len(kernels) == 2 and all(k["ratio"] == 0.5 and k["best"] != k["default"] for k in kernels)
    assert all(k["best"]["kind"] == "GpuChoice" and k["launches"] and k["layers"] for k in kernels)
    device: Any = device_of(mx.gpu(0))
    found = {k["kernel"]: k["best"] for k in kernels}
    assert read_tables(Path(report["file"])) == {identity(device.target): found}
    assert device.target.tuned.entries == found
    assert counts(mxforge, dense) != plain == counts(mxforge, dense, "--tuning", "off")
    own_cache.evict()
    outputs: list[Any] = []
    for choice in ("off", report["file"]):
        output = dense.with_name("y.npy")
        done = mxforge("run", dense, "--input", f"{dense.parent}/x.npy", *GPU, "--output", output, "--tuning", choice)
        assert done.status == 0, done.err
        outputs.append(np.load(output))
    np.testing.assert_allclose(*outputs, rtol=1e-5, atol=1e-6)
    net = mx.gluon.SymbolBlock.imports(f"{dense}-symbol.json", ["data"], f"{dense}-0000.params", ctx=mx.gpu(0))
    net.hybridize(static_alloc=True, static_shape=True)
    np.testing.assert_allclose(net(mx.nd.array(x, ctx=mx.gpu(0))).asnumpy(), outputs[0], rtol=1e-5, atol=1e-6)


def test_text_of_a_step_of_training(mxforge: Any, dense: Path) -> None:
    done = mxforge("tune", dense, *SHAPE, *GPU, "--training", "-o", dense.with_name("own.json"))
    assert done.status == 0, done.err
    assert "with a faster schedule" in done.out and "run  2000.000 ms before, 1000.000 ms after (0.500)" in done.out
    assert "backward" in done.out and "own.json and in the disk cache" in done.out


def test_schedules_that_do_not_compile_are_left_out(mxforge: Any, dense: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mxforge.codegen.triton import program_emitter

    emit = program_emitter.emit_launches

    def refuse(kernel: Any, schedule: Any) -> Any:
        if any(d.name == "m" for d in schedule.dims) and changed(kernel, schedule):
            raise ValueError("a block has too little shared memory")
        return emit(kernel, schedule)

    def changed(kernel: Any, schedule: Any) -> bool:
        target = device_of(mx.gpu(0)).target
        return choices.choice_of(schedule) != choices.default_choice(kernel, target, "float32")[1]  # type: ignore[arg-type]

    monkeypatch.setattr(program_emitter, "emit_launches", refuse)
    kernels = tuned(mxforge, dense)["kernels"]
    assert sorted(k["best"] == k["default"] for k in kernels) == [False, True]
    assert all(k["tried"] for k in kernels)


@pytest.mark.filterwarnings("default:.* is not a schedule for")
def test_an_entry_that_does_not_fit_is_ignored_with_a_warning(mxforge: Any, dense: Path) -> None:
    report = tuned(mxforge, dense)
    file = Path(report["file"])
    content = json.loads(file.read_text())
    for entry in content["tables"][0]["kernels"].values():
        entry["split"] = 64
    file.write_text(json.dumps(content))
    clear_caches()
    done = mxforge("inspect", dense, *SHAPE, *GPU)
    assert done.status == 0 and "is not a schedule for" in done.err and "tune the model again" in done.err


def test_entries() -> None:
    with pytest.raises(ValueError, match="not a schedule for GPUs"):
        choice_in({"kind": "GpuChoice", "warps": 4})


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (("--ctx", "gpu(2)"), 1, "gpu(2) cannot be used: num_gpus() is 2"),
        (("--ctx", "gpu", "--threads", "2"), 2, "--threads is for programs on the CPU: omit it with --ctx gpu"),
    ],
)
def test_errors(mxforge: Any, dense: Path, arguments: tuple[str, ...], status: int, text: str) -> None:
    done = mxforge("tune", dense, *SHAPE, *arguments)
    assert done.status == status and text in done.err and done.err.count("\n") == 1
