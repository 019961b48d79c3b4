"""The workloads of `mxforge bench`, and those that `--suite` names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ...ir.lazy_dataclass import dataclass
from ..errors import UsageError
from ..progress import Progress
from .augmenters import AUGMENTERS
from .data_suites import data_suite, records
from .grammar import MANY, OPERATORS, ORDERS, PRODUCTS, READERS, SEQUENCES, STEPS, SUITES, TORCH
from .photos import COUNT, SIZE, TOLERANCE, write_photos
from .suites import suite
from .training import INFERENCES, TRAININGS, batch_of

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Workload:
    """What is measured: the arrays that all engines load, and the spec for each of them.

    `shapes` are those of the report. A call computes `batch` elements. `threads` are the most that a compiled model
    runs on.
    """

    name: str
    arrays: Arrays
    specs: Mapping[str, Mapping[str, Any]]
    shapes: dict[str, list[int]]
    batch: int = 1
    tolerance: float = 1e-5
    threads: int | None = None


def shapes_of(arrays: Arrays) -> dict[str, list[int]]:
    """The shapes for a report."""
    return {name: list(array.shape) for name, array in arrays.items()}


def suite_workloads(name: str) -> Iterator[Workload]:
    """The workloads of a suite, one after another. Files that they need exist until the next one."""
    for one in MANY.get(name, (name,)):
        with TemporaryDirectory(prefix="mxforge-bench-files-") as folder:
            with Progress(f"making the inputs of {one}"):
                workload = _MAKERS[one](one, Path(folder))
            yield workload


class _Specs(dict[str, Mapping[str, Any]]):
    """The spec of a suite for each engine. UsageError for an engine that does not run it."""

    def __missing__(self, engine: str) -> Mapping[str, Any]:
        raise UsageError(f"{engine} cannot run this --suite; engines that can: {', '.join(self)}")


def _same(engines: Iterable[str], spec: Mapping[str, Any]) -> _Specs:
    return _Specs(dict.fromkeys(engines, spec))


def _micro(name: str, _: Path) -> Workload:
    words, arrays = suite(name)
    specs = _same(("mxforge", "mxnet", "mxnet-mkldnn", "torch", "numpy"), {"suite": name})
    return Workload(f"{name} ({words})", arrays, specs, shapes_of(arrays))


def _training(name: str, _: Path) -> Workload:
    training = TRAININGS[name]
    arrays, spec = training.arrays(name), training.spec(name)
    specs = _same(("mxforge", "mxnet", *TORCH), spec)
    shapes = shapes_of(batch_of(arrays))
    return Workload(f"{name} ({training.words})", arrays, specs, shapes, spec.get("batch", 1), training.tolerance)


def _inference(name: str, _: Path) -> Workload:
    inference = INFERENCES[name]
    arrays = inference.arrays()
    specs = _same(("mxforge", "mxnet", "mxnet-mkldnn", *TORCH), inference.spec())
    shapes, batch = shapes_of(batch_of(arrays)), inference.shape[inference.batch_axis]
    return Workload(f"{name} ({inference.words})", arrays, specs, shapes, batch)


def _augmenters(name: str, _: Path) -> Workload:
    augmenter = AUGMENTERS[name]
    arrays = augmenter.arrays()
    specs = _same(("mxforge", "mxnet"), augmenter.spec())
    return Workload(f"{name} ({augmenter.words})", arrays, specs, {}, len(arrays), augmenter.tolerance)


def _loader(name: str, folder: Path) -> Workload:
    write_photos(folder)
    specs = _same(("mxforge", "mxnet", "torch"), {"feeding": True, "folder": str(folder)})
    shapes = {"images": [COUNT, SIZE, SIZE, 3]}
    return Workload(f"{name} (an epoch with two workers)", {}, specs, shapes, COUNT, TOLERANCE)


def _reader(name: str, _: Path) -> Workload:
    words, path = data_suite(name)
    return Workload(
        f"{name} ({words})", {}, _same(("mxforge", "mxnet"), {"data": name, "path": path}), {}, records(name)
    )


_MAKERS: dict[str, Callable[[str, Path], Workload]] = {
    **dict.fromkeys((*SUITES, *OPERATORS, *PRODUCTS, *ORDERS), _micro),
    **dict.fromkeys(SEQUENCES, _inference),
    **dict.fromkeys(STEPS, _training),
    **dict.fromkeys(AUGMENTERS, _augmenters),
    "loader": _loader,
    **dict.fromkeys(READERS, _reader),
}
