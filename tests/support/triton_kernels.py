"""Runs kernels and graphs on the Triton target: emits, compiles for sm_90, and executes the TTIR with NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
from mxforge.codegen.lower import lower_region
from mxforge.codegen.triton.compile import CompiledKernel, compile_triton, lower_to_ttir
from mxforge.codegen.triton.emit import TritonSource, emit_triton
from mxforge.codegen.triton.kernel_code import MOST_COUNTERS
from mxforge.codegen.triton.schedule import TritonSchedule, schedule_triton
from mxforge.codegen.triton.target import SM90
from mxforge.ir.dialects.core import Fused
from mxforge.ir.graph import Graph, Value
from mxforge.ir.kernel import Affine, Kernel, Load, affine
from mxforge.ir.types import DType
from mxforge.passes.eliminate import EliminateCommonSubexpressions, EliminateDeadCode
from mxforge.passes.fuse import Fuse
from mxforge.passes.manager import Context, Options
from mxforge.passes.simplify import Simplify

from .ttir import run_ttir

Array = np.ndarray[Any, Any]


def load(buffer: str, *axes: str) -> Load:
    """`buffer[axes]`; "" is index 0."""
    return Load(buffer, tuple(affine((a, 1)) if a else Affine() for a in axes))


def memory_dtype(dtype: DType) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16) if dtype is DType.BF16 else dtype.numpy


def emitted(
    kernel: Kernel, schedule: TritonSchedule | None = None, extents: Mapping[str, int] | None = None
) -> TritonSource:
    return emit_triton(kernel, schedule or schedule_triton(kernel, SM90, extents))


def run_source(
    source: TritonSource, kernel: Kernel, inputs: Sequence[Array], extents: Mapping[str, int] | None = None
) -> list[Array]:
    """The results of one launch; compiles only to TTIR."""
    extents = extents or {}
    return _run(lower_to_ttir(source, SM90), source, kernel, inputs, extents)


def run_compiled(source: TritonSource, kernel: Kernel, inputs: Sequence[Array]) -> tuple[list[Array], CompiledKernel]:
    """The results of one launch, and the kernel compiled to a cubin without spills."""
    compiled = compile_triton(source, SM90)
    assert compiled.resources.stack == 0, "registers were spilled"
    assert len(compiled.resources.parameters) >= len(source.signature)
    return _run(compiled.ttir, source, kernel, inputs, {}), compiled


def _run(
    ttir: str, source: TritonSource, kernel: Kernel, inputs: Sequence[Array], extents: Mapping[str, int]
) -> list[Array]:
    given = iter(inputs)
    memory = [
        _unwritten(b, extents) if b.written else np.ascontiguousarray(next(given), memory_dtype(b.dtype))
        for b in kernel.buffers
    ]
    added: list[Array] = []
    if source.counts:
        added = [np.full(source.workspace(extents), 0xFF, np.uint8), np.zeros(MOST_COUNTERS, np.int32)]
    run_ttir(ttir, source.programs(extents), [*memory, *(extents[e] for e in kernel.extents), *added])
    assert not added or not added[1].any(), "counters are not 0 after the launch"
    return [m for b, m in zip(kernel.buffers, memory, strict=True) if b.written]


def _unwritten(buffer: Any, extents: Mapping[str, int]) -> Array:
    """Memory in which unwritten elements are detectable: NaN, or an unlikely number."""
    shape = tuple(extents[n] if isinstance(n, str) else n for n in buffer.shape)
    dtype = memory_dtype(buffer.dtype)
    return np.full(shape, np.nan if buffer.dtype.is_float else 1 if dtype == np.bool_ else 113, dtype)


def fused(graph: Graph) -> Graph:
    """The core graph partitioned into regions for a GPU, with plain layouts."""
    context = Context(SM90, Options())
    for step in (Simplify(), EliminateCommonSubexpressions(), EliminateDeadCode(), Fuse()):
        graph = step.run(graph, context)
    return graph


def run_graph(graph: Graph, inputs: Sequence[Array]) -> tuple[list[Array], list[CompiledKernel]]:
    """The outputs of a core graph, and its kernels in order. Nodes that are not regions (reshapes) are interpreted."""
    graph = fused(graph)
    values: dict[Value, Array] = dict(zip(graph.inputs, inputs, strict=True))
    kernels: list[CompiledKernel] = []
    for node in graph.nodes:
        operands = [values[v] for v in node.inputs]
        if isinstance(node.op, Fused):
            kernel = lower_region(node.op, "region")
            results, compiled = run_compiled(emitted(kernel), kernel, operands)
            kernels.append(compiled)
        else:
            results = node.op.evaluate(*operands)  # type: ignore[attr-defined]
        values.update(zip(node.outputs, results, strict=True))
    return [values[v] for v in graph.outputs], kernels


def relative_error(found: Array, expected: Array) -> float:
    """The largest error relative to the largest value; infinite if a result was not written."""
    assert found.shape == expected.shape
    error = np.abs(found.astype(np.float64) - expected).max(initial=0)
    return float(error) / max(1e-30, float(np.abs(expected).max(initial=0))) if np.isfinite(error) else float("inf")
