"""How the Triton target multiplies: the precision of float32 products, and sums that several programs share."""

from __future__ import annotations

from dataclasses import replace

import mxforge as mx
import numpy as np
import pytest

pytest.importorskip("triton", reason="Triton is not installed: pip install mxforge[cuda]")

from compiled import launches_of
from contraction_kernels import ConvSpec, Extras, conv_kernel, gemm_kernel, weight_gradient_kernel
from mxforge.codegen.driver import compile_graph, compile_steps
from mxforge.codegen.triton.compile import compile_triton
from mxforge.codegen.triton.emit import emit_triton
from mxforge.codegen.triton.schedule import TritonSchedule, schedule_triton
from mxforge.codegen.triton.target import SM90, GpuTarget
from mxforge.ir.dialects.core import CoreBuilder, evaluate_graph
from mxforge.ir.dialects.core.gradient import gradient_graph
from mxforge.ir.graph import Graph
from mxforge.ir.kernel import Buffer, Expr, Index, Kernel, Load, Scalar
from mxforge.ir.program import PACK
from mxforge.ir.scalar import ScalarOp
from mxforge.ir.types import DType, Layout
from mxforge.passes.manager import Options
from mxforge.runtime.compile import executable_for
from mxforge.runtime.devices import open_device
from mxforge.runtime.storage import storage_of
from rewriting import random_inputs, tensor
from support.simulated_gpu import TARGET
from support.triton_kernels import emitted, memory_dtype, relative_error, run_source

Array = np.ndarray
rng = np.random.default_rng(0)


def normal(*shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def small(kernel: Kernel, **changes: object) -> TritonSchedule:
    """The schedule with tiles of 16 x 16 x 16."""
    schedule = schedule_triton(kernel, SM90)
    dims = tuple(replace(d, block=1 if d.name == "z" else 16) for d in schedule.dims)
    return replace(schedule, dims=dims, **changes)  # type: ignore[arg-type]


# -- precision

ERRORS = {"float32": 1e-6, "exact": 1e-6, "bf16x3": 1e-5, "tf32": 1e-3}
SCHEDULED = {**ERRORS, "bf16x6": 1e-6}


@pytest.mark.parametrize("precision", SCHEDULED)
def test_precision(precision: str) -> None:
    kernel = gemm_kernel((), 20, 24, 300)
    a, b = normal(20, 300), normal(300, 24)
    (found,) = run_source(emitted(kernel, small(kernel, precision=precision)), kernel, [a, b])
    error = relative_error(found, a.astype(np.float64) @ b)
    assert SCHEDULED[precision] / 100 < error < SCHEDULED[precision]


@pytest.mark.parametrize("precision", SCHEDULED)
def test_nan_is_kept(precision: str) -> None:
    """Also NaN as GPUs compute it: all bits of the mantissa are set, and rounding them would carry into the sign."""
    kernel = gemm_kernel((), 16, 16, 16)
    a, b = np.ones((16, 16), np.float32), np.ones((16, 16), np.float32)
    a[3, 4], b[5, 6] = np.array([0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view(np.float32)
    (found,) = run_source(emitted(kernel, small(kernel, precision=precision)), kernel, [a, b])
    np.testing.assert_array_equal(np.isnan(found), np.isnan(a @ b))


def test_the_right_operand_of_float32_is_contiguous_along_the_sum() -> None:
    """Tensor cores need that; operands are exchanged for it."""
    for transposed, rows in (((False, False), ("n",)), ((False, True), ("m",)), ((True, True), ("m",))):
        kernel = gemm_kernel((2,), 37, 21, 50, transposed=transposed)
        assert schedule_triton(kernel, SM90).dim("m").axes == rows
        a, b = normal(2, 37, 50), normal(2, 50, 21)
        given = [x.swapaxes(1, 2) if t else x for x, t in zip((a, b), transposed, strict=True)]
        (found,) = run_source(emitted(kernel), kernel, given)
        assert relative_error(found, a.astype(np.float64) @ b) <= ERRORS["float32"]
    assert schedule_triton(gemm_kernel((), 37, 21, 50, DType.F16), SM90).dim("m").axes == ("m",)


@pytest.mark.usefixtures("simulated_gpus")
def test_blocks_have_a_precision() -> None:
    gpu = mx.gpu(0)
    a, b = (mx.nd.array(normal(*shape), gpu) for shape in ((60, 300), (300, 50)))
    expected = a.asnumpy().astype(np.float64) @ b.asnumpy()
    net = mx.gluon.nn.HybridLambda(lambda F, a, b: F.dot(a, b))
    for precision, most in ERRORS.items():
        net.hybridize(precision=precision)
        assert most / 100 < relative_error(net(a, b).asnumpy(), expected) < most
    with pytest.raises(mx.MXNetError, match="expect 'float32' or 'tf32'"):
        net.hybridize(precision="float16")
        net(a, b)


@pytest.mark.usefixtures("simulated_gpus")
def test_gradients_have_the_precision_of_their_block() -> None:
    gpu = mx.gpu(0)
    x, w = (mx.nd.array(normal(*shape), gpu) for shape in ((60, 300), (70, 300)))
    net = mx.gluon.nn.HybridLambda(lambda F, x, w: F.FullyConnected(x, w, num_hidden=70, no_bias=True))
    net.hybridize(precision="tf32")
    x.attach_grad()
    with mx.autograd.record():
        y = net(x, w)
    y.backward(y)
    assert x.grad is not None
    error = relative_error(x.grad.asnumpy(), y.asnumpy().astype(np.float64) @ w.asnumpy())
    assert ERRORS["tf32"] / 100 < error < ERRORS["tf32"]


# -- divided weights


@pytest.mark.usefixtures("simulated_gpus")
@pytest.mark.parametrize("kind", ["dense", "convolution"])
def test_weights_are_divided_once(kind: str) -> None:
    """Parameters are; the results have the bits of those whose weights each kernel divides."""

    def graph_of(parameter: bool) -> Graph:
        b = CoreBuilder("net")
        if kind == "dense":
            x, w = b.input(tensor(37, 70)), b.input(tensor(45, 70), parameter=parameter)
            return b.build([b.maximum(b.dot(x, w, (), (), (1,), (1,)), 0.0)])
        x, w = b.input(tensor(1, 32, 6, 5)), b.input(tensor(24, 32, 3, 3), parameter=parameter)
        return b.build([b.maximum(b.conv(x, w, (1, 1), ((1, 1), (1, 1))), 0.0)])

    graph, plain = graph_of(True), graph_of(False)
    program = compile_steps(graph, TARGET).program
    assert sum(launch.kind == PACK for launch in launches_of(program.prepare)) == 2
    arrays = random_inputs(graph)
    (found,), (expected,) = run_on_gpu(graph, arrays), run_on_gpu(plain, arrays)
    assert relative_error(found, evaluate_graph(graph, arrays)[0]) <= 2e-6
    np.testing.assert_array_equal(found, expected)


def test_other_weights_are_not_divided() -> None:
    """Halves, and weights that are the left operand of a product or are not multiplied in the mode float32."""
    for dtype, options in ((DType.F16, Options()), (DType.F32, Options(precision="tf32"))):
        b = CoreBuilder("net")
        x, w = b.input(tensor(37, 70, dtype=dtype)), b.input(tensor(45, 70, dtype=dtype), parameter=True)
        program = compile_graph(b.build([b.dot(x, w, (), (), (1,), (1,))]), TARGET, options)
        assert not any(launch.kind == PACK for launch in launches_of((*program.prepare, *program.steps)))


# -- convolutions

CONVOLUTIONS = {
    "padded": ((16, 64, 3, 3), (1, 1), ((1, 1), (1, 1))),
    "strided": ((16, 64, 3, 3), (2, 2), ((1, 1), (1, 1))),
    "rows": ((16, 64, 3, 1), (1, 1), ((1, 1), (0, 0))),
}


@pytest.mark.usefixtures("simulated_gpus")
@pytest.mark.parametrize("wrt", [(), (0,), (1,)], ids=["forward", "to data", "to weights"])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_blocks_at_one_tap(name: str, wrt: tuple[int, ...]) -> None:
    """Channels are multiples of the blocks, so all of a block is at one tap."""
    weights, strides, padding = CONVOLUTIONS[name]
    b = CoreBuilder("net")
    graph = b.build([b.conv(b.input(tensor(1, 64, 5, 32)), b.input(tensor(*weights)), strides, padding)])
    graph = gradient_graph(graph, wrt, [0]) if wrt else graph
    arrays = random_inputs(graph)
    found = run_on_gpu(graph, arrays)
    assert relative_error(found[0], evaluate_graph(graph, arrays)[0]) <= 2e-6


def run_on_gpu(graph: Graph, arrays: list[Array]) -> list[Array]:
    """The results of a graph on `mx.gpu(0)`."""
    gpu = open_device("gpu", 0)
    program = executable_for(graph, Options(static_shape=True), gpu)
    operands = [storage_of(a, gpu) for a in arrays]
    results = [np.empty(t.shape, t.dtype.numpy) for t in program.outputs]
    stored = [gpu.allocate(r.nbytes) for r in results]
    program.run([x.address for x in operands], [y.address for y in stored])
    for storage, result in zip(stored, results, strict=True):
        gpu.read(storage.address, result)
    return results


def test_taps_are_scalars() -> None:
    """Then masks are one-dimensional, which takes a fraction of the registers and instructions."""
    text = emitted(network_kernels()["one image"]).text
    assert "= k_start // 64 % 3\n" in text and "= k_start // 192\n" in text


# -- split sums


def with_residual(total: Expr, index: Index) -> Expr:
    return Scalar(ScalarOp.MAX, (Scalar(ScalarOp.ADD, (total, Load("residual", index))), Load("a", index)))


@pytest.mark.parametrize("split", [2, 5, 16])
@pytest.mark.parametrize("dtype", [DType.F32, DType.F16])
def test_split_sums(split: int, dtype: DType) -> None:
    """Also with parts that have no points, and with an epilogue that reads an operand of the product."""
    extras = Extras((Buffer("residual", dtype, (2, 37, 75)),), with_residual)
    kernel = gemm_kernel((2,), 37, 75, 75, dtype, extras=extras)
    inputs = [normal(2, 37, 75), normal(2, 75, 75), normal(2, 37, 75)]
    inputs = [x.astype(memory_dtype(dtype)) for x in inputs]
    (found,) = run_source(emitted(kernel, small(kernel, split=split)), kernel, inputs)
    a, b, residual = (x.astype(np.float64) for x in inputs)
    assert relative_error(found, np.maximum(a @ b + residual, a)) <= (1e-6 if dtype is DType.F32 else 1e-3)


def test_sums_of_run_time_length_are_split() -> None:
    names = ("rows", "columns", "inner")
    kernel = replace(gemm_kernel((), *names), extents=names)  # type: ignore[arg-type]
    source = emitted(kernel, small(kernel, split=3))
    for rows, columns, inner in ((20, 17, 100), (1, 1, 1), (33, 5, 16)):
        a, b = normal(rows, inner), normal(inner, columns)
        (found,) = run_source(source, kernel, [a, b], {"rows": rows, "columns": columns, "inner": inner})
        assert relative_error(found, a.astype(np.float64) @ b) <= 1e-6


def test_integer_sums_are_split() -> None:
    kernel = _bytes(gemm_kernel((), 20, 24, 300, DType.F32))
    a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((20, 300), (300, 24)))
    schedule = schedule_triton(kernel, SM90)
    (found,) = run_source(emitted(kernel, replace(schedule, split=3)), kernel, [a, b])
    np.testing.assert_array_equal(found, a.astype(np.int32) @ b.astype(np.int32))


def _bytes(kernel: Kernel) -> Kernel:
    a, b, y = kernel.buffers
    (stage,) = kernel.stages
    value = replace(stage.value, accumulator=DType.I32, dtype=DType.I32)  # type: ignore[type-var, call-arg]
    buffers = (replace(a, dtype=DType.I8), replace(b, dtype=DType.I8), replace(y, dtype=DType.I32))
    return replace(kernel, buffers=buffers, stages=(replace(stage, value=value),))


def test_weight_gradients_are_split() -> None:
    kernel = weight_gradient_kernel((3, 5, 9, 8), 6, (3, 3), ConvSpec((2, 1), (1, 1), (1, 1)))
    x, dy = normal(3, 5, 9, 8), normal(3, 6, 5, 8)
    (found,) = run_source(emitted(kernel, small(kernel, split=4)), kernel, [x, dy])
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.stack([padded[:, :, r : r + 10 : 2, s : s + 8] for r in range(3) for s in range(3)], axis=2)
    assert relative_error(found, np.einsum("nchw,nothw->cot", dy, windows).reshape(6, 5, 3, 3)) <= 1e-6


@pytest.mark.parametrize("dtype", [DType.F32, DType.F16], ids=lambda d: d.value)
def test_split_sums_have_barriers_and_read_the_sums_of_others(dtype: DType) -> None:
    kernel = gemm_kernel((), 64, 64, 1 << 14, dtype)
    schedule = schedule_triton(kernel, SM90)
    assert schedule.split > 8
    compiled = compile_triton(emitted(kernel, schedule), SM90)
    stored, counted = compiled.ptx.index("st.global"), compiled.ptx.index("atom")
    assert "bar.sync" in compiled.ptx[stored:counted]
    assert "acq_rel" in compiled.ptx[counted : counted + 40]
    assert "ld.global.cg" in compiled.ptx[counted:]
    assert compiled.resources.stack == 0


SM80 = GpuTarget(80, 163 << 10, 108)
CHANNELS_LAST = Layout(64, ((0, 0), (0, 0)))


def with_weights(kernel: Kernel) -> Kernel:
    """The convolution with channels-last weights."""
    x, w, y = kernel.buffers
    return replace(kernel, buffers=(x, replace(w, layout=CHANNELS_LAST), y))


def network_kernels() -> dict[str, Kernel]:
    """Contractions of networks: whole tiles, shared sums, gradients."""
    spec, image = ConvSpec((1, 1), (1, 1), (1, 1)), CHANNELS_LAST
    return {
        "convolution": with_weights(conv_kernel((32, 64, 56, 56), (64, 64, 3, 3), spec, DType.F32, image, image)),
        "one image": with_weights(conv_kernel((1, 64, 14, 14), (64, 64, 3, 3), spec, DType.F16, image, image)),
        "gradient": weight_gradient_kernel((32, 64, 56, 56), 64, (3, 3), spec, DType.F32, image, image),
        "dense": gemm_kernel((), 1024, 768, 3072, DType.F32, (False, True)),
        "few rows": gemm_kernel((), 32, 2600, 650, DType.F16, (False, True)),
    }


@pytest.mark.parametrize("target", [SM80, SM90], ids=["sm_80", "sm_90"])
@pytest.mark.parametrize("name", network_kernels())
def test_kernels_of_networks_fit_the_machine(name: str, target: GpuTarget) -> None:
    kernel = network_kernels()[name]
    compiled = compile_triton(emit_triton(kernel, schedule_triton(kernel, target)), target)
    assert compiled.resources.stack <= 8  # LLVM leaves an unused frame of some split sums
    assert "mma" in compiled.ptx and "cp.async" in compiled.ptx


@pytest.mark.usefixtures("simulated_gpus")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_devices_run_split_sums(dtype: str) -> None:
    """Each run leaves the counters 0, and has the same bits. Extents are constants, and arguments."""
    gpu = mx.gpu(0)
    a, b = (mx.nd.array(normal(*shape), gpu, dtype) for shape in ((48, 9000), (9000, 40)))
    expected = a.asnumpy().astype(np.float64) @ b.asnumpy()
    net = mx.gluon.nn.HybridLambda(lambda F, a, b: F.dot(a, b))
    net.hybridize(static_alloc=True)
    first = net(a, b).asnumpy()
    assert relative_error(first, expected) <= (1e-6 if dtype == "float32" else 1e-3)
    for call in (net, net, mx.nd.dot):
        np.testing.assert_array_equal(call(a, b).asnumpy(), first)
