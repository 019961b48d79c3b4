"""Arrays and networks on simulated GPUs, with the same frontends and execution layer as on the CPU."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mxforge as mx
import numpy as np
import pytest
from mxforge.codegen.driver import compile_graph
from mxforge.codegen.triton.target import SM90
from mxforge.ir.dialects.core import CoreBuilder
from mxforge.ir.types import DType, TensorType
from mxforge.runtime.device import DeviceAddress
from mxforge.runtime.devices import open_device

pytestmark = pytest.mark.usefixtures("simulated_gpus")
GPU = mx.gpu(0)
nd, nn = mx.nd, mx.gluon.nn


def on_gpu(values: Any, dtype: str = "float32") -> Any:
    return nd.array(np.asarray(values, dtype), ctx=GPU, dtype=dtype)


def check(array: Any, expected: Any, context: mx.Context = GPU) -> None:
    assert array.context == context
    assert isinstance(array._address, DeviceAddress) == (context.device_type == "gpu")
    np.testing.assert_allclose(array.asnumpy(), expected, rtol=1e-6)


def test_two_gpus_exist() -> None:
    assert mx.context.num_gpus() == 2
    free, total = mx.context.gpu_memory_info(1)
    assert 0 < free <= total
    with pytest.raises(mx.MXNetError, match=r"gpu\(2\) cannot be used: num_gpus\(\) is 2"):
        nd.ones((2,), ctx=mx.gpu(2))


def test_creation() -> None:
    check(nd.ones((2, 3), ctx=GPU), np.ones((2, 3)))
    check(nd.zeros((2, 3), ctx=GPU, dtype="int32"), np.zeros((2, 3)))
    check(nd.full((4,), 7, ctx=GPU), np.full(4, 7))
    check(nd.arange(5, ctx=GPU), np.arange(5))
    with GPU:
        check(nd.array([1, 2]), [1, 2])
        check(nd.eye(2), np.eye(2))
        assert nd.random.uniform(shape=(3,)).context == GPU


def test_a_draw_runs_on_the_current_context() -> None:
    """The fast path of a call without arrays belongs to one device."""
    for context in (mx.cpu(), GPU, mx.cpu()):
        with context:
            for _ in range(2):
                assert nd.random.uniform(0, 1, shape=(3,)).context == context


def test_a_seed_gives_the_same_numbers_on_every_device() -> None:
    drawn = []
    for context in (mx.cpu(), GPU):
        mx.random.seed(5)
        drawn.append(nd.random.uniform(shape=(7,), ctx=context).asnumpy())
    np.testing.assert_array_equal(*drawn)


def test_fast_paths_of_several_devices() -> None:
    """Each call runs on the CPU, on the GPU and on the CPU again, with equal dtypes and shapes."""
    calls: list[Callable[[Any], Any]] = [
        lambda x: x + x,
        lambda x: x + 2,
        lambda x: 2 - x,
        lambda x: -x,
        nd.exp,
        lambda x: nd.add(x, x),
        lambda x: nd.softmax(x, axis=1),
        lambda x: nd.concat(x, x, dim=0),
        nd.identity,
        lambda x: nd.split(x, 2, axis=0)[1],
        lambda x: nd.clip(x, 0.5, 1.5),
        lambda x: nd.sgd_update(x, x, lr=0.5),
    ]
    values = np.array([[0.5, 1, 2], [-1, 0, 1.5]], np.float32)
    for call in calls:
        expected = call(nd.array(values)).asnumpy()
        for context in (GPU, mx.cpu(), mx.gpu(1), GPU):
            check(call(nd.array(values, ctx=context)), expected, context)


def test_writes_in_place() -> None:
    for context in (mx.cpu(), GPU, mx.cpu(), GPU):
        x, y = (nd.array([1, 2, 3], ctx=context) for _ in range(2))
        x += y
        x *= 2
        x -= x[0:1]
        check(x, [0, 4, 8], context)
        nd.broadcast_add(x, y, out=y)
        check(y, [1, 6, 11], context)
        nd.sgd_mom_update(x, y, nd.ones((3,), ctx=context), lr=1, momentum=0.5, out=x)
        check(x, [-0.5, -1.5, -2.5], context)


def test_views_share_memory() -> None:
    x = on_gpu(np.arange(12).reshape(3, 4))
    x[1][2] = -1
    x[2, 1:3] = nd.array([7, 8])
    x.reshape((4, 3))[0] = 5
    check(x, [[5, 5, 5, 3], [4, 5, -1, 7], [8, 7, 8, 11]])
    check(x[1, 1:3] + 1, [6, 0])
    check(x[:, 1], [5, 5, 7])
    check(x[nd.array([2, 0], ctx=GPU)], [[8, 7, 8, 11], [5, 5, 5, 3]])
    check(x[1] + x[2], [12, 12, 7, 18])


def test_operands_that_are_not_aligned() -> None:
    """Kernels are compiled for aligned operands."""
    x = on_gpu(np.arange(9))
    check(nd.exp(x[1:4]) + x[3:6], np.add(np.exp([1, 2, 3]), [3, 4, 5]))
    y = nd.zeros((9,), ctx=GPU)
    nd.broadcast_add(x[1:4], x[5:8], out=y[2:5])
    check(y, [0, 0, 6, 8, 10, 0, 0, 0, 0])


def test_copies_between_contexts() -> None:
    x = nd.array([[1, 2], [3, 4]])
    y = x.as_in_context(GPU)
    check(y, x.asnumpy())
    assert y.as_in_context(GPU) is y
    check(y.as_in_context(mx.gpu(1)), x.asnumpy(), mx.gpu(1))
    check(y.copyto(mx.cpu()), x.asnumpy(), mx.cpu())
    check(y.copy(), x.asnumpy())
    target = nd.zeros((2, 2), ctx=mx.gpu(1))
    y.copyto(target)
    (y + 1).copyto(x)
    check(target, [[1, 2], [3, 4]], mx.gpu(1))
    check(x, [[2, 3], [4, 5]], mx.cpu())
    check(y.astype("int32"), [[1, 2], [3, 4]])


def test_arrays_on_several_devices_are_refused() -> None:
    here, there = nd.ones((2,)), nd.ones((2,), ctx=GPU)
    for x, y in ((here, there), (there, here), (there, nd.ones((2,), ctx=mx.gpu(1)))):
        for call in (lambda x, y: x + y, nd.dot, lambda x, y: nd.concat(x, y, dim=0)):
            call(here, here)
            with pytest.raises(mx.MXNetError, match="are on different devices: "):
                call(x, y)


def test_bfloat16() -> None:
    x = nd.array([1.5, 2.25, -3], ctx=GPU, dtype="bfloat16")
    check(x * x, [2.25, 5.0625, 9])


def test_pickles_and_files(tmp_path: Path) -> None:
    x = on_gpu([[1, 2], [3, 4]])
    check(pickle.loads(pickle.dumps(x)), x.asnumpy())
    nd.save(str(tmp_path / "arrays"), {"x": x})
    check(nd.load(str(tmp_path / "arrays"))["x"], x.asnumpy(), mx.cpu())


def test_sharing_with_other_libraries_is_refused() -> None:
    with pytest.raises(mx.MXNetError, match="cannot be shared through DLPack"):
        on_gpu([1, 2]).to_dlpack_for_read()


def test_extremes_of_unsigned_numbers() -> None:
    x = on_gpu([[3, 200, 7], [128, 127, 255]], "uint8")
    assert x.max(axis=1).asnumpy().tolist() == [200, 255]
    assert x.min(axis=1).asnumpy().tolist() == [3, 127]


def test_waiting() -> None:
    x = on_gpu([1, 2]) + 1
    x.wait_to_read()
    nd.waitall()
    assert x.handle.value == x._address.value


def test_memory_is_freed() -> None:
    device: Any = open_device("gpu", 0)
    device.synchronise()
    before = device.used
    x = nd.ones((1000,), ctx=GPU)
    x = x + x[:]
    del x
    assert device.used > before  # its work is not done yet
    device.synchronise()
    assert device.used == before
    with pytest.raises(mx.MXNetError, match=r"cannot allocate .* on gpu\(0\)"):
        nd.zeros((1 << 30,), ctx=GPU)


def test_scalar_parameters_are_read_from_the_device() -> None:
    weight = on_gpu([1, 2, 3])
    for rate in (0.5, 0.25):
        check(nd.sgd_update(weight, nd.ones((3,), ctx=GPU), lr=rate), np.array([1, 2, 3]) - rate)


@pytest.mark.parametrize(
    ("call", "primitive"),
    [(nd.linalg.potrf, "core.cholesky"), (nd.linalg.gelqf, "core.lq")],
)
def test_primitives_without_a_triton_kernel_run_on_the_host(call: Callable[[Any], Any], primitive: str) -> None:
    values = np.array([[4, 1.5], [1.5, 3]], np.float32) + np.float32(primitive == "core.lq")
    expected, found = call(nd.array(values)), call(on_gpu(values))
    for x, y in zip(*(v if isinstance(v, list) else [v] for v in (expected, found)), strict=True):
        check(y, x.asnumpy())


def test_a_program_names_the_primitives_that_run_on_the_host() -> None:
    b = CoreBuilder("factored")
    program = compile_graph(b.build([b.neg(b.cholesky(b.exp(b.input(TensorType((4, 4), DType.F32)))))]), SM90)
    assert [reason for _, reason in program.fallbacks()] == ["the gpu target has no kernel for core.cholesky"]


# -- networks


def classifier() -> Any:
    """An MLP with layer norm and softmax."""
    net = nn.HybridSequential()
    net.add(nn.Dense(16, activation="relu"), nn.LayerNorm(), nn.Dense(10), nn.HybridLambda("softmax"))
    return net


def convolutions() -> Any:
    net = nn.HybridSequential()
    net.add(nn.Conv2D(4, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"), nn.MaxPool2D())
    net.add(nn.Conv2D(6, 3, strides=2, groups=2), nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(3))
    return net


NETWORKS = {"mlp": (classifier, (4, 12)), "convolutions": (convolutions, (2, 3, 12, 12))}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("hybridize", [False, True], ids=["eager", "hybridized"])
def test_network(name: str, hybridize: bool) -> None:
    make, shape = NETWORKS[name]
    net, data = make(), np.random.default_rng(0).standard_normal(shape, np.float32)
    mx.random.seed(1)
    net.initialize(mx.init.Normal(0.5), ctx=[mx.cpu(), GPU])
    if hybridize:
        net.hybridize()
    expected = net(nd.array(data)).asnumpy()
    for context in (GPU, mx.cpu(), GPU):
        found = net(nd.array(data, ctx=context))
        assert found.context == context
        np.testing.assert_allclose(found.asnumpy(), expected, rtol=1e-5, atol=1e-6)


def test_changed_parameters_are_read_again() -> None:
    net = classifier()
    net.initialize(ctx=GPU)
    net.hybridize()
    data = nd.ones((2, 5), ctx=GPU)
    net(data)
    net[2].bias.set_data(nd.arange(10))
    np.testing.assert_array_equal(net(data).asnumpy().argmax(1), [9, 9])


def test_moving_statistics_are_updated() -> None:
    net = nn.HybridSequential()
    net.add(nn.BatchNorm())
    net.initialize(ctx=[mx.cpu(), GPU])
    net.hybridize()
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    for context in (mx.cpu(), GPU):
        with mx.autograd.record():
            result = net(nd.array(data, ctx=context))
        result.backward()
    here, there = (net[0].running_mean.data(c).asnumpy() for c in (mx.cpu(), GPU))
    np.testing.assert_allclose(here, there, rtol=1e-6)
    assert here.any()


def test_executor() -> None:
    data, weight = mx.sym.var("data"), mx.sym.var("weight")
    net = mx.sym.softmax(mx.sym.FullyConnected(data, weight, num_hidden=3, no_bias=True))
    given = np.arange(8, dtype=np.float32).reshape(2, 4) / 8
    results = []
    for context in (mx.cpu(), GPU):
        executor = net.simple_bind(context, data=(2, 4))
        executor.arg_dict["weight"][:] = np.arange(12).reshape(3, 4) / 12
        (result,) = executor.forward(data=nd.array(given, ctx=context))
        assert result.context == context
        results.append(result.asnumpy())
    np.testing.assert_allclose(*results, rtol=1e-6)
    check(mx.sym.arange(3).eval(ctx=GPU)[0], [0, 1, 2])


def test_a_python_operator() -> None:
    class Double(mx.operator.CustomOp):
        def forward(self, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            self.assign(out_data[0], req[0], nd.array(in_data[0].asnumpy() * 2))

    @mx.operator.register("double_on_gpu")
    class DoubleProp(mx.operator.CustomOpProp):
        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Any:
            return Double()

    check(nd.Custom(on_gpu([1, 2]) + 1, op_type="double_on_gpu"), [4, 6])


@pytest.mark.parametrize("form", ["eager", "hybridized", "executor"])
@pytest.mark.parametrize("first", [0, 1], ids=["aligned", "not aligned"])
def test_a_python_operator_with_a_state(form: str, first: int) -> None:
    class Counting(mx.operator.CustomOp):
        def forward(self, is_train: Any, req: Any, in_data: Any, out_data: Any, aux: Any) -> None:
            assert in_data[0].context == aux[0].context == mx.current_context() == GPU
            self.assign(out_data[0], req[0], in_data[0] * aux[0])
            aux[0][:] += 1

        def backward(self, req: Any, out_grad: Any, in_data: Any, out_data: Any, in_grad: Any, aux: Any) -> None:
            self.assign(in_grad[0], req[0], out_grad[0] * aux[0])
            aux[0][:] += 10

    @mx.operator.register("count_on_gpu")
    class CountingProp(mx.operator.CustomOpProp):
        def list_auxiliary_states(self) -> list[str]:
            return ["count"]

        def infer_shape(self, in_shape: Any) -> Any:
            return in_shape, [in_shape[0]], [(1,)]

        def create_operator(self, ctx: Any, in_shapes: Any, in_dtypes: Any) -> Any:
            return Counting()

    x, count = on_gpu([1, 2]), on_gpu([1, 1])[first : first + 1]
    x.attach_grad()
    for value, gradient, after in ((1, 2, 12), (12, 13, 23)):
        if form == "executor":
            function: Any = mx.sym
            symbol = function.Custom(mx.sym.var("x"), mx.sym.var("count"), op_type="count_on_gpu")
            executor = symbol.bind(GPU, {"x": x}, {"x": x.grad}, aux_states={"count": count})
            (y,) = executor.forward(is_train=True)
            executor.backward(on_gpu([1, 1]))
        else:
            net: Any = mx.gluon.nn.HybridLambda(lambda F, x, count: F.Custom(x, count, op_type="count_on_gpu"))
            net.hybridize(form == "hybridized")
            with mx.autograd.record():
                y = net(x, count)
            y.backward()
        check(y, [value, 2 * value])
        check(x.grad, [gradient, gradient])
        check(count, [after])
