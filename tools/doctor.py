"""`mxforge doctor`: shows what the installation consists of, and tests it on a small network."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from .. import mxforge_version
from ..frontend.context import GPU, Context, cpu, gpu
from ..ir.settings import VARIABLES, read_settings, unknown_variables
from ..ir.suggestions import see, suggestion
from ..runtime.cache import DiskCache
from ..runtime.devices import HOST, device_count, open_device, unavailable
from .inspect_text import counted, size
from .schemas.common import Machine
from .schemas.machine import Cache, DoctorReport, Interpreter, Package
from .schemas.print_json import as_json

_REQUIRED = ("numpy", "llvmlite", "networkx", "pydantic", "requests")
_OPTIONAL = {
    "pillow": "decodes images (pip install mxforge[image])",
    "opencv-python-headless": "decodes and resizes images as MXNet does",
    "onnx": "writes ONNX files (pip install mxforge[convert])",
    "onnxruntime": "verifies the ONNX files that mxforge writes, and is a peer of mxforge bench",
    "matplotlib": "draws plots (pip install mxforge[plot])",
    "shtab": "completes commands in shells (pip install mxforge[completion])",
    "triton": "compiles kernels for GPUs (pip install mxforge[cuda])",
    "cuda-bindings": "runs kernels on GPUs (pip install mxforge[cuda])",
}
_TOLERANCE = 1e-5
_GPU_TOLERANCE = 5e-3
"""Settings can let GPUs multiply float32 numbers as TF32."""


def run(options: argparse.Namespace) -> int:
    """Print the report; returns status 1 if the installation cannot be used, else 0."""
    problems: list[str] = []
    report = DoctorReport(
        mxforge=Package(version=mxforge_version, folder=str(Path(__file__).resolve().parents[1])),
        python=Interpreter(version=platform.python_version(), executable=sys.executable),
        system=f"{platform.system()} {platform.release()}, {platform.machine()}",
        packages=_packages(problems),
        optional={name: _version(name) for name in _OPTIONAL},
        processor=_processor(problems),
        settings=_settings(problems),
        cache=_cache(problems),
        gpus=_gpus(problems),
        no_gpu=None if device_count("gpu") else unavailable("gpu"),
        self_test_seconds=None,
        gpu_test_seconds=None,
        problems=(),
    )
    on_gpu = bool(report.gpus) and not problems
    seconds = None if problems else _self_test(problems, cpu())
    gpu_seconds = _self_test(problems, gpu()) if on_gpu else None
    report = replace(report, self_test_seconds=seconds, gpu_test_seconds=gpu_seconds, problems=tuple(problems))
    print(as_json("doctor", report) if options.json else "\n".join(_lines(report)))
    return 1 if problems else 0


def _lines(report: DoctorReport) -> Iterator[str]:
    """The report as text."""
    yield f"mxforge     {report.mxforge.version}, {report.mxforge.folder}"
    yield f"python      {report.python.version}, {report.python.executable}"
    yield f"system      {report.system}"
    for name, version in report.packages.items():
        yield f"package     {name} {version or 'is not installed'}"
    for name, version in report.optional.items():
        yield f"optional    {name} {version or f'is not installed: {_OPTIONAL[name]}'}"
    processor, cache = report.processor, report.cache
    if processor is not None:
        yield f"processor   {processor.cpu}, vectors of {processor.vector_bits} bits"
        yield f"threads     {processor.threads} of {os.cpu_count()} processors"
    for name, value in report.settings.items():
        yield f"setting     {name}={value}"
    if not cache.enabled:
        yield "cache       off (MXFORGE_CACHE=0)"
    elif cache.folder is not None:
        entries = counted(cache.entries, "entry", "entries")
        yield f"cache       {cache.folder}, {entries}, {size(cache.bytes)} of at most {size(cache.limit_bytes)}"
    yield f"GPU         {', '.join(report.gpus) or f'none: {report.no_gpu}'}"
    if report.self_test_seconds is not None:
        yield f"self-test   a convolution and its gradient compiled and ran in {report.self_test_seconds:.2f} s"
    if report.gpu_test_seconds is not None:
        yield f"self-test   the same on gpu(0) in {report.gpu_test_seconds:.2f} s"
    for problem in report.problems:
        yield f"problem     {problem}"
    yield "everything works" if not report.problems else counted(len(report.problems), "problem")


def _packages(problems: list[str]) -> dict[str, str | None]:
    """The versions of the packages that mxforge needs. None: not installed, which is a problem."""
    packages = {name: _version(name) for name in _REQUIRED}
    problems.extend(
        f"{name} is not installed: pip install {name}" for name, version in packages.items() if version is None
    )
    return packages


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version" if find_spec(name.replace("-", "_")) else None


def _processor(problems: list[str]) -> Machine | None:
    try:
        target = HOST.target_for()
    except (RuntimeError, ValueError) as error:
        problems.append(f"the processor is not supported: {error}")
        return None
    return Machine(cpu=target.cpu, vector_bits=target.vector_bits, threads=target.threads)


def _settings(problems: list[str]) -> dict[str, str]:
    """The variables of the environment that mxforge reads, and those named MXFORGE_* that nothing reads, which are
    problems."""
    names = [name for name in sorted(os.environ) if name.startswith(("MXFORGE_", "MXNET_", "OMP_NUM_THREADS"))]
    for name in unknown_variables():
        problems.append(f"nothing reads {name}.{suggestion(name, VARIABLES)}{see('debugging')}")
    try:
        read_settings()
    except ValueError as error:
        problems.append(str(error))
    return {name: os.environ[name] for name in names}


def _cache(problems: list[str]) -> Cache:
    cache = DiskCache()
    if cache.problem:
        problems.append(cache.problem)
    count, nbytes = (0, 0) if cache.folder is None else cache.usage()
    folder = None if cache.folder is None else str(cache.folder)
    return Cache(enabled=cache.enabled, folder=folder, entries=count, bytes=nbytes, limit_bytes=cache.limit)


def _gpus(problems: list[str]) -> tuple[str, ...]:
    """The GPUs that can be used. One that cannot be opened is a problem."""
    gpus: list[str] = []
    for number in range(device_count("gpu")):
        try:
            device = open_device("gpu", number)
            free, total = device.memory_info()
        except RuntimeError as error:
            problems.append(f"gpu({number}) cannot be used: {error}")
            continue
        target: Any = device.target
        gpus.append(f"{device.name} sm_{target.capability}, {size(free)} of {size(total)} free")
    if gpus and _version("triton") is None:
        problems.append("kernels for GPUs cannot be compiled without Triton: pip install mxforge[cuda]")
    return tuple(gpus)


def _self_test(problems: list[str], context: Context) -> float | None:
    """Compile a convolution with its gradient for a device, and compare both with NumPy. Returns the seconds; None if
    it failed."""
    on_gpu = context.device_typeid == GPU
    where, tolerance = (f" on {context}", _GPU_TOLERANCE) if on_gpu else ("", _TOLERANCE)
    start = time.perf_counter()
    try:
        differences = _differences(context)
    except Exception as error:  # whatever is wrong with this installation
        problems.append(f"a convolution cannot be compiled{where}: {type(error).__name__}: {error}")
        return None
    for what, difference in differences.items():
        if not difference <= tolerance:
            problems.append(f"the {what} of a compiled convolution{where} differs from NumPy's by {difference:.1e}")
    return time.perf_counter() - start


def _differences(context: Context) -> dict[str, float]:
    """The largest differences from NumPy, relative to the largest element."""
    from ..frontend import autograd
    from ..frontend import ndarray as nd

    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 6, 6), (4, 3, 3, 3)))
    image, weight = nd.array(x, ctx=context), nd.array(w, ctx=context)
    weight.attach_grad()
    with autograd.record():
        result = nd.Convolution(image, weight, kernel=(3, 3), num_filter=4, no_bias=True)
    result.backward()
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    expected = np.einsum("nchwij,fcij->nfhw", windows, w), np.broadcast_to(windows.sum((0, 2, 3)), w.shape)
    assert weight.grad is not None
    actual = result.asnumpy(), weight.grad.asnumpy()
    pairs = zip(("result", "gradient"), actual, expected, strict=True)
    return {what: float(np.abs(ours - wanted).max() / np.abs(wanted).max()) for what, ours, wanted in pairs}
