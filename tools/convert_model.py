"""`mxforge convert`: converts parameters (MXNet's, NumPy's, safetensors, PyTorch's), symbols to the format of MXNet
1.9.1, models to ONNX and StableHLO, and ONNX files to symbols and parameters."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..frontend.artifacts import ParamsArray, read_params, write_atomically, write_params
from ..frontend.artifacts.named_arrays import READERS, WRITERS
from ..frontend.symbol import Symbol, load
from ..frontend.symbol.network import Network
from ..ir.types import TensorType
from .errors import ToolError, UsageError
from .inspect_text import counted
from .model_files import ONNX_SUFFIX, find_model
from .models import Model, batch_size, bind, data_types, load_model
from .parameters import require_parameters
from .weight_names import match_names, name_map, shown

_PARAMS, _PORTABLE = ".params", ".mlirbc"
_STABLEHLO = ".mlir", _PORTABLE
_TOLERANCE = 1e-4


def run(options: argparse.Namespace) -> int:
    """Convert and print what was written; returns status 0. ToolError if `--verify` finds a difference."""
    source, target = Path(options.source), Path(options.file)
    suffix = target.suffix.lower()
    _refuse_options(options, suffix)
    if suffix in (_PARAMS, *WRITERS):
        return _convert_parameters(source, target, options)
    if suffix == ".json":
        return _convert_symbol(options.source, target)
    if suffix == ".onnx":
        return _convert_to_onnx(target, options)
    if suffix in _STABLEHLO:
        from .convert_stablehlo import convert_to_stablehlo

        check_target(target)
        return convert_to_stablehlo(target, _model(options, "StableHLO files"), options)
    raise UsageError(f"{target}: give a .params, .npz, .safetensors, .json, .onnx, .mlir or .mlirbc file")


def _refuse_options(options: argparse.Namespace, suffix: str) -> None:
    """UsageError for options that do not apply to files of this kind, or contradict each other."""
    values = {"verify": options.verify, "input-shape": options.shapes, "allow-missing": options.allow_missing}
    values |= {"epoch": options.epoch is not None, "params": options.params is not None}
    for name in () if suffix in (".onnx", *_STABLEHLO) else (n for n, value in values.items() if value):
        raise UsageError(f"--{name} is only for .onnx, .mlir and .mlirbc files")
    if options.verify and suffix != ".onnx":
        raise UsageError("--verify is only for .onnx files")
    _refuse_stablehlo_options(options, suffix)
    if suffix not in (_PARAMS, *WRITERS) and (options.plain_names or options.symbol):
        raise UsageError("--plain-names and --symbol are only for files of parameters")
    if options.plain_names and options.symbol:
        raise UsageError("--plain-names and --symbol contradict each other")
    if options.symbol is not None and not options.symbol.is_file():
        raise ToolError(f"{options.symbol}: no such file")


def _refuse_stablehlo_options(options: argparse.Namespace, suffix: str) -> None:
    """UsageError for options of StableHLO that do not apply."""
    if options.training and suffix not in _STABLEHLO:
        raise UsageError("--training is only for .mlir and .mlirbc files")
    if options.dynamic_batch and suffix not in (".onnx", *_STABLEHLO):
        raise UsageError("--dynamic-batch is only for .onnx, .mlir and .mlirbc files")
    for name in ("loss", "optimizer", "learning-rate", "optimizer-params") if not options.training else ():
        if getattr(options, name.replace("-", "_")) is not None:
            raise UsageError(f"--{name} is only for training steps (--training)")
    if options.stablehlo_version is not None and suffix != _PORTABLE:
        raise UsageError("--stablehlo-version is only for .mlirbc files")


# --- parameters -------------------------------------------------------------------------------------------------------


def _convert_parameters(source: Path, target: Path, options: argparse.Namespace) -> int:
    check_target(target)
    arrays = _renamed(_read(source), options)
    if target.suffix.lower() == _PARAMS:
        names = [] if _is_list(arrays) else list(arrays)
        write_params(target, names, list(arrays.values()))
    else:
        WRITERS[target.suffix.lower()](target, arrays)
    print(f"wrote {counted(len(arrays), 'array')} to {target}")
    return 0


def _is_list(arrays: Mapping[str, ParamsArray]) -> bool:
    """True if the names are the ones that `_read` gives to a list without names."""
    return list(arrays) == [f"arr_{i}" for i in range(len(arrays))]


def check_target(target: Path) -> None:
    """Create the folder of a file to write. ToolError if it is a folder itself."""
    if target.is_dir():
        raise ToolError(f"{target}: is a folder")
    target.parent.mkdir(parents=True, exist_ok=True)


def _read(path: Path) -> Mapping[str, ParamsArray]:
    """The arrays of a file by name. Arrays without names are named arr_0, arr_1, ..., as in NumPy."""
    suffix = path.suffix.lower()
    if suffix in READERS and not path.is_dir():
        return READERS[suffix](path)
    if suffix == ONNX_SUFFIX and not path.is_dir():
        return _onnx_parameters(path)
    where = f"parameters must be in a .params, {', '.join(list(READERS)[:-1])} or {list(READERS)[-1]} file"
    if path.is_dir():
        raise UsageError(f"{path}: is a folder; {where}")
    if suffix != _PARAMS:
        raise UsageError(f"{path}: {where}")
    file = read_params(path)
    names = file.names or [f"arr_{i}" for i in range(len(file.arrays))]
    return dict(zip(names, file.arrays, strict=True))


def _onnx_parameters(path: Path) -> dict[str, ParamsArray]:
    """The parameters of an ONNX file, with `arg:` and `aux:`."""
    from ..frontend.ndarray.files import to_data
    from ..frontend.onnx.import_model import import_symbol

    imported = import_symbol(path)
    kinds = {"arg": imported.arguments, "aux": imported.auxiliary}
    return {f"{kind}:{name}": to_data(array) for kind, arrays in kinds.items() for name, array in arrays.items()}


def _renamed(arrays: Mapping[str, ParamsArray], options: argparse.Namespace) -> dict[str, ParamsArray]:
    """The arrays with changed names: `--plain-names` removes `arg:` and `aux:`, `--symbol` adds them, as the symbol
    lists its inputs, and prints the names that differ. ToolError if two names become equal."""
    plain = {_plain(name): array for name, array in arrays.items()}
    if not options.plain_names and options.symbol is None:
        return dict(arrays)
    if len(plain) != len(arrays):
        raise ToolError("two arrays have the same name without arg: and aux:")
    return plain if options.symbol is None else _for_symbol(plain, load(options.symbol))


def _for_symbol(arrays: Mapping[str, ParamsArray], symbol: Symbol) -> dict[str, ParamsArray]:
    """The arrays as a symbol names its inputs, if it has none of their names; with `arg:` and `aux:`."""
    names = {name: name for name in arrays}
    if arrays and arrays.keys().isdisjoint(symbol.list_inputs()):
        names = match_names(symbol, {name: () if a is None else a.shape for name, a in arrays.items()})
        if not names:
            raise ToolError(f"no array in the file ({shown(list(arrays))}) has a name or a layer of the symbol")
        print(*name_map(names, arrays), sep="\n")
    auxiliary = set(symbol.list_auxiliary_states())
    return {f"{'aux' if other in auxiliary else 'arg'}:{other}": arrays[name] for name, other in names.items()}


def _plain(name: str) -> str:
    return name[4:] if name.startswith(("arg:", "aux:")) else name


# --- symbols ----------------------------------------------------------------------------------------------------------


def _convert_symbol(source: str, target: Path) -> int:
    """Write a symbol of any version, or that of an ONNX file, in the format of MXNet 1.9.1."""
    check_target(target)
    files = find_model(source)
    if not files.is_symbol:
        raise UsageError(f"{source}: is {files.kind}; a symbol must be in a -symbol.json file")
    symbol = load(files.symbol) if files.onnx is None else _onnx_symbol(files.onnx)
    write_atomically(target, symbol.tojson().encode())
    print(f"wrote {counted(len(symbol.get_internals().list_outputs()), 'value')} to {target}")
    return 0


def _onnx_symbol(path: Path) -> Symbol:
    """The symbol of an ONNX file, with a note if MXNet cannot load it."""
    from ..frontend.onnx.import_model import import_symbol
    from ..frontend.onnx.operator import NAME

    symbol = import_symbol(path).symbol
    foreign = sum(node.op == NAME for node in Network(symbol._entries).nodes)
    if foreign:
        what = counted(foreign, "node that MXNet has no operator for is", "nodes that MXNet has no operators for are")
        print(f"mxforge: {what} {NAME}, which MXNet cannot load", file=sys.stderr)
    return symbol


# --- ONNX -------------------------------------------------------------------------------------------------------------


def _model(options: argparse.Namespace, what: str) -> Model:
    """The model that is written as a file of another format."""
    files = find_model(options.source, options.epoch, options.params)
    if not files.is_symbol:
        raise UsageError(f"{options.source}: is {files.kind}; {what} are made of a symbol and its parameters")
    return load_model(files)


def _convert_to_onnx(target: Path, options: argparse.Namespace) -> int:
    check_target(target)
    model = _model(options, "ONNX files")
    require_parameters(model, options.shapes, options.allow_missing)
    types = data_types(model, options.shapes)
    print(f"wrote {counted(write_onnx(model, types, target, options.dynamic_batch), 'node')} to {target}")
    return _verify(model, target, types) if options.verify else 0


def write_onnx(model: Model, types: Mapping[str, TensorType], target: Path, dynamic_batch: bool = False) -> int:
    """Write an ONNX file for inputs of these types; returns the number of its nodes. With `dynamic_batch` their first
    extents can be any. MXNetError if ONNX cannot express the model."""
    from ..frontend.onnx.export_model import elements, export_symbol
    from ..frontend.onnx.unknown_extents import Group

    batch = [Group(tuple((name, 0) for name in types), batch_size(types), "batch")] if dynamic_batch else []
    parameters = {name: elements(array) for name, array in model.parameters.items()}
    written = export_symbol(model.symbol, parameters, types, batch, _refuse_batch)
    written.write(target)
    return len(written.skeleton.graph.node)


def _refuse_batch(reason: str) -> NoReturn:
    raise ToolError(f"--dynamic-batch: {reason}")


def _verify(model: Model, target: Path, types: Mapping[str, TensorType]) -> int:
    """Run both models on random inputs and print the largest difference of each output, relative to its largest
    element. ToolError if one exceeds the tolerance."""
    runtime = _onnxruntime()
    random = np.random.default_rng(0)
    inputs = {name: _sample(random, type) for name, type in types.items()}
    session = runtime.InferenceSession(str(target), providers=["CPUExecutionProvider"])
    theirs = session.run(None, {entry.name: inputs[entry.name] for entry in session.get_inputs()})
    ours = _run_here(model, types, inputs)
    worst = 0.0
    for name, one, other in zip(model.symbol.list_outputs(), ours, theirs, strict=True):
        for who, array in (("mxforge", one), ("ONNX Runtime", other)):
            if np.isnan(array).any():
                raise ToolError(f"{target}: {name} of {who} has {np.isnan(array).sum()} NaN: nothing can be compared")
        scale = max(float(np.abs(one).max(initial=0)), 1e-30)
        difference = float(np.abs(one.astype(np.float64) - other).max(initial=0)) / scale
        worst = max(worst, difference)
        print(f"{name}: differs by {difference:.1e} from ONNX Runtime's")
    if not worst <= _TOLERANCE:
        raise ToolError(f"{target}: the outputs differ by more than {_TOLERANCE:.0e}")
    return 0


def _run_here(model: Model, types: Mapping[str, TensorType], inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The outputs of mxforge for the same inputs."""
    compiled = bind(model, types)
    return list(compiled(*(inputs[argument.name] for argument in compiled.inputs)))


def _sample(random: np.random.Generator, type: TensorType) -> np.ndarray:
    """Standard normal values for floats; 0 and 1 for integers, which are often indices."""
    if type.dtype.is_float:
        return random.standard_normal(type.shape).astype(type.dtype.numpy)
    return random.integers(0, 2, type.shape).astype(type.dtype.numpy)


def _onnxruntime() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise ToolError("--verify requires ONNX Runtime: pip install onnxruntime") from error
    return onnxruntime
