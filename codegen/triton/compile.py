"""Compiles emitted Triton source to a cubin, on any machine: no GPU, no driver, no torch.

Runs the stages of Triton's NVIDIA backend one by one instead of `triton.compile`, which hashes its whole library
first. Only this module imports Triton, when the first kernel is compiled; it is the optional extra `mxforge[cuda]`.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from ...ir.lazy_dataclass import dataclass
from ...ir.settings import settings
from .cubin import KernelResources, read_resources
from .emit import TritonSource
from .gpu import Gpu


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """Every form of one kernel. A block uses `shared` bytes of shared memory and has 32 * `num_warps` threads.

    The cubin's parameters are those of the source's signature, then pointers that Triton adds (scratch memory).
    """

    name: str
    ttir: str
    ptx: str
    cubin: bytes
    shared: int
    num_warps: int
    resources: KernelResources


def compile_triton(source: TritonSource, target: Gpu, folder: Path | None = None) -> CompiledKernel:
    """Compile for `target`. The generated module is stored in `folder` (default: the compile cache) for debuggers.

    ModuleNotFoundError if Triton is not installed; ValueError if the kernel needs more shared memory than a block has.
    """
    pipeline = _Pipeline(source, target)
    module, forms = pipeline.start(load_function(source, folder or _cache_folder())), dict[str, Any]()
    for name, stage in pipeline.stages.items():
        module = stage(module, pipeline.metadata)
        forms[name] = str(module) if name in ("ttir", "ptx") else module
    shared = int(pipeline.metadata["shared"])
    if shared > target.shared_bytes:
        limit = target.shared_bytes
        raise ValueError(f"kernel {source.name} needs {shared} bytes of shared memory, a block has {limit}")
    resources = read_resources(forms["cubin"], source.name)
    warps = source.schedule.num_warps
    return CompiledKernel(source.name, forms["ttir"], forms["ptx"], forms["cubin"], shared, warps, resources)


def lower_to_ttir(source: TritonSource, target: Gpu, folder: Path | None = None) -> str:
    """The kernel in Triton's MLIR dialect, canonicalised: the result of the first stage."""
    pipeline = _Pipeline(source, target)
    module = pipeline.start(load_function(source, folder or _cache_folder()))
    return str(pipeline.stages["ttir"](module, pipeline.metadata))


class _Pipeline:
    """Triton's backend set up for one kernel: its stages by name, and the metadata that they fill."""

    def __init__(self, source: TritonSource, target: Gpu) -> None:
        triton = _import_triton()
        self.source, s = source, source.schedule
        self.backend, self.context, self.gpu = triton.backend(target.capability)
        chosen = {"num_warps": s.num_warps, "num_stages": s.num_stages, "enable_fp_fusion": s.fp_fusion}
        self.options = self.backend.parse_options(chosen)
        self.stages: dict[str, Any] = {}
        self.backend.add_stages(self.stages, self.options, triton.language)
        self.metadata: dict[str, Any] = {"target": self.gpu, **self.options.__dict__}
        self.ast_source = triton.ast_source

    def start(self, function: Any) -> Any:
        """The module before the first stage."""
        source = self.source
        signature = {**dict(source.signature), **{name: "constexpr" for name, _ in source.constants}}
        divisible = [i for i, (name, _) in enumerate(source.signature) if name in source.divisible]
        attributes = {(i,): [["tt.divisibility", 16]] for i in divisible}
        ast = self.ast_source(function, signature, dict(source.constants), attributes)
        functions = self.backend.get_codegen_implementation(self.options)
        arguments = (self.options, functions, self.backend.get_module_map(), self.context)
        takes_target = len(inspect.signature(ast.make_ir).parameters) == len(arguments) + 1  # in newer versions
        return ast.make_ir(self.gpu, *arguments) if takes_target else ast.make_ir(*arguments)


@dataclass(frozen=True)
class _Triton:
    """The parts of Triton that this module uses."""

    ast_source: Any
    language: Any

    def backend(self, capability: int) -> tuple[Any, Any, Any]:
        from triton.backends.compiler import GPUTarget  # type: ignore[import-untyped]
        from triton.compiler.compiler import make_backend  # type: ignore[import-untyped]

        ir: Any = importlib.import_module("triton._C.libtriton").ir  # a C extension without types
        gpu: Any = GPUTarget("cuda", capability, 32)
        backend: Any = make_backend(gpu)
        context: Any = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        return backend, context, gpu


@cache
def triton_version() -> str:
    """The version of the installed Triton. ModuleNotFoundError if it is not installed."""
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        raise _no_triton() from None


def _no_triton() -> ModuleNotFoundError:
    return ModuleNotFoundError("compiling for a GPU needs Triton: pip install mxforge[cuda]", name="triton")


@cache
def _import_triton() -> _Triton:
    try:
        from triton.backends.compiler import Language  # type: ignore[import-untyped]
        from triton.compiler import ASTSource  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise _no_triton() from error
    return _Triton(ASTSource, Language.TRITON)


def load_function(source: TritonSource, folder: Path) -> Any:
    """The `@triton.jit` function, from a module written to `folder`: Triton reads a function's source from its file."""
    digest = hashlib.sha256(source.text.encode()).hexdigest()[:24]
    path = folder / f"{source.name}_{digest}.py"
    if not path.exists():
        _write(path, source.text)
    spec = importlib.util.spec_from_file_location(f"mxforge_triton_{digest}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, source.name)


def _write(path: Path, text: str) -> None:
    """Write the file and rename it, so that other processes never read an incomplete module."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "w") as file:
        file.write(text)
    os.replace(name, path)


def _cache_folder() -> Path:
    chosen = settings().cache_dir
    base = chosen or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mxforge"
    return base / "triton"
