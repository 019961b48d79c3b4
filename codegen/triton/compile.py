"""Compiles emitted Triton source to a cubin, on any machine: no GPU, no driver, no torch.

Runs the stages of Triton's NVIDIA backend one by one instead of `triton.compile`, which hashes its whole library
first. Only this module imports Triton, when the first kernel is compiled; it is the optional extra `mxforge[cuda]`.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import inspect
import linecache
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from ...ir.lazy_dataclass import dataclass
from ...ir.locks import ForkSafeLock, Section
from .cubin import KernelResources, read_resources
from .emit import TritonSource
from .gpu import Gpu
from .kernel_code import KernelCode
from .part import part_of

if TYPE_CHECKING:
    from .target import GpuTarget

_FRAME = 16  # bytes of a stack frame that LLVM can leave in kernels that spill nothing
_MOST_WARPS = 16
_one_thread = ForkSafeLock()  # uses Triton in this process: it has tables that threads cannot share
_calls = Section()  # of Triton, whose locks a forked child could inherit locked


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


def compile_kernel(source: TritonSource, target: GpuTarget) -> KernelCode:
    """The kernel in the form that the target's devices load. Raises the errors of `compile_triton`."""
    parameters, warps = tuple(type for _, type in source.signature), source.schedule.num_warps
    counters = source.counts
    with _calls.run(), _one_thread:
        if target.form == "ttir":
            text = lower_to_ttir(source, target)
            return KernelCode(source.name, "ttir", parameters, warps, 0, text.encode(), counters, part_of(source))
        compiled = compile_without_spills(source, target)
    warps = compiled.num_warps
    return KernelCode(
        source.name, "cubin", parameters, warps, compiled.shared, compiled.cubin, counters, part_of(source)
    )


def compile_without_spills(source: TritonSource, target: Gpu) -> CompiledKernel:
    """The kernel with the warps of its schedule, or with twice as many if it spills registers and then spills fewer."""
    compiled, warps = compile_triton(source, target), source.schedule.num_warps
    if compiled.resources.stack <= _FRAME or warps >= _MOST_WARPS:
        return compiled
    wider = compile_triton(replace(source, schedule=replace(source.schedule, num_warps=2 * warps)), target)
    return min(compiled, wider, key=lambda kernel: kernel.resources.stack)


def compile_triton(source: TritonSource, target: Gpu) -> CompiledKernel:
    """Compile for `target`, in one thread at a time.

    ModuleNotFoundError if Triton is not installed; ValueError if the kernel needs more shared memory than a block has.
    """
    pipeline = _Pipeline(source, target)
    module, forms = pipeline.start(load_function(source)), dict[str, Any]()
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


def lower_to_ttir(source: TritonSource, target: Gpu) -> str:
    """The kernel in Triton's MLIR dialect, canonicalised: the result of the first stage."""
    pipeline = _Pipeline(source, target)
    module = pipeline.start(load_function(source))
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


def load_function(source: TritonSource) -> Any:
    """The `@triton.jit` function. Triton reads its text by `inspect`, which finds it in `linecache`: in a file, another
    user could replace it."""
    file = f"<{source.name} {hashlib.sha256(source.text.encode()).hexdigest()[:24]}>"
    scope: dict[str, Any] = {"__name__": "mxforge_triton"}
    linecache.cache[file] = len(source.text), None, source.text.splitlines(keepends=True), file
    try:
        exec(compile(source.text, file, "exec"), scope)
    finally:
        del linecache.cache[file]
    return scope[source.name]
