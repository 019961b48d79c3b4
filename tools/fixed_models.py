"""Models whose program is not made of a symbol: compiled folders, and files of StableHLO."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from ..frontend.compiled import CompiledModel, CompiledShapes, load_compiled
from ..frontend.context import GPU, Context
from ..ir.settings import settings
from ..runtime.compiled_folder import StoredModel
from ..runtime.compiled_shapes import Shapes
from ..runtime.device import Device
from ..runtime.devices import COMPILED, HOST
from ..runtime.freeze import freeze
from ..runtime.shape_variants import Variant
from ..runtime.stablehlo import ModuleProgram, read_stablehlo
from .contexts import machine_of, target_text
from .errors import UsageError
from .inputs import in_order, random_arrays, read_inputs
from .model_files import ModelFiles
from .models import no_such_input, refuse_weights
from .schemas.common import Gpu


def load_fixed(files: ModelFiles, options: argparse.Namespace, context: Context | None = None) -> CompiledModel:
    """The model, which the files do not leave to passes; one for several shapes for those of `--input-shape`, else for
    the best of the first variant. UsageError for options that it cannot have."""
    loaded = load_any(files, options, context)
    return loaded if isinstance(loaded, CompiledModel) else for_shapes(loaded, options)


def load_any(
    files: ModelFiles, options: argparse.Namespace, context: Context | None = None
) -> CompiledModel | CompiledShapes:
    """`load_fixed`, with all its shapes."""
    if files.compiled is not None:
        refuse_weights(options)
        if settings().target not in COMPILED:
            raise UsageError(f"a compiled folder is code for a CPU, and the target is {settings().target!r}")
        loaded = load_compiled(files.compiled, context)
        if options.shapes and isinstance(loaded, CompiledModel):
            raise UsageError("the shapes of a compiled model are fixed: omit --input-shape")
        return loaded
    if context is not None and context.device_typeid == GPU:
        raise UsageError("a StableHLO file runs on the target mlir, which is for the CPU: omit --ctx")
    program, inputs, outputs = _module(files, options)
    return CompiledModel(files.name, HOST.load(program), inputs, outputs, {})


def for_shapes(model: CompiledShapes, options: argparse.Namespace) -> CompiledModel:
    """The model for the shapes that `chosen_shapes` returns."""
    return model.at(*chosen_shapes(model.input_names, model.variants, model.shapes, options))


def chosen_shapes(
    names: Sequence[str], variants: Sequence[Variant], known: Collection[Shapes], options: argparse.Namespace
) -> Shapes:
    """The shapes of `--input-shape`; inputs without one have the best shape of a variant, else any that is allowed.
    `known` are all shapes that the model takes. UsageError for names and dtypes that are not those of the model."""
    for name, (_, dtype) in options.shapes.items():
        if name not in names:
            raise no_such_input(name, names)
        if dtype is not None:
            raise UsageError(f"--input-shape: the dtype of {name!r} is fixed in a compiled folder: omit :{dtype}")
    shapes = {name: shape for name, (shape, _) in options.shapes.items()}
    candidates = [tuple(map(shapes.get, names, variant.best())) for variant in variants]
    matching = (k for k in known if all(shapes.get(n, own) == own for n, own in zip(names, k, strict=True)))
    best = next((candidate for candidate in candidates if candidate in known), None)
    return best or next(matching, candidates[0])


def with_inputs(
    files: ModelFiles, options: argparse.Namespace, context: Context
) -> tuple[CompiledModel, list[np.ndarray]]:
    """The model and the arrays in the files of `--input` in the order of its inputs; random ones without any. Arrays
    choose one of several shapes."""
    loaded = load_any(files, options, context)
    if isinstance(loaded, CompiledModel):
        return loaded, inputs_of(loaded, options)
    arrays = read_inputs(options, loaded.input_names)
    if not arrays:
        model = for_shapes(loaded, options)
        return model, random_arrays({a.name: a.type for a in model.inputs})
    if options.shapes:
        raise UsageError("the files of --input determine shapes: omit --input-shape")
    _require_all(loaded.input_names, arrays)
    model = loaded.at(*[arrays[name].shape for name in loaded.input_names])
    return model, in_order(arrays, {a.name: a.type for a in model.inputs})


def store_module(files: ModelFiles, options: argparse.Namespace) -> StoredModel:
    """A file of StableHLO as a compiled folder stores it."""
    program, inputs, outputs = _module(files, options)
    return StoredModel(files.name, inputs, outputs, *freeze(program, {}))


def inputs_of(model: CompiledModel, options: argparse.Namespace) -> list[np.ndarray]:
    """The arrays in the files of `--input` in the order of the model's inputs; random ones without any."""
    arrays, types = read_inputs(options, model.input_names), {a.name: a.type for a in model.inputs}
    if not arrays:
        return random_arrays(types)
    _require_all(model.input_names, arrays)
    return in_order(arrays, types)


def _require_all(names: Sequence[str], arrays: Mapping[str, np.ndarray]) -> None:
    missing = [name for name in names if name not in arrays]
    if missing:
        raise UsageError(f"input {missing[0]!r} is missing: pass --input {missing[0]}=FILE")


def target_name(files: ModelFiles, device: Device) -> str:
    """The target for which the model's program is compiled, which runs on this device."""
    if isinstance(machine_of(device), Gpu):
        return target_text(device)
    return "mlir" if files.module is not None else settings().target


def _module(files: ModelFiles, options: argparse.Namespace) -> ModuleProgram:
    if options.weights:
        raise UsageError("the dtype of the weights of a StableHLO file is fixed: omit --weights")
    if settings().target not in ("cpu", "mlir"):
        raise UsageError(f"a StableHLO file runs on the target mlir, not on {settings().target!r}")
    assert files.module is not None
    for name, (_, dtype) in options.shapes.items():
        if dtype is not None:
            raise UsageError(f"--input-shape: the dtype of {name!r} is fixed in a StableHLO file: omit :{dtype}")
    return read_stablehlo(files.module, {name: shape for name, (shape, _) in options.shapes.items()})
