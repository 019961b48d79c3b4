"""Measures `mx.np` beside `mx.nd`, NumPy and, if it is installed, PyTorch (`--suite numpy`): eager calls on small
arrays, and functions of large ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from .calls import measure_alone

_PROGRAM = """
import mxforge
from mxforge.tools.bench.numpy_calls import report
report(mxforge)
"""
_SMALL, _LARGE, _LONG = 4, 4096, 1_000_000
Call = Callable[[], Any]


def measure_numpy(threads: int) -> int:
    """Print the tables, measured in a separate process. ToolError if the process fails."""
    return measure_alone(_PROGRAM, threads)


def _least(call: Call, count: int, samples: int) -> float:
    """The time in seconds of one of `count` calls: the minimum of several samples."""
    for _ in range(3):
        call()
    times: list[float] = []
    for _ in range(samples):
        start = time.perf_counter()
        for _ in range(count):
            call()
        times.append((time.perf_counter() - start) / count)
    return min(times)


def small_calls(mx: Any) -> dict[str, tuple[Call, Call]]:
    """Calls on matrices of 4 x 4, by name: the one of `mx.nd`, and the one of `mx.np` that does the same."""
    nd, np, npx = mx.nd, mx.np, mx.npx
    a, b = nd.ones((_SMALL, _SMALL)), nd.ones((_SMALL, _SMALL))
    x, y = a.as_np_ndarray(), b.as_np_ndarray()
    below, mask = a < 2, x < 2
    places = nd.array([0, 1], dtype="int32")
    rows = places.as_np_ndarray()
    return {
        "x + y": (lambda: a + b, lambda: x + y),
        "x + 1": (lambda: a + 1, lambda: x + 1),
        "x ** 2": (lambda: a**2, lambda: x**2),
        "exp": (lambda: nd.exp(a), lambda: np.exp(x)),
        "maximum": (lambda: nd.maximum(a, b), lambda: np.maximum(x, y)),
        "sum": (lambda: nd.sum(a), lambda: np.sum(x)),
        "mean, axis 1": (lambda: nd.mean(a, axis=1), lambda: np.mean(x, axis=1)),
        "dot": (lambda: nd.dot(a, b), lambda: np.dot(x, y)),
        "concatenate": (lambda: nd.concat(a, b, dim=0), lambda: np.concatenate([x, y])),
        "stack": (lambda: nd.stack(a, b), lambda: np.stack([x, y])),
        "where": (lambda: nd.where(below, a, b), lambda: np.where(mask, x, y)),
        "clip": (lambda: nd.clip(a, 0, 1), lambda: np.clip(x, 0, 1)),
        "take": (lambda: nd.take(a, places, mode="raise"), lambda: np.take(x, rows, axis=0)),
        "transpose": (lambda: a.T, lambda: x.T),
        "reshape": (lambda: a.reshape((2, 8)), lambda: x.reshape((2, 8))),
        "x[1]": (lambda: a[1], lambda: x[1]),
        "x[1:3]": (lambda: a[1:3], lambda: x[1:3]),
        "softmax": (lambda: nd.softmax(a), lambda: npx.softmax(x)),
        "fully_connected": (
            lambda: nd.FullyConnected(a, b, no_bias=True, num_hidden=_SMALL),
            lambda: npx.fully_connected(x, y, no_bias=True, num_hidden=_SMALL),
        ),
    }


def calls_of_torch(torch: Any) -> dict[str, Call]:
    """The calls of PyTorch with the names of `small_calls`."""
    x, y = torch.ones(_SMALL, _SMALL), torch.ones(_SMALL, _SMALL)
    mask, rows = x < 2, torch.tensor([0, 1])
    return {
        "x + y": lambda: x + y,
        "x + 1": lambda: x + 1,
        "x ** 2": lambda: x**2,
        "exp": lambda: torch.exp(x),
        "maximum": lambda: torch.maximum(x, y),
        "sum": lambda: torch.sum(x),
        "mean, axis 1": lambda: torch.mean(x, 1),
        "dot": lambda: torch.mm(x, y),
        "concatenate": lambda: torch.cat([x, y]),
        "stack": lambda: torch.stack([x, y]),
        "where": lambda: torch.where(mask, x, y),
        "clip": lambda: torch.clip(x, 0, 1),
        "take": lambda: torch.index_select(x, 0, rows),
        "reshape": lambda: x.reshape(2, 8),
        "x[1]": lambda: x[1],
        "x[1:3]": lambda: x[1:3],
        "softmax": lambda: torch.softmax(x, -1),
        "fully_connected": lambda: torch.nn.functional.linear(x, y),
    }


def large_calls(np: Any, random: Any, extent: int = _LARGE, length: int = _LONG) -> dict[str, Call]:
    """Functions of large arrays, of `mx.np` or of NumPy; `random` is a generator of NumPy."""

    def of(*shape: int) -> Any:
        return np.array(random.random(shape, "float32"))

    x, y, row, long = of(extent, extent), of(extent, extent), of(1, extent), of(length)
    square, small, mask = of(512, 512), np.array(random.integers(0, 1000, length), dtype="int32"), x > 0.5
    rows = np.array(random.integers(0, extent, extent), dtype="int32")
    stacks = of(64, 128, 128), of(64, 128, 128)
    unary = "exp log1p sqrt tanh sin absolute floor isnan".split()
    calls: dict[str, Call] = {name: lambda name=name: getattr(np, name)(x) for name in unary}
    calls |= {
        "x + y": lambda: x + y,
        "x * 2": lambda: x * 2,
        "x / y": lambda: x / y,
        "x > y": lambda: x > y,
        "x + row": lambda: x + row,
        "maximum": lambda: np.maximum(x, y),
        "arctan2": lambda: np.arctan2(x, y),
        "where": lambda: np.where(mask, x, y),
        "clip": lambda: np.clip(x, 0.2, 0.8),
        "sum": lambda: np.sum(x),
        "sum, axis 0": lambda: np.sum(x, axis=0),
        "sum, axis 1": lambda: np.sum(x, axis=1),
        "max, axis 0": lambda: np.max(x, axis=0),
        "argmax, axis 1": lambda: np.argmax(x, axis=1),
        "std": lambda: np.std(x),
        "cumsum, axis 1": lambda: np.cumsum(x, axis=1),
        "transpose, copied": lambda: np.transpose(x).copy(),
        "concatenate": lambda: np.concatenate([x, y], axis=1),
        "flip, copied": lambda: np.flip(x, 0).copy(),
        "roll": lambda: np.roll(x, 7, axis=1),
        "tile": lambda: np.tile(row, (extent, 1)),
        "astype": lambda: x.astype("float64"),
        "x[mask]": lambda: x[mask],
        "nonzero": lambda: np.nonzero(mask),
        "take": lambda: np.take(x, rows, axis=0),
        "sort": lambda: np.sort(long),
        "argsort": lambda: np.argsort(long),
        "unique": lambda: np.unique(small),
        "bincount": lambda: np.bincount(small),
        "percentile": lambda: np.percentile(long, 30),
        "einsum": lambda: np.einsum("bij,bjk->bik", *stacks),
        "svd of 512": lambda: np.linalg.svd(square),
        "inv of 512": lambda: np.linalg.inv(square),
        "solve of 512": lambda: np.linalg.solve(square, square),
    }
    return calls


def report(mx: Any) -> None:
    """Print both tables: times and their quotients."""
    import numpy

    mx.npx.set_np()
    torch = calls_of_torch(import_module("torch")) if find_spec("torch") else {}
    print(f"{f'on {_SMALL} x {_SMALL}':20} {'mx.nd':>10} {'mx.np':>10} {'np / nd':>9} {'torch':>10}")
    for name, (legacy, own) in small_calls(mx).items():
        times = [1e6 * _least(call, 2000, 15) for call in (legacy, own)]
        peer = f"{1e6 * _least(torch[name], 2000, 15):7.2f} us" if name in torch else ""
        print(f"{name:20} {times[0]:7.2f} us {times[1]:7.2f} us {times[1] / times[0]:9.2f} {peer:>10}")
    print(f"\n{f'on {_LARGE} x {_LARGE}':20} {'NumPy':>10} {'mx.np':>10} {'of NumPy':>9}")
    calls = [large_calls(module, numpy.random.default_rng(0)) for module in (numpy, mx.np)]
    for name, plain in calls[0].items():
        theirs, ours = (1e3 * _least(call, 1, 7) for call in (plain, calls[1][name]))
        print(f"{name:20} {theirs:7.2f} ms {ours:7.2f} ms {ours / theirs:9.2f}")
