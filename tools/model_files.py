"""Finds the files of a model that the command line names."""

from __future__ import annotations

import re
from pathlib import Path

from ..ir.lazy_dataclass import dataclass
from ..ir.suggestions import suggestion
from .errors import ToolError, UsageError

_SUFFIX = "-symbol.json"
MODULE_SUFFIXES = (".mlir", ".mlirbc")
ONNX_SUFFIX = ".onnx"
_CHECKPOINT = re.compile(r"(?P<prefix>.+)-\d{4}\.params")


@dataclass(frozen=True)
class ModelFiles:
    """The files of a model: `symbol` with `params` (None if there is none; `searched` is where it would be), the folder
    `compiled`, the file `module` of StableHLO, or the file `onnx`. `tuning` is where schedules are that were tuned for
    it; the file may not exist."""

    name: str
    symbol: Path
    params: Path | None = None
    searched: Path | None = None
    compiled: Path | None = None
    module: Path | None = None
    onnx: Path | None = None

    @property
    def is_symbol(self) -> bool:
        """True for MXNet's files and ONNX files, of which passes make a program."""
        return self.compiled is None and self.module is None

    @property
    def kind(self) -> str:
        """What the files are, in errors."""
        return "a compiled folder" if self.compiled is not None else "a StableHLO file" if self.module else "a symbol"

    @property
    def tuning(self) -> Path:
        return self.symbol.with_name(f"{self.name}-tuning.json")


def find_model(text: str, epoch: int | None = None, params: Path | None = None) -> ModelFiles:
    """The files of the model `text`. ToolError if a file is missing, UsageError for options that contradict."""
    path = Path(text)
    if path.is_dir():
        return _compiled_files(path, epoch, params)
    if path.suffix.lower() in (*MODULE_SUFFIXES, ONNX_SUFFIX):
        return _module_file(path, epoch, params)
    checkpoint = _CHECKPOINT.fullmatch(path.name)
    if checkpoint is not None:
        if epoch is not None or params is not None:
            raise UsageError(f"{text}: is a file of parameters: omit --epoch and --params")
        path, params = path.with_name(checkpoint["prefix"]), path
    symbol = path if path.name.endswith(".json") else path.with_name(path.name + _SUFFIX)
    if not symbol.is_file():
        if symbol == path:
            raise ToolError(f"{text}: no such file")
        known = [p.name.removesuffix(_SUFFIX) for p in symbol.parent.glob(f"*{_SUFFIX}")]
        hint = suggestion(path.name, known)
        raise ToolError(f"{text}: not a model: neither a file nor a folder, and there is no {symbol.name}.{hint}")
    name = symbol.name.removesuffix(_SUFFIX).removesuffix(".json")
    prefix = symbol.with_name(name)
    return ModelFiles(name, symbol, _params_file(prefix, epoch, params), _params_of(prefix, 0))


def _compiled_files(path: Path, epoch: int | None, params: Path | None) -> ModelFiles:
    if epoch is not None or params is not None:
        raise UsageError(f"{path}: a compiled folder contains its parameters: omit --epoch and --params")
    return ModelFiles(path.resolve().name, path, compiled=path)


def _module_file(path: Path, epoch: int | None, params: Path | None) -> ModelFiles:
    if epoch is not None or params is not None:
        kind = (
            "an ONNX file are in it"
            if path.suffix.lower() == ONNX_SUFFIX
            else "a StableHLO file are constants or inputs"
        )
        raise UsageError(f"{path}: parameters of {kind}: omit --epoch and --params")
    if not path.is_file():
        raise ToolError(f"{path}: no such file")
    if path.suffix.lower() == ONNX_SUFFIX:
        return ModelFiles(path.stem, path, onnx=path)
    return ModelFiles(path.stem, path, module=path)


def _params_file(prefix: Path, epoch: int | None, params: Path | None) -> Path | None:
    if params is not None:
        if not params.is_file():
            raise ToolError(f"{params}: no such file")
        return params
    named = _params_of(prefix, epoch or 0)
    if named.is_file():
        return named
    if epoch is not None:
        raise ToolError(f"{named}: no such file")
    files = sorted(
        p for p in prefix.parent.glob("*.params") if re.fullmatch(re.escape(prefix.name) + r"-\d{4}", p.stem)
    )
    if len(files) > 1:
        raise UsageError(f"{prefix}: has parameters of several epochs: choose one with --epoch or --params")
    return files[0] if files else None


def _params_of(prefix: Path, epoch: int) -> Path:
    return prefix.with_name(f"{prefix.name}-{epoch:04d}.params")
