"""What the measured processes of both frameworks share: times, initial values, and lines of results.

This file imports NumPy alone: PyTorch's process may run in another environment.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

SERIES = 10


def microseconds(call: Callable[[], object], wait: Callable[[], object], seconds: float) -> dict[str, float]:
    """The median and the least mean time of a call in ten series, and the calls of each: series are together about
    `seconds` long, and each ends when the device has done its work. One call if `seconds` is 0."""
    for _ in range(3 if seconds else 1):
        call()
    wait()
    once = _series(call, wait, 3 if seconds else 1)
    count = max(1, min(10_000, int(seconds * 1e6 / SERIES / once)))
    found = [_series(call, wait, count) for _ in range(SERIES if seconds else 1)]
    return {"us": round(statistics.median(found), 3), "least": round(min(found), 3), "calls": count}


def _series(call: Callable[[], object], wait: Callable[[], object], count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        call()
    wait()
    return (time.perf_counter() - begin) * 1e6 / count


def random(shape: Iterable[int], seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(tuple(shape), np.float32)


def initial_values(parameters: Iterable[tuple[tuple[int, ...], bool]]) -> Iterator[np.ndarray[Any, Any]]:
    """Values of the parameters of a network in order: (shape, whether a vector is of ones or zeros)."""
    generator = np.random.default_rng(1)
    for shape, ones in parameters:
        if len(shape) > 1:
            yield generator.standard_normal(shape, np.float32) * np.float32(np.prod(shape[1:]) ** -0.5)
        else:
            yield np.full(shape, float(ones), np.float32)


def adam_shapes(layers: int, divisor: int = 1) -> list[tuple[int, ...]]:
    """The parameters of BERT-base without its pooler: 197 arrays for 12 layers."""
    width, hidden = 768 // divisor, 3072 // divisor
    dense = [(width, width), (width,)]
    layer = [*dense * 4, (width,), (width,), (hidden, width), (hidden,), (width, hidden), (width,), (width,), (width,)]
    return [(30522 // divisor, width), (512, width), (2, width), (width,), (width,), *layer * layers]


def report(variant: str, **result: Any) -> None:
    """Print the result of a variant."""
    print(json.dumps({"variant": variant, **result}), flush=True)


def end_row() -> None:
    """Print that the results of a row are complete, and free its memory."""
    gc.collect()
    print(json.dumps({"end": True}), flush=True)


def attempt(variant: str, measure: Callable[[], dict[str, Any]]) -> None:
    """Report what a measurement returns, or the text of its error."""
    try:
        report(variant, **measure())
    except Exception as error:  # whatever does not work: the other variants go on
        if "-v" in sys.argv:
            raise
        report(variant, error=" ".join(f"{type(error).__name__}: {error}".split())[:500])


def save(folder: str, variant: str, output: np.ndarray[Any, Any]) -> None:
    """Keep a result for the comparison of both frameworks."""
    np.save(Path(folder) / f"{variant}.npy", np.asarray(output, np.float32))
