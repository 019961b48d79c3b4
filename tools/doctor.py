"""`mxforge doctor`: shows what the installation consists of, and tests it on a small network."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from .. import mxforge_version
from ..ir.settings import read_settings
from ..runtime.cache import DiskCache
from ..runtime.host import host_target
from .inspect_text import size

_REQUIRED = ("numpy", "llvmlite", "requests")
_OPTIONAL = {
    "pillow": "decodes images (pip install mxforge[image])",
    "opencv-python-headless": "decodes and resizes images as MXNet does",
    "onnx": "writes ONNX files (pip install mxforge[convert])",
    "onnxruntime": "verifies them, and is a peer of mxforge bench",
    "triton": "compiles kernels for GPUs (pip install mxforge[cuda])",
    "cuda-core": "runs them (pip install mxforge[cuda])",
}
_DRIVER = Path("/proc/driver/nvidia/version")
_TOLERANCE = 1e-5


def run(options: argparse.Namespace) -> int:
    """Print the report; returns status 1 if the installation cannot be used, else 0."""
    problems: list[str] = []
    parts = _packages(problems), _processor(problems), _settings(problems), _cache(problems), _driver()
    for part in (_platform(), *parts):
        for line in part:
            print(line)
    if not problems:
        for line in _self_test(problems):
            print(line)
    for problem in problems:
        print(f"problem     {problem}")
    print("everything works" if not problems else f"{len(problems)} problems")
    return 1 if problems else 0


def _platform() -> Iterator[str]:
    yield f"mxforge     {mxforge_version}, {Path(__file__).resolve().parents[1]}"
    yield f"python      {platform.python_version()}, {sys.executable}"
    yield f"system      {platform.system()} {platform.release()}, {platform.machine()}"


def _packages(problems: list[str]) -> Iterator[str]:
    for name in _REQUIRED:
        version = _version(name)
        yield f"package     {name} {version or 'is not installed'}"
        if version is None:
            problems.append(f"{name} is not installed: pip install {name}")
    for name, purpose in _OPTIONAL.items():
        version = _version(name)
        yield f"optional    {name} {version}" if version else f"optional    {name} is not installed: {purpose}"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version" if find_spec(name.replace("-", "_")) else None


def _processor(problems: list[str]) -> Iterator[str]:
    try:
        target = host_target()
    except (RuntimeError, ValueError) as error:
        problems.append(f"the processor is not supported: {error}")
        return
    yield f"processor   {target.cpu}, vectors of {target.vector_bits} bits"
    yield f"threads     {target.threads} of {os.cpu_count()} processors"


def _settings(problems: list[str]) -> Iterator[str]:
    """The variables of the environment that mxforge reads."""
    for name in sorted(os.environ):
        if name.startswith(("MXFORGE_", "MXNET_", "OMP_NUM_THREADS")):
            yield f"setting     {name}={os.environ[name]}"
    try:
        read_settings()
    except ValueError as error:
        problems.append(str(error))


def _cache(problems: list[str]) -> Iterator[str]:
    cache = DiskCache()
    if cache.problem:
        problems.append(cache.problem)
    if cache.folder is not None:
        count, nbytes = cache.usage()
        yield f"cache       {cache.folder}, {count} entries, {size(nbytes)} of at most {size(cache.limit)}"
    elif not cache.enabled:
        yield "cache       off (MXFORGE_CACHE=0)"


def _driver() -> Iterator[str]:
    found = _DRIVER.read_text().splitlines()[0] if _DRIVER.is_file() else "no NVIDIA driver: kernels run on the CPU"
    yield f"GPU         {found}"


def _self_test(problems: list[str]) -> Iterator[str]:
    """Compile a convolution with its gradient, and compare both with NumPy."""
    from ..frontend import autograd
    from ..frontend import ndarray as nd

    start = time.perf_counter()
    random = np.random.default_rng(0)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 6, 6), (4, 3, 3, 3)))
    image, weight = nd.array(x), nd.array(w)
    weight.attach_grad()
    with autograd.record():
        result = nd.Convolution(image, weight, kernel=(3, 3), num_filter=4, no_bias=True)
    result.backward()
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    expected = np.einsum("nchwij,fcij->nfhw", windows, w), np.broadcast_to(windows.sum((0, 2, 3)), w.shape)
    assert weight.grad is not None
    found = result.asnumpy(), weight.grad.asnumpy()
    for what, ours, wanted in zip(("result", "gradient"), found, expected, strict=True):
        difference = float(np.abs(ours - wanted).max() / np.abs(wanted).max())
        if not difference <= _TOLERANCE:
            problems.append(f"the {what} of a compiled convolution differs from NumPy's by {difference:.1e}")
    yield f"self-test   a convolution and its gradient compiled and ran in {time.perf_counter() - start:.2f} s"
