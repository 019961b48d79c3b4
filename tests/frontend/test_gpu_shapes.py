"""Eager calls of many shapes on a GPU: they launch kernels that were compiled for other shapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.codegen.statistics import statistics
from mxforge.ir.caches import clear_caches
from mxforge.runtime import compile as compilation
from mxforge.runtime.cache import DiskCache

pytestmark = pytest.mark.usefixtures("simulated_gpus")
nd = mx.nd
GPU = mx.gpu(0)
Shape = tuple[int, ...]

CALLS: dict[str, tuple[Callable[[Any], Any], list[Shape]]] = {
    "pointwise": (nd.relu, [(3, 5), (5, 3), (3, 7), (2, 3, 3)]),
    "a number": (lambda x: x * 1.5 + 2, [(3, 5), (5, 3), (2, 9)]),
    "rows": (nd.softmax, [(3, 5), (4, 7), (3, 6)]),
    "long rows": (nd.softmax, [(3, 1025), (4, 2001), (3, 1999)]),
    "a mean": (lambda x: nd.mean(x, axis=1), [(3, 5), (4, 7), (3, 6)]),
    "columns": (lambda x: nd.sum(x, axis=0), [(3, 5), (4, 7), (3, 6)]),
    "everything": (nd.sum, [(3, 5), (3, 4), (13,)]),
    "transpose": (nd.transpose, [(3, 5), (4, 7), (3, 6)]),
    "a part": (lambda x: nd.slice_axis(x, axis=1, begin=2, end=None), [(3, 5), (4, 7), (6, 5)]),
    "reverse": (lambda x: nd.reverse(x, axis=1), [(3, 5), (5, 3), (2, 7)]),
    "broadcast": (lambda x: nd.broadcast_add(x, nd.ones((1, x.shape[1]), ctx=x.context)), [(3, 5), (4, 7)]),
    "gather": (lambda x: nd.take(x, nd.array([1, 0, 1], ctx=x.context)), [(3, 5), (2, 7)]),
    "float16": (lambda x: nd.exp(x.astype("float16") / 3), [(3, 5), (5, 3), (2, 7)]),
    "integers": (lambda x: (x * 5).astype("int32") % 3, [(3, 5), (5, 3), (2, 7)]),
}


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Caches are empty, that on disk too."""
    disk = DiskCache(tmp_path / "cache")
    monkeypatch.setattr(compilation, "default_cache", lambda: disk)
    clear_caches()


def random(shape: Shape) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape, np.float32)


@pytest.mark.parametrize("name", CALLS)
def test_shapes_of_one_size_share_kernels(name: str) -> None:
    """Sizes are counted in powers of two."""
    call, shapes = CALLS[name]
    wanted = [call(nd.array(random(shape))).asnumpy() for shape in shapes]
    call(nd.array(random(shapes[0]), ctx=GPU))
    modules = statistics.modules
    for shape, expected in zip(shapes, wanted, strict=True):
        found = call(nd.array(random(shape), ctx=GPU)).asnumpy()
        np.testing.assert_allclose(found, expected, rtol=1e-2 if found.dtype == np.float16 else 1e-5, atol=1e-6)
    assert statistics.modules == modules


def test_extents_that_are_multiples_of_16_have_kernels_of_their_own() -> None:
    compiled: list[int] = []
    for n in (1000, 999, 1024, 1008):
        before = statistics.modules
        x = nd.array(random((n,)), ctx=GPU)
        np.testing.assert_array_equal((x + x).asnumpy(), 2 * random((n,)))
        compiled.append(statistics.modules - before)
    assert compiled == [1, 0, 1, 0]
