"""`mxforge bench`: measures mxforge and its peers on the same inputs, in alternation."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...frontend.artifacts import write_atomically
from ...frontend.dtypes import memory_dtype
from ...runtime.compiled_folder import read_folder
from ..errors import ToolError, UsageError
from ..grammar import OPERATORS
from ..inputs import ImageOptions, random_inputs, read_inputs
from ..models import InputShapes, Model, ModelFiles, data_types, find_model, load_model
from ..progress import Progress
from .calls import measure_calls
from .measure import Figures, Participant, measure
from .report import Conditions, as_json, as_markdown, as_text
from .shapes import measure_shapes
from .suites import suite

Arrays = dict[str, np.ndarray]


def run(options: argparse.Namespace) -> int:
    """Measure and report; returns status 1 if a peer's results differ by more than the tolerance, else 0."""
    if (options.model is None) == (options.suite is None):
        raise UsageError("pass either a model or --suite")
    threads = options.threads or len(os.sched_getaffinity(0))
    if options.suite == "calls":
        return measure_calls(threads)
    if options.suite == "shapes":
        return measure_shapes(threads)
    if options.suite == "operators":
        return max(_run_one(argparse.Namespace(**{**vars(options), "suite": name}), threads) for name in OPERATORS)
    return _run_one(options, threads)


def _run_one(options: argparse.Namespace, threads: int) -> int:
    with Progress("reading the model") as progress:
        workload, arrays, specs = _micro(options) if options.suite else _model(options)
        participants = [_participant(engine, specs, options.pythons) for engine in ("mxforge", *options.against)]
        figures = measure(participants, list(arrays.values()), options.repeat, threads, progress)
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    conditions = Conditions(workload, shapes, threads, options.repeat, options.tolerance)
    print(as_text(conditions, figures))
    _write(options.json, options.markdown, conditions, figures)
    return _agreement(figures, options.tolerance)


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


def _write(
    json_path: Path | None, markdown_path: Path | None, conditions: Conditions, figures: Sequence[Figures]
) -> None:
    if json_path is not None:
        write_atomically(json_path, (json.dumps(as_json(conditions, figures), indent=1) + "\n").encode())
    if markdown_path is not None:
        write_atomically(markdown_path, as_markdown(conditions, figures).encode())


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


def _micro(options: argparse.Namespace) -> tuple[str, Arrays, Mapping[str, Mapping[str, Any]]]:
    if "onnxruntime" in options.against:
        raise UsageError("onnxruntime runs only models, not --suite")
    words, arrays = suite(options.suite)
    spec = {"suite": options.suite}
    return (
        f"{options.suite} ({words})",
        arrays,
        dict.fromkeys(("mxforge", "mxnet", "mxnet-mkldnn", "torch", "numpy"), spec),
    )


def _model(options: argparse.Namespace) -> tuple[str, Arrays, Mapping[str, Mapping[str, Any]]]:
    files = find_model(options.model, options.epoch, options.params)
    arrays = _compiled_inputs(files, options) if files.compiled else _symbol_inputs(load_model(files), options)
    return files.name, arrays, _specs(files, list(arrays), options.onnx, options.torch)


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
    images = ImageOptions(options.size, options.mean, options.std)
    given = _batched(read_inputs(options.inputs, model.data_names, images), options.batch)
    shapes: InputShapes = {n: (_with_batch(s, options.batch), d) for n, (s, d) in options.shapes.items()}
    types = data_types(model, {**shapes, **{n: (a.shape, None) for n, a in given.items()}}, options.batch or 1)
    return _filled({n: (t.shape, memory_dtype(t.dtype)) for n, t in types.items()}, given)


def _compiled_inputs(files: ModelFiles, options: argparse.Namespace) -> Arrays:
    assert files.compiled is not None
    stored = read_folder(files.compiled)
    if options.shapes or options.batch:
        raise UsageError("the shapes of a compiled model are fixed: omit --input-shape and --batch")
    images = ImageOptions(options.size, options.mean, options.std)
    given = read_inputs(options.inputs, [a.name for a in stored.inputs], images)
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
