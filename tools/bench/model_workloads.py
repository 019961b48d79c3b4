"""The workloads of a model: one for each batch, with the files that each engine loads."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ...frontend.base import MXNetError
from ...frontend.checkpoint import save_arrays
from ...ir.types import TensorType
from ...runtime.compiled_folder import MANIFEST, StoredModel, write_folder
from ...runtime.compiled_shapes import StoredShapes, read_folder
from ...runtime.devices import HOST
from ..convert_model import write_onnx
from ..errors import ToolError, UsageError
from ..fixed_models import chosen_shapes, store_module
from ..inputs import random_inputs, read_inputs
from ..model_files import ModelFiles, find_model
from ..models import InputShapes, Model, data_types, load_model, refuse_weights
from ..parameters import require_parameters
from ..progress import Progress
from .workloads import Arrays, Workload, shapes_of

Types = Mapping[str, TensorType]


def model_workloads(options: argparse.Namespace) -> Iterator[Workload]:
    """A workload for each of `--batch`. The inputs of all are made before the first one is returned."""
    files = find_model(options.model, options.epoch, options.params)
    if files.compiled is not None:
        yield _compiled(files, files.compiled, options)
        return
    if files.module is not None:
        with TemporaryDirectory(prefix="mxforge-bench-module-") as name:
            folder = Path(name) / files.name
            with Progress(f"compiling {files.name}"):
                write_folder(folder, store_module(files, options), HOST.requirements())
            options.shapes = {}  # which the folder has
            yield _compiled(files, folder, options)
        return
    with Progress("reading the model"):
        model = load_model(files)
        options.onnx = options.onnx or files.onnx
        inputs = [_inputs(model, options, batch) for batch in options.batches or (None,)]
    exports = "onnxruntime" in options.against and options.onnx is None
    with TemporaryDirectory(prefix="mxforge-bench-onnx-") as folder:
        files = _saved(model, Path(folder)) if files.onnx is not None else files
        for types, arrays in inputs:
            specs = _symbol_specs(files, list(arrays), options)
            if exports:
                specs["onnxruntime"] = {"onnx": _exported(model, types, Path(folder)), "inputs": list(arrays)}
            yield Workload(files.name, arrays, specs, shapes_of(arrays), _batch_of(arrays))


def _compiled(files: ModelFiles, folder: Path, options: argparse.Namespace) -> Workload:
    """The workload of a compiled model, which runs on at most as many threads as it was compiled for."""
    refuse_weights(options)
    stored = read_folder(folder)
    if isinstance(stored, StoredModel) and (options.batches or options.shapes):
        raise UsageError("the shapes of a compiled model are fixed: omit --input-shape and --batch")
    if isinstance(stored, StoredShapes):
        if options.batches:
            raise UsageError("--batch is for a model that is not compiled: pass --input-shape")
        stored = stored.model(chosen_shapes(stored.input_names, stored.variants, stored.rows.keys(), options))
    inputs = read_inputs(options, [a.name for a in stored.inputs])
    arrays = _filled({a.name: (a.type.shape, a.type.dtype.memory) for a in stored.inputs}, inputs)
    specs = _Specs(mxforge={"compiled": str(folder)}, **_files(list(arrays), options))
    threads = json.loads((folder / MANIFEST).read_bytes())["machine"].get("threads")
    return Workload(files.name, arrays, specs, shapes_of(arrays), _batch_of(arrays), threads=threads)


# --- specs ------------------------------------------------------------------------------------------------------------


_MXNET_FILES = "MXNet's files instead of a compiled folder or a StableHLO file"


class _Specs(dict[str, Mapping[str, Any]]):
    """The spec that each engine loads. UsageError for an engine that cannot load the model."""

    _NEEDED = {
        "onnxruntime": "--onnx FILE (compiled folders and StableHLO files cannot be exported)",
        "torch": "--torch FILE",
        "mxnet": _MXNET_FILES,
        "mxnet-mkldnn": _MXNET_FILES,
    }

    def __missing__(self, engine: str) -> Mapping[str, Any]:
        needed = self._NEEDED.get(engine)
        if needed is None:
            raise UsageError(f"{engine} cannot run models, only --suite")
        raise UsageError(f"{engine} cannot load this model: it requires {needed}")


def _saved(model: Model, folder: Path) -> ModelFiles:
    """The files in which engines find an ONNX model."""
    symbol, params = folder / f"{model.name}-symbol.json", folder / f"{model.name}-0000.params"
    model.symbol.save(symbol)
    save_arrays(str(params), model.parameters, {})
    return ModelFiles(model.name, symbol, params)


def _symbol_specs(files: ModelFiles, names: Sequence[str], options: argparse.Namespace) -> _Specs:
    params = str(files.params) if files.params else None
    spec = {"symbol": str(files.symbol), "params": params, "inputs": list(names)}
    return _Specs(**dict.fromkeys(("mxforge", "mxnet", "mxnet-mkldnn"), spec), **_files(names, options))


def _files(names: Sequence[str], options: argparse.Namespace) -> dict[str, Mapping[str, Any]]:
    """The specs of engines whose files the user named."""
    specs: dict[str, Mapping[str, Any]] = {}
    for engine, option, path in (("onnxruntime", "onnx", options.onnx), ("torch", "torch", options.torch)):
        if path is None:
            continue
        if not path.is_file():
            raise ToolError(f"{path}: no such file (--{option})")
        specs[engine] = {option: str(path), "inputs": list(names)}
    return specs


def _exported(model: Model, types: Types, folder: Path) -> str:
    """The path of the model as an ONNX file, for inputs of these types."""
    path = folder / f"{model.name}.onnx"
    with Progress(f"exporting {model.name} to ONNX"):
        try:
            write_onnx(model, types, path)
        except MXNetError as error:
            raise ToolError(f"onnxruntime: {error} (pass a file of your own: --onnx FILE)") from error
    shapes = ", ".join(f"{name} {t.shape}" for name, t in types.items())
    print(f"mxforge: exported {model.name} to ONNX for onnxruntime: {shapes}", file=sys.stderr)
    return str(path)


# --- inputs -----------------------------------------------------------------------------------------------------------


def _inputs(model: Model, options: argparse.Namespace, batch: int | None) -> tuple[Types, Arrays]:
    inputs = _batched(read_inputs(options, model.data_names), batch)
    require_parameters(model, {**options.shapes, **inputs}, options.allow_missing)
    shapes: InputShapes = {n: (_with_batch(s, batch), d) for n, (s, d) in options.shapes.items()}
    types = data_types(model, {**shapes, **{n: (a.shape, None) for n, a in inputs.items()}}, batch or 1)
    return types, _filled({n: (t.shape, t.dtype.memory) for n, t in types.items()}, inputs)


def _filled(types: Mapping[str, tuple[Sequence[int], np.dtype]], inputs: Mapping[str, np.ndarray]) -> Arrays:
    """The given arrays, converted to the types, and random arrays for the other inputs."""
    others = random_inputs({name: t for name, t in types.items() if name not in inputs})
    return {n: inputs[n].astype(dtype) if n in inputs else others[n] for n, (_, dtype) in types.items()}


def _with_batch(shape: tuple[int, ...], batch: int | None) -> tuple[int, ...]:
    return (batch, *shape[1:]) if batch and shape else shape


def _batched(arrays: Mapping[str, np.ndarray], batch: int | None) -> Arrays:
    """Arrays repeated along their first axis until it has `batch` elements."""
    if batch is None:
        return dict(arrays)
    return {n: np.resize(a, _with_batch(a.shape, batch)) for n, a in arrays.items()}


def _batch_of(arrays: Arrays) -> int:
    """The first extent of the first input."""
    first = next(iter(arrays.values()), np.zeros(()))
    return len(first) if first.ndim else 1
