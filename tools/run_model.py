"""`mxforge run`: computes the outputs of a model for inputs from files."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping

import numpy as np

from ..frontend.compiled import CompiledModel, load_compiled
from ..frontend.dtypes import memory_dtype
from ..ir.settings import settings
from ..ir.types import DType, TensorType
from .errors import ToolError, UsageError
from .inputs import ImageOptions, image_options, read_inputs
from .models import InputShapes, ModelFiles, bind, data_types, find_model, load_model
from .outputs import check_labels, check_output, check_place, summary, write_outputs
from .parameters import require_parameters
from .progress import Progress


def run(options: argparse.Namespace) -> int:
    """Run the model once; returns status 0."""
    files = find_model(options.model, options.epoch, options.params)
    if options.output is not None:
        check_place(options.output)
    labels = options.labels.read_text().splitlines() if options.labels else ()
    with Progress("reading the model") as progress:
        images = image_options(options)
        model, arrays = _program_and_inputs(files, options, images, progress)
        if options.output is not None:
            check_output(options.output, model.output_names)
        progress.step(f"running {model.name}")
        start = time.perf_counter()
        results = dict(zip(model.output_names, model(*arrays), strict=True))
        seconds = time.perf_counter() - start
    check_labels(results, labels)
    for line in summary(results, labels):
        print(line)
    print(f"first run of {model.name}: {1e3 * seconds:.3g} ms ({settings().target})")
    if options.output is not None:
        write_outputs(options.output, results)
    return 0


def _program_and_inputs(
    files: ModelFiles, options: argparse.Namespace, images: ImageOptions, progress: Progress
) -> tuple[CompiledModel, list[np.ndarray]]:
    """The model compiled for the types of the arrays, and the arrays in the order of its inputs."""
    if files.compiled is not None:
        if settings().target != "cpu":
            raise UsageError(f"a compiled folder runs on the target cpu, not on {settings().target!r}")
        model = load_compiled(files.compiled)
        arrays = read_inputs(options.inputs, model.input_names, images)
        missing = [name for name in model.input_names if name not in arrays]
        if missing:
            raise UsageError(f"input {missing[0]!r} is missing: pass --input {missing[0]}=FILE")
        return model, _in_order(arrays, {a.name: a.type for a in model.inputs})
    loaded = load_model(files)
    arrays = read_inputs(options.inputs, loaded.data_names, images)
    require_parameters(loaded, arrays, options.allow_missing)
    given: InputShapes = {name: (array.shape, None) for name, array in arrays.items()}
    for name in loaded.data_names:
        if name not in arrays and not _is_label(name):
            raise loaded.missing(name)
    types = data_types(loaded, given)
    ordered = _in_order({**_blank_labels(types), **arrays}, types)
    progress.step(f"compiling {loaded.name}")
    return bind(loaded, types), ordered


def _blank_labels(types: Mapping[str, TensorType]) -> dict[str, np.ndarray]:
    """Zeros for labels: the outputs of a loss layer do not depend on them."""
    return {n: np.zeros(t.shape, memory_dtype(t.dtype)) for n, t in types.items() if _is_label(n)}


def _is_label(name: str) -> bool:
    return name.endswith("_label")


def _in_order(arrays: Mapping[str, np.ndarray], types: Mapping[str, TensorType]) -> list[np.ndarray]:
    """The arrays in the order of `types`. ToolError for a dtype that cannot be converted."""
    return [_convertible(arrays[name], name, type) for name, type in types.items()]


def _convertible(array: np.ndarray, name: str, type: TensorType) -> np.ndarray:
    """The array. ToolError if the conversion to the model's dtype could lose more than precision."""
    expected = np.dtype(np.float32) if type.dtype is DType.BF16 else type.dtype.numpy
    if not np.can_cast(array.dtype, expected, "same_kind"):
        raise ToolError(
            f"input {name!r} is {array.dtype.name}, but the model requires {expected.name}: convert the file"
        )
    return array
