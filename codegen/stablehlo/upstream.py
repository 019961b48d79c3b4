"""Upstream MLIR, from the wheel torch-mlir (the extra `mlir`): verifies StableHLO and writes portable artifacts."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

TESTED = "20261001"
"""The version of the wheel with which mxforge is tested: its LLVM IR differs from version to version."""

_INSTALL = f"pip install torch-mlir=={TESTED}"
_LEGALIZE = "builtin.module(func.func(chlo-legalize-to-stablehlo))"


_TEXT = "-"
"""The name of the file in locations of parsed text."""


def installed_version() -> str:
    """The version of the wheel. UpstreamError if it is not installed, or in another version than the tested one."""
    try:
        installed = version("torch-mlir")
    except PackageNotFoundError:
        raise UpstreamError(f"upstream MLIR is required: {_INSTALL}") from None
    if installed != TESTED:
        raise UpstreamError(f"upstream MLIR is torch-mlir {installed}, but mxforge is tested with {TESTED}: {_INSTALL}")
    return installed


class UpstreamError(ValueError):
    """Upstream MLIR is not installed, or refuses a module."""


class Upstream:
    """The modules of the wheel. `verifies`: modules are verified after each pass. UpstreamError as from
    `installed_version`."""

    def __init__(self, verifies: bool = True) -> None:
        installed_version()
        self._verifies = verifies
        try:
            self.ir: Any = import_module("torch_mlir.ir")
            self.stablehlo: Any = import_module("torch_mlir._mlir_libs._stablehlo")
            self._torch: Any = import_module("torch_mlir.dialects.torch")
            self.linalg: Any = import_module("torch_mlir.dialects.linalg")
            self.llvm: Any = import_module("torch_mlir.dialects.llvm")
            self._passes: Any = import_module("torch_mlir.passmanager").PassManager
        except ImportError as error:
            raise UpstreamError(f"upstream MLIR cannot be loaded ({error}): {_INSTALL}") from None
        self.stablehlo.register_stablehlo_passes()

    def context(self) -> Any:
        """A context that knows StableHLO and CHLO. No function of the wheel loads CHLO, but a pass that makes it."""
        context = self.ir.Context()
        context.enable_multithreading(False)  # one function; threads of its own would end in a forked child
        self.stablehlo.register_dialect(context)
        self._torch.register_dialect(context)
        with context:
            empty = self.ir.Module.parse("module { func.func @f() { return } }")
            self.run("builtin.module(func.func(convert-torch-to-stablehlo))", empty)
        return context

    def parse(self, text: str | bytes) -> Any:
        """A verified module of the current context, in which CHLO became StableHLO, from assembly or bytecode.
        UpstreamError if it is malformed."""
        try:
            module = self.ir.Module.parse(text)
        except (self.ir.MLIRError, ValueError) as error:
            raise UpstreamError(self._message(error)) from None
        self.without_chlo(module)
        return module

    def without_chlo(self, module: Any) -> None:
        """Lower CHLO to StableHLO, in place."""
        self.run(_LEGALIZE, module)
        self._read_shapes(module)

    def _read_shapes(self, module: Any) -> None:
        """Replace the operations of the dialect `shape` that CHLO on dynamic shapes becomes by those of StableHLO."""
        reads = find_all(module.operation, ("shape.shape_of",))
        number = self.ir.IntegerType.get_signless(32) if reads else None
        for op in reads:
            with self.ir.InsertionPoint(op), op.location:
                sizes = [self._size(op.operands[0], axis, number) for axis in range(op.results[0].type.shape[0])]
                type = self.ir.RankedTensorType.get((len(sizes),), number)
                axis = {"dimension": self.ir.IntegerAttr.get(self.ir.IntegerType.get_signless(64), 0)}
                shape = self.ir.Operation.create("stablehlo.concatenate", [type], sizes, axis)
            op.results[0].replace_all_uses_with(shape.result)
            op.erase()

    def _size(self, x: Any, axis: int, number: Any) -> Any:
        """The size of an axis as a vector of one number."""
        ir = self.ir
        dimension = {"dimension": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), axis)}
        scalar, vector = (ir.RankedTensorType.get(shape, number) for shape in ((), (1,)))
        size = ir.Operation.create("stablehlo.get_dimension_size", [scalar], [x], dimension)
        return ir.Operation.create("stablehlo.reshape", [vector], [size.result]).result

    def run(self, pipeline: str, module: Any) -> None:
        """Run passes on a module, in place. UpstreamError if one fails."""
        try:
            passes = self._passes.parse(pipeline)
            passes.enable_verifier(self._verifies)
            passes.run(module.operation)
        except (self.ir.MLIRError, ValueError) as error:
            raise UpstreamError(self._message(error)) from None

    def _message(self, error: Exception) -> str:
        """The first diagnostic with its place, in one line."""
        listed: Any = getattr(error, "error_diagnostics", ())
        if not listed:
            return str(error)
        return f"{listed[0].message}{place_of(self.ir, listed[0].location)}"


def place_of(ir: Any, location: Any) -> str:
    """A location in the form ` at NAME (FILE:LINE)`; "" if it is unknown. Lines without a file are those of the text
    that was parsed."""
    place = _place(ir, ir.Location.from_attr(location.attr))  # diagnostics have locations of no class
    return f" at {place}" if place else ""


def _place(ir: Any, location: Any) -> str:
    match location:
        case ir.FileLineColLoc():
            file, line = location.filename, location.start_line
            return f"line {line}" if file == _TEXT else f"{file}:{line}"
        case ir.NameLoc():
            inner = _place(ir, location.child_loc)
            return f"{location.name_str} ({inner})" if inner else location.name_str
        case ir.CallSiteLoc():
            return _place(ir, location.callee) or _place(ir, location.caller)
        case ir.FusedLoc():
            return next((p for p in (_place(ir, inner) for inner in location.locations) if p), "")
        case _:
            return ""


def walk(op: Any, visit: Callable[[Any], None]) -> None:
    """Call `visit` with an operation and all in its regions."""
    visit(op)
    for region in op.regions:
        for block in region:
            for inner in block.operations:
                walk(inner, visit)


def find_all(root: Any, names: Collection[str]) -> list[Any]:
    """The operations of these names in `root`, each before those in its regions."""
    operations: list[Any] = []
    walk(root, lambda op: operations.append(op.operation) if op.operation.name in names else None)
    return operations


def portable_artifact(text: str, release: str | None = None) -> bytes:
    """The bytes of a StableHLO module, which readers of this version of StableHLO and of later ones understand; None
    for the current version. UpstreamError for an unknown version, or one that cannot express the module."""
    upstream = Upstream()
    release = _known_version(upstream.stablehlo, release)
    with upstream.context(), upstream.ir.Location.unknown():
        assembly = upstream.parse(text).operation.get_asm(enable_debug_info=True)
        try:
            return bytes(upstream.stablehlo.serialize_portable_artifact_str(assembly, release))
        except (upstream.ir.MLIRError, ValueError) as error:
            raise UpstreamError(f"StableHLO {release} cannot express the module: {error}") from None


def _known_version(stablehlo: Any, release: str | None) -> str:
    least, current = (str(v) for v in (stablehlo.get_minimum_version(), stablehlo.get_current_version()))
    if release is None:
        return current
    if not re.fullmatch(r"\d{1,6}(\.\d{1,6}){2}", release) or not _numbers(least) <= _numbers(release) <= _numbers(
        current
    ):
        raise UpstreamError(f"StableHLO {release!r} is unknown: use a version from {least} to {current}")
    return release


def _numbers(version: str) -> list[int]:
    return [int(n) for n in version.split(".")]
