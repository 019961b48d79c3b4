"""Attention on the Triton target: one kernel, which compiles without spills and whose TTIR agrees with the
interpreter."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed: pip install mxforge[cuda]")

from attention_graphs import (
    arrays_of,
    attention,
    causal,
    chosen,
    heads_of_a_layer,
    interleaved_encdec,
    interleaved_self,
    masked,
    with_heads,
    with_lengths,
)
from compiled import TARGETS, compiled, run_on_gpu
from mxforge.codegen.compiler import KernelCompiler
from mxforge.codegen.control import compile_control
from mxforge.codegen.lower import lower_region
from mxforge.codegen.target import Target
from mxforge.codegen.triton.compile import compile_triton
from mxforge.codegen.triton.emit import emit_triton
from mxforge.codegen.triton.program_code import ProgramCode
from mxforge.codegen.triton.schedule import schedule_triton
from mxforge.codegen.triton.target import SM90, GpuTarget
from mxforge.ir.dialects.core import Fused, evaluate_graph
from mxforge.ir.dialects.core.split import Split
from mxforge.ir.dialects.mx.builder import MxBuilder
from mxforge.ir.graph import Graph, Value
from mxforge.ir.kernel import Kernel
from mxforge.ir.types import DType
from mxforge.ir.verifier import verify_kernel
from mxforge.passes.manager import Context, Options, run_passes
from mxforge.passes.pipeline import TO_CORE
from mxforge.passes.plan_memory import share_memory
from mxforge.passes.training import training_graphs
from support.triton_kernels import relative_error
from transformer_graphs import transformer

F32, F16, BF16 = DType.F32, DType.F16, DType.BF16
SM80 = GpuTarget(80, 163 << 10, 108)
TOLERANCES = {F32: 1e-5, F16: 1e-2}


def check(graph: Graph) -> None:
    """Assert that the graph is one launch with the results of the interpreter."""
    program = compiled(graph, None, TARGETS["gpu"]())
    assert [launch.kind for launch in program.launches] == ["attention"]
    arrays = arrays_of(graph)
    (found,), (expected,) = run_on_gpu(program, arrays), evaluate_graph(graph, arrays)
    assert relative_error(found, expected) <= TOLERANCES[graph.inputs[0].type.dtype]


@pytest.mark.parametrize(
    "graph",
    [
        attention(),
        attention((2, 130, 64), keys=128),
        attention((5, 1, 24), keys=200),
        attention(scores=masked),
        attention(scores=chosen),
        attention(scores=causal),
        attention(weights=with_lengths),
        attention((6, 40, 20), keys=70, weights=with_heads),
        attention((2, 70, 100), keys=70, dtype=F16),
        attention(scores=causal, dtype=F16),
    ],
    ids="ragged even decoder mask choice causal lengths heads float16 causal16".split(),
)
def test_results(graph: Graph) -> None:
    check(graph)


def test_operands_and_result_are_read_and_written_in_place() -> None:
    check(heads_of_a_layer(2, 33, 3, 8))
    check(interleaved_self(33, 2, 3, 8))
    check(interleaved_encdec(20, 40, 2, 3, 8))


def least(b: MxBuilder, x: Value) -> Value:
    """-inf for keys after the query; and for all keys of the first query."""
    row, column = (b.iota(x.type.shape, DType.I32, axis) for axis in (1, 2))
    return b.select(b.lt(column, row), x, b.full_like(x, -np.inf))


def test_masks_of_minus_infinity() -> None:
    """Blocks without a key do not make the result of others NaN; a query without keys has NaN, as by definition."""
    graph = attention((1, 130, 16), keys=130, scores=least)
    arrays = arrays_of(graph)
    with np.errstate(invalid="ignore"):
        (expected,) = evaluate_graph(graph, arrays)
        (found,) = run_on_gpu(compiled(graph, None, TARGETS["gpu"]()), arrays)
    assert np.isnan(found[:, 0]).all()
    np.testing.assert_allclose(found[:, 1:], expected[:, 1:], 1e-5, 1e-5)


def test_equal_low_scores_are_exact() -> None:
    """A row of masked keys has equal weights, although its scores are far from 0."""
    graph = attention((1, 3, 16), scores=lambda b, x: b.add(x, b.full_like(x, -1e18)))
    q, k, v = arrays_of(graph)
    (found,) = run_on_gpu(compiled(graph, None, TARGETS["gpu"]()), [q, k, v])
    np.testing.assert_allclose(found, np.broadcast_to(v.mean(1, keepdims=True), found.shape), 1e-5, 1e-6)


def gradient_graphs(graph: Graph, target: Target) -> Split:
    wrt = [i for i, v in enumerate(graph.inputs) if v.type.dtype.is_float]
    return training_graphs(graph, wrt, Context(target, Options(training=True)))


@pytest.mark.parametrize(
    "graph",
    [
        attention(),
        attention((2, 130, 64), keys=128),
        attention(scores=causal),
        attention(weights=with_lengths),
        heads_of_a_layer(2, 33, 3, 8),
        interleaved_self(33, 2, 3, 8),
        attention((2, 70, 100), keys=70, dtype=F16),
    ],
    ids="ragged even causal lengths layer interleaved float16".split(),
)
def test_gradients(graph: Graph) -> None:
    target = TARGETS["gpu"]()
    split = gradient_graphs(graph, target)
    forward, backward = (compiled(g, Options(training=True), target) for g in (split.forward, split.backward))
    assert [launch.kind for launch in backward.launches].count("attention") == 3
    arrays = arrays_of(graph)
    results = run_on_gpu(forward, arrays)
    residuals = [arrays[s.position] if s.is_input else results[s.position] for s in split.residuals]
    cotangent = np.random.default_rng(1).standard_normal(results[0].shape).astype(results[0].dtype)
    found = run_on_gpu(backward, [*residuals, cotangent])
    expected = evaluate_graph(split.backward, [*residuals, cotangent])
    for x, y in zip(found, expected, strict=True):
        assert relative_error(x, y) <= TOLERANCES[graph.inputs[0].type.dtype]


def kernels_of(graph: Graph, target: GpuTarget) -> list[Kernel]:
    """The kernels of attention of a graph."""
    fused = run_passes(target.passes, graph, Context(target, Options()))
    ops = [n.op for n in fused.nodes if isinstance(n.op, Fused) and n.op.kind == "attention"]
    kernels = [lower_region(op, f"attention{i}") for i, op in enumerate(ops)]
    for kernel in kernels:
        verify_kernel(kernel)
    return kernels


@pytest.mark.parametrize(
    ("graph", "target"),
    [
        (attention((12, 1000, 64), keys=990, scores=masked), SM90),
        (attention((12, 1000, 64), keys=990, scores=masked), SM80),
        (attention((12, 1000, 80), keys=990), SM90),
        (heads_of_a_layer(8, 128, 12, 64, F16), SM90),
        (heads_of_a_layer(8, 128, 12, 64, BF16), SM80),
    ],
    ids="float32 float32-sm80 wide float16 bfloat16-sm80".split(),
)
def test_cubins(graph: Graph, target: GpuTarget) -> None:
    (kernel,) = kernels_of(graph, target)
    compile_for(kernel, target)


def compile_for(kernel: Kernel, target: GpuTarget) -> None:
    compiled = compile_triton(emit_triton(kernel, schedule_triton(kernel, target)), target)
    assert compiled.resources.stack == 0, "registers were spilled"
    assert ("wgmma.mma_async" if target is SM90 else "mma.sync") in compiled.ptx
    assert "cp.async" in compiled.ptx


@pytest.mark.parametrize(
    ("graph", "target"),
    [
        (attention((12, 1000, 64), keys=990, scores=causal), SM90),
        (attention((12, 1000, 128), keys=990, dtype=F16), SM80),
    ],
    ids="float32 wide-sm80".split(),
)
def test_cubins_of_gradients(graph: Graph, target: GpuTarget) -> None:
    kernels = kernels_of(gradient_graphs(graph, target).backward, target)
    assert len(kernels) == 3
    for kernel in kernels:
        compile_for(kernel, target)


def launches(graph: Graph, target: GpuTarget) -> list[str]:
    """The kinds of the kernels of each run."""
    context = Context(target, Options())
    fused = run_passes(target.passes, graph, context)
    sharing = share_memory(fused)
    steps = KernelCompiler(target.emitter(fused, context), context, [], compile_control).steps(fused, sharing)
    return [s.node.op.kind for s in steps if isinstance(s.node.op, Fused) and s.node.outputs[0] not in sharing.prepared]


@pytest.mark.parametrize(("batch", "dtype"), [(1, F32), (8, F16)], ids=["one", "eight"])
def test_launches_of_bert(batch: int, dtype: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ProgramCode, "add", lambda self, *source: None)  # kernels are counted, not compiled
    graph = transformer(batch, 128, dtype=dtype)
    layer = ["contract", "attention", "contract", "row", "contract", "contract", "row"]
    assert launches(graph, SM90) == 12 * layer


def test_a_layer_of_bert() -> None:
    graph = transformer(2, 20, layers=1, width=24, heads=3, hidden=40)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(t.shape).astype(np.float32) / 4 for t in graph.input_types()]
    program = compiled(graph, None, TARGETS["gpu"]())
    core = run_passes(TO_CORE, graph, Context(SM90, Options()))
    (found,), (expected,) = run_on_gpu(program, arrays), evaluate_graph(core, arrays)
    assert relative_error(found, expected) <= 5e-6
