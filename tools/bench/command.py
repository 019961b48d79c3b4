"""`mxforge bench`: measures mxforge and its peers on the same inputs, in alternation."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ...frontend.artifacts import write_atomically
from ...frontend.dtypes import memory_dtype
from ...runtime.compiled_folder import read_folder
from ...runtime.threads import get_num_threads
from ..errors import ToolError, UsageError
from ..grammar import OPERATORS, READERS, STEPS, TORCH
from ..inputs import random_inputs, read_inputs
from ..model_files import ModelFiles, find_model
from ..models import InputShapes, Model, data_types, load_model
from ..parameters import require_parameters
from ..progress import Progress
from .augmenters import AUGMENTERS
from .calls import measure_calls
from .data_suites import data_suite
from .measure import Figures, Participant, measure
from .photos import COUNT, SIZE, TOLERANCE, write_photos
from .report import Conditions, as_json, as_markdown, as_text
from .shapes import measure_shapes
from .suites import suite
from .training import TRAININGS, batch_of

Arrays = dict[str, np.ndarray]
Measured = tuple[Conditions, Sequence[Figures]]


@dataclass(frozen=True)
class Workload:
    """What is measured: the arrays that all engines load, and the spec for each of them.

    `shapes` are those of the report. `threads` are the most that a compiled model runs on. `files` is the folder that
    the specs refer to, which lives as long as this.
    """

    name: str
    arrays: Arrays
    specs: Mapping[str, Mapping[str, Any]]
    shapes: dict[str, list[int]]
    tolerance: float = 1e-5
    threads: int | None = None
    files: TemporaryDirectory[str] | None = None


_MANY = {"operators": OPERATORS, "training": STEPS, "augmenters": tuple(AUGMENTERS), "data": READERS}
"""Suites of suites."""


def run(options: argparse.Namespace) -> int:
    """Measure and report; returns status 1 if a peer's results differ by more than the tolerance, else 0."""
    if (options.model is None) == (options.suite is None):
        raise UsageError("pass either a model or --suite")
    threads = options.threads or len(os.sched_getaffinity(0))
    if options.suite == "calls":
        return measure_calls(threads)
    if options.suite == "shapes":
        return measure_shapes(threads)
    done: list[Measured] = []
    status = 0
    for name in _MANY.get(options.suite, (options.suite,)):
        conditions, figures = _run_one(argparse.Namespace(**{**vars(options), "suite": name}), threads)
        print(as_text(conditions, figures))
        status = max(status, _agreement(figures, conditions.tolerance))
        done.append((conditions, figures))
        _write(options.json, options.markdown, done)
    return status


def _run_one(options: argparse.Namespace, threads: int) -> Measured:
    with Progress("reading the model") as progress:
        found = _suite(options) if options.suite else _model(options)
        threads = min(threads, found.threads or threads)
        participants = [_participant(engine, found.specs, options.pythons) for engine in ("mxforge", *options.against)]
        figures = measure(participants, list(found.arrays.values()), options.repeat, threads, progress)
    tolerance = found.tolerance if options.tolerance is None else options.tolerance
    return Conditions(found.name, found.shapes, threads, options.repeat, tolerance), figures


def _participant(engine: str, specs: Mapping[str, Mapping[str, Any]], pythons: Mapping[str, str]) -> Participant:
    """A peer runs in our interpreter unless `pythons` names another one; `mxnet-mkldnn` runs in that of `mxnet`."""
    family = engine.partition("-")[0]
    return Participant(engine, pythons.get(engine, pythons.get(family, sys.executable)), specs[engine])


def _agreement(figures: Sequence[Figures], tolerance: float) -> int:
    wrong = [f for f in figures if f.difference is not None and not f.difference <= tolerance]
    for found in wrong:
        text = f"{found.engine}'s results differ by {found.difference:.1e}, more than {tolerance:.1e}"
        print(f"mxforge: error: {text}", file=sys.stderr)
    return 1 if wrong else 0


def _write(json_path: Path | None, markdown_path: Path | None, done: Sequence[Measured]) -> None:
    if json_path is not None:
        found = [as_json(conditions, figures) for conditions, figures in done]
        text = json.dumps(found[0] if len(found) == 1 else found, indent=1)
        write_atomically(json_path, f"{text}\n".encode())
    if markdown_path is not None:
        text = "\n".join([as_markdown(conditions, figures) for conditions, figures in done])
        write_atomically(markdown_path, text.encode())


# --- workloads --------------------------------------------------------------------------------------------------------


_MXNET_FILES = "MXNet's files instead of a compiled folder"


class _Specs(dict[str, Mapping[str, Any]]):
    """The spec that each engine loads. UsageError for an engine that cannot load the model."""

    _NEEDED = {
        "onnxruntime": "--onnx FILE",
        "torch": "--torch FILE",
        "mxnet": _MXNET_FILES,
        "mxnet-mkldnn": _MXNET_FILES,
    }

    def __missing__(self, engine: str) -> Mapping[str, Any]:
        needed = self._NEEDED.get(engine)
        if needed is None:
            raise UsageError(f"{engine} cannot run models, only --suite")
        raise UsageError(f"{engine} cannot load this model: it requires {needed}")


class _SuiteSpecs(dict[str, Mapping[str, Any]]):
    """The spec of a suite for each engine. UsageError for an engine that does not run it."""

    def __missing__(self, engine: str) -> Mapping[str, Any]:
        raise UsageError(f"{engine} cannot run this --suite; engines that can: {', '.join(self)}")


def _suite(options: argparse.Namespace) -> Workload:
    if options.suite in STEPS:
        return _training(options.suite)
    if options.suite in AUGMENTERS:
        return _augmenters(options.suite)
    if options.suite == "loader":
        return _loader()
    if options.suite in READERS:
        return _reader(options.suite, options.threads or len(os.sched_getaffinity(0)))
    words, arrays = suite(options.suite)
    engines = ("mxforge", "mxnet", "mxnet-mkldnn", "torch", "numpy")
    specs = _SuiteSpecs({engine: {"suite": options.suite} for engine in engines})
    return Workload(f"{options.suite} ({words})", arrays, specs, _shapes(arrays))


def _training(name: str) -> Workload:
    found = TRAININGS[name]
    arrays, spec = found.arrays(name), found.spec(name)
    specs = _SuiteSpecs({engine: spec for engine in ("mxforge", "mxnet", *TORCH)})
    return Workload(f"{name} ({found.words})", arrays, specs, _shapes(batch_of(arrays)), found.tolerance)


def _augmenters(name: str) -> Workload:
    found = AUGMENTERS[name]
    specs = _SuiteSpecs({engine: found.spec() for engine in ("mxforge", "mxnet")})
    return Workload(f"{name} ({found.words})", found.arrays(), specs, {}, found.tolerance)


def _loader() -> Workload:
    files = TemporaryDirectory(prefix="mxforge-bench-photos-")
    write_photos(Path(files.name))
    specs = _SuiteSpecs({engine: {"feeding": True, "folder": files.name} for engine in ("mxforge", "mxnet", "torch")})
    shapes = {"images": [COUNT, SIZE, SIZE, 3]}
    return Workload("loader (an epoch with two workers)", {}, specs, shapes, TOLERANCE, files=files)


def _reader(name: str, threads: int) -> Workload:
    words, path = data_suite(name)
    spec = {"data": name, "path": path, "threads": threads}
    specs = _SuiteSpecs({engine: spec for engine in ("mxforge", "mxnet")})
    return Workload(f"{name} ({words})", {}, specs, {})


def _model(options: argparse.Namespace) -> Workload:
    files = find_model(options.model, options.epoch, options.params)
    if files.compiled is not None:
        arrays, threads = _compiled_inputs(files.compiled, options), get_num_threads()
    else:
        arrays, threads = _symbol_inputs(load_model(files), options), None
    specs = _specs(files, list(arrays), options.onnx, options.torch)
    return Workload(files.name, arrays, specs, _shapes(arrays), threads=threads)


def _shapes(arrays: Arrays) -> dict[str, list[int]]:
    return {name: list(array.shape) for name, array in arrays.items()}


def _specs(files: ModelFiles, names: Sequence[str], onnx: Path | None, torch: Path | None) -> _Specs:
    specs = _Specs()
    if files.compiled is not None:
        specs["mxforge"] = {"compiled": str(files.compiled)}
    else:
        params = str(files.params) if files.params else None
        spec = {"symbol": str(files.symbol), "params": params, "inputs": list(names)}
        specs.update(dict.fromkeys(("mxforge", "mxnet", "mxnet-mkldnn"), spec))
    for engine, option, path in (("onnxruntime", "onnx", onnx), ("torch", "torch", torch)):
        if path is None:
            continue
        if not path.is_file():
            raise ToolError(f"{path}: no such file (--{option})")
        specs[engine] = {option: str(path), "inputs": list(names)}
    return specs


def _symbol_inputs(model: Model, options: argparse.Namespace) -> Arrays:
    given = _batched(read_inputs(options, model.data_names), options.batch)
    require_parameters(model, {**options.shapes, **given}, options.allow_missing)
    shapes: InputShapes = {n: (_with_batch(s, options.batch), d) for n, (s, d) in options.shapes.items()}
    types = data_types(model, {**shapes, **{n: (a.shape, None) for n, a in given.items()}}, options.batch or 1)
    return _filled({n: (t.shape, memory_dtype(t.dtype)) for n, t in types.items()}, given)


def _compiled_inputs(folder: Path, options: argparse.Namespace) -> Arrays:
    """The inputs of a compiled model. Reading it limits the threads of this process to those that it can use."""
    stored = read_folder(folder)
    if options.shapes or options.batch:
        raise UsageError("the shapes of a compiled model are fixed: omit --input-shape and --batch")
    given = read_inputs(options, [a.name for a in stored.inputs])
    return _filled({a.name: (a.type.shape, memory_dtype(a.type.dtype)) for a in stored.inputs}, given)


def _filled(types: Mapping[str, tuple[Sequence[int], np.dtype]], given: Mapping[str, np.ndarray]) -> Arrays:
    """The given arrays, converted to the types, and random arrays for the other inputs."""
    others = random_inputs({name: t for name, t in types.items() if name not in given})
    return {n: given[n].astype(dtype) if n in given else others[n] for n, (_, dtype) in types.items()}


def _with_batch(shape: tuple[int, ...], batch: int | None) -> tuple[int, ...]:
    return (batch, *shape[1:]) if batch and shape else shape


def _batched(arrays: Mapping[str, np.ndarray], batch: int | None) -> Arrays:
    """Arrays repeated along their first axis until it has `batch` elements."""
    if batch is None:
        return dict(arrays)
    return {n: np.resize(a, _with_batch(a.shape, batch)) for n, a in arrays.items()}
