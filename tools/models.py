"""Finds a model's files, loads them and compiles programs."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..frontend.artifacts.named_arrays import READERS
from ..frontend.checkpoint import load_named, without_kind
from ..frontend.compiled import Argument, CompiledModel
from ..frontend.context import Context, device_of
from ..frontend.symbol import Symbol, load
from ..frontend.symbol.flags import FunctionFlags
from ..frontend.symbol.function import SymbolFunction
from ..frontend.symbol.network import Network
from ..ir.dialects.mx.shapes import UNKNOWN, PartialShape, is_known
from ..ir.graph import Graph
from ..ir.lazy_dataclass import dataclass
from ..ir.once import once
from ..ir.settings import settings
from ..ir.suggestions import suggestion
from ..ir.types import DType, Shape, TensorType
from ..passes.manager import Options
from ..runtime.devices import HOST
from .errors import ToolError, UsageError
from .model_files import ModelFiles
from .weight_names import match_names, name_map

if TYPE_CHECKING:
    from ..frontend.ndarray import NDArray
    from ..runtime.device import Runnable

InputShapes = Mapping[str, tuple[Shape, str | None]]
"""The shapes of inputs that the user specified, each with a dtype or None."""


@dataclass(frozen=True, eq=False)
class Model:
    """A symbol with its parameters, which were read from the file `params`. None: there is no file `searched`.
    Programs of the model store its weights in the dtype `weights`."""

    name: str
    symbol: Symbol
    parameters: Mapping[str, NDArray]
    params: Path | None = None
    searched: Path | None = None
    weights: DType = DType.F32

    @once
    def types(self) -> dict[str, TensorType]:
        """The types of the parameters by name."""
        return {name: array._type() for name, array in self.parameters.items()}

    def function(self) -> SymbolFunction:
        """The model as a function of its data and parameters."""
        return SymbolFunction(self.symbol, self.parameters, _identifier(self.name), FunctionFlags(weights=self.weights))

    def options(self) -> Options:
        """The options with which programs of the model are compiled."""
        return self.function().options(training=False)

    def input_types(self, types: Mapping[str, TensorType]) -> tuple[TensorType, ...]:
        """The types of all inputs; `types` are the types of the data."""
        known = {**self.types, **types}
        return tuple(known[name] for name in self.symbol.list_inputs())

    @property
    def data_names(self) -> list[str]:
        """The inputs that are not parameters."""
        return [name for name in self.symbol.list_inputs() if name not in self.parameters]

    def missing(self, name: str) -> UsageError:
        """The error for an input that has no value."""
        reason = f"{self.params} does not contain it" if self.params else "no .params file was found"
        return UsageError(
            f"input {name!r} is missing: pass --input {name}=FILE (it has no value as a parameter: {reason})"
        )

    @once
    def network(self) -> Network:
        return Network(self.symbol._entries)


def load_model(files: ModelFiles, weights: str | None = None) -> Model:
    """The model stored in MXNet's files or in an ONNX file; `weights` is the value of `--weights`. Later compilations
    use the tuned schedules beside it, unless the user chose others."""
    use_tuning(files)
    if files.onnx is not None:
        from ..frontend.onnx.import_model import import_symbol

        imported = import_symbol(files.onnx, own_names=True)
        parameters = {**imported.arguments, **imported.auxiliary}
        return Model(files.name, imported.symbol, parameters, files.onnx, None, DType(weights or DType.F32))
    symbol = load(files.symbol)
    stored = _named_as(symbol, _read(files.params), files.params) if files.params else {}
    known = set(symbol.list_inputs())
    parameters = {n: _dense(n, a) for n, a in stored.items() if n in known}
    return Model(files.name, symbol, parameters, files.params, files.searched, DType(weights or DType.F32))


def refuse_weights(options: argparse.Namespace) -> None:
    """UsageError for `--weights` or `--target` with a compiled folder."""
    if options.target == "mlir":
        raise UsageError("the target of a compiled model is fixed: omit --target")
    if options.weights:
        raise UsageError("the dtype of the weights of a compiled model is fixed: omit --weights")


def use_tuning(files: ModelFiles) -> None:
    """Set MXFORGE_TUNING to the file of tuned schedules beside a model, if there is one and the variable is not set."""
    if files.tuning.is_file() and not os.environ.get("MXFORGE_TUNING"):
        os.environ["MXFORGE_TUNING"] = str(files.tuning.resolve())
        settings.cache_clear()


def _read(path: Path) -> Mapping[str, NDArray]:
    """The arrays of a file of parameters by name, without `arg:` and `aux:`."""
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        return load_named(path)
    from ..frontend.ndarray.files import from_data

    return {without_kind(name): from_data(data) for name, data in reader(path).items()}


def _named_as(symbol: Symbol, stored: Mapping[str, NDArray], path: Path) -> Mapping[str, NDArray]:
    """The arrays of a file by the model's names. If the file has none of these, layers are matched, and the names
    printed."""
    if not stored or not stored.keys().isdisjoint(symbol.list_inputs()):
        return stored
    try:
        names = match_names(symbol, {name: array.shape for name, array in stored.items()})
    except ToolError:
        if path.suffix.lower() in READERS:
            raise
        return stored  # MXNet's file of another model: `require_parameters` names what is missing
    lines = name_map(names, stored)
    print(f"mxforge: the names in {path} differ from the model's:", *lines, sep="\n  ", file=sys.stderr)
    return {other: stored[name] for name, other in names.items()}


def _dense(name: str, array: NDArray) -> NDArray:
    if array.stype != "default":
        raise ToolError(f"parameter {name!r} is sparse ({array.stype}): only dense parameters can be compiled")
    return array


# --- types of inputs --------------------------------------------------------------------------------------------------


def data_types(model: Model, known: InputShapes, batch: int = 1) -> dict[str, TensorType]:
    """The type of each input that is not a parameter: as given, or inferred from other inputs and parameters.

    A first extent that cannot be inferred is `batch`. UsageError for an input whose shape must be given, and for a name
    that is not an input.
    """
    names = model.data_names
    for name in known:
        if name not in names:
            raise no_such_input(name, names)
    shapes = {name: shape for name, (shape, _) in known.items()}
    inferred = _infer(model, shapes, known)
    open_batch = {n: s for n in names if n not in shapes and (s := _with_batch(inferred.shape(n), batch)) is not None}
    if open_batch:
        inferred = _infer(model, {**shapes, **open_batch}, known)
    return {name: _complete(name, inferred) for name in names}


def batch_size(types: Mapping[str, TensorType]) -> int:
    """The first extent of all inputs. UsageError if they differ."""
    sizes = {t.shape[:1] for t in types.values()}
    if len(sizes) != 1 or () in sizes:
        shapes = ", ".join(f"{name} {t.shape}" for name, t in types.items())
        raise UsageError(f"--dynamic-batch: the first extents of the inputs differ: {shapes}")
    return next(iter(sizes))[0]


def known_shapes(model: Model) -> dict[str, tuple[int | None, ...] | None]:
    """The shapes of the inputs that are not parameters, as far as the model determines them. None: not known."""
    inferred = _infer(model, {}, {})
    shapes = {name: inferred.shape(name) for name in model.data_names}
    return {n: None if s is None else tuple(None if e is UNKNOWN else int(e) for e in s) for n, s in shapes.items()}


def no_such_input(name: str, names: Sequence[str]) -> UsageError:
    """The error for a name that is not an input of the model."""
    return UsageError(f"the model has no input {name!r}; it has {', '.join(names) or 'none'}.{suggestion(name, names)}")


@dataclass(frozen=True)
class _Found:
    """The result of inference for variables, by name."""

    shapes: Mapping[str, PartialShape]
    dtypes: Mapping[str, DType | None]

    def shape(self, name: str) -> PartialShape:
        return self.shapes.get(name)


def _infer(model: Model, shapes: Mapping[str, Shape], known: InputShapes) -> _Found:
    known_shapes = {n: t.shape for n, t in model.types.items()} | dict(shapes)
    known_dtypes = {n: t.dtype for n, t in model.types.items()}
    known_dtypes |= {n: _dtype(n, d) for n, (_, d) in known.items() if d is not None}
    network = model.network
    types = network.infer(known_shapes, known_dtypes)
    numbers = {node.name: network.first[node] for node in network.variables}
    inferred = {n: types.shapes.get(i) for n, i in numbers.items()}
    return _Found(inferred, {n: types.dtypes.get(i) for n, i in numbers.items()})


def _dtype(name: str, text: str) -> DType:
    """The dtype with this name in NumPy. UsageError if there is none."""
    try:
        return DType.from_numpy(text)
    except (TypeError, ValueError):
        known = [d.numpy.name if d is not DType.BF16 else "bfloat16" for d in DType]
        raise UsageError(
            f"--input-shape: {text!r} is no dtype of input {name!r}; dtypes are {', '.join(known)}."
            f"{suggestion(text, known)}"
        ) from None


def _with_batch(shape: PartialShape, batch: int) -> Shape | None:
    """The shape with `batch` as first extent, if only the first extent is unknown, else None."""
    if not shape or shape[0] is not UNKNOWN:
        return None
    rest = shape[1:]
    return (batch, *rest) if is_known(rest) else None


def _complete(name: str, inferred: _Found) -> TensorType:
    shape = inferred.shape(name)
    if not is_known(shape):
        listed = ",".join("?" if n is UNKNOWN else str(n) for n in shape or ())
        known = f" (only {listed})" if listed else ""
        array = f"for mxforge run, compile and bisect, an array is enough: --input {name}=FILE"
        ways = f"--input-shape {name}=D,D,... ({array})"
        raise UsageError(f"the shape of input {name!r} is not known{known}: pass {ways}")
    return TensorType(shape, inferred.dtypes.get(name) or DType.F32)


# --- programs ---------------------------------------------------------------------------------------------------------


def model_graph(model: Model, types: Mapping[str, TensorType]) -> Graph:
    """The graph for data of these types, with parameters marked."""
    return model.function().graph(model.input_types(types))


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name) or "model"


def bind(model: Model, types: Mapping[str, TensorType], context: Context | None = None) -> CompiledModel:
    """The model compiled for data of these types, on the device of a context or on the host."""
    device = HOST if context is None else device_of(context)
    specialization = model.function().specialise(model.input_types(types), training=False, device=device)
    return bind_executable(model, types, specialization.executable, context)


def bind_executable(
    model: Model, types: Mapping[str, TensorType], executable: Runnable, context: Context | None = None
) -> CompiledModel:
    """The model with an executable of its graph for data of these types; see `CompiledModel` for `context`."""
    inputs = [Argument(name, types[name]) for name in model.data_names]
    outputs = output_arguments(model, executable.outputs)
    return CompiledModel(model.name, executable, inputs, outputs, parameter_memory(model), context)


def parameter_memory(model: Model) -> dict[int, np.ndarray]:
    """The elements of the parameters (bfloat16 as bits) by the positions of their inputs."""
    names = enumerate(model.symbol.list_inputs())
    return {i: model.parameters[name]._memory() for i, name in names if name in model.parameters}


def output_arguments(model: Model, types: Sequence[TensorType]) -> Sequence[Argument]:
    """The names and types of the model's outputs."""
    return [Argument(name, t) for name, t in zip(model.symbol.list_outputs(), types, strict=True)]
