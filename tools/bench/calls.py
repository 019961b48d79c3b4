"""Measures first calls of operators and calls with new shapes, in a process without a disk cache (`--suite calls`)."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from ..errors import ToolError

_PROGRAM = """
import time
start = time.perf_counter()
import mxforge
imported = time.perf_counter() - start
from mxforge.tools.bench.calls import report
report(mxforge.nd, imported)
"""
SHAPES = ((5, 7), (9, 4), (30, 50), (6, 100))


def measure_calls(threads: int) -> int:
    """Print the table, measured in a separate process. ToolError if the process fails."""
    return measure_alone(_PROGRAM, threads)


def measure_alone(program: str, threads: int) -> int:
    """Run a Python program in a process without a disk cache and print its output. ToolError if the process fails."""
    environment = {**os.environ, "MXFORGE_CACHE": "0", "MXFORGE_NUM_THREADS": str(threads)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError(f"the measured process failed: {done.stderr.strip().splitlines()[-1]}")
    print(done.stdout, end="")
    return 0


def operators(nd: Any) -> dict[str, Callable[[Any], Any]]:
    """The calls by name. Each takes an array with two axes."""
    unary = "exp log sqrt tanh sigmoid relu sin gammaln erf sign round transpose flatten softmax log_softmax".split()
    reductions = "sum mean max min prod norm argmax argmin".split()
    calls: dict[str, Callable[[Any], Any]] = {name: getattr(nd, name) for name in unary}
    for name in reductions:
        calls[f"{name}, axis 0"] = lambda x, name=name: getattr(nd, name)(x, axis=0)
        calls[f"{name}, axis 1"] = lambda x, name=name: getattr(nd, name)(x, axis=1)
    calls |= {
        "x + x": lambda x: x + x,
        "x * 2.5": lambda x: x * 2.5,
        "x > 0": lambda x: x > 0,
        "broadcast_add": lambda x: nd.broadcast_add(x, x[:1]),
        "broadcast_power": lambda x: nd.broadcast_power(x, x[:1]),
        "clip": lambda x: nd.clip(x, 0, 1),
        "where": lambda x: nd.where(x, x, x),
        "slice_axis": lambda x: nd.slice_axis(x, axis=1, begin=1, end=3),
        "concat": lambda x: nd.concat(x, x, dim=1),
        "stack": lambda x: nd.stack(x, x),
        "take": lambda x: nd.take(x, nd.array([1, 0])),
        "pick": lambda x: nd.pick(x, x[:, 0]),
        "one_hot": lambda x: nd.one_hot(x[0], 5),
        "sort": nd.sort,
        "topk": lambda x: nd.topk(x, k=2),
        "cumsum": lambda x: nd.cumsum(x, axis=1),
        "dot": lambda x: nd.dot(x, x, transpose_b=True),
        "dot of columns": lambda x: nd.dot(x, x, transpose_a=True),
        "batch_dot": lambda x: nd.batch_dot(x.expand_dims(0), x.expand_dims(0), transpose_b=True),
        "FullyConnected": lambda x: nd.FullyConnected(x, x, None, num_hidden=x.shape[0], no_bias=True),
        "LayerNorm": lambda x: nd.LayerNorm(x, x[0], x[0]),
        "BatchNorm": lambda x: nd.BatchNorm(x, x[0], x[0], x[0], x[0]),
        "Embedding": lambda x: nd.Embedding(nd.array([0, 1]), x, input_dim=x.shape[0], output_dim=x.shape[1]),
        "Convolution": lambda x: nd.Convolution(
            nd.ones((1, 3, *x.shape)), nd.ones((4, 3, 3, 3)), nd.ones(4), kernel=(3, 3), num_filter=4
        ),
        "Pooling": lambda x: nd.Pooling(nd.ones((1, 3, *x.shape)), kernel=(2, 2), pool_type="max"),
    }
    return calls


def _again(call: Callable[[Any], Any], x: Any) -> float:
    """The time in seconds of one of many calls on a small array: the minimum of several samples."""
    samples: list[float] = []
    for _ in range(5):
        start = time.process_time()
        for _ in range(200):
            call(x)
        samples.append((time.process_time() - start) / 200)
    return min(samples)


def report(nd: Any, imported: float) -> None:
    """Warm up LLVM, then measure each operator's first call, one call with each further shape, and repeated calls.
    Times are CPU times: a compilation runs on one core, and other processes affect CPU time least."""
    from ...codegen.statistics import statistics

    for shape in SHAPES:
        (nd.ones(shape) / 3).wait_to_read()
    print(f"import mxforge: {1e3 * imported:.1f} ms")
    print(f"\n{'CPU time':20} {'first call':>11} {'new shapes, each':>17} {'compiled then':>14} {'again':>11}")
    firsts: list[float] = []
    for name, call in operators(nd).items():
        times: list[float] = []
        compiled: list[int] = []
        for shape in SHAPES:
            x = nd.array(nd.ones(shape) / 2)
            before, start = statistics.modules, time.process_time()
            call(x).wait_to_read()
            times.append(1e3 * (time.process_time() - start))
            compiled.append(statistics.modules - before)
        firsts.append(times[0])
        later, again = sum(times[1:]) / len(times[1:]), 1e6 * _again(call, nd.ones(SHAPES[0]))
        print(f"{name:20} {times[0]:8.1f} ms {later:14.1f} ms {sum(compiled[1:]):14} {again:8.2f} us")
    firsts.sort()
    print(f"\nfirst calls: median {firsts[len(firsts) // 2]:.1f} ms, most {firsts[-1]:.1f} ms")
