"""Models whose program is not made of a symbol: compiled folders, and files of StableHLO."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from ..frontend.compiled import CompiledModel, load_compiled
from ..frontend.context import GPU, Context
from ..ir.settings import settings
from ..runtime.compiled_folder import StoredModel
from ..runtime.device import Device
from ..runtime.devices import COMPILED, HOST
from ..runtime.freeze import freeze
from ..runtime.stablehlo import ModuleProgram, read_stablehlo
from .contexts import machine_of, target_text
from .errors import UsageError
from .inputs import in_order, random_arrays, read_inputs
from .model_files import ModelFiles
from .models import refuse_weights
from .schemas.common import Gpu


def load_fixed(files: ModelFiles, options: argparse.Namespace, context: Context | None = None) -> CompiledModel:
    """The model, which the files do not leave to passes. UsageError for options that it cannot have."""
    if files.compiled is not None:
        if options.shapes:
            raise UsageError("the shapes of a compiled model are fixed: omit --input-shape")
        refuse_weights(options)
        if settings().target not in COMPILED:
            raise UsageError(f"a compiled folder is code for a CPU, and the target is {settings().target!r}")
        return load_compiled(files.compiled, context)
    if context is not None and context.device_typeid == GPU:
        raise UsageError("a StableHLO file runs on the target mlir, which is for the CPU: omit --ctx")
    program, inputs, outputs = _module(files, options)
    return CompiledModel(files.name, HOST.load(program), inputs, outputs, {})


def store_module(files: ModelFiles, options: argparse.Namespace) -> StoredModel:
    """A file of StableHLO as a compiled folder stores it."""
    program, inputs, outputs = _module(files, options)
    return StoredModel(files.name, inputs, outputs, *freeze(program, {}))


def inputs_of(model: CompiledModel, options: argparse.Namespace) -> list[np.ndarray]:
    """The arrays in the files of `--input` in the order of the model's inputs; random ones without any."""
    arrays, types = read_inputs(options, model.input_names), {a.name: a.type for a in model.inputs}
    if not arrays:
        return random_arrays(types)
    missing: Sequence[str] = [name for name in model.input_names if name not in arrays]
    if missing:
        raise UsageError(f"input {missing[0]!r} is missing: pass --input {missing[0]}=FILE")
    return in_order(arrays, types)


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
