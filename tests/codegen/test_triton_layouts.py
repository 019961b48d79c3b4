"""Channels-last values on the Triton target: where they are, and that kernels which read and write them agree with the
interpreter on a simulated GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed: pip install mxforge[cuda]")

from compiled import launches_of
from layout_samples import LAYOUT_SAMPLES
from mxforge.codegen.driver import compile_graph
from mxforge.codegen.lower import lower_region
from mxforge.codegen.triton.emit import emit_triton
from mxforge.codegen.triton.schedule import schedule_triton
from mxforge.codegen.triton.target import SM90
from mxforge.ir.dialects.core import CoreBuilder, Fused, Relayout, evaluate_graph
from mxforge.ir.dialects.core.gradient import gradient_graph
from mxforge.ir.graph import Graph, Op, Value
from mxforge.ir.scalar import ReduceOp
from mxforge.ir.types import DType, Layout, TensorType
from mxforge.passes.assign_layouts import AssignLayouts
from mxforge.passes.fuse import Fuse
from mxforge.passes.layout_rules import BLOCKS, Choice, choices_of
from mxforge.passes.manager import Options
from mxforge.runtime.compile import executable_for
from mxforge.runtime.devices import open_device
from mxforge.runtime.storage import storage_of
from rewriting import in_layout, random_inputs, run_pass, tensor
from support.simulated_gpu import TARGET
from support.triton_kernels import relative_error

pytestmark = pytest.mark.usefixtures("simulated_gpus")
Array = np.ndarray
LAYOUTS = AssignLayouts()
BLOCKED = SM90.blocked_layout
NONE = (0, 0)


def channels_last(type: TensorType) -> Layout:
    return Layout(type.shape[1], (NONE,) * (type.rank - 2))


def run(graph: Graph, arrays: Sequence[Array], options: Options | None = None) -> list[Array]:
    """The results of a graph on a simulated GPU."""
    gpu = open_device("gpu", 0)
    program = executable_for(graph, options or Options(), gpu)
    operands = [storage_of(a, gpu) for a in arrays]
    results = [np.empty(t.shape, t.dtype.numpy) for t in program.outputs]
    stored = [gpu.allocate(max(1, r.nbytes)) for r in results]
    program.run([x.address for x in operands], [y.address for y in stored])
    for storage, result in zip(stored, results, strict=True):
        gpu.read(storage.address, result)
    return results


def check(graph: Graph, tolerance: float = 1e-5, options: Options | None = None) -> None:
    arrays = random_inputs(graph)
    for found, expected in zip(run(graph, arrays, options), evaluate_graph(graph, arrays), strict=True):
        assert relative_error(found, expected) <= tolerance


def conv(b: CoreBuilder, x: Value, filters: int, kernel: int = 3, padding: int = 1, groups: int = 1) -> Value:
    shape = (filters, x.type.shape[1] // groups, kernel, kernel)
    weights = b.input(tensor(*shape, dtype=x.type.dtype), parameter=True)
    return b.conv(x, weights, (1, 1), ((padding, padding),) * 2, groups=groups)


def layouts(graph: Graph, name: str) -> list[Layout | None]:
    return [n.outputs[0].type.layout for n in graph.nodes if n.op.name == f"core.{name}"]


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16, DType.BF16])
def test_values_and_weights_of_convolutions_are_channels_last(dtype: DType) -> None:
    b = CoreBuilder()
    y = b.tanh(conv(b, b.input(tensor(1, 3, 8, 8, dtype=dtype)), 12))
    graph = run_pass(LAYOUTS, b.build([conv(b, y, 20)]), SM90)
    assert layouts(graph, "conv") == [Layout(12, (NONE, NONE)), Layout(20, (NONE, NONE))]
    assert layouts(graph, "pointwise") == [Layout(12, (NONE, NONE))]
    image, second = (n for n in graph.nodes if n.op.name == "core.conv")
    assert [v.type.layout for v in image.inputs] == [None, None]  # few channels stay row-major
    assert [v.type.layout for v in second.inputs] == [Layout(12, (NONE, NONE))] * 2


@pytest.mark.parametrize("dtype", [DType.F64, DType.I32])
def test_other_dtypes_are_row_major(dtype: DType) -> None:
    b = CoreBuilder()
    graph = b.build([conv(b, b.input(tensor(1, 16, 8, 8, dtype=dtype)), 16)])
    assert run_pass(LAYOUTS, graph, SM90) is graph


def test_kernels_for_any_extents_write_parts_of_channels() -> None:
    """The kernels that write channels-last values keep their extents."""
    b = CoreBuilder()
    x = b.input(tensor(1, 5, 3, 2))
    twice = b.concat([b.concat([x, b.tanh(x)], 0)] * 2, 1)
    graph = b.build([b.conv(twice, b.input(tensor(10, 1, 1, 1)), (1, 1), ((0, 0),) * 2, (2, 2), groups=10)])
    check(graph, options=Options(static_shape=False))


def _cases() -> Iterator[tuple[Op, tuple[TensorType, ...], Choice]]:
    for op, types in LAYOUT_SAMPLES:
        b = CoreBuilder()
        for choice in choices_of(b.node(op, *(b.input(t) for t in types)), BLOCKED):
            if BLOCKS in (choice.result, *choice.operands):
                yield op, types, choice


@pytest.mark.parametrize(("op", "types", "choice"), [*_cases()], ids=lambda part: str(part)[:60])
def test_every_choice_runs(op: Op, types: tuple[TensorType, ...], choice: Choice) -> None:
    b = CoreBuilder()
    inputs = [b.input(t) for t in types]
    stored = [
        b.add_node(Relayout(channels_last(v.type)), v) if f is BLOCKS else v
        for v, f in zip(inputs, choice.operands, strict=True)
    ]
    (out,) = op.infer(*types)
    layout = channels_last(out) if choice.result is BLOCKS else None
    result = in_layout(b, op, layout, *stored)
    check(b.build([b.add_node(Relayout(None), result) if layout else result]))


Build = Callable[[CoreBuilder], Value]

NETWORKS: dict[str, Build] = {
    "strided": lambda b: b.conv(
        b.maximum(conv(b, b.input(tensor(2, 8, 9, 8)), 12), 0.0), weights(b, 7, 12), (2, 1), ((1, 0), (0, 2))
    ),
    "groups": lambda b: conv(b, conv(b, b.input(tensor(2, 12, 7, 6)), 8, 1, 0), 12, groups=2),
    "depthwise": lambda b: conv(b, conv(b, b.input(tensor(2, 12, 7, 6)), 8, 1, 0), 8, groups=8),
    "a sum with rows": lambda b: b.add(conv(b, b.input(tensor(2, 8, 5, 5)), 8), b.input(tensor(2, 8, 5, 5))),
    "pieces": lambda b: conv(b, inception(b, b.input(tensor(2, 8, 5, 5))), 6),
    "pools": lambda b: b.reshape(pooled(b, conv(b, b.input(tensor(2, 8, 8, 8)), 12)), (2, 108)),
    "sum over space": lambda b: b.sum(conv(b, b.input(tensor(2, 8, 6, 6)), 12), (2, 3)),
    "volumes": lambda b: b.conv(
        b.input(tensor(1, 8, 4, 5, 3)), b.input(tensor(8, 8, 2, 3, 2)), (1,) * 3, ((1, 0),) * 3
    ),
}


def inception(b: CoreBuilder, x: Value) -> Value:
    return b.concat([conv(b, x, filters, 1, 0) for filters in (5, 8)], 1)


def weights(b: CoreBuilder, filters: int, channels: int) -> Value:
    return b.input(tensor(filters, channels, 3, 3), parameter=True)


def pooled(b: CoreBuilder, x: Value) -> Value:
    return b.reduce_window(ReduceOp.MAX, x, (1, 1, 3, 3), (1, 1, 3, 3), (NONE, NONE, (1, 0), (0, 1)))


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_agree_with_the_interpreter(name: str) -> None:
    b = CoreBuilder("net")
    check(b.build([NETWORKS[name](b)]))


@pytest.mark.parametrize("wrt", [(0,), (1,), (0, 1, 2)], ids=["to data", "to weights", "to all"])
@pytest.mark.parametrize("name", ["strided", "groups", "depthwise", "pieces"])
def test_gradients_agree_with_the_interpreter(name: str, wrt: tuple[int, ...]) -> None:
    b = CoreBuilder("net")
    check(gradient_graph(b.build([NETWORKS[name](b)]), wrt, [0]), 1e-4)


def test_short_floats_agree_with_the_interpreter() -> None:
    b = CoreBuilder("net")
    x = b.input(tensor(2, 8, 6, 6, dtype=DType.F16))
    check(b.build([conv(b, b.maximum(conv(b, x, 12), 0.0), 6)]), 2e-3)


def test_operands_are_contiguous_along_channels() -> None:
    """Each row of both operands of tensor cores is contiguous in the input's channels, as is each row of results."""
    b = CoreBuilder("net")
    graph = run_pass(Fuse(), run_pass(LAYOUTS, b.build([conv(b, b.input(tensor(2, 32, 8, 8)), 16)]), SM90), SM90)
    (region,) = (n.op for n in graph.nodes if isinstance(n.op, Fused) and n.op.kind == "contract")
    kernel = lower_region(region)
    schedule = schedule_triton(kernel, SM90)
    assert [schedule.dim(d).axes for d in "mnk"] == [("i0", "i2", "i3"), ("i1",), ("r1", "r2", "r0")]
    text = emit_triton(kernel, schedule).text
    assert "r0[None, :] + -288, mask" in text  # the input: the last term of its address has no factor
    assert "tl.load(x1_ptr + n[None, :] * 288 + k[:, None]" in text
    assert "tl.store(y0_ptr + m[:, None] * 16 + n[None, :]" in text


def test_pieces_of_a_concatenation_are_computed_in_place() -> None:
    """Five launches: relayouts of the input and of the result, and three convolutions."""
    b = CoreBuilder("net")
    program = compile_graph(b.build([NETWORKS["pieces"](b)]), TARGET)
    assert len(launches_of(program.steps)) == 5


def test_moves_between_convolutions_keep_the_layout() -> None:
    """Channels of channels-last values can be cut and reversed anywhere."""
    b = CoreBuilder("net")
    y = b.reverse(conv(b, b.input(tensor(2, 8, 6, 5)), 12), (1, 3))
    y = b.pad(b.slice(y, (0, 3, 1, 0), (2, 12, 6, 5)), b.constant(0.0, DType.F32), [0, 1, 1, 0], [0, 0, 0, 1])
    graph = b.build([conv(b, y, 8)])
    result = run_pass(LAYOUTS, graph, SM90)
    for name, channels in (("reverse", 12), ("slice", 9), ("pad", 10)):
        assert layouts(result, name) == [Layout(channels, (NONE, NONE))]
    check(graph)
